"""Download the blocks of one DAG from a gateway, as a CAR archive.

An archive can hold any blocks, in any order, and need not end. Only the blocks of the DAG are
taken: the root, and the blocks that a taken block links to.
"""

import time
from collections.abc import Callable, Iterator
from typing import Final

from holdfast._sync.transport import Transport
from holdfast.config import Timeouts
from holdfast.content.blocks import inline_block
from holdfast.content.car import Block, CarReader
from holdfast.content.cid import CID
from holdfast.content.codecs import links_of
from holdfast.content.reference import Reference
from holdfast.errors import ProviderError
from holdfast.protocol.gateway import Gateway

MAX_EARLY: Final = 8 << 20  # bytes of blocks that arrive before the block that links to them
MAX_USELESS: Final = 16 << 20  # bytes of other blocks, in addition to twice those of the DAG
MAX_BLOCKS: Final = 500_000  # blocks of one DAG: taken, or linked to
OVERHEAD: Final = 100  # bytes for each block of an archive: its length, its CID, and an object
PROGRESS_BYTES: Final = 16 << 10  # the least that a gateway must send in `PROGRESS_SECONDS`
PROGRESS_SECONDS: Final = 60.0


class DagTooLargeError(ProviderError):
    """The DAG is larger than the node accepts."""


class WantedBlocks:
    """Selects the blocks of an archive that belong to the DAG under `root`.

    Example:
        >>> wanted = WantedBlocks(CID.of_raw(b"x"), max_bytes=1000)
        >>> [data for _, data in wanted.take(CID.of_raw(b"unrelated"), b"unrelated")]
        []
        >>> [data for _, data in wanted.take(CID.of_raw(b"x"), b"x")]
        [b'x']
        >>> wanted.is_complete
        True
    """

    def __init__(self, root: CID, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._wanted = {root.key}
        self._taken: set[bytes] = set()
        self._early: dict[bytes, Block] = {}
        self._early_bytes = 0
        self.useful: int = 0  # bytes of the archive that were blocks of the DAG

    @property
    def is_complete(self) -> bool:
        """Whether all blocks of the DAG were taken."""
        return not self._wanted

    def take(self, cid: CID, data: bytes) -> Iterator[Block]:
        """Yield the blocks of the DAG that are complete with the verified block `data`.

        A block that no taken block links to is kept for later, up to `MAX_EARLY`. When a block is
        taken, the kept blocks below it are yielded after it.
        """
        if cid.key not in self._wanted:
            self._keep_early(cid, data)
            return
        ready = [(cid, data)]
        while ready:
            cid, data = ready.pop()
            self._wanted.discard(cid.key)
            self._taken.add(cid.key)
            self.useful += len(data) + OVERHEAD
            if self.useful > self._max_bytes:
                raise DagTooLargeError(f"The content has more than {self._max_bytes} bytes")
            yield cid, data
            for link in links_of(cid, data):
                early = self._want(link.cid)
                if early is not None:
                    ready.append(early)

    def _want(self, cid: CID) -> Block | None:
        """Add a block to the wanted ones; return it if it was kept."""
        key = cid.key
        if key in self._taken or key in self._wanted or inline_block(cid) is not None:
            return None
        self._wanted.add(key)
        if len(self._wanted) + len(self._taken) > MAX_BLOCKS:
            raise DagTooLargeError(f"The content has more than {MAX_BLOCKS} blocks")
        early = self._early.pop(key, None)
        if early is not None:
            self._early_bytes -= len(early[1]) + OVERHEAD
        return early

    def _keep_early(self, cid: CID, data: bytes) -> None:
        key, size = cid.key, len(data) + OVERHEAD
        is_new = key not in self._taken and key not in self._early
        if is_new and self._early_bytes + size <= MAX_EARLY:
            self._early[key] = (cid, data)
            self._early_bytes += size


def fetch_blocks(
    transport: Transport, gateway: str, cid: CID, *, max_bytes: int, ended: Callable[[], bool]
) -> Iterator[Block]:
    """Yield the blocks of the DAG under `cid`, from an archive that a gateway sends.

    Raise a `ClientError` if the archive is invalid or too large, or has too many other blocks. Do
    not read on after the last block of the DAG.
    """
    request = Gateway(gateway.rstrip("/")).archive(Reference(str(cid), cid), scope="dag")
    wanted = WantedBlocks(cid, max_bytes=max_bytes)
    limits = _ArchiveLimits()
    reader = CarReader()
    response = transport.send(request, timeouts=Timeouts())
    try:
        if response.status != 200:
            raise ProviderError(f"HTTP error {response.status}", status=response.status)
        for chunk in response.chunks():
            if ended():
                raise ProviderError("The node is stopping")
            for block in reader.update(chunk):
                yield from wanted.take(*block)
            if wanted.is_complete:
                return
            # Afterwards: a chunk may be large, and its blocks count as useful.
            limits.count(len(chunk), wanted.useful)
        reader.finish()
    finally:
        response.close()


class _ArchiveLimits:
    """Limits the useless bytes of an archive, and how slowly it may arrive."""

    def __init__(self) -> None:
        self._received = 0
        self._mark = (0, time.monotonic())

    def count(self, size: int, useful: int) -> None:
        """Count `size` more bytes, of which `useful` were useful so far; raise ProviderError."""
        self._received += size
        if self._received > MAX_USELESS + 2 * useful:
            raise ProviderError("The archive has too many blocks that do not belong to the content")
        received, since = self._mark
        if self._received - received >= PROGRESS_BYTES:
            self._mark = (self._received, time.monotonic())
        elif time.monotonic() - since > PROGRESS_SECONDS:
            raise ProviderError("The archive arrived too slowly")
