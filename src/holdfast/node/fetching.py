"""The blocks of one DAG out of an archive that somebody else sends.

An archive may hold anything, in any order, and need not end. Only blocks that the DAG asks for are
taken: the root, and what blocks that were taken link to.
"""

import time
from collections.abc import Callable, Iterator
from typing import Final

from holdfast._sync.transport import Transport
from holdfast.config import Timeouts
from holdfast.content.blocks import inline_block
from holdfast.content.car import Block, CarReader
from holdfast.content.cid import CID
from holdfast.errors import ProviderError
from holdfast.protocol.gateway import Gateway
from holdfast.repository.block_files import linked_from
from holdfast.repository.rows import key_of

MAX_EARLY: Final = 8 << 20  # bytes of blocks that come before the block that links to them
MAX_USELESS: Final = 16 << 20  # bytes that bring no block of the DAG, besides as many as do
MAX_BLOCKS: Final = 500_000  # of one DAG: taken, or linked to
OVERHEAD: Final = 100  # bytes of an archive for each block: its length and its CID, and an object
PROGRESS_BYTES: Final = 16 << 10  # in `PROGRESS_SECONDS`; a gateway that sends less is given up
PROGRESS_SECONDS: Final = 60.0


class TooLargeError(ProviderError):
    """A DAG that is larger than the node takes."""


class WantedBlocks:
    """Says which blocks of an archive belong to the DAG under `root`.

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
        self._wanted = {key_of(root)}
        self._taken: set[bytes] = set()
        self._early: dict[bytes, Block] = {}
        self._early_bytes = 0
        self.useful = 0  # bytes of the archive that brought blocks of the DAG

    @property
    def is_complete(self) -> bool:
        """Whether every block of the DAG was taken."""
        return not self._wanted

    def take(self, cid: CID, data: bytes) -> Iterator[Block]:
        """Give the blocks of the DAG that `data`, which is verified, brings: none, it, or more.

        A block that nothing links to so far is kept for later, while there is room.
        """
        if key_of(cid) not in self._wanted:
            self._keep_early(cid, data)
            return
        ready = [(cid, data)]
        while ready:
            cid, data = ready.pop()
            self._wanted.discard(key_of(cid))
            self._taken.add(key_of(cid))
            self.useful += len(data) + OVERHEAD
            if self.useful > self._max_bytes:
                raise TooLargeError(f"The content has more than {self._max_bytes} bytes")
            yield cid, data
            for child in linked_from(cid, data):
                early = self._want(child)
                if early is not None:
                    ready.append(early)

    def _want(self, cid: CID) -> Block | None:
        """Ask for a block; give it where it came before."""
        key = key_of(cid)
        if key in self._taken or key in self._wanted or inline_block(cid) is not None:
            return None
        self._wanted.add(key)
        if len(self._wanted) + len(self._taken) > MAX_BLOCKS:
            raise TooLargeError(f"The content has more than {MAX_BLOCKS} blocks")
        early = self._early.pop(key, None)
        if early is not None:
            self._early_bytes -= len(early[1]) + OVERHEAD
        return early

    def _keep_early(self, cid: CID, data: bytes) -> None:
        key, size = key_of(cid), len(data) + OVERHEAD
        is_new = key not in self._taken and key not in self._early
        if is_new and self._early_bytes + size <= MAX_EARLY:
            self._early[key] = (cid, data)
            self._early_bytes += size


def fetch_blocks(
    transport: Transport, gateway: str, cid: CID, *, max_bytes: int, ended: Callable[[], bool]
) -> Iterator[Block]:
    """Give the blocks of the DAG under `cid`, as they come in the archive of a gateway.

    Raise a `ClientError` where the archive is not sound, is too large, or holds too much else.
    What comes after the last block of the DAG is not read.
    """
    request = Gateway(gateway.rstrip("/")).whole_dag(cid)
    wanted = WantedBlocks(cid, max_bytes=max_bytes)
    budget = _Budget()
    reader = CarReader()
    response = transport.send(request, timeouts=Timeouts())
    try:
        if response.status != 200:
            raise ProviderError(f"HTTP error {response.status}", status=response.status)
        for chunk in response.chunks():
            if ended():
                raise ProviderError("The node is stopping")
            budget.count(len(chunk), wanted.useful)
            for block in reader.update(chunk):
                yield from wanted.take(*block)
            if wanted.is_complete:
                return
        reader.finish()
    finally:
        response.close()


class _Budget:
    """What an archive may send: not too much that is useless, and not too slowly."""

    def __init__(self) -> None:
        self._received = 0
        self._mark = (0, time.monotonic())

    def count(self, size: int, useful: int) -> None:
        """Count `size` bytes more, where `useful` were so in all; raise `ProviderError`."""
        self._received += size
        if self._received > MAX_USELESS + 2 * useful:
            raise ProviderError("The archive holds too many blocks that are not of the content")
        received, since = self._mark
        if self._received - received >= PROGRESS_BYTES:
            self._mark = (self._received, time.monotonic())
        elif time.monotonic() - since > PROGRESS_SECONDS:
            raise ProviderError("The archive came too slowly")
