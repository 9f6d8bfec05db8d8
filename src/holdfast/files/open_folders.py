"""Files and folders in a folder that is open. No symbolic link is followed: see `folders`."""

import errno
import os
import stat
import sys
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.errors import ConfigError

HAS_DIR_FD: Final = {os.open, os.stat, os.unlink, os.mkdir, os.rename} <= os.supports_dir_fd
NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
BINARY: Final = getattr(os, "O_BINARY", 0)
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
    if sys.platform == "win32":
        return
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
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY
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
    flags |= NO_FOLLOW | NO_WAIT | BINARY
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
