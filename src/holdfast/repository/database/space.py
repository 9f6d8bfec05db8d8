"""Space on the disk, and a reserve that lets a user free space on a full disk.

To delete something, SQLite writes to its log first, and to open a database it makes two small
files. On a full disk neither works. So a store has a file of `RESERVE` bytes without meaning. Calls
that free space empty this file before they begin, and fill it again at their end. Other calls that
write stop while some space is free, so that the logs can always be moved into the databases.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.errors import ConfigError
from holdfast.files.disk_space import free_bytes
from holdfast.files.folders import Folder
from holdfast.repository.database.errors import full_disk, is_full

RESERVE: Final = 2 << 20
LEFT_FREE: Final = 1 << 20  # by every call that does not free space
FREE_FOR_RESERVE: Final = 2 * RESERVE  # a reserve is made only where this much is free
STEP: Final = 128 << 10
NAME: Final = "holdfast.reserve"


class Space:
    """The free space on the disk of the store at `root`, and its reserve."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = Folder(root)

    def is_short(self, size: int = 0) -> bool:
        """Return whether writing `size` bytes could use the space that must stay free."""
        return free_bytes(self._root) < LEFT_FREE + size

    def check(self, size: int = 0) -> None:
        """Raise the `OSError` of a full disk if `is_short`."""
        if self.is_short(size):
            raise full_disk(self._root)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Empty the reserve while the block runs."""
        with suppress(OSError, ConfigError), self._opened() as descriptor:
            os.ftruncate(descriptor, 0)
        try:
            yield
        finally:
            self._grow()

    def fill(self) -> None:
        """Make the reserve, or the missing part of it, where enough space is free."""
        with suppress(OSError, ConfigError):
            status = self._folder.status(NAME)
            is_whole = status is not None and status.st_size >= RESERVE
            if not is_whole and free_bytes(self._root) >= FREE_FOR_RESERVE:
                self._grow(os.O_CREAT)

    def _grow(self, flags: int = 0) -> None:
        """Grow the reserve in steps, until it is whole or the disk is full."""
        with suppress(OSError, ConfigError), self._opened(flags) as descriptor:
            size = os.fstat(descriptor).st_size
            while size < RESERVE:
                try:
                    _allocate(descriptor, size)
                except OSError:
                    os.ftruncate(descriptor, size)
                    return
                size += STEP

    @contextmanager
    def _opened(self, flags: int = 0) -> Iterator[int]:
        descriptor = self._folder.open(NAME, os.O_RDWR | flags, 0o600)
        try:
            status = os.fstat(descriptor)
            if status.st_nlink > 1 or status.st_size > RESERVE:
                raise ConfigError(f"{self._root / NAME} was not made by Holdfast")
            yield descriptor
        finally:
            os.close(descriptor)


def _allocate(descriptor: int, start: int) -> None:
    """Grow the file by one step that takes real space on the disk."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, start, STEP)
        except OSError as error:
            if is_full(error):
                raise
        else:
            return
    os.lseek(descriptor, start, os.SEEK_SET)
    written = os.write(descriptor, os.urandom(STEP))  # a file system may store zeros as nothing
    if written < STEP:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)
