"""Folders in which Holdfast makes and removes files. It follows no symbolic link inside them.

Somebody else may have made such a folder: it may come from a cloned repository or an archive. So
each folder below the root is opened by its name, relative to the open folder above it, and a
symbolic link is refused (``O_NOFOLLOW``). Files are opened, renamed and removed relative to the
open folder, so a link that somebody makes in between has no effect. Windows cannot do that: there,
each folder on the way is checked with ``lstat`` before it is used.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from holdfast.errors import ConfigError

HAS_DIR_FD: Final = {os.open, os.stat, os.unlink, os.mkdir, os.rename} <= os.supports_dir_fd
NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)

# Without it, opening a pipe waits for somebody who writes into it.
NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
LINK_ERRORS: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})


class OpenFolder(NamedTuple):
    """What the functions of `os` need to use a name in an open folder."""

    prefix: str
    dir_fd: int | None


def check_owner(status: os.stat_result, path: Path) -> None:
    """Raise `ConfigError` if `path` belongs to another user.

    It may belong to root if only root can write to it, for example a read-only store.
    """
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if status.st_uid == os.geteuid() or (status.st_uid == 0 and not others_write):
        return
    raise ConfigError(
        f"{path} belongs to another user (id {status.st_uid}), who could change its content at "
        "any time: use a folder of your own, or make this one yours with chown"
    )


def no_regular_file(path: Path) -> ConfigError:
    """Return the error for a path that should be a file of Holdfast and is something else."""
    return ConfigError(
        f"{path} is not a regular file, and Holdfast does not follow symbolic links inside its "
        "folders: remove it, or use another folder"
    )


def create(place: OpenFolder, name: str, mode: int = 0o666) -> int:
    """Make the file `name`, which must not exist, in an open folder; return its descriptor."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    return os.open(place.prefix + name, flags, mode, dir_fd=place.dir_fd)


def open_folder(path: Path, outer: int) -> int:
    """Open the folder at `path` in the open folder above it, unless it is a symbolic link."""
    try:
        descriptor = os.open(path.name, DIRECTORY | NO_FOLLOW, dir_fd=outer)
    except OSError as error:
        raise no_folder(path, error) from None
    try:
        check_owner(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_file(place: OpenFolder, name: str, path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a regular file in the open folder at `path`; see `Folder.open`."""
    if not NO_FOLLOW:
        _refuse_other_kinds(place, name, path)
    flags |= NO_FOLLOW | NO_WAIT
    try:
        descriptor = os.open(place.prefix + name, flags, mode, dir_fd=place.dir_fd)
    except OSError as error:
        if error.errno in {*LINK_ERRORS, errno.EISDIR, errno.ENXIO}:
            raise no_regular_file(path / name) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise no_regular_file(path / name)
    return descriptor


def read_file(place: OpenFolder, name: str, path: Path, limit: int) -> bytes | None:
    """Return the first bytes of a file in the open folder at `path`; None if it does not exist."""
    try:
        descriptor = open_file(place, name, path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        size = min(os.fstat(descriptor).st_size, limit)
        data = os.read(descriptor, size)
        while len(data) < size and (more := os.read(descriptor, size - len(data))):
            data += more
    finally:
        os.close(descriptor)
    return data


def _refuse_other_kinds(place: OpenFolder, name: str, path: Path) -> None:
    """Raise `ConfigError` if `name` exists and is not a regular file."""
    try:
        status = os.stat(place.prefix + name, dir_fd=place.dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode):
        raise no_regular_file(path / name)


def no_folder(path: Path, error: OSError) -> Exception:
    """Return the error for a path that should be a folder and cannot be opened as one."""
    if error.errno not in LINK_ERRORS:
        return error
    return ConfigError(
        f"{path} is a symbolic link or not a folder, and Holdfast does not follow links inside its "
        "folders: remove it, or use another folder"
    )


class Entries(NamedTuple):
    """The names in a folder, by their kind. Symbolic links are among `others`."""

    files: list[str]
    folders: list[str]
    others: list[str]


class Folder:
    """The folder `names` below `root`. Only the root itself may be a symbolic link.

    Every method raises `ConfigError` if a folder on the way is a symbolic link, is not a folder or
    belongs to another user, and `FileNotFoundError` if it is missing.

    Example:
        >>> import tempfile
        >>> folder = Folder(Path(tempfile.mkdtemp()), "blocks")
        >>> folder.make()
        >>> with folder.create("a") as file:
        ...     _ = file.write(b"hello")
        >>> folder.read("a", 100), folder.read("b", 100)
        (b'hello', None)
    """

    def __init__(self, root: Path, *names: str) -> None:
        self._root = root
        self._names = names
        self.path: Path = root.joinpath(*names)

    def below(self, name: str) -> "Folder":
        """Return the folder `name` in this one."""
        return Folder(self._root, *self._names, name)

    def make(self, mode: int = 0o777) -> None:
        """Make the folder, and the folders above it that are missing."""
        self._root.mkdir(mode, parents=True, exist_ok=True)
        for depth, name in enumerate(self._names):
            above = Folder(self._root, *self._names[:depth])
            with suppress(FileExistsError), above.opened() as place:
                os.mkdir(place.prefix + name, mode, dir_fd=place.dir_fd)
        self.check()

    def check(self) -> None:
        """Raise an error if the folder cannot be used."""
        with self.opened():
            pass

    def exists(self) -> bool:
        """Return whether the folder exists."""
        try:
            self.check()
        except FileNotFoundError:
            return False
        return True

    def create(self, name: str, mode: int = 0o666) -> BinaryIO:
        """Make the file `name`, which must not exist, and open it for writing."""
        with self.opened() as place:
            return os.fdopen(create(place, name, mode), "w+b")

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Open the regular file `name` and return its descriptor.

        Raise `ConfigError` if `name` is a symbolic link, a pipe or anything else.
        """
        with self.opened() as place:
            return open_file(place, name, self.path, flags, mode)

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the first `limit` bytes of the file `name`; None if it does not exist."""
        try:
            with self.opened() as place:
                return read_file(place, name, self.path, limit)
        except FileNotFoundError:
            return None

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of `name`, of a link itself; None if it does not exist."""
        try:
            with self.opened() as place:
                return os.stat(place.prefix + name, dir_fd=place.dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def is_file(self, name: str) -> bool:
        """Return whether `name` is a regular file."""
        status = self.status(name)
        return status is not None and stat.S_ISREG(status.st_mode)

    def remove(self, name: str) -> bool:
        """Remove `name` if it is a regular file; return whether it was removed."""
        if not self.is_file(name):
            return False
        try:
            with self.opened() as place:
                os.unlink(place.prefix + name, dir_fd=place.dir_fd)
        except FileNotFoundError:
            return False
        return True

    def take(
        self,
        origin: OpenFolder,
        names: Iterable[tuple[str, str]],
        limit: int,
        above: OpenFolder | None = None,
    ) -> None:
        """Move files, of at most `limit` bytes, from the open folder `origin` into this one.

        `names` are pairs of the old and the new name. If the new name has the same bytes already,
        the old file is removed instead. `sync` makes the new names durable. `above` is the open
        folder above this one.
        """
        with self.opened(above) as place:
            for old, new in names:
                found = read_file(place, new, self.path, limit)
                if found is not None and found == read_file(origin, old, self.path, limit):
                    os.unlink(origin.prefix + old, dir_fd=origin.dir_fd)
                    continue
                os.replace(
                    origin.prefix + old,
                    place.prefix + new,
                    src_dir_fd=origin.dir_fd,
                    dst_dir_fd=place.dir_fd,
                )

    def move_out(self, name: str, target: Path) -> None:
        """Move the file `name` to the path `target`, which the user has chosen."""
        with self.opened() as source:
            os.replace(source.prefix + name, target, src_dir_fd=source.dir_fd)

    def entries(self) -> Entries:
        """Return all names in the folder."""
        found = Entries([], [], [])
        with self.opened() as place:
            where = place.prefix if place.dir_fd is None else place.dir_fd
            with os.scandir(where) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        found.files.append(entry.name)
                    elif entry.is_dir(follow_symlinks=False):
                        found.folders.append(entry.name)
                    else:
                        found.others.append(entry.name)
        return found

    def sync(self, above: OpenFolder | None = None) -> None:
        """Make durable which files are in the folder; `above` is the open folder above it."""
        with self.opened(above) as place:
            if place.dir_fd is not None:
                os.fsync(place.dir_fd)

    @contextmanager
    def opened(self, above: OpenFolder | None = None) -> Iterator[OpenFolder]:
        """Open the folder while the block runs, after a check of each folder on the way to it.

        `above` is the folder above it, if the caller has that open: then nothing else is checked.
        """
        if not HAS_DIR_FD:
            yield self._check_by_path()
            return
        outer = None if above is None else above.dir_fd
        descriptor = self._open() if outer is None else open_folder(self.path, outer)
        try:
            yield OpenFolder("", descriptor)
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        """Open each folder on the way; return the descriptor of the last one."""
        path = self._root
        descriptor = os.open(path, DIRECTORY)
        try:
            check_owner(os.fstat(descriptor), path)
            for name in self._names:
                path /= name
                outer, descriptor = descriptor, open_folder(path, descriptor)
                os.close(outer)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check_by_path(self) -> OpenFolder:
        """Check each folder on the way, on a system that cannot open folders."""
        path = self._root
        check_owner(path.stat(), path)
        for name in self._names:
            path /= name
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode) or _is_junction(status):
                raise no_folder(path, NotADirectoryError(errno.ENOTDIR, ""))
            check_owner(status, path)
        return OpenFolder(f"{path}{os.sep}", None)


def _is_junction(status: os.stat_result) -> bool:
    """Return whether it is a junction or another link of Windows that `S_ISDIR` accepts."""
    return bool(getattr(status, "st_reparse_tag", 0))
