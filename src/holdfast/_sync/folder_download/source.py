# WARNING: this file is generated from src/holdfast/_async/folder_download/source.py
# by scripts/generate_sync.py. Change the original instead.
"""The interface of everything that a directory can be downloaded from."""

from typing import Protocol

from holdfast._sync.reads.archive_feed import ArchiveFeed
from holdfast.content.cid import CID
from holdfast.files.folder_target.names import EntryPath
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress
from holdfast.protocol.gateway import ArchiveScope


class FolderSource(Protocol):
    """Gives verified blocks and files of one directory. Paths are relative to this directory."""

    @property
    def is_remote(self) -> bool:
        """Whether a request costs more than some work on disk."""

    @property
    def has_archives(self) -> bool:
        """Whether `open_archive` may return one."""

    def root(self) -> CID:
        """Return the CID of the directory."""

    def block(self, cid: CID, path: EntryPath) -> bytes:
        """Return the block of `cid`, which is at `path`."""

    def read(self, cid: CID, path: EntryPath, sink: Sink, progress: Progress) -> None:
        """Fill `sink` with the file `cid` at `path`."""

    def open_archive(self, cid: CID, path: EntryPath, scope: ArchiveScope) -> ArchiveFeed | None:
        """Return the blocks of `cid`, which is at `path`; None if there is no archive.

        They are those of one directory, or with the scope ``all`` also those of its content.
        """
