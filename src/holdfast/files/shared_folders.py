"""A folder that several threads have open at the same time."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from holdfast.files.folders import Folder
from holdfast.files.open_folders import OpenFolder
from holdfast.forks import ForkAware


class SharedFolder(ForkAware):
    """A folder that is opened for its first user and closed after its last one.

    Every system call lets other threads run, and then waits for them. To open a folder takes about
    ten of them.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._users = 0
        self._place: OpenFolder
        self._open = ExitStack()
        self.watch_forks()

    @contextmanager
    def opened(self) -> Iterator[OpenFolder]:
        """Open the folder, unless it is open already."""
        with self._lock:
            if not self._users:
                self._place = self._open.enter_context(self._folder.opened())
            self._users += 1
        try:
            yield self._place
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._open.close()

    def after_fork_in_child(self) -> None:
        """Use another lock: a thread that the child does not have may hold this one."""
        self._lock = threading.Lock()
