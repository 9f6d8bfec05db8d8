# WARNING: this file is generated from src/holdfast/_async/folder_download/entries.py
# by scripts/generate_sync.py. Change the original instead.
"""One entry of a directory at a time: files and symbolic links are written."""

from dataclasses import dataclass

from holdfast._sync.folder_download.source import FolderSource
from holdfast._sync.folder_download.tally import Tally
from holdfast._sync.reads.archive_feed import ArchiveFeed
from holdfast._sync.reads.blocks import Blocks, HeldBlocks
from holdfast._sync.reads.state import commit
from holdfast._sync.runtime import run_blocking
from holdfast.content import dag_pb
from holdfast.content.blocks import inline_block, malformed
from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block, read_kind, require_codec
from holdfast.content.unixfs import data
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.file_nodes import file_node
from holdfast.files.disk_space import DiskSpace
from holdfast.files.folder_target.limits import Usage
from holdfast.files.folder_target.names import WRITE_LINKS, EntryPath, check_link, refused
from holdfast.files.folder_target.work_folder import PartFile, WorkFolder

FOLDERS = frozenset({Kind.DIRECTORY, Kind.SHARD})


@dataclass(frozen=True)
class FolderOptions:
    """How a directory is written; see `Client.download_folder`."""

    symlinks: bool = False
    portable: bool = False
    max_bytes: int | None = None


class Entries:
    """Writes entries into a work folder."""

    def __init__(
        self, source: FolderSource, work: WorkFolder, options: FolderOptions, tally: Tally
    ) -> None:
        self._source = source
        self._work = work
        self._options = options
        self._tally = tally
        self.usage = Usage(DiskSpace(work.path), options.max_bytes)

    def is_saved(self, path: EntryPath, cid: CID) -> bool:
        """Return whether an earlier download has written the file `cid` at `path`."""
        continues = self._source.is_remote
        size = run_blocking(self._work.saved_size, path, cid, continues=continues)
        if size is None:
            return False
        self.usage.add_bytes(size, size)
        self._tally.add(size)
        return True

    def fetch(self, path: EntryPath, cid: CID) -> Kind:
        """Fetch what is at `path` and write it, unless it is a directory; return its kind."""
        require_codec(cid)
        block = inline_block(cid)
        if block is None and is_one_block(cid):
            self._read(path, cid)
            return Kind.RAW
        if block is None:
            block = self.directory_block(cid)
        if block is None:
            block = self._source.block(cid, path)
        return self.put(path, cid, block)

    def put(self, path: EntryPath, cid: CID, block: bytes, feed: ArchiveFeed | None = None) -> Kind:
        """Write what is at `path`, unless it is a directory; return its kind.

        `block` is its verified block. The other blocks of a file come from `feed`; without that,
        the file is requested.
        """
        kind = read_kind(cid, block)
        if kind in FOLDERS or kind is Kind.SYMLINK:
            self.save(cid, block)
        if kind is Kind.SYMLINK:
            run_blocking(self._write_link, path, block)
        elif kind in {Kind.FILE, Kind.RAW}:
            node = file_node(cid, block)
            is_whole = not node.children
            blocks = HeldBlocks({cid: block}) if is_whole else feed
            self._read(path, cid, node.size, blocks)
        elif kind not in FOLDERS:
            raise malformed(cid, f"{'/'.join(path)} is neither a file nor a directory")
        return kind

    def directory_block(self, cid: CID) -> bytes | None:
        """Return the block of a directory or link that an earlier download saved, or None."""
        return run_blocking(self._work.saved_block, cid) if self._source.is_remote else None

    def save(self, cid: CID, block: bytes) -> None:
        """Save the block of a directory or link for a later download."""
        if self._source.is_remote:
            run_blocking(self._work.save_block, cid, block)

    def _read(self, path: EntryPath, cid: CID, size: int = 0, blocks: Blocks | None = None) -> None:
        """Write a file of `size` bytes, if that is known; from `blocks`, or by a request."""
        continues = self._source.is_remote and blocks is None
        part = PartFile(self._work, path, cid, self.usage, continues=continues)
        try:
            run_blocking(part.open)
            if not self._work.form:  # else the reader knows the size of what it makes
                run_blocking(part.expect, size)
            self._source.read(cid, path, part, self._tally.of_file(), blocks)
            commit(part)
        finally:
            run_blocking(part.discard)

    def _write_link(self, path: EntryPath, block: bytes) -> None:
        message = data.decode(dag_pb.decode(block).data)
        text = message.data.decode("utf-8", "surrogateescape")
        if not self._options.symlinks:
            why = f"it is a symbolic link to {text[:200]!r}"
            raise refused(path, why, hint=WRITE_LINKS)
        check_link(path, text, portable=self._options.portable)
        self._work.make_link(path, text)
