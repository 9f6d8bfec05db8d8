"""A directory from gateways.

Blocks and files are requested by their CIDs. A gateway that serves only certain roots refuses that.
Then they are requested by their paths below the root, and verified all the same.
"""

from functools import partial

from holdfast._async.folder_download.archive_feed import AsyncArchiveFeed
from holdfast._async.reads.gateway_blocks import AsyncGatewayBlocks
from holdfast._async.reads.gateway_reader import AsyncGatewayReader
from holdfast._async.reads.output import Output
from holdfast._async.reads.peer import AsyncPeer
from holdfast._async.reads.state import ReadState
from holdfast._async.runtime import now, run_blocking
from holdfast.calls import Call
from holdfast.content.blocks import check_provable, inline_block
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.content.unixfs.walks import PathWalk
from holdfast.errors import NetworkError, ProviderError, UnprovenError, VerificationError
from holdfast.files.folder_target.names import EntryPath
from holdfast.files.sinks import MemorySink, Sink
from holdfast.files.sources import Progress
from holdfast.protocol.gateway import CAR_TYPE, ArchiveScope
from holdfast.protocol.http import Reply
from holdfast.protocol.retrying import is_transient


class AsyncGatewaySource:
    """The directory at `reference`, read with `reader`."""

    is_remote = True

    def __init__(self, reader: AsyncGatewayReader, reference: Reference, call: Call) -> None:
        self._reader = reader
        self._reference = reference
        self._call = call
        self._blocks = AsyncGatewayBlocks(reader.session, reader.gateways, reference, call)
        self._by_path = False  # whether the gateways refuse CIDs other than the root

    async def root(self) -> CID:
        """Return the CID of the directory."""
        walk = PathWalk(self._reference.cid, self._reference.path)
        while (need := walk.need) is not None:
            walk.feed(await self.block(need, ()))
        return walk.end()

    async def block(self, cid: CID, path: EntryPath) -> bytes:
        """Return the block of `cid`, which is at `path`."""
        inline = inline_block(cid)
        if inline is not None:
            return inline
        check_provable(cid)
        by_path = self._by_path
        block = await self._block_by_path(cid, path) if by_path else None
        if block is not None:
            return block
        try:
            return await self._blocks.get(cid)
        except (ProviderError, UnprovenError) as error:
            if is_transient(error) or by_path:
                raise
            block = await self._block_by_path(cid, path)
            if block is None:
                raise
        self._by_path = True
        return block

    async def read(self, cid: CID, path: EntryPath, sink: Sink, progress: Progress) -> None:
        """Fill `sink` with the file `cid` at `path`."""
        read = partial(self._reader.read, sink=sink, call=self._call, progress=progress)
        below = self._at(path)
        if self._by_path and below is not None:
            await read(below, verify=True, cid=cid)
            return
        try:
            await read(Reference(str(cid), cid), verify=True)
        except (ProviderError, UnprovenError) as error:
            if is_transient(error) or below is None:
                raise
            await run_blocking(sink.restart)
            try:
                await read(below, verify=True, cid=cid)
            except (ProviderError, VerificationError):
                raise error from None
            self._by_path = True

    async def open_archive(self, path: EntryPath, scope: ArchiveScope) -> AsyncArchiveFeed | None:
        """Return the blocks of what is at `path`; None if no gateway has an archive."""
        reference = self._at(path)
        if reference is None:
            return None
        state = ReadState(reference, Output(MemorySink()), self._call)
        session = self._reader.session
        for gateway in self._reader.gateways.in_order(now()):
            peer = AsyncPeer(session, gateway, state, self._call.share(1), verify=True)
            try:
                response = await peer.open_or_refuse(gateway.archive(reference, scope=scope))
            except (NetworkError, ProviderError, UnprovenError):
                continue
            if Reply(response.status, response.headers).media_type == CAR_TYPE:
                return AsyncArchiveFeed(response, session.timeouts.read)
            await response.aclose()
        return None

    async def _block_by_path(self, cid: CID, path: EntryPath) -> bytes | None:
        """Return a block from the archive of what is at `path`; None if it has none."""
        feed = await self.open_archive(path, "entity")
        if feed is None:
            return None
        try:
            return await feed.block(cid)
        except (NetworkError, VerificationError):
            return None
        finally:
            await feed.aclose()

    def _at(self, path: EntryPath) -> Reference | None:
        """Return the reference to what is at `path`; None if no URL can have its name."""
        root = self._reference
        try:
            return Reference(root.text, root.cid, (*root.path, *path))
        except UnicodeEncodeError:
            return None
