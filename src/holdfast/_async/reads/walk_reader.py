"""Read files, parts of files and directories by walks over the blocks of a source."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import ClassVar, Final

from holdfast._async.reads.archive_feed import AsyncArchiveFeed
from holdfast._async.reads.entry_pages import AsyncEntryPages, check_time
from holdfast._async.reads.interface import AsyncRanges
from holdfast._async.reads.output import Output
from holdfast._async.runtime import now
from holdfast.calls import Call, Deadline
from holdfast.content.blocks import BlockCache
from holdfast.content.budgets import MAX_CACHED
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.content.unixfs.root_nodes import RootInfo, RootsWalk, stat_record
from holdfast.content.unixfs.walks import FileWalk, Item, PathWalk, Walk
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress
from holdfast.records import Entry

BODY_FROM: Final = 4 << 20  # bytes of a file from which one stream is faster than its blocks


class AsyncWalkReader(ABC):
    """Reads verified content from the blocks that a subclass feeds to a walk.

    The walk says which blocks are needed, verifies them, and enforces the limits on depth, width
    and sizes. A subclass only supplies the blocks, in `advance`.

    Args:
        total: How many seconds the reading of one range of an open file may take.

    Attributes:
        has_archives: Whether `open_archive` may return one.
    """

    has_archives: ClassVar[bool] = False

    def __init__(self, *, total: float | None = None) -> None:
        self._total = total

    @abstractmethod
    async def advance(
        self, walk: Walk[Item], known: BlockCache, take: Callable[[list[Item]], object]
    ) -> None:
        """Feed `walk` some of the blocks that it needs, and pass the items in them to `take`.

        `take` may write to a disk, and is called on a worker thread. `known` may keep blocks until
        they are needed.
        """

    async def open_archive(
        self,
        cid: CID,  # noqa: ARG002 - for sources that have archives
        call: Call,  # noqa: ARG002
    ) -> AsyncArchiveFeed | None:
        """Return all blocks below `cid`, depth first; None if there is no archive of them."""
        return None

    async def read_body(  # noqa: B027 - for sources that have a faster way
        self, reference: Reference, cid: CID, output: Output, known: BlockCache, call: Call
    ) -> None:
        """Write the file at `cid` to `output`, as far as the source has a faster way than blocks.

        `known` has the root of the file. All bytes that are written must be verified.
        """

    async def find(self, reference: Reference, call: Call) -> CID:
        """Return the CID that `reference` leads to; `NotFoundError` if a name is not there."""
        walk = PathWalk(reference.cid, reference.path)
        known = BlockCache(MAX_CACHED)
        while walk.need is not None:
            await self.advance(walk, known, _ignore)
            check_time(call.deadline, reference)
        return walk.end()

    async def media_type(self, cid: CID) -> str:  # noqa: ARG002 - for sources that know it
        """Return the media type of the file at `cid` if the source knows it, else ""."""
        return ""

    async def read(
        self, reference: Reference, sink: Sink, call: Call, *, progress: Progress | None = None
    ) -> str:
        """Fill `sink` with a file; return its media type, "" if unknown."""
        cid = await self.find(reference, call)
        walk = FileWalk(cid)
        known = BlockCache(MAX_CACHED)
        output = Output(sink, progress)
        take = partial(output.take, verified=False)  # nothing is saved of an interrupted read
        await self.advance(walk, known, take)
        check_time(call.deadline, reference)
        size = walk.size or 0
        sink.expect(size)
        if size >= BODY_FROM and not output.written:
            await self.read_body(reference, cid, output, known, call)
            walk = FileWalk(cid, output.written)
        while walk.need is not None:
            await self.advance(walk, known, take)
            check_time(call.deadline, reference)
            if output.written:
                output.report(walk.size)
        output.report(walk.size)
        return await self.media_type(cid)

    async def open(self, reference: Reference, call: Call) -> AsyncRanges:
        """Return a file whose parts are read on demand, each within a time limit of its own."""
        cid = await self.find(reference, call)
        walk = FileWalk(cid, 0, 0)
        known = BlockCache(MAX_CACHED)
        await self.advance(walk, known, _ignore)
        check_time(call.deadline, reference)
        read_part = partial(self._read_range, cid, known)
        return AsyncRanges(walk.size or 0, read_part, type=await self.media_type(cid))

    def pages(self, reference: Reference, *, details: bool = False) -> AsyncEntryPages:
        """Return the entries of a directory, page by page."""
        return AsyncEntryPages(self, reference, details=details)

    async def entries(
        self, reference: Reference, call: Call, *, details: bool = False
    ) -> AsyncIterator[Entry]:
        """Yield the entries of a directory, in the order of its blocks.

        Each page has the time of a whole call, so that a large directory can be listed.
        """
        pages = self.pages(reference, details=details)
        while (page := await pages.next_page(call)) is not None:
            for entry in page:
                yield entry
            call.renew()

    async def stat(self, reference: Reference, call: Call) -> Entry:
        """Return the kind and the size of a file, a directory or a link, from its root."""
        return await self.stat_found(reference, await self.find(reference, call), call)

    async def stat_found(self, reference: Reference, cid: CID, call: Call) -> Entry:
        """Return the kind and the size of `cid`, which `reference` leads to."""
        known = BlockCache(MAX_CACHED)
        (info,) = await self.root_infos([cid], known, reference, call)
        return stat_record(reference, cid, info)

    async def root_infos(
        self, roots: Sequence[CID], known: BlockCache, reference: Reference, call: Call
    ) -> list[RootInfo]:
        """Return what each of `roots` is, from their blocks."""
        walk = RootsWalk(roots)
        infos: list[RootInfo] = []
        while walk.need is not None:
            await self.advance(walk, known, infos.extend)
            check_time(call.deadline, reference)
        return infos

    async def _read_range(self, cid: CID, known: BlockCache, start: int, stop: int) -> bytearray:
        """Return the bytes from `start` up to `stop` of the file at `cid`."""
        deadline = Deadline(None if self._total is None else now() + self._total)
        walk = FileWalk(cid, start, stop)
        data = bytearray()  # not a list of pieces: there may be millions of them

        def take(pieces: list[bytes]) -> None:
            for piece in pieces:
                data.extend(piece)

        while walk.need is not None:
            await self.advance(walk, known, take)
            check_time(deadline, cid)
        return data


def _ignore(_items: object) -> None:
    """Do nothing with the items of a walk."""
