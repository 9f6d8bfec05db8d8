"""All blocks below a root, each once and verified, some MiB at a time."""

from holdfast._async.reads.blocks import AsyncArchiveFeed, AsyncBlocks
from holdfast._async.reads.reader import AsyncReader
from holdfast._async.runtime import compute, run_blocking
from holdfast.calls import Call
from holdfast.content.blocks import BlockCache
from holdfast.content.budgets import MAX_CACHED, OUTPUT_SIZE
from holdfast.content.car import Block
from holdfast.content.codecs import require_codec
from holdfast.content.reference import Reference
from holdfast.content.unixfs.walks import DagWalk
from holdfast.disk.seen_cids import SpilledCIDs
from holdfast.errors import NetworkError, VerificationError


class AsyncDagExport:
    """Reads the blocks of content that is moved elsewhere. Close it at the end.

    One archive is requested, if the peer has archives. What it does not have is requested block by
    block.

    Args:
        reader: The reader of a provider.
        reference: The root, without a path.
    """

    def __init__(self, reader: AsyncReader, reference: Reference) -> None:
        self._reader = reader
        self._reference = reference
        self._seen = SpilledCIDs()
        self._walk = DagWalk(reference.cid, self._seen)
        self._cache = BlockCache(MAX_CACHED)
        self._blocks: AsyncBlocks | None = None
        self._feed: AsyncArchiveFeed | None = None

    async def next_page(self, call: Call) -> list[Block] | None:
        """Return the next blocks, depth first; None at the end."""
        if self._blocks is None:
            self._blocks = await self._open(call)
        if self._walk.need is None:
            return None
        page: list[Block] = []
        if self._feed is not None:
            page = await self._read_archive(self._feed, call)
        if not page:
            self._blocks.continue_in(call)
            await self._blocks.advance(self._walk, self._cache, page.extend)
        for cid, _ in page:
            require_codec(cid)  # the links of other codecs are not known
        return page

    async def aclose(self) -> None:
        """Close the reply and the files."""
        if self._feed is not None:
            await self._feed.aclose()
        await run_blocking(self._seen.close)

    async def _open(self, call: Call) -> AsyncBlocks:
        """Return the source of single blocks, and request the archive."""
        reference = self._reference
        require_codec(reference.cid)
        blocks = self._reader.blocks(reference, call)
        await blocks.find(reference, call)
        self._feed = await self._reader.archive(reference, "dag", call)
        return blocks

    async def _read_archive(self, feed: AsyncArchiveFeed, call: Call) -> list[Block]:
        """Return the next blocks of the archive. If it fails, close it."""
        page: list[Block] = []
        size = 0
        while (need := self._walk.need) is not None and size < OUTPUT_SIZE:
            try:
                block = await feed.get(need)
            except (NetworkError, VerificationError):
                self._feed = None
                await feed.aclose()
                call.renew()  # for the blocks, which are requested one by one now
                break
            page += await compute(len(block), self._walk.feed, block, verified=True)
            size += len(block)
        return page
