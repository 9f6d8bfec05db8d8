"""The reader of a provider: whole files, parts of files, entries of directories, all verified.

A reader has two levels::

    blocks, archive, body     what its peer sends: blocks, and where the peer has them, an archive
                              of many blocks and the plain bytes of a file
    read, open, stat, pages   what people read: files, parts of files, sizes, entries

The upper level is written once over the lower one. A reader that changes content on its way (one
that decrypts, say) overrides the upper level. So everything that needs the content or the size of
a file uses the upper level alone; copies and exports use the lower one.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypedDict, TypeVar, cast

from holdfast._async.content_file import AsyncRanges
from holdfast._async.reads.blocks import (
    AsyncArchiveFeed,
    AsyncBlocks,
    AsyncGetBlock,
    AsyncGivenBlocks,
    check_time,
)
from holdfast._async.reads.blocks import ignore as ignore_items
from holdfast._async.reads.state import AsyncBlocksPeer, Output, ReadState
from holdfast._async.reads.strategies import AsyncBodyStream
from holdfast._async.reads.streams import closing_on_error
from holdfast._async.runtime import now, run_blocking
from holdfast.calls import Call, Deadline
from holdfast.content.blocks import BlockCache
from holdfast.content.budgets import MAX_CACHED
from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block
from holdfast.content.media_types import named_type
from holdfast.content.reference import Reference
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.directory_nodes import DirectoryEntry
from holdfast.content.unixfs.root_nodes import RootInfo, entry_record, has_root_info, stat_record
from holdfast.content.unixfs.walks import DirectoryWalk, FileWalk
from holdfast.errors import NetworkError, ProviderError, VerificationError
from holdfast.protocol.gateway import ArchiveScope
from holdfast.records import Entry
from holdfast.sinks.sinks import Finish, Sink
from holdfast.sources.sources import Progress

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse

DETAILED: Final = 64  # entries of a page whose roots are read
BODY_FROM: Final = 4 << 20  # bytes of a file from which one stream is faster than its blocks
Method = TypeVar("Method", bound=Callable[..., Any])


class AsyncEntryPages:
    """Lists a directory. What it holds between two pages is a batch of blocks at the most.

    Args:
        blocks: The blocks of the directory.
        reference: The directory.
        details: Whether the roots of the entries are read, for their kinds and sizes.
    """

    def __init__(self, blocks: AsyncBlocks, reference: Reference, *, details: bool = False) -> None:
        self._blocks = blocks
        self._reference = reference
        self._details = details
        self._walk: DirectoryWalk | None = None
        self._cache = BlockCache(MAX_CACHED)
        self._waiting: deque[DirectoryEntry] = deque()
        self._changes: list[Callable[[Entry, Call], Awaitable[Entry]]] = []

    def map(self, change: Callable[[Entry], Entry]) -> Self:
        """Let `change` make each entry what a wrapping reader shows; return the pages."""

        async def changed(entry: Entry, _: Call) -> Entry:
            return change(entry)

        return self.map_in_call(changed)

    def map_in_call(self, change: Callable[[Entry, Call], Awaitable[Entry]]) -> Self:
        """Do what `map` does, with a `change` that reads in the call of its page."""
        self._changes.append(change)
        return self

    async def next_page(self, call: Call) -> list[Entry] | None:
        """Return some entries, in the directory's order; None at the end. A page may be empty."""
        page = await self._next_page(call)
        for change in self._changes if page else ():
            page = [await change(entry, call) for entry in page or ()]
        return page

    async def _next_page(self, call: Call) -> list[Entry] | None:
        self._blocks.continue_in(call)
        if self._walk is None:
            self._walk = DirectoryWalk(await self._blocks.find(self._reference, call))
        if not self._waiting:
            if self._walk.need is None:
                return None
            await self._blocks.advance(self._walk, self._cache, self._waiting.extend)
            check_time(call.deadline, self._reference)
        if self._details:
            return await self._detailed(call)
        page = [entry_record(entry) for entry in self._waiting]
        self._waiting.clear()
        return page

    async def _detailed(self, call: Call) -> list[Entry]:
        """Return a page with the kinds and sizes of all entries whose root can be read."""
        batch = [self._waiting.popleft() for _ in range(min(DETAILED, len(self._waiting)))]
        # A raw block is a file, and the directory declares its size.
        unknown = [
            entry.cid for entry in batch if not is_one_block(entry.cid) and has_root_info(entry.cid)
        ]
        root_infos = await self._blocks.root_infos(unknown, self._cache, self._reference, call)
        infos = dict(zip(unknown, root_infos, strict=True))
        return [
            Entry(name=entry.name, cid=str(entry.cid), kind=info.kind, size=info.size)
            if (info := infos.get(entry.cid)) is not None
            else entry_record(entry)
            for entry in batch
        ]


class ReadArgs(TypedDict, total=False):
    """The keyword arguments of `AsyncReader.read`, for readers that pass them on."""

    progress: Progress | None
    blocks: AsyncBlocks | None
    verify: bool | None


class AsyncReader(ABC):
    """Reads verified content. A subclass defines `blocks`.

    Args:
        total: How many seconds the reading of one range of an open file may take.

    Attributes:
        is_remote: Whether a request costs more than some work on disk, so that what an interrupted
            download has verified is kept for the next one. Then content can also be requested by
            its path.
        host: The host of the peer, for errors of `body`.
    """

    is_remote: ClassVar[bool] = False
    host: str = ""

    def __init__(self, *, total: float | None = None) -> None:
        self._total = total

    @property
    def finishes(self) -> tuple[Finish, ...]:
        """What makes the content of files from their verified bytes, in the order they run in.

        A reader that adds a `Finish` to the sink of a file has them for all files. Downloads of
        folders use them when all bytes are there, also those of an earlier download.
        """
        return ()

    # What the peer sends

    @abstractmethod
    def blocks(self, reference: Reference, call: Call) -> AsyncBlocks:
        """Return the verified blocks of everything below `reference`."""

    async def archive(
        self,
        reference: Reference,  # noqa: ARG002 - for peers that have archives
        scope: ArchiveScope,  # noqa: ARG002
        call: Call,  # noqa: ARG002
    ) -> AsyncArchiveFeed | None:
        """Return the blocks below `reference` from an archive; None if the peer has none.

        They come depth first. With the scope ``entity``, they are those of one file, or the names
        of one directory.
        """
        return None

    async def body(self, cid: CID, call: Call) -> "AsyncResponse | None":  # noqa: ARG002
        """Return the plain bytes of the file at `cid`, not verified; None if the peer has none."""
        return None

    # What people read

    async def read(
        self,
        reference: Reference,
        sink: Sink,
        call: Call,
        *,
        progress: Progress | None = None,
        blocks: AsyncBlocks | None = None,
        verify: bool | None = None,  # noqa: ARG002 - for readers that can read without
    ) -> str:
        """Fill `sink` with a file; return its media type as the peer reports it, "" if unknown.

        A wrapper that changes the content calls `sink.add_finish` before it lets the inner reader
        read. Who fills a sink again calls its `restart` before.

        Args:
            reference: The file.
            sink: Where its bytes go.
            call: The operation of the client that the read belongs to.
            progress: The user's callback.
            blocks: Verified blocks of the file that are there already, if all of them are.
            verify: Whether the content is verified; by default as configured.
        """
        if sink.saved_size:  # of another reader, which continues after them
            await run_blocking(sink.truncate, 0)
        peer_blocks = self.blocks(reference, call) if blocks is None else blocks
        cid = await peer_blocks.find(reference, call)
        sink.cid = cid
        walk = FileWalk(cid)
        cache = BlockCache(MAX_CACHED)
        output = Output(sink, progress)
        take = partial(output.take, verified=False)  # nothing is saved of an interrupted read

        def begin(pieces: list[bytes]) -> None:
            sink.expect(walk.size or 0)
            take(pieces)

        await peer_blocks.advance(walk, cache, begin)
        check_time(call.deadline, reference)
        if blocks is None and (walk.size or 0) >= BODY_FROM and not output.written:
            state = ReadState(reference, output, call)
            state.file.cid, state.file.blocks = cid, cache
            await self._read_body(state, cid, peer_blocks)
            walk = FileWalk(cid, output.written)
        while walk.need is not None:
            await peer_blocks.advance(walk, cache, take)
            check_time(call.deadline, reference)
            if output.written:
                output.report(walk.size)
        output.report(walk.size)
        return _type_by_name(reference) or await peer_blocks.media_type(cid)

    async def open(self, reference: Reference, call: Call) -> AsyncRanges:
        """Return a file whose parts are read on demand, each within a time limit of its own."""
        blocks = self.blocks(reference, call)
        cid = await blocks.find(reference, call)
        walk = FileWalk(cid, 0, 0)
        cache = BlockCache(MAX_CACHED)
        await blocks.advance(walk, cache, ignore_items)
        check_time(call.deadline, reference)
        read_part = partial(self._read_range, blocks, cid, cache)
        media_type = _type_by_name(reference) or await blocks.media_type(cid)
        return AsyncRanges(walk.size or 0, read_part, type=media_type)

    def pages(self, reference: Reference, *, details: bool = False) -> AsyncEntryPages:
        """Return the entries of a directory, page by page, each within a call of its own.

        With `details`, the root of each entry is read as well, for its kind and size.
        """
        return AsyncEntryPages(self.blocks(reference, Call("entries")), reference, details=details)

    async def stat(self, reference: Reference, call: Call) -> Entry:
        """Return the kind and the size of a file, a directory or a link, from its verified root."""
        blocks = self.blocks(reference, call)
        cid = await blocks.find(reference, call)
        if is_one_block(cid):  # it may be larger than blocks are, and is then read as a file
            info = RootInfo("file", (await self.open(reference, call)).size)
        else:
            (info,) = await blocks.root_infos([cid], BlockCache(MAX_CACHED), reference, call)
        return stat_record(reference, cid, info)

    async def _read_body(self, state: ReadState, cid: CID, blocks: AsyncBlocks) -> None:
        """Write the file from a stream of its bytes, as far as the peer has them.

        Its inner nodes come from `blocks`.
        """
        response = await self.body(cid, state.call)
        if response is None:
            return
        peer = AsyncBlocksPeer(self.host, state, state.call.deadline, get_block=blocks.block)
        try:
            async with closing_on_error(response):
                stream = await AsyncBodyStream(peer, BodyProof(cid), response).begin()
            await stream.finish()
        except (NetworkError, ProviderError, VerificationError):
            return  # the rest is read block by block

    async def _read_range(
        self, blocks: AsyncBlocks, cid: CID, cache: BlockCache, start: int, stop: int
    ) -> bytearray:
        """Return the bytes from `start` up to `stop` of the file at `cid`."""
        deadline = Deadline(None if self._total is None else now() + self._total)
        walk = FileWalk(cid, start, stop)
        data = bytearray()  # not a list of pieces: there may be millions of them

        def take(pieces: list[bytes]) -> None:
            for piece in pieces:
                data.extend(piece)

        while walk.need is not None:
            await blocks.advance(walk, cache, take)
            check_time(deadline, cid)
        return data


class AsyncBlockReader(AsyncReader):
    """Reads content whose blocks come from `get_block`: a node's RPC, an archive, a folder.

    Args:
        get_block: Returns the block of a CID. It is not called for identity CIDs.
        verified: Whether `get_block` compares each block with its CID. Otherwise the reader does.
        total: How many seconds the reading of one range of an open file may take.

    Example:
        >>> from holdfast.content.cid import CID
        >>> blocks = {CID.of_raw(b"hello"): b"hello"}
        >>> async def get_block(cid: CID) -> bytes:
        ...     return blocks[cid]
        >>> reader = AsyncBlockReader(get_block)
    """

    def __init__(
        self, get_block: AsyncGetBlock, *, verified: bool = False, total: float | None = None
    ) -> None:
        super().__init__(total=total)
        self._blocks = AsyncGivenBlocks(get_block, verified=verified)

    def blocks(self, reference: Reference, call: Call) -> AsyncBlocks:  # noqa: ARG002
        """Return the blocks of `get_block`."""
        return self._blocks


def forwarded(method: Method) -> Method:
    """Return a method that calls the method of this name of `inner`."""

    @wraps(method, updated=())
    def forward(self: Any, *args: Any, **options: Any) -> Any:
        return self.forward(method.__name__, *args, **options)

    return cast("Method", forward)


class AsyncWrappingReader(AsyncReader):
    """A reader that forwards everything to `inner`. A subclass overrides what it changes.

    To change content, override `read`, `open`, `stat` and `pages`. Copies and exports use the
    blocks, which stay as they are. The inner reader reads with blocks of its own: a reader of other
    blocks is no wrapper, but a subclass of `AsyncReader`.

    Attributes:
        inner: The reader that does the work.
    """

    def __init__(self, inner: AsyncReader) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, name: str, /, *args: Any, **options: Any) -> Any:
        """Call the method `name` of the inner reader. Every call that is forwarded comes here."""
        return getattr(self.inner, name)(*args, **options)

    @property
    def finishes(self) -> tuple[Finish, ...]:
        """The finishes of the inner reader. One that changes content appends its own."""
        return self.inner.finishes

    def blocks(self, reference: Reference, call: Call) -> AsyncBlocks:
        """Return the verified blocks of the inner reader."""
        return cast("AsyncBlocks", self.forward("blocks", reference, call))

    if not TYPE_CHECKING:  # their types are those of the base class
        is_remote = property(attrgetter("inner.is_remote"))
        host = property(attrgetter("inner.host"))
        archive = forwarded(AsyncReader.archive)
        body = forwarded(AsyncReader.body)
        read = forwarded(AsyncReader.read)
        open = forwarded(AsyncReader.open)
        stat = forwarded(AsyncReader.stat)
        pages = forwarded(AsyncReader.pages)


def _type_by_name(reference: Reference) -> str:
    """Return the media type for the name of a file in a folder, "" if it is unknown."""
    return (named_type(reference.path[-1]) or "") if reference.path else ""
