"""The free space of disks, which a download must not use up.

A small DAG can stand for a file of any size, because links may be shared.
"""

import errno
import os
import shutil
from pathlib import Path
from typing import Final

from holdfast.readable_size import readable_size

RESERVE: Final = 64 << 20  # bytes that a download leaves free for others; less on a small disk
CHECKED_EVERY: Final = 64 << 20  # bytes that are written between two checks
UNKNOWN: Final = 1 << 62  # where a file system does not report its free space
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})  # error numbers of a full disk
FREE_SOME: Final = "free some space, or choose another disk"


def free_bytes(folder: Path) -> int:
    """Return the bytes that this user may still write to the disk of `folder`."""
    status = os.statvfs(folder)
    if not status.f_blocks:  # some file systems do not report it
        return UNKNOWN
    return (status.f_bavail if os.geteuid() else status.f_bfree) * status.f_frsize  # 0 is root


class DiskSpace:
    """Checks that the disk of `folder` has space for a download, and some more for others.

    Args:
        folder: A folder on the disk.
        remedy: What to do where it has not.

    Example:
        >>> try:
        ...     DiskSpace(Path.cwd()).require(1 << 80)
        ... except OSError as error:
        ...     print(error.strerror.partition(",")[0])
        1073741824 PiB more are needed
    """

    def __init__(self, folder: Path, remedy: str = FREE_SOME) -> None:
        self._folder = folder
        self._remedy = remedy
        self._unchecked = 0

    def require(self, size: int) -> None:
        """Raise `OSError` unless `size` more bytes can be written."""
        self._unchecked = 0
        try:
            free = free_bytes(self._folder)
            whole = shutil.disk_usage(self._folder).total
        except OSError:  # a file system that does not report it
            return
        usable = max(0, free - min(RESERVE, whole // 100))
        if size > usable:
            words = f"{readable_size(size)} more are needed, and {readable_size(usable)} are free"
            raise OSError(errno.ENOSPC, f"{words}: {self._remedy}", str(self._folder))

    def spend(self, count: int, left: int = 0) -> None:
        """Count bytes before they are written; now and then, check that they and `left` fit."""
        self._unchecked += count
        if self._unchecked >= CHECKED_EVERY:
            self.require(max(count, left))
