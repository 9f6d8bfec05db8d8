"""A file that appears under its name whole, or not at all."""

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
import time
from pathlib import Path
from typing import BinaryIO, Final, Self

from holdfast.files.locks import try_lock

NO_NAME: Final[int | None] = getattr(os, "O_TMPFILE", None)
OPEN_FILES: Final = "/proc/self/fd"
PART: Final = re.compile(r"\.[0-9a-f]{16}\.holdfast-part")
FORGOTTEN_AFTER: Final = 3600  # seconds since a file that nobody has open was last written to


class PendingFile:
    """A file being written in the folder of `target`; `commit` gives it the name.

    Where the system can do that (Linux), it has no name until then: nothing is left of it if the
    process ends before. Elsewhere it has a name of its own, and what an ended process has left is
    removed by the next one that writes to the folder.

    Leaving the ``with`` block without a `commit` discards. A symbolic link at `target` is
    replaced, not followed.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "greeting.txt"
        >>> with PendingFile(target) as pending:
        ...     pending.write(b"hello")
        ...     print(target.exists())
        ...     pending.commit()
        False
        >>> target.read_bytes()
        b'hello'
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.target = Path(target)
        self._given = os.fspath(target)
        self._path = self.target.with_name(f".{secrets.token_hex(8)}.holdfast-part")
        self._file: BinaryIO | None = None
        self._has_name = False

    def open(self) -> None:
        """Make the file; an `OSError` where that cannot be."""
        mode = check_target(self.target, self._given)
        self._file = open_unnamed(self.target.parent)
        if self._file is None:
            _sweep(self.target.parent)
            # Mode 0o666 lets the umask decide, as for any file the user creates.
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            self._file = os.fdopen(os.open(self._path, flags, 0o666), "w+b")
            self._has_name = True
            with contextlib.suppress(OSError):  # a file system without locks
                try_lock(self._file.fileno())
                self._file.seek(0)
        if mode is not None and sys.platform != "win32":
            os.fchmod(self._file.fileno(), mode)

    def write(self, data: bytes) -> None:
        """Append `data`."""
        self._opened().write(data)

    def sync(self) -> None:
        """Bring to the disk what was written so far; another thread may go on writing."""
        sync_data(self._opened())

    def check_size(self, size: int) -> None:
        """An `OSError` unless the file has `size` bytes."""
        self._opened().flush()
        check_size(self._opened(), size)

    def truncate(self, size: int = 0) -> None:
        """Forget what was written so far, but for the first `size` bytes."""
        self._opened().seek(size)
        self._opened().truncate()

    def commit(self) -> None:
        """Make the bytes durable, then give them their name in one step."""
        file = self._opened()
        file.flush()
        os.fsync(file.fileno())
        if not self._has_name:
            self._has_name = give_name(file, self.target, self._path)
        file.close()
        if self._has_name:
            self._path.replace(self.target)
        # The file has its name; a file system that cannot promise more is no reason to fail.
        with contextlib.suppress(OSError):
            sync_folder(self.target.parent)

    def discard(self) -> None:
        """Remove what was written. Does nothing after `commit`."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk, say: it is of no use any more
                self._file.close()
            if self._has_name:
                self._path.unlink(missing_ok=True)

    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("the file is not open yet")
        return self._file

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


def open_unnamed(folder: Path) -> BinaryIO | None:
    """Open a new file in `folder` that has no name; None where the system cannot do that."""
    if NO_NAME is None or not Path(OPEN_FILES).is_dir():
        return None
    try:
        return os.fdopen(os.open(folder, NO_NAME | os.O_RDWR, 0o666), "w+b")
    except OSError:  # not on this file system; or for a reason that the next attempt tells
        return None


def give_name(file: BinaryIO, target: Path, other: Path) -> bool:
    """Name an unnamed file `target`, or `other` if `target` exists; return whether it is that."""
    opened = f"{OPEN_FILES}/{file.fileno()}"
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        # With a folder to start from, `os.link` follows the link that the system has for the file.
        os.link(opened, target.name, dst_dir_fd=folder)
    except FileExistsError:
        os.link(opened, other.name, dst_dir_fd=folder)
        return True
    finally:
        os.close(folder)
    return False


def _sweep(folder: Path) -> None:
    """Remove the files of ours in `folder` that ended processes have left."""
    oldest = time.time() - FORGOTTEN_AFTER
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if PART.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_left(entry, oldest)


def _remove_left(entry: "os.DirEntry[str]", oldest: float) -> None:
    with contextlib.suppress(OSError):  # another's, or gone by now
        if entry.stat(follow_symlinks=False).st_mtime > oldest:
            return
        descriptor = os.open(entry.path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            if try_lock(descriptor):
                Path(entry.path).unlink()
        finally:
            os.close(descriptor)


def check_target(target: Path, given: str) -> int | None:
    """The mode of the file that `target` replaces, if any; an `OSError` where no file can stand."""
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such folder to write to", str(target.parent))
    try:
        there = target.stat()
    except OSError:  # nothing, or a link to nothing
        there = None
    if given.endswith(("/", os.sep)) or (there is not None and stat.S_ISDIR(there.st_mode)):
        raise IsADirectoryError(
            f"{target} is a directory; name the file that is to be written in it"
        )
    if there is None:
        return None
    if not stat.S_ISREG(there.st_mode):
        # A pipe or /dev/null would be replaced, not written to.
        raise OSError(f"{target} is no regular file; name another")
    return stat.S_IMODE(there.st_mode)


def check_size(file: BinaryIO, size: int) -> None:
    """An `OSError` unless `file` has `size` bytes: a last look before anybody else may have one."""
    if os.fstat(file.fileno()).st_size != size:
        raise OSError(errno.EIO, "the disk does not hold what was written to it", str(file.name))


def sync_data(file: BinaryIO) -> None:
    """Make the bytes of `file` durable that the system has by now."""
    getattr(os, "fdatasync", os.fsync)(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    if os.name == "nt":
        return  # folders cannot be opened there
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
