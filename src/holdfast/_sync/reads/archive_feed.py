# WARNING: this file is generated from src/holdfast/_async/reads/archive_feed.py
# by scripts/generate_sync.py. Change the original instead.
"""The blocks of an archive (CAR), in the order in which they are needed, while it arrives."""

from collections import deque
from typing import TYPE_CHECKING, Final

from holdfast._sync.reads.blocks import FetchedBlocks
from holdfast._sync.reads.streams import in_batches, total
from holdfast._sync.runtime import compute, now
from holdfast.content.blocks import BLOCK_COST, BlockCache, missing_block
from holdfast.content.budgets import MAX_CACHED, MAX_UNRELATED
from holdfast.content.car import Block, CarReader
from holdfast.content.cid import CID
from holdfast.errors import NetworkError, RequestTimeoutError, UnprovenError, VerificationError

if TYPE_CHECKING:
    from holdfast._sync.transport import Response


LOOK_AHEAD: Final = MAX_CACHED // 2  # bytes of blocks that stay in the cache until they are needed


class PassedError(UnprovenError):
    """The archive has probably sent a block before, and will not send it again."""


class ArchiveFeed(FetchedBlocks):
    """Verified blocks from the archive in `response`.

    Blocks that are not needed at once are cached, the latest ones. An archive must not send many
    more bytes than are needed, nor nothing that is needed for `patience` seconds.

    Args:
        response: The archive.
        patience: How many seconds it may send nothing that is needed.
        has_repeats: Whether it has a block as often as there are links to it. If not, a block that
            is not among the next `LOOK_AHEAD` bytes is a `PassedError`: fetch it alone.

    Attributes:
        is_over: Whether it has failed, and gives no further block.
    """

    is_verified = True
    at_once = 1  # its blocks come in their order

    def __init__(
        self, response: "Response", patience: float | None, *, has_repeats: bool = True
    ) -> None:
        self._response = response
        self._batches = in_batches(response, first=0)
        self._reader = CarReader()
        self._arrived: deque[Block] = deque()
        self._kept = BlockCache(MAX_CACHED)
        self._used = 0
        self._unused = 0
        self._between = 0  # bytes that were received, less those of blocks
        self._passed: set[CID] = set()
        self._look_ahead = float("inf") if has_repeats else LOOK_AHEAD
        self._patience = patience
        self._progress_at = now()
        self.is_over: bool = False

    def get(self, cid: CID, /) -> bytes:
        """Return the block of `cid`; raise an error if the archive does not have it."""
        try:
            block = self._kept.get(cid)
            return self._next(cid) if block is None else block
        except PassedError:
            raise
        except (NetworkError, VerificationError):
            self.is_over = True
            raise

    def close(self) -> None:
        """Close the reply."""
        self._reader.close()
        self._response.close()

    def _next(self, cid: CID) -> bytes:
        """Return the block of `cid`, which is still to come."""
        passed = 0
        while cid not in self._passed:
            if not self._arrived:
                self._receive(cid)
            found, block = self._arrived.popleft()
            self._kept.put(found, block)
            self._count(block, needed=found == cid)
            if found == cid:
                return block
            passed += len(block) + BLOCK_COST
            if passed > self._look_ahead:
                self._passed.add(cid)
        raise PassedError(f"CAR: block {cid} was sent before, or not at all", cid=str(cid))

    def _receive(self, cid: CID) -> None:
        """Wait for more blocks; raise an error if there are none, or not in time."""
        while not self._arrived:
            chunks: list[bytes] = next(self._batches, [])
            if not chunks:
                raise missing_block(cid)
            self._between += total(chunks)
            compute(total(chunks), self._parse, chunks)
            if self._between > MAX_UNRELATED:
                raise UnprovenError("CAR: too many bytes that are not blocks")
            self._check_progress(cid)

    def _parse(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            for cid, block in self._reader.update(chunk):
                self._arrived.append((cid, block))
                self._between -= len(block) + BLOCK_COST

    def _count(self, block: bytes, *, needed: bool) -> None:
        if needed:
            self._used += len(block) + BLOCK_COST
            self._progress_at = now()
            return
        self._unused += len(block) + BLOCK_COST
        if self._unused > self._used + MAX_UNRELATED:
            raise UnprovenError("CAR: too many blocks that are not needed, or in another order")

    def _check_progress(self, cid: CID) -> None:
        """Raise an error if nothing that is needed has arrived for too long."""
        if self._reader.arriving()[0] == cid or self._arrived:
            self._progress_at = now()
        elif self._patience is not None and now() - self._progress_at > self._patience:
            raise RequestTimeoutError(f"the archive sent nothing of {cid} in time", sent=True)
