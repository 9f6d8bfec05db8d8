# WARNING: this file is generated from src/holdfast/_async/folder_download/gateway_source.py
# by scripts/generate_sync.py. Change the original instead.
"""A directory from gateways.

Blocks and files are requested by their CIDs. A gateway that serves only certain roots refuses that.
Then they are requested by their paths below the root, and verified all the same.
"""

from functools import partial

from holdfast._sync.reads.archive_feed import ArchiveFeed
from holdfast._sync.reads.gateway_blocks import GatewayBlocks
from holdfast._sync.reads.gateway_reader import GatewayReader
from holdfast._sync.runtime import run_blocking
from holdfast.calls import Call
from holdfast.content.blocks import check_provable, inline_block
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.content.unixfs.walks import PathWalk
from holdfast.errors import NetworkError, ProviderError, UnprovenError, VerificationError
from holdfast.files.folder_target.names import EntryPath
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress
from holdfast.protocol.gateway import ArchiveScope, Gateway
from holdfast.protocol.retrying import is_transient


class GatewaySource:
    """The directory at `reference`, read with `reader`."""

    is_remote = has_archives = True

    def __init__(self, reader: GatewayReader, reference: Reference, call: Call) -> None:
        self._reader = reader
        self._reference = reference
        self._call = call
        self._blocks = GatewayBlocks(reader.session, reader.gateways, reference, call)
        self._by_path = False  # whether the gateways refuse CIDs other than the root

    def root(self) -> CID:
        """Return the CID of the directory."""
        walk = PathWalk(self._reference.cid, self._reference.path)
        while (need := walk.need) is not None:
            walk.feed(self.block(need, ()))
        return walk.end()

    def block(self, cid: CID, path: EntryPath) -> bytes:
        """Return the block of `cid`, which is at `path`."""
        inline = inline_block(cid)
        if inline is not None:
            return inline
        check_provable(cid)
        by_path = self._by_path
        block = self._block_by_path(cid, path) if by_path else None
        if block is not None:
            return block
        try:
            return self._blocks.get(cid)
        except (ProviderError, UnprovenError) as error:
            if is_transient(error) or by_path:
                raise
            block = self._block_by_path(cid, path)
            if block is None:
                raise
        self._by_path = True
        return block

    def read(self, cid: CID, path: EntryPath, sink: Sink, progress: Progress) -> None:
        """Fill `sink` with the file `cid` at `path`."""
        read = partial(self._reader.read, sink=sink, call=self._call, progress=progress)
        below = self._at(path)
        if self._by_path and below is not None:
            read(below, verify=True, cid=cid)
            return
        try:
            read(Reference(str(cid), cid), verify=True)
        except (ProviderError, UnprovenError) as error:
            if is_transient(error) or below is None:
                raise
            run_blocking(sink.restart)
            try:
                read(below, verify=True, cid=cid)
            except (ProviderError, VerificationError):
                raise error from None
            self._by_path = True

    def open_archive(
        self,
        cid: CID,  # noqa: ARG002 - a gateway may serve only certain roots
        path: EntryPath,
        scope: ArchiveScope,
    ) -> ArchiveFeed | None:
        """Return the blocks of what is at `path`; None if no gateway has an archive."""
        reference = self._at(path)
        if reference is None:
            return None
        build = partial(Gateway.archive, reference=reference, scope=scope)
        response = self._reader.open_archive(reference, build, self._call)
        if response is None:
            return None
        return ArchiveFeed(response, self._reader.session.timeouts.read)

    def _block_by_path(self, cid: CID, path: EntryPath) -> bytes | None:
        """Return a block from the archive of what is at `path`; None if it has none."""
        feed = self.open_archive(cid, path, "entity")
        if feed is None:
            return None
        try:
            return feed.block(cid)
        except (NetworkError, VerificationError):
            return None
        finally:
            feed.close()

    def _at(self, path: EntryPath) -> Reference | None:
        """Return the reference to what is at `path`; None if no URL can have its name."""
        root = self._reference
        try:
            return Reference(root.text, root.cid, (*root.path, *path))
        except UnicodeEncodeError:
            return None
