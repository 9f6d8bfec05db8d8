"""Files and folders below one open folder. No symbolic link is followed on the way to them.

Each folder is opened by its name, relative to the open folder above it (``O_NOFOLLOW``). Windows
cannot do that: there, each folder on the way is checked with ``lstat`` before it is used.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from holdfast.errors import ClientClosedError
from holdfast.files.atomic import sync_file_system
from holdfast.files.folder_target.names import EntryPath
from holdfast.files.open_folders import (
    BINARY,
    DIRECTORY,
    HAS_DIR_FD,
    LINK_ERRORS,
    NO_FOLLOW,
    NO_WAIT,
    OpenFolder,
    check_owner,
)


class TargetTree:
    """The folder at `path`, which must be a real folder of this user, and what is below it.

    Entries are named by their path: a tuple of names. Threads may share a tree. After `close`,
    every method raises `ClientClosedError`.

    Example:
        >>> import tempfile
        >>> tree = TargetTree(Path(tempfile.mkdtemp()))
        >>> tree.make(("photos",))
        >>> with tree.create(("photos", "a.jpg")) as file:
        ...     _ = file.write(b"x")
        >>> tree.names(("photos",))
        ['a.jpg']
        >>> tree.close()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._root: int | None = None
        self._closed = False
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise changed_by_others(path)
        check_owner(status, path)
        if HAS_DIR_FD:
            self._root = os.open(path, DIRECTORY | NO_FOLLOW)

    def make(self, path: EntryPath, mode: int = 0o777) -> None:
        """Make a folder. One that is there is fine."""
        with self._above(path) as place, suppress(FileExistsError):
            os.mkdir(place.prefix + path[-1], mode, dir_fd=place.dir_fd)
        with self.opened(path):
            pass

    def create(self, path: EntryPath) -> BinaryIO:
        """Make a file, which must not exist, and open it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW | BINARY
        with self._above(path) as place:
            name = place.prefix + path[-1]
            return os.fdopen(os.open(name, flags, 0o666, dir_fd=place.dir_fd), "w+b")

    def open(self, path: EntryPath, flags: int = os.O_RDONLY) -> BinaryIO | None:
        """Open a regular file that has no other name; return None if there is nothing.

        Raise `OSError` if it is anything else, a link for example.
        """
        flags |= NO_FOLLOW | NO_WAIT | BINARY
        with self._above(path) as place:
            name = place.prefix + path[-1]
            try:
                if not NO_FOLLOW and stat.S_ISLNK(os.lstat(name).st_mode):
                    raise changed_by_others(self.path.joinpath(*path))
                descriptor = os.open(name, flags, 0o600, dir_fd=place.dir_fd)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno in {*LINK_ERRORS, errno.EISDIR, errno.ENXIO}:
                    raise changed_by_others(self.path.joinpath(*path)) from None
                raise
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            os.close(descriptor)
            raise changed_by_others(self.path.joinpath(*path))
        return os.fdopen(descriptor, "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "r+b")

    def status(self, path: EntryPath) -> os.stat_result | None:
        """Return the status of an entry, of a link itself; None if it does not exist."""
        try:
            with self._above(path) as place:
                name = place.prefix + path[-1]
                return os.stat(name, dir_fd=place.dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def move(self, path: EntryPath, target: EntryPath) -> None:
        """Give a file another path. A file that has it is replaced."""
        with self._above(path) as source, self._above(target) as place:
            os.replace(
                source.prefix + path[-1],
                place.prefix + target[-1],
                src_dir_fd=source.dir_fd,
                dst_dir_fd=place.dir_fd,
            )

    def remove(self, path: EntryPath) -> None:
        """Remove a file or a link; do nothing if there is none."""
        with self._above(path) as place, suppress(FileNotFoundError):
            os.unlink(place.prefix + path[-1], dir_fd=place.dir_fd)

    def link(self, path: EntryPath, text: str) -> None:
        """Make a symbolic link; one with the same text is fine."""
        with self._above(path) as place:
            name = place.prefix + path[-1]
            try:
                os.symlink(text, name, dir_fd=place.dir_fd)
            except FileExistsError:
                if os.readlink(name, dir_fd=place.dir_fd) != text:
                    raise changed_by_others(self.path.joinpath(*path)) from None

    def names(self, path: EntryPath) -> list[str]:
        """Return the names in a folder."""
        with self.opened(path) as place:
            return os.listdir(place.prefix if place.dir_fd is None else place.dir_fd)  # noqa: PTH208

    def size(self, path: EntryPath) -> int:
        """Return how many bytes the files below a folder have."""
        size = 0
        pending = [path]
        while pending:
            folder = pending.pop()
            with self.opened(folder) as place, _scan(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append((*folder, entry.name))
                    elif entry.is_file(follow_symlinks=False):
                        size += entry.stat(follow_symlinks=False).st_size
        return size

    def sync(self, path: EntryPath) -> int:
        """Make everything below a folder durable; return how many entries are below it."""
        with self.opened(path) as place:
            is_done = sync_file_system(place.dir_fd)
        count = 0
        pending = [path]
        while pending:
            folder = pending.pop()
            with self.opened(folder) as place:
                count += _visit(place, folder, pending, sync=not is_done)
                if place.dir_fd is not None and not is_done:
                    os.fsync(place.dir_fd)
        return count

    def remove_all(self, path: EntryPath) -> None:
        """Remove a folder and everything below it; do nothing if there is none."""
        status = self.status(path)
        if status is None:
            return
        if not stat.S_ISDIR(status.st_mode):
            self.remove(path)
            return
        for name in self.names(path):
            self.remove_all((*path, name))
        with self._above(path) as place:
            os.rmdir(place.prefix + path[-1], dir_fd=place.dir_fd)

    @contextmanager
    def opened(self, path: EntryPath) -> Iterator[OpenFolder]:
        """Open a folder while the block runs, after a check of each folder on the way to it."""
        if self._root is None:
            yield self._check_by_path(path)
            return
        with self._lock:
            if self._closed:
                raise ClientClosedError
            descriptor = os.dup(self._root)
        try:
            for depth, name in enumerate(path):
                try:
                    inner = os.open(name, DIRECTORY | NO_FOLLOW, dir_fd=descriptor)
                except OSError as error:
                    if error.errno not in LINK_ERRORS:
                        raise
                    raise changed_by_others(self.path.joinpath(*path[: depth + 1])) from None
                os.close(descriptor)
                descriptor = inner
            yield OpenFolder("", descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the folder."""
        with self._lock:
            self._closed = True
            if self._root is not None:
                os.close(self._root)

    @contextmanager
    def _above(self, path: EntryPath) -> Iterator[OpenFolder]:
        """Open the folder in which an entry is."""
        with self.opened(path[:-1]) as place:
            yield place

    def _check_by_path(self, path: EntryPath) -> OpenFolder:
        """Check each folder on the way, on a system that cannot open folders."""
        if self._closed:
            raise ClientClosedError
        place = self.path
        for name in path:
            place /= name
            status = place.lstat()
            if not stat.S_ISDIR(status.st_mode) or bool(getattr(status, "st_reparse_tag", 0)):
                raise changed_by_others(place)
        return OpenFolder(f"{place}{os.sep}", None)


def _visit(place: OpenFolder, folder: EntryPath, pending: list[EntryPath], *, sync: bool) -> int:
    """Count the entries of an open folder, and add its folders to `pending`.

    With `sync`, make its files durable.
    """
    count = 0
    with _scan(place) as entries:
        for entry in entries:
            count += 1
            if entry.is_dir(follow_symlinks=False):
                pending.append((*folder, entry.name))
            elif sync and entry.is_file(follow_symlinks=False) and os.name != "nt":
                flags = os.O_RDONLY | NO_FOLLOW | NO_WAIT
                descriptor = os.open(place.prefix + entry.name, flags, dir_fd=place.dir_fd)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
    return count


def _scan(place: OpenFolder) -> "os._ScandirIterator[str]":
    return os.scandir(place.prefix if place.dir_fd is None else place.dir_fd)


def changed_by_others(path: Path) -> OSError:
    """Return the error for something in a work folder that Holdfast did not make."""
    return OSError(
        errno.EEXIST,
        "this was not made by the download, which writes through no link and over no file of "
        "others: remove it",
        str(path),
    )
