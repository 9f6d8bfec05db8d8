"""Owners: which open repositories use a store now.

Each open repository has a file in the folder `owners` and holds a lock on it. Adds and temporary
files carry the name of their owner. The operating system releases the lock when the process ends,
however it ends. So an owner is dead if another process can take its lock. No clock is needed.
"""

import contextlib
import os
import re
import secrets
import stat
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.disk.folders import Folder
from holdfast.disk.locks import try_lock
from holdfast.errors import ConfigError
from holdfast.forks import ForkAware

NAME: Final = re.compile("[0-9a-f]{32}")
OWNERS: Final = "owners"
REPAIR: Final = "repair.lock"
ATTEMPTS: Final = 10
PAUSE: Final = 0.05


class Owner(ForkAware):
    """The file in `folder` on which this open repository holds a lock, until `close`.

    A forked child makes its own file when it first needs one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._file: _LockedFile | None = None
        self.watch_forks()

    def claim(self) -> None:
        """Make and lock the file, and remove the files of dead owners.

        If it cannot be made, for example on a full disk, the next add raises the error; other calls
        need no owner. Raise `ConfigError` while the store is being repaired.
        """
        with contextlib.suppress(OSError):
            _ = self.name
        # A repair takes its lock before it looks for owners, so one of the two sees the other.
        if _is_repairing(self.folder):
            self.close()
            raise ConfigError(f"the store in {self.folder.parent} is being repaired: wait for it")
        self.remove_dead()

    @property
    def name(self) -> str:
        """The name of the locked file, which is made when it is first needed."""
        with self._lock:
            if self._file is None:
                self._file = _make(self.folder)
            return self._file.path.name

    def is_alive(self, name: str) -> bool:
        """Return whether the owner `name` has the store open, in any process.

        On a file system without locks, every owner counts as alive.
        """
        path = self.folder / name
        try:
            if not (NAME.fullmatch(name) and stat.S_ISREG(path.lstat().st_mode)):
                return False
            with _opened(path) as descriptor:
                return not try_lock(descriptor)
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def others(self) -> list[str]:
        """Return the other owners that are alive."""
        mine = self.name
        return [name for name in _names(self.folder) if name != mine and self.is_alive(name)]

    def remove_dead(self) -> None:
        """Remove the files of owners that are dead."""
        for name in _names(self.folder):
            # Remove it under its lock: `_make` checks that its file exists after it has locked it.
            with contextlib.suppress(OSError), _opened(self.folder / name) as descriptor:
                if try_lock(descriptor):
                    _unlink(self.folder / name)

    def after_fork_in_child(self) -> None:
        """Leave the file to the parent process."""
        self._lock = threading.Lock()
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Remove the file. A second time does nothing."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


@contextlib.contextmanager
def alone(owner: Owner) -> Iterator[bool]:
    """Keep others from opening the store; yield False if another owner has it open already."""
    locked = False
    Folder(owner.folder.parent, OWNERS).make(0o700)
    descriptor = Folder(owner.folder).open(REPAIR, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # Repeat: whoever asks whether an owner is alive, or a repair runs, holds that lock for a
        # moment.
        for _ in range(ATTEMPTS):
            locked = locked or _lock_for_repair(descriptor, owner.folder)
            if locked and not owner.others():
                yield True
                return
            time.sleep(PAUSE)
        yield False
    finally:
        os.close(descriptor)


def _lock_for_repair(descriptor: int, folder: Path) -> bool:
    try:
        return try_lock(descriptor)
    except OSError as error:
        raise ConfigError(
            f"the file system of {folder} has no locks ({error.strerror}), so Holdfast cannot tell "
            "whether the store is in use: copy the store to another disk, and repair it there"
        ) from None


def _is_repairing(folder: Path) -> bool:
    """Return whether a repair is running."""
    try:
        with _opened(folder / REPAIR) as descriptor:
            # Shared: processes that look at the same time must not take each other for a repair.
            return not try_lock(descriptor, shared=True)
    except OSError:
        return False


class _LockedFile:
    """An open file with a lock. It is closed when this object goes away, or earlier."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.close = weakref.finalize(self, _release, path, descriptor, os.getpid())


def _release(path: Path, descriptor: int, process: int) -> None:
    if os.getpid() == process:  # a forked child only closes its descriptor
        _unlink(path)
    os.close(descriptor)


def _make(folder: Path) -> _LockedFile:
    Folder(folder.parent, OWNERS).make(0o700)
    while True:
        path = folder / secrets.token_hex(16)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            locked = try_lock(descriptor)
        except OSError:
            locked = True  # no locks on this file system: see `is_alive`
        # Between `open` and `try_lock` another process may have removed it as that of a dead owner.
        if locked and path.exists():
            return _LockedFile(path, descriptor)
        _unlink(path)
        os.close(descriptor)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir() if NAME.fullmatch(path.name)]
    except FileNotFoundError:
        return []


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        if stat.S_ISREG(path.lstat().st_mode):
            path.unlink()
