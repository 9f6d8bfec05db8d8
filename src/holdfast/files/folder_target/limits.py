"""How large a directory may be that is written to disk.

A DAG of a few kilobytes can stand for any number of files, because links may be shared.
"""

import errno
import os
from threading import Lock
from typing import Final

from holdfast.errors import MalformedError
from holdfast.files.disk_space import DiskSpace
from holdfast.files.folder_target.names import EntryPath, refused
from holdfast.files.sinks import check_limit

MAX_ENTRIES: Final = 1_000_000  # files and folders; the names of so many take 100 MiB at most
MAX_DEPTH: Final = 128  # folders in folders; each is opened on the way to a file
MAX_PATH: Final = 4095  # bytes of a path, beyond which programs on Linux cannot use it
MAX_BYTES: Final = 16 << 40  # of all files: as much as one file on ext4


class Usage:
    """Counts what a directory has so far, and raises an error above a limit.

    Args:
        space: The disk that it is written to.
        max_bytes: The limit of the user for the bytes of all files.

    Attributes:
        entries: The files and folders so far.
        size: The bytes of all files whose size is known, and those that were written of the others.
        written: How many of them are on the disk.
    """

    def __init__(self, space: DiskSpace, max_bytes: int | None = None) -> None:
        self._space = space
        self._max_bytes = max_bytes
        self._lock = Lock()
        self.entries: int = 0
        self.size: int = 0
        self.written: int = 0

    def add_entry(self, path: EntryPath) -> None:
        """Count an entry."""
        self.entries += 1
        if self.entries > MAX_ENTRIES:
            raise MalformedError(
                f"the directory has more than {MAX_ENTRIES} entries; download parts of it"
            )
        if len(path) > MAX_DEPTH or len(os.fsencode("/".join(path))) > MAX_PATH:
            why = f"{MAX_DEPTH} levels and paths of {MAX_PATH} bytes are possible, not more"
            raise refused(path[-3:], why, errno.ENAMETOOLONG)

    def add_bytes(self, size: int, written: int) -> None:
        """Count more bytes that files have, and more that are about to be written."""
        with self._lock:
            self.size += size
            self.written += written
            left = self.size - self.written
        check_limit(self.size, self._max_bytes)
        if self.size > MAX_BYTES:
            raise MalformedError(
                f"the directory has more than {MAX_BYTES} bytes; download parts of it"
            )
        if size > written:
            self._space.require(left)
        else:
            self._space.spend(written, left)

    def require_space(self, size: int) -> None:
        """Raise `OSError` unless the disk has space for `size` more bytes."""
        self._space.require(size)
