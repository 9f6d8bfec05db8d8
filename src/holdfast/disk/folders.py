"""Folders that are walked and written to without following a symbolic link in them.

Somebody else may have made what is in a folder: it may come from a cloned repository or an archive,
and may change while it is used. So each folder below the root is opened by its name, relative to
the open folder above it (``O_NOFOLLOW``). Files are opened, renamed and removed relative to the
open folder, so a link that somebody makes in between has no effect.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from holdfast.disk.closing import closed_at_end, on_error
from holdfast.errors import ConfigError

# A system without these flags can import this file, and use clients that need no such folder.
NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)

# Without it, opening a pipe waits for somebody who writes into it.
NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
LINK_ERRORS: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})


Refuse: TypeAlias = Callable[[Path], Exception]
"""Returns the error for a path that is a symbolic link or not a folder."""
Check: TypeAlias = Callable[[os.stat_result, Path], None]
"""Raises an error if a folder with this status must not be used."""


def open_below(
    descriptor: int,
    path: Path,
    names: Iterable[str],
    refuse: Refuse,
    check: Check = lambda *_: None,
) -> int:
    """Open the folder `names` below the open one at `path`, which is closed.

    `refuse` and `check` are called for the folders on the way.
    """
    with on_error(lambda: os.close(descriptor)):
        for name in names:
            path /= name
            outer, descriptor = descriptor, _open_folder(name, descriptor, path, refuse, check)
            os.close(outer)
    return descriptor


def _open_folder(name: str, outer: int, path: Path, refuse: Refuse, check: Check) -> int:
    try:
        descriptor = os.open(name, DIRECTORY | NO_FOLLOW, dir_fd=outer)
    except OSError as error:
        if error.errno in LINK_ERRORS:
            raise refuse(path) from None
        error.filename = str(path)
        raise
    return _checked(descriptor, path, check)


def _checked(descriptor: int, path: Path, check: Check) -> int:
    """Return the descriptor; close it if `check` raises an error."""
    with on_error(lambda: os.close(descriptor)):
        check(os.fstat(descriptor), path)
    return descriptor


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


def no_folder(path: Path) -> ConfigError:
    """Return the error for a path that should be a folder of Holdfast and is something else."""
    return ConfigError(
        f"{path} is a symbolic link or not a folder, and Holdfast does not follow links inside its "
        "folders: remove it, or use another folder"
    )


def create(folder: int, name: str, mode: int = 0o666) -> int:
    """Make the file `name`, which must not exist, in an open folder; return its descriptor."""
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder)


def open_file(
    folder: int,
    name: str,
    flags: int = os.O_RDONLY,
    mode: int = 0o666,
    *,
    refuse: Callable[[], Exception],
) -> int:
    """Open the regular file `name` in an open folder; raise `refuse()` if it is anything else."""
    try:
        descriptor = os.open(name, flags | NO_FOLLOW | NO_WAIT, mode, dir_fd=folder)
    except OSError as error:
        if error.errno in {*LINK_ERRORS, errno.EISDIR, errno.ENXIO}:
            raise refuse() from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise refuse()
    return descriptor


def status_in(folder: int, name: str) -> os.stat_result | None:
    """Return the status of a name in an open folder, of a link itself; None if it is missing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


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
            with suppress(FileExistsError), above.opened() as folder:
                os.mkdir(name, mode, dir_fd=folder)
        self.check()

    def check(self) -> None:
        """Raise an error if the folder cannot be used."""
        with self.opened():
            pass

    def exists(self) -> bool:
        """Return whether the folder exists."""
        with suppress(FileNotFoundError), self.opened():
            return True
        return False

    def create(self, name: str, mode: int = 0o666) -> BinaryIO:
        """Make the file `name`, which must not exist, and open it for writing."""
        with self.opened() as folder:
            return os.fdopen(create(folder, name, mode), "w+b")

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Open the regular file `name` and return its descriptor.

        Raise `ConfigError` if `name` is a symbolic link, a pipe or anything else.
        """
        with self.opened() as folder:
            return self._open_file(folder, name, flags, mode)

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the first `limit` bytes of the file `name`; None if it does not exist."""
        with suppress(FileNotFoundError), self.opened() as folder:
            return self._read(folder, name, limit)
        return None

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of `name`, of a link itself; None if it does not exist."""
        with suppress(FileNotFoundError), self.opened() as folder:
            return status_in(folder, name)
        return None

    def is_file(self, name: str) -> bool:
        """Return whether `name` is a regular file."""
        status = self.status(name)
        return status is not None and stat.S_ISREG(status.st_mode)

    def remove(self, name: str) -> bool:
        """Remove `name` if it is a regular file; return whether it was removed."""
        if self.is_file(name):
            with suppress(FileNotFoundError), self.opened() as folder:
                os.unlink(name, dir_fd=folder)
                return True
        return False

    def take(
        self, origin: int, names: Iterable[tuple[str, str]], limit: int, above: int | None = None
    ) -> None:
        """Move files, of at most `limit` bytes, from the open folder `origin` into this one.

        `names` are pairs of the old and the new name. If the new name has the same bytes already,
        the old file is removed instead. `sync` makes the new names durable. `above` is the open
        folder above this one.
        """
        with self.opened(above) as folder:
            for old, new in names:
                content = self._read(folder, new, limit)
                if content is not None and content == self._read(origin, old, limit):
                    os.unlink(old, dir_fd=origin)
                else:
                    os.replace(old, new, src_dir_fd=origin, dst_dir_fd=folder)

    def entries(self) -> Entries:
        """Return all names in the folder."""
        names = Entries([], [], [])
        with self.opened() as folder, os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    names.files.append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    names.folders.append(entry.name)
                else:
                    names.others.append(entry.name)
        return names

    def sync(self, above: int | None = None) -> None:
        """Make durable which files are in the folder; `above` is the open folder above it."""
        with self.opened(above) as folder:
            os.fsync(folder)

    def opened(self, above: int | None = None) -> AbstractContextManager[int]:
        """Open the folder while the block runs, after a check of each folder on the way to it.

        `above` is the folder above it, if the caller has that open: then nothing else is checked.
        """
        if above is None:
            root = _checked(os.open(self._root, DIRECTORY), self._root, check_owner)
            descriptor = open_below(root, self._root, self._names, no_folder, check_owner)
        else:
            name = self._names[-1]
            descriptor = _open_folder(name, above, self.path, no_folder, check_owner)
        return closed_at_end(descriptor)

    def _open_file(self, folder: int, name: str, flags: int, mode: int = 0o666) -> int:
        return open_file(
            folder, name, flags, mode, refuse=lambda: no_regular_file(self.path / name)
        )

    def _read(self, folder: int, name: str, limit: int) -> bytes | None:
        """Return the first bytes of a file in an open folder; None if it does not exist."""
        try:
            descriptor = self._open_file(folder, name, os.O_RDONLY)
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
