# WARNING: this file is generated from src/holdfast/_async/reads/block_reader.py
# by scripts/generate_sync.py. Change the original instead.
"""A reader for any source of blocks: a node's RPC, an archive, a folder."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from holdfast._sync.reads.walk_reader import WalkReader
from holdfast._sync.runtime import run_blocking, together
from holdfast.content.blocks import BlockCache, check_block
from holdfast.content.budgets import BLOCKS_AT_ONCE
from holdfast.content.cid import CID
from holdfast.content.unixfs.walks import Item, Walk, feed_known
from holdfast.errors import VerificationError


class GetBlock(Protocol):
    """A source of blocks."""

    def __call__(self, cid: CID, /) -> bytes:
        """Return the block of `cid`; raise a `ClientError` if that fails."""


class BlockReader(WalkReader):
    """Reads content whose blocks come from `get_block`, several at the same time.

    Args:
        get_block: Returns the block of a CID. It is not called for identity CIDs.
        verified: Whether `get_block` compares each block with its CID. Otherwise the reader does.
        total: How many seconds the reading of one range of an open file may take.

    Example:
        >>> from holdfast.content.cid import CID
        >>> blocks = {CID.of_raw(b"hello"): b"hello"}
        >>> def get_block(cid: CID) -> bytes:
        ...     return blocks[cid]
        >>> reader = BlockReader(get_block)
    """

    def __init__(
        self, get_block: GetBlock, *, verified: bool = False, total: float | None = None
    ) -> None:
        super().__init__(total=total)
        self._get_block = get_block
        self._verified = verified

    def advance(
        self, walk: Walk[Item], known: BlockCache, take: Callable[[list[Item]], object]
    ) -> None:
        """Fetch the needed block and some that are needed next; feed all that are available."""
        need = walk.need
        if need is None:
            return
        fetched: dict[CID, bytes] = {}
        if known.get(need) is None:
            ahead = (
                each for each in walk.needed_next(BLOCKS_AT_ONCE - 1) if known.get(each) is None
            )
            fetched = self._fetch(need, ahead)
        run_blocking(self._feed, walk, need, fetched, known, take)

    def _fetch(self, need: CID, ahead: Iterable[CID]) -> dict[CID, bytes]:
        """Return the block of `need` and those of `ahead`, fetched at the same time.

        Errors of the blocks ahead are ignored: they are fetched again when they are needed.
        """
        wanted = list(dict.fromkeys([need, *ahead]))
        outcomes = together([partial(self._get_block, each) for each in wanted])
        if isinstance(outcomes[0], Exception):
            raise outcomes[0]
        pairs = zip(wanted, outcomes, strict=True)
        return {cid: block for cid, block in pairs if not isinstance(block, Exception)}

    def _feed(
        self,
        walk: Walk[Item],
        need: CID,
        fetched: dict[CID, bytes],
        known: BlockCache,
        take: Callable[[list[Item]], object],
    ) -> None:
        """Verify the blocks that were fetched, then feed them. Runs on a worker thread."""
        for cid, block in fetched.items():
            try:
                if not self._verified:
                    check_block(cid, block)
            except VerificationError:
                if cid == need:
                    raise
            else:
                known.put(cid, block)
        # It may be too large to be kept together with the others.
        first = fetched[need] if need in fetched else known.get(need)
        if first is not None:
            take(feed_known(walk, first, known))
