"""Writing a file so that it appears under its name complete, or not at all."""

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import sys
import time
from pathlib import Path
from typing import BinaryIO, Final, Self

from holdfast.disk.locks import try_lock

NO_NAME: Final[int | None] = getattr(os, "O_TMPFILE", None)
OPEN_FILES: Final = "/proc/self/fd"
PART: Final = re.compile(r"\.[0-9a-f]{16}\.holdfast-part")
COPY_SIZE: Final = 1 << 20
FORGOTTEN_AFTER: Final = 3600  # seconds since the last write to a file that nobody has open


class WorkFile:
    """An open file that gets its final name when it is complete."""

    _file: BinaryIO | None = None

    def write(self, data: bytes) -> None:
        """Append `data`."""
        try:
            self._opened().write(data)
        except OSError as error:
            raise self.explained(error) from None

    def read_all(self) -> BinaryIO:
        """Return the file, at its start."""
        self._opened().seek(0)
        return self._opened()

    def sync(self) -> None:
        """Make durable what was written so far. Another thread may write meanwhile."""
        getattr(os, "fdatasync", os.fsync)(self._opened().fileno())

    def check_size(self, size: int) -> None:
        """Raise `OSError` unless the file has `size` bytes."""
        try:
            self._opened().flush()
        except OSError as error:
            raise self.explained(error) from None
        check_size(self._opened(), size)

    def truncate(self, size: int) -> None:
        """Remove all but the first `size` bytes. The next bytes are written after them."""
        self._opened().seek(size)
        self._opened().truncate()

    def explained(self, error: OSError) -> OSError:
        """Return the error of a write, with advice where there is some."""
        return error

    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("the file is not open yet")
        return self._file


class PendingFile(WorkFile):
    """A new file in the folder of `target`, which `commit` renames to `target`.

    On Linux the file has no name before `commit`, so the system removes it if the process ends. On
    other systems it has a temporary name. If the process ends, the next one that writes to the
    folder removes it.

    A ``with`` block without a `commit` discards the file. A symbolic link at `target` is replaced,
    not followed.

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

    def __init__(self, target: str | os.PathLike[str], *, mode: int = 0o666) -> None:
        """Prepare the file, which `open` makes. The umask restricts its `mode`."""
        self.target: Path = Path(target)
        self._mode = mode
        self._given = os.fspath(target)
        self._path = self.target.with_name(f".{secrets.token_hex(8)}.holdfast-part")
        self._has_name = False

    def open(self) -> None:
        """Make the file; raise `OSError` if it cannot be made."""
        mode = check_target(self.target, self._given)
        self._file = open_unnamed(self.target.parent, self._mode)
        if self._file is None:
            _remove_abandoned(self.target.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            self._file = os.fdopen(os.open(self._path, flags, self._mode), "w+b")
            self._has_name = True
            with contextlib.suppress(OSError):  # a file system without locks
                try_lock(self._file.fileno())
                self._file.seek(0)
        if mode is not None:
            os.fchmod(self._file.fileno(), mode)

    def copy_from(self, file: BinaryIO) -> None:
        """Append all bytes of an open file, from its current position."""
        shutil.copyfileobj(file, self._opened(), COPY_SIZE)

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._opened().fileno()

    def commit(self, *, close: bool = True) -> None:
        """Make the bytes durable, then give the file its name in one step."""
        file = self._opened()
        file.flush()
        os.fsync(file.fileno())
        if not self._has_name:
            self._has_name = give_name(file, self.target, self._path)
        if close:
            file.close()
        if self._has_name:
            self._path.replace(self.target)
        sync_name(self.target)

    def discard(self) -> None:
        """Remove the file. After `commit` this does nothing."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk, for example: its bytes are not needed
                self._file.close()
            if self._has_name:
                self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


def open_unnamed(folder: Path, mode: int = 0o666) -> BinaryIO | None:
    """Open a new file in `folder` that has no name; return None if the system cannot do that."""
    if NO_NAME is None or not Path(OPEN_FILES).is_dir():
        return None
    try:
        return os.fdopen(os.open(folder, NO_NAME | os.O_RDWR, mode), "w+b")
    except OSError:  # not on this file system; other errors come again when a named file is made
        return None


def give_name(file: BinaryIO, target: Path, other: Path) -> bool:
    """Give an unnamed file the name `target`, or `other` if `target` exists.

    Return whether it is `other`.
    """
    opened = f"{OPEN_FILES}/{file.fileno()}"
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        # With `dst_dir_fd`, `os.link` follows the symbolic link in `OPEN_FILES` to the open file.
        os.link(opened, target.name, dst_dir_fd=folder)
    except FileExistsError:
        os.link(opened, other.name, dst_dir_fd=folder)
        return True
    finally:
        os.close(folder)
    return False


def _remove_abandoned(folder: Path) -> None:
    """Remove the temporary files in `folder` of processes that have ended."""
    oldest = time.time() - FORGOTTEN_AFTER
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if PART.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_if_abandoned(entry, oldest)


def _remove_if_abandoned(entry: "os.DirEntry[str]", oldest: float) -> None:
    with contextlib.suppress(OSError):  # of another user, or removed meanwhile
        if entry.stat(follow_symlinks=False).st_mtime > oldest:
            return
        descriptor = os.open(entry.path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            if try_lock(descriptor):
                Path(entry.path).unlink()
        finally:
            os.close(descriptor)


def check_target(target: Path, given: str) -> int | None:
    """Return the mode of the file that `target` replaces; None if there is none.

    Raise `OSError` if no file can be written there.
    """
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such folder to write to", str(target.parent))
    try:
        status = target.stat()
    except OSError:  # it does not exist, or is a link to nothing
        status = None
    if given.endswith(("/", os.sep)) or (status is not None and stat.S_ISDIR(status.st_mode)):
        raise IsADirectoryError(
            f"{target} is a directory; give the path of the file to write in it"
        )
    if status is None:
        return None
    if not stat.S_ISREG(status.st_mode):
        # A pipe or /dev/null would be replaced, not written to.
        raise OSError(f"{target} is not a regular file; give another path")
    return stat.S_IMODE(status.st_mode)


def check_size(file: BinaryIO, size: int) -> None:
    """Raise `OSError` unless `file` has `size` bytes. A disk may have lost some."""
    if os.fstat(file.fileno()).st_size != size:
        raise OSError(
            errno.EIO,
            "the file is not as long as what was written to it: check the disk",
            str(file.name),
        )


def start_writing(descriptor: int) -> None:
    """Let the system write the bytes of an open file to the disk now. Nothing waits for it."""
    if hasattr(os, "posix_fadvise"):
        # On Linux, this begins to write what is not on the disk. No other effect is needed here.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def sync_name(path: Path) -> None:
    """Make the new name of a file durable, if the file system can do that."""
    with contextlib.suppress(OSError):
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(descriptor: int | None) -> bool:
    """Make everything on the file system of an open folder durable; return False if it cannot.

    For thousands of files, this takes much less time than to sync each of them.
    """
    if descriptor is None or sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - only here, and it takes time

    sync = getattr(ctypes.CDLL(None), "syncfs", None)
    return sync is not None and sync(descriptor) == 0
