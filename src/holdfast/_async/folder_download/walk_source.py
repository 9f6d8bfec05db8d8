"""A directory from this machine, or from any other source of blocks."""

from holdfast._async.reads.archive_feed import AsyncArchiveFeed
from holdfast._async.reads.walk_reader import AsyncWalkReader
from holdfast.calls import Call
from holdfast.content.blocks import BlockCache, check_block, inline_block
from holdfast.content.budgets import MAX_CACHED
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.content.unixfs.walks import Walk
from holdfast.files.folder_target.names import EntryPath
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress
from holdfast.protocol.gateway import ArchiveScope


class OneBlock(Walk[bytes]):
    """A walk that needs one block, and returns it."""

    def __init__(self, cid: CID) -> None:
        self._need: CID | None = cid

    @property
    def need(self) -> CID | None:
        """The CID of the block, until it is fed."""
        return self._need

    def feed(self, block: bytes, *, verified: bool = False) -> list[bytes]:
        """Take the block, and return it."""
        if self._need is not None and not verified:
            check_block(self._need, block)
        self._need = None
        return [block]


class AsyncWalkSource:
    """The directory at `reference`, read with `reader`."""

    is_remote = False

    def __init__(self, reader: AsyncWalkReader, reference: Reference, call: Call) -> None:
        self.has_archives = reader.has_archives
        self._reader = reader
        self._reference = reference
        self._call = call

    async def root(self) -> CID:
        """Return the CID of the directory."""
        return await self._reader.find(self._reference, self._call)

    async def block(self, cid: CID, path: EntryPath) -> bytes:  # noqa: ARG002 - the CID is enough
        """Return the block of `cid`."""
        inline = inline_block(cid)
        if inline is not None:
            return inline
        walk = OneBlock(cid)
        found: list[bytes] = []
        while walk.need is not None:
            await self._reader.advance(walk, BlockCache(MAX_CACHED), found.extend)
        return found[0]

    async def read(
        self,
        cid: CID,
        path: EntryPath,  # noqa: ARG002 - the CID is enough
        sink: Sink,
        progress: Progress,
    ) -> None:
        """Fill `sink` with the file `cid`."""
        reference = Reference(str(cid), cid)
        await self._reader.read(reference, sink, self._call, progress=progress)

    async def open_archive(
        self,
        cid: CID,
        path: EntryPath,  # noqa: ARG002 - the CID is enough
        scope: ArchiveScope,
    ) -> AsyncArchiveFeed | None:
        """Return the blocks of `cid` and of all below it, if the source has archives."""
        return await self._reader.open_archive(cid, self._call) if scope == "all" else None
