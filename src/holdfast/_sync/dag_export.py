# WARNING: this file is generated from src/holdfast/_async/dag_export.py
# by scripts/generate_sync.py. Change the original instead.
"""All blocks below a root, each once and verified, some MiB at a time."""

from holdfast._sync.reads.blocks import ArchiveFeed, Blocks
from holdfast._sync.reads.reader import Reader
from holdfast._sync.runtime import compute, run_blocking
from holdfast.calls import Call
from holdfast.content.blocks import BlockCache
from holdfast.content.budgets import MAX_CACHED, OUTPUT_SIZE
from holdfast.content.car import Block
from holdfast.content.codecs import require_codec
from holdfast.content.reference import Reference
from holdfast.content.unixfs.walks import DagWalk
from holdfast.disk.seen_cids import SpilledCIDs
from holdfast.errors import NetworkError, VerificationError


class DagExport:
    """Reads the blocks of content that is moved elsewhere. Close it at the end.

    One archive is requested, if the peer has archives. What it does not have is requested block by
    block.

    Args:
        reader: The reader of a provider.
        reference: The root, without a path.
    """

    def __init__(self, reader: Reader, reference: Reference) -> None:
        self._reader = reader
        self._reference = reference
        self._seen = SpilledCIDs()
        self._walk = DagWalk(reference.cid, self._seen)
        self._cache = BlockCache(MAX_CACHED)
        self._blocks: Blocks | None = None
        self._feed: ArchiveFeed | None = None

    def next_page(self, call: Call) -> list[Block] | None:
        """Return the next blocks, depth first; None at the end."""
        if self._blocks is None:
            self._blocks = self._open(call)
        if self._walk.need is None:
            return None
        page: list[Block] = []
        if self._feed is not None:
            page = self._read_archive(self._feed, call)
        if not page:
            self._blocks.continue_in(call)
            self._blocks.advance(self._walk, self._cache, page.extend)
        for cid, _ in page:
            require_codec(cid)  # the links of other codecs are not known
        return page

    def close(self) -> None:
        """Close the reply and the files."""
        if self._feed is not None:
            self._feed.close()
        run_blocking(self._seen.close)

    def _open(self, call: Call) -> Blocks:
        """Return the source of single blocks, and request the archive."""
        reference = self._reference
        require_codec(reference.cid)
        blocks = self._reader.blocks(reference, call)
        blocks.find(reference, call)
        self._feed = self._reader.archive(reference, "dag", call)
        return blocks

    def _read_archive(self, feed: ArchiveFeed, call: Call) -> list[Block]:
        """Return the next blocks of the archive. If it fails, close it."""
        page: list[Block] = []
        size = 0
        while (need := self._walk.need) is not None and size < OUTPUT_SIZE:
            try:
                block = feed.get(need)
            except (NetworkError, VerificationError):
                self._feed = None
                feed.close()
                call.renew()  # for the blocks, which are requested one by one now
                break
            page += compute(len(block), self._walk.feed, block, verified=True)
            size += len(block)
        return page
