"""Files and folders below one open folder. No symbolic link is followed on the way to them.

Each folder is opened by its name, relative to the open folder above it (``O_NOFOLLOW``). Windows
cannot do that: there, each folder on the way is checked with ``lstat`` before it is used.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from holdfast.disk.atomic import sync_file_system
from holdfast.disk.folders import (
    DIRECTORY,
    HAS_DIR_FD,
    LINK_ERRORS,
    NO_FOLLOW,
    NO_WAIT,
    OpenFolder,
    check_owner,
    create,
    open_file,
)
from holdfast.errors import ClientClosedError, ConfigError
from holdfast.sinks.folder_target.names import EntryPath


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
        with self._above(path) as place:
            return os.fdopen(create(place, path[-1]), "w+b")

    def open(self, path: EntryPath, flags: int = os.O_RDONLY) -> BinaryIO | None:
        """Open a regular file that has no other name; return None if there is nothing.

        Raise `OSError` if it is anything else, a link for example.
        """
        with self._above(path) as place:
            try:
                descriptor = open_file(place, path[-1], self.path, flags, 0o600)
            except FileNotFoundError:
                return None
            except ConfigError:
                raise changed_by_others(self.path.joinpath(*path)) from None
        if os.fstat(descriptor).st_nlink != 1:
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
        entries = (entry for _, entry in self._below(path) if entry.is_file(follow_symlinks=False))
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)

    def sync(self, path: EntryPath) -> int:
        """Make everything below a folder durable; return how many entries are below it."""
        with self.opened(path) as place:
            is_done = sync_file_system(place.dir_fd)
            if place.dir_fd is not None and not is_done:
                os.fsync(place.dir_fd)
        count = 0
        for place, entry in self._below(path):
            count += 1
            is_ours = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
            if is_ours and not is_done:
                _sync_entry(place, entry.name)
        return count

    def _below(self, path: EntryPath) -> "Iterator[tuple[OpenFolder, os.DirEntry[str]]]":
        """Yield all entries below a folder, each with the open folder that it is in."""
        pending = [path]
        while pending:
            folder = pending.pop()
            with self.opened(folder) as place:
                where = place.prefix if place.dir_fd is None else place.dir_fd
                with os.scandir(where) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            pending.append((*folder, entry.name))
                        yield place, entry

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

    def _above(self, path: EntryPath) -> AbstractContextManager[OpenFolder]:
        """Open the folder in which an entry is."""
        return self.opened(path[:-1])

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


def _sync_entry(place: OpenFolder, name: str) -> None:
    """Make a file, or the names in a folder, durable."""
    flags = os.O_RDONLY | NO_FOLLOW | NO_WAIT
    descriptor = os.open(place.prefix + name, flags, dir_fd=place.dir_fd)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def changed_by_others(path: Path) -> OSError:
    """Return the error for something in a work folder that Holdfast did not make."""
    return OSError(
        errno.EEXIST,
        "this was not made by the download, which writes through no link and over no file of "
        "others: remove it",
        str(path),
    )
