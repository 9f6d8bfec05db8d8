# WARNING: this file is generated from src/holdfast/_async/folder_download/source.py
# by scripts/generate_sync.py. Change the original instead.
"""The directory that is downloaded: its blocks, files and archives, by CID or by path.

Blocks and files are requested by their CIDs. A gateway that serves only certain roots refuses that.
Then they are requested by their paths below the root, and verified all the same.
"""

from functools import partial

from holdfast._sync.reads.archive_feed import ArchiveFeed
from holdfast._sync.reads.blocks import Blocks
from holdfast._sync.reads.reader import Reader
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
from holdfast.protocol.gateway import ArchiveScope
from holdfast.protocol.retrying import is_transient


class FolderSource:
    """The directory at `reference`, read with `reader`. Paths are relative to this directory.

    Attributes:
        is_remote: Whether a request costs more than some work on disk.
    """

    def __init__(self, reader: Reader, reference: Reference, call: Call) -> None:
        self.is_remote: bool = reader.is_remote
        self._reader = reader
        self._reference = reference
        self._call = call
        self._blocks = reader.blocks(reference, call)
        self._by_path = False  # whether the gateways refuse CIDs other than the root

    def root(self) -> CID:
        """Return the CID of the directory."""
        if not self.is_remote:
            return self._blocks.find(self._reference, self._call)
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
            return self._blocks.block(cid)
        except (ProviderError, UnprovenError) as error:
            if is_transient(error) or by_path or not self.is_remote:
                raise
            block = self._block_by_path(cid, path)
            if block is None:
                raise
        self._by_path = True
        return block

    def read(
        self,
        cid: CID,
        path: EntryPath,
        sink: Sink,
        progress: Progress,
        blocks: Blocks | None = None,
    ) -> None:
        """Fill `sink` with the file `cid` at `path`; from `blocks`, if all of it is there."""
        read = partial(
            self._reader.read,
            sink=sink,
            call=self._call,
            progress=progress,
            blocks=blocks,
            verify=True,
        )
        below = self._at(path, cid) if self.is_remote and blocks is None else None
        if self._by_path and below is not None:
            read(below)
            return
        try:
            read(Reference(str(cid), cid))
        except (ProviderError, UnprovenError) as error:
            if is_transient(error) or below is None:
                raise
            run_blocking(sink.restart)
            try:
                read(below)
            except (ProviderError, VerificationError):
                raise error from None
            self._by_path = True

    def archive(self, cid: CID, path: EntryPath, scope: ArchiveScope) -> ArchiveFeed | None:
        """Return the blocks of `cid`, which is at `path`; None if there is no archive.

        They are those of one directory, or with the scope ``all`` also those of its content.
        """
        reference = self._at(path, cid)
        if reference is None:
            return None
        return self._reader.archive(reference, scope, self._call)

    def _block_by_path(self, cid: CID, path: EntryPath) -> bytes | None:
        """Return a block from the archive of what is at `path`; None if it has none."""
        feed = self.archive(cid, path, "entity")
        if feed is None:
            return None
        try:
            return feed.get(cid)
        except (NetworkError, VerificationError):
            return None
        finally:
            feed.close()

    def _at(self, path: EntryPath, cid: CID) -> Reference | None:
        """Return the reference to `cid`, which is at `path`; None if no URL can have its name."""
        root = self._reference
        try:
            return Reference(root.text, root.cid, (*root.path, *path), cid)
        except UnicodeEncodeError:
            return None
