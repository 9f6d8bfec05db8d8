"""Files that appear under their name complete, or not at all.

On Linux such a file has no name until then, so the system removes it if the process ends. On other
systems, and on some file systems, it has a temporary name. If the process ends, the next one that
writes to the same target removes it. Only its owner can read it until it is complete. With a place
in the cache folder, a file gets a name there as soon as it holds enough verified bytes, so that a
later download continues with them.
"""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self, TypeAlias

from holdfast.content.reference import Reference
from holdfast.disk.closing import closed_at_end, on_error
from holdfast.disk.folders import DIRECTORY, Folder, check_owner, create, open_file, status_in
from holdfast.disk.locks import try_lock
from holdfast.errors import ConfigError

OpenFolder: TypeAlias = Callable[[], contextlib.AbstractContextManager[int]]

NO_NAME: Final[int | None] = getattr(os, "O_TMPFILE", None)
OPEN_FILES: Final = "/proc/self/fd"
COPY_SIZE: Final = 1 << 20

TEMPORARY: Final = re.compile(r"\.[0-9a-f]{16}\.holdfast-part")
SAVED: Final = re.compile(r"[0-9a-f]{40}\.part")
PARTIAL: Final = "partial"  # the folder of saved files, in the cache folder
# Seconds since the last write to a file that nobody has open.
TEMPORARY_FORGOTTEN_AFTER: Final = 3600
SAVED_FORGOTTEN_AFTER: Final = 7 * 24 * 3600
WORTH_KEEPING: Final = 1 << 20  # verified bytes from which on an interrupted download is saved


class WorkFile:
    """An open file that gets its final name when it is complete.

    Attributes:
        saved_size: How many bytes an earlier download saved.
    """

    _file: BinaryIO | None = None
    saved_size: int = 0

    def write(self, data: bytes | memoryview) -> None:
        """Append `data`."""
        try:
            self._opened().write(data)
        except OSError as error:
            raise self.explained(error) from None

    def read_saved(self, start: int, size: int) -> bytes:
        """Return some of the bytes that an earlier download saved."""
        self._opened().seek(start)
        return self._opened().read(min(size, self.saved_size - start))

    def read_all(self) -> BinaryIO:
        """Return the file, at its start."""
        self._opened().seek(0)
        return self._opened()

    def sync(self) -> None:
        """Make durable what was written so far. Another thread may write meanwhile."""
        getattr(os, "fdatasync", os.fsync)(self._opened().fileno())

    def flush(self) -> None:
        """Let others that read the file see what was written so far."""
        try:
            self._opened().flush()
        except OSError as error:
            raise self.explained(error) from None

    def check_size(self, size: int) -> None:
        """Raise `OSError` unless the file has `size` bytes."""
        self.flush()
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


class SavedPlace(NamedTuple):
    """Where the verified bytes of an interrupted download stay: a name in a folder."""

    folder: Folder
    name: str

    @classmethod
    def of(cls, cache: Path, reference: Reference) -> Self:
        """Return the place in the cache folder, the same for all forms of the reference's CID."""
        content = repr((reference.cid.key, reference.path))
        name = hashlib.sha256(content.encode()).hexdigest()[:40]
        return cls(Folder(cache, PARTIAL), f"{name}.part")


class PendingFile(WorkFile):
    """A new file that `commit` gives the name `target`. Until then it is in the target's folder.

    A ``with`` block without a `commit` discards the file. A symbolic link at `target` is replaced,
    not followed.

    With a `place`, the file is there until `commit`, and an interrupted one can stay there under
    the name of the place. Only one download at a time uses this name. Another one at the same time
    writes to a file of its own, and saves nothing. The bytes of an earlier download were verified
    when they were written. The caller must verify them again. A symbolic link, a hard link or a
    file of another user under this name is not used and not changed.

    Attributes:
        target: The path that the file gets.
        final_mode: The mode that it gets then. `open` sets it: that of the file that it replaces,
            or the usual one.
        folder: The path of the folder that it is in until then.

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

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        mode: int = 0o666,
        place: SavedPlace | None = None,
        open_outer: OpenFolder | None = None,
    ) -> None:
        """Prepare the file, which `open` makes. The umask restricts its `mode`.

        `open_outer` opens the folder of the target, if its path is not to be trusted.
        """
        self.target: Path = Path(target)
        self.folder: Path = self.target.parent if place is None else place.folder.path
        self._open_outer: OpenFolder = open_outer or partial(_opened, self.target.parent)
        self._open_folder: OpenFolder = self._open_outer if place is None else place.folder.opened
        self._target_text = os.fspath(target)
        self._mode = mode
        self.final_mode: int | None = None
        self._place = place
        self._may_save = place is not None
        self._name: str | None = None  # the current name of the file in its folder, if it has one

    def open(self) -> None:
        """Open the file of an earlier download, or make one; raise `OSError` if neither works."""
        self.final_mode = check_target(self.target, self._target_text)
        with self._open_outer() as outer:
            _remove_unused(outer, _temporary_name(self.target.name))
        try:
            if self._place is not None:
                self._open_saved(self._place)
            if self._file is None:
                self._make()
        except ConfigError as error:  # a symbolic link, or a folder of another user
            raise OSError(errno.EPERM, str(error)) from None
        if self._place is None:  # the cache folder is private
            if self.final_mode is None:
                self.final_mode = stat.S_IMODE(os.fstat(self.fileno()).st_mode)
            self._set_mode(0o600)
        self.saved_size: int = self._opened().seek(0, os.SEEK_END)

    def _open_saved(self, place: SavedPlace) -> None:
        place.folder.make(0o700)
        with place.folder.opened() as folder:
            _remove_abandoned(folder, SAVED, SAVED_FORGOTTEN_AFTER)
            _remove_abandoned(folder, TEMPORARY, TEMPORARY_FORGOTTEN_AFTER)
            exists = status_in(folder, place.name) is not None
            self._file = open_locked(folder, place.name) if exists else None
        self._name = None if self._file is None else place.name
        self._may_save = self._file is not None or not exists

    def _make(self) -> None:
        """Make an empty file, without a name if the system can do that."""
        with self._open_folder() as folder:
            self._name, self._file = None, _open_unnamed(folder, self._mode)
            if self._file is None:
                _remove_abandoned(folder, TEMPORARY, TEMPORARY_FORGOTTEN_AFTER)
                self._name = _with_free_name(self.target.name, partial(self._create, folder))
        self._may_save = try_lock(self.fileno(), unsupported=False) and self._may_save

    def _create(self, folder: int, name: str) -> None:
        """Make and lock a named file; raise `FileExistsError` if another process uses the name."""
        file = self._file = os.fdopen(create(folder, name, self._mode), "w+b")
        locked = try_lock(file.fileno(), unsupported=True)
        named = status_in(folder, name)  # before the lock, another process may have removed it
        if not locked or named is None or named.st_ino != os.fstat(file.fileno()).st_ino:
            file.close()
            raise FileExistsError(errno.EEXIST, "another process uses this temporary file", name)

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._opened().fileno()

    def copy_from(self, file: BinaryIO) -> None:
        """Append all bytes of an open file, from its current position."""
        shutil.copyfileobj(file, self._opened(), COPY_SIZE)

    def truncate(self, size: int) -> None:
        """Remove all but the first `size` bytes. The next bytes are written after them.

        If so few remain that they are not worth keeping, the file loses the name of its place,
        because the next bytes may not be verified.
        """
        if self._is_saved and size < WORTH_KEEPING:
            data = self.read_all().read(size)
            self._remove()
            self._make()
            self._opened().write(data)
        else:
            super().truncate(size)
        self.saved_size = min(self.saved_size, size)

    @property
    def _is_saved(self) -> bool:
        return self._place is not None and self._name == self._place.name

    def save(self) -> None:
        """Give the file the name of its place, so that a later download finds it.

        All bytes in it must be verified, and all that are written later too. If another download
        has the name, the file goes on without it.
        """
        if self._place is None or not self._may_save or self._is_saved:
            return
        before, name = self._name, self._place.name
        try:
            self._opened().flush()
            with self._open_folder() as folder:
                if before is None:
                    self._link(folder, name)
                else:
                    os.link(
                        before, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False
                    )
                    os.unlink(before, dir_fd=folder)
            self._name = name
        except OSError:  # another download has the name, or the system cannot do it
            self._may_save = False

    def _link(self, folder: int, name: str) -> None:
        """Give the file, which has no name, the `name` in an open folder."""
        # With `dst_dir_fd`, `os.link` follows this symbolic link to the open file.
        os.link(f"{OPEN_FILES}/{self.fileno()}", name, dst_dir_fd=folder)

    def _set_mode(self, mode: int) -> None:
        with contextlib.suppress(PermissionError):  # a file system without modes
            os.fchmod(self.fileno(), mode)

    def commit(self, *, close: bool = True, durable: bool = True) -> None:
        """Make the bytes durable, unless the caller does; then give the file its name at once."""
        file = self._opened()
        file.flush()
        if durable:
            os.fsync(file.fileno())
        if self.final_mode is not None:
            self._set_mode(self.final_mode)
        try:
            self._move_to_target()
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            with PendingFile(self.target, mode=self._mode) as copy:
                copy.copy_from(self.read_all())
                copy.commit()
            self._remove_name()
        if close:
            file.close()
        if durable:
            sync_name(self.target)

    def _move_to_target(self) -> None:
        target = self.target.name
        with self._open_outer() as outer:
            if self._name is not None:
                with self._open_folder() as folder:
                    os.replace(self._name, target, src_dir_fd=folder, dst_dir_fd=outer)
                self._name = None
                return
            try:
                self._link(outer, target)
            except FileExistsError:
                name = _with_free_name(target, partial(self._link, outer))
                with on_error(partial(os.unlink, name, dir_fd=outer)):
                    os.replace(name, target, src_dir_fd=outer, dst_dir_fd=outer)

    def discard(self, *, verified: int = 0) -> None:
        """Save the first `verified` bytes in the place if they are worth it; remove the others.

        After `commit` this does nothing.
        """
        if self._file is None or self._file.closed:
            return
        is_worth = verified >= WORTH_KEEPING
        if self._may_save and is_worth:
            # A full disk, for example: the saved bytes are verified later anyway.
            with contextlib.suppress(OSError):
                self.truncate(verified)
                self.save()
        if self._is_saved and is_worth:
            with contextlib.suppress(OSError):
                self._file.close()
        else:
            self._remove()

    def _remove(self) -> None:
        """Close the file, and remove its name if it has one."""
        self._remove_name()
        with contextlib.suppress(OSError):  # a full disk, for example: its bytes are not needed
            self._opened().close()

    def _remove_name(self) -> None:
        name, self._name = self._name, None
        if name is not None:
            with contextlib.suppress(FileNotFoundError), self._open_folder() as folder:
                os.unlink(name, dir_fd=folder)

    def explained(self, error: OSError) -> OSError:
        """Return the error of a full cache folder with advice; any other error as it is."""
        if self._place is None or error.errno != errno.ENOSPC:
            return error
        return OSError(
            errno.ENOSPC,
            "No space left for the download in the cache folder; free some, or set cache_path to a "
            "folder on a larger disk",
            str(self.folder),
        )

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


def _opened(folder: Path) -> contextlib.AbstractContextManager[int]:
    return closed_at_end(os.open(folder, DIRECTORY))


def _open_unnamed(folder: int, mode: int) -> BinaryIO | None:
    """Open a new file without a name in an open folder; return None if the system cannot."""
    if NO_NAME is None or not Path(OPEN_FILES).is_dir():
        return None
    try:
        return os.fdopen(os.open(".", NO_NAME | os.O_RDWR, mode, dir_fd=folder), "w+b")
    except OSError:  # not on this file system; other errors come again when a named file is made
        return None


def _temporary_name(target: str) -> str:
    """Return the name of the file for `target` while it is written, where it needs one."""
    return f".{hashlib.sha256(os.fsencode(target)).hexdigest()[:16]}.holdfast-part"


def _with_free_name(target: str, make: Callable[[str], None]) -> str:
    """Make a file with the temporary name for `target`, or a random one if that is taken."""
    try:
        make(name := _temporary_name(target))
    except FileExistsError:
        make(name := _temporary_name(secrets.token_hex(8)))
    return name


def open_locked(folder: int, name: str) -> BinaryIO | None:
    """Open a file in an open folder and lock it against others; return None if that is impossible.

    Another process may use it, or it may be a file that Holdfast did not make.
    """
    try:
        file = os.fdopen(open_file(folder, name, os.O_RDWR, refuse=FileNotFoundError), "r+b")
    except OSError:
        return None
    with contextlib.suppress(OSError, ConfigError):
        status = os.fstat(file.fileno())
        check_owner(status, Path(name))
        locked = try_lock(file.fileno())
        # Another process may have finished in between, and moved the file away.
        named = status_in(folder, name)
        has_name = named is not None and (named.st_ino, named.st_nlink) == (status.st_ino, 1)
        if locked and has_name:
            return file
    file.close()
    return None


def _remove_abandoned(folder: int, names: re.Pattern[str], after: float) -> None:
    """Remove the files in an open folder that nobody has written to for so long, and nobody uses.

    The clock may have jumped, so only the lock shows whether a process uses a file.
    """
    oldest = time.time() - after
    for name in filter(names.fullmatch, os.listdir(folder)):
        with contextlib.suppress(OSError):  # another process may remove it at the same time
            status = status_in(folder, name)
            if status is not None and status.st_mtime < oldest:
                _remove_unused(folder, name)


def _remove_unused(folder: int, name: str) -> None:
    """Remove a file in an open folder, unless a process uses it or Holdfast did not make it."""
    file = open_locked(folder, name)
    if file is not None:
        with file, contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)


def check_target(target: Path, text: str) -> int | None:
    """Return the mode of the file that `target` replaces; None if there is none.

    Raise `OSError` if no file can be written there.
    """
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such folder to write to", str(target.parent))
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target.parent))
    try:
        status = target.stat()
    except OSError:  # it does not exist, or is a link to nothing
        status = None
    if text.endswith(("/", os.sep)) or (status is not None and stat.S_ISDIR(status.st_mode)):
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
    with _opened(folder) as descriptor:
        os.fsync(descriptor)


def sync_file_system(descriptor: int) -> bool:
    """Make everything on the file system of an open folder durable; return False if it cannot.

    For thousands of files, this takes much less time than to sync each of them.
    """
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - only here, and it takes time

    sync = getattr(ctypes.CDLL(None), "syncfs", None)
    return sync is not None and sync(descriptor) == 0
