"""Space on the disk: what is kept in reserve, so that a full disk can be emptied again.

To delete something, SQLite writes to its log first, and to open a database it makes two small
files. On a full disk neither works. So a store keeps a file of `RESERVE` bytes that hold nothing.
Calls that free space give its space back before they begin, and take it again at their end. Calls
that need space stop before the last of it is used, so that the logs can always be brought into the
databases.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.errors import ConfigError
from holdfast.files.folders import Folder

RESERVE: Final = 2 << 20
ROOM: Final = 1 << 20  # what an ordinary write leaves free
PLENTY: Final = 2 * RESERVE  # a new reserve is made only where this much is free
STEP: Final = 128 << 10
NAME: Final = "holdfast.reserve"
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Space:
    """The free space of the disk on which the store at `root` is, and its reserve."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = Folder(root)

    def is_short(self, size: int = 0) -> bool:
        """Whether an ordinary write of `size` bytes could use up what must stay free."""
        return _free(self._root) < ROOM + size

    def check(self, size: int = 0) -> None:
        """Raise the `OSError` of a full disk where `is_short`."""
        if self.is_short(size):
            raise full_disk(self._root)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Give the reserve back for as long as the block lasts."""
        with suppress(OSError, ConfigError), self._opened() as descriptor:
            os.ftruncate(descriptor, 0)
        try:
            yield
        finally:
            self._grow()

    def fill(self) -> None:
        """Make the reserve, or what is missing of it, where there is plenty of space."""
        with suppress(OSError, ConfigError):
            status = self._folder.status(NAME)
            is_whole = status is not None and status.st_size >= RESERVE
            if not is_whole and _free(self._root) >= PLENTY:
                self._grow(os.O_CREAT)

    def _grow(self, flags: int = 0) -> None:
        """Grow the file step by step, as far as the disk allows."""
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


def full_disk(folder: Path) -> OSError:
    """Return the error for a disk on which the store has no space left."""
    return OSError(
        errno.ENOSPC,
        "the disk of the store is full: free some space, or revoke what is not needed and run "
        "`holdfast gc`",
        str(folder),
    )


def is_full(error: BaseException) -> bool:
    """Whether `error` says that the disk is full."""
    return isinstance(error, OSError) and error.errno in FULL


def _allocate(descriptor: int, start: int) -> None:
    """Make the next step of the file really take its space."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, start, STEP)
        except OSError as error:
            if error.errno in FULL:
                raise
        else:
            return
    os.lseek(descriptor, start, os.SEEK_SET)
    done = os.write(descriptor, os.urandom(STEP))  # zeros may be stored as nothing
    if done < STEP:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)


def _free(root: Path) -> int:
    if not hasattr(os, "statvfs"):
        return shutil.disk_usage(root).free
    status = os.statvfs(root)
    if not status.f_blocks:  # a file system that does not say
        return 1 << 62
    is_root = os.geteuid() == 0
    return (status.f_bfree if is_root else status.f_bavail) * status.f_frsize
