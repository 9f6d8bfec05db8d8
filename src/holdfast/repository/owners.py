"""Owners: which open repositories use a store now.

Each open repository has a file in the folder `owners` and holds a lock on it. Adds and temporary
files carry the name of their owner. The operating system releases the lock when the process ends,
however it ends. So an owner is dead if another process can take its lock. No clock is needed.
"""

import os
import re
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.disk.closing import closed_at_end
from holdfast.disk.folders import Folder
from holdfast.disk.locks import try_lock
from holdfast.errors import ConfigError
from holdfast.forks import ForkAware

NAME: Final = re.compile("[0-9a-f]{32}")
OWNERS: Final = "owners"
REPAIR: Final = "repair.lock"
NODE: Final = "node.url"
LONGEST_URL: Final = 1000
ATTEMPTS: Final = 10
PAUSE: Final = 0.05


class Owner(ForkAware):
    """The file below `root` on which this open repository holds a lock, until `close`.

    A forked child makes its own file when it first needs one.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = Folder(root, OWNERS)
        self._lock = threading.Lock()
        self._name: str | None = None
        self._release: Callable[[], object] = lambda: None
        self.watch_forks()

    def claim(self) -> None:
        """Make and lock the file, and remove the files of dead owners.

        If it cannot be made, for example on a full disk, the next add raises the error; other calls
        need no owner. Raise `ConfigError` while the store is being repaired.
        """
        with suppress(OSError):
            _ = self.name
        # A repair takes its lock before it looks for owners, so one of the two sees the other.
        if self._is_repairing():
            self.close()
            raise ConfigError(f"the store in {self._root} is being repaired: wait for it")
        self.remove_dead()

    @property
    def name(self) -> str:
        """The name of the locked file, which is made when it is first needed."""
        with self._lock:
            if self._name is None:
                self._name, descriptor = self._make()
                owned = self._folder, self._name, descriptor, os.getpid()
                self._release = weakref.finalize(self, _release, *owned)
            return self._name

    def _make(self) -> tuple[str, int]:
        self._folder.make(0o700)
        while True:
            name = secrets.token_hex(16)
            descriptor = self._folder.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            # Where the file system has no locks, see `is_alive`.
            locked = try_lock(descriptor, unsupported=True)
            # Before `try_lock` another process may have removed it as that of a dead owner.
            if locked and self._folder.is_file(name):
                return name, descriptor
            self._folder.remove(name)
            os.close(descriptor)

    def is_alive(self, name: str) -> bool:
        """Return whether the owner `name` has the store open, in any process.

        On a file system without locks, every owner counts as alive.
        """
        try:
            if not (NAME.fullmatch(name) and self._folder.is_file(name)):
                return False
            with self._opened(name) as descriptor:
                return not try_lock(descriptor)
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def remove_dead(self) -> None:
        """Remove the files of owners that are dead."""
        for name in self._names():
            # Remove it under its lock: `_make` checks that its file exists after it has locked it.
            with suppress(OSError), self._opened(name) as descriptor:
                if try_lock(descriptor):
                    self._folder.remove(name)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Keep others from opening the store; yield False if another owner has it open already."""
        locked = False
        self._folder.make(0o700)
        with self._opened(REPAIR, os.O_RDWR | os.O_CREAT) as descriptor:
            # Repeat: whoever asks whether an owner is alive, or a repair runs, holds that lock for
            # a moment.
            for _ in range(ATTEMPTS):
                locked = locked or self._lock_for_repair(descriptor)
                if locked and not self._others():
                    yield True
                    return
                time.sleep(PAUSE)
            yield False

    def _lock_for_repair(self, descriptor: int) -> bool:
        try:
            return try_lock(descriptor)
        except OSError as error:
            raise ConfigError(
                f"the file system of {self._folder.path} has no locks ({error.strerror}), so "
                "Holdfast cannot tell whether the store is in use: copy the store to another disk, "
                "and repair it there"
            ) from None

    def _is_repairing(self) -> bool:
        try:
            with self._opened(REPAIR) as descriptor:
                # Shared: processes that look at the same time must not take each other for a
                # repair.
                return not try_lock(descriptor, shared=True)
        except (OSError, ConfigError):
            return False

    def _others(self) -> list[str]:
        """Return the other owners that are alive."""
        return [name for name in self._names() if name != self.name and self.is_alive(name)]

    def _names(self) -> list[str]:
        files = self._folder.entries().files if self._folder.exists() else []
        return [name for name in files if NAME.fullmatch(name)]

    def _opened(self, name: str, flags: int = os.O_RDWR) -> AbstractContextManager[int]:
        return closed_at_end(self._folder.open(name, flags, 0o600))

    def after_fork_in_child(self) -> None:
        """Leave the file to the parent process."""
        self._lock = threading.Lock()
        self.close()

    def close(self) -> None:
        """Remove the file. A second call has no effect."""
        with self._lock:
            self._release()
            self._name = None


def _release(folder: Folder, name: str, descriptor: int, process: int) -> None:
    if os.getpid() == process:  # a forked child only closes its descriptor
        with suppress(OSError, ConfigError):
            folder.remove(name)
    os.close(descriptor)


# The node that serves a store. Its address is in a file on which it holds a lock.


@contextmanager
def announced(root: Path, url: str) -> Iterator[None]:
    """Let `node_url` find the node at `url` while the block runs, if the store can be written.

    If another node is found already, it stays.
    """
    with ExitStack() as opened:
        with suppress(OSError, ConfigError):
            file = Folder(root, OWNERS).open(NODE, os.O_RDWR | os.O_CREAT, 0o600)
            opened.enter_context(closed_at_end(file))
            for _ in range(ATTEMPTS):  # `node_url` holds the lock for a moment
                if try_lock(file):
                    os.ftruncate(file, 0)
                    os.write(file, url.encode())
                    break
                time.sleep(PAUSE)
        yield


def node_url(root: Path) -> str | None:
    """Return the address of the node that serves the store in `root`; None if none does."""
    with suppress(OSError, ConfigError), closed_at_end(Folder(root, OWNERS).open(NODE)) as file:
        if not try_lock(file, shared=True):
            return os.read(file, LONGEST_URL).decode("ascii", "replace")
    return None
