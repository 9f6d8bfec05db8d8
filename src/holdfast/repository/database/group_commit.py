"""Group commit: changes of several threads share one transaction, and so its synchronisations.

While one thread commits, the changes of others collect. The first of those that wait commits all of
them next::

    thread A   commits a | done
    thread B       waits | commits b, c, d | done
    thread C       waits | waits           | done
    thread D       waits | waits           | done

A thread that is alone waits for nobody. `GroupCommit.run` returns when its changes are durable or
have failed.
"""

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from holdfast.forks import ForkAware

GROUP_CHANGES: Final = 500
GROUP_BYTES: Final = 1 << 20  # of blocks that become rows; one change may have more

Result = TypeVar("Result")


class Change(Generic[Result]):
    """A change of the database, and its outcome once it was committed or has failed.

    `size` is how many bytes of blocks go into the database.
    """

    def __init__(self, apply: Callable[[sqlite3.Connection], Result], size: int = 0) -> None:
        self.apply = apply
        self.size = size
        self.error: Exception | None = None
        self._value: list[Result] = []

    def run(self, connection: sqlite3.Connection) -> None:
        """Apply the change in the transaction that the caller has begun."""
        self._value = [self.apply(connection)]

    def result(self) -> Result:
        """Return what `apply` returned, or raise the error of the change."""
        if self.error is not None:
            raise self.error
        return self._value[0]


class _Caller:
    """A thread that waits in `GroupCommit.run`."""

    __slots__ = ("changes", "is_done", "leads", "wake")

    def __init__(self, changes: Sequence[Change[object]]) -> None:
        self.changes = changes
        self.is_done = False
        self.leads = False  # whether it must commit the next group
        self.wake: threading.Lock | None = None  # released when one of the two is set


class GroupCommit(ForkAware):
    """Commits changes in groups with `commit`, which gets at least one change.

    `commit` sets the error of each change that failed. If it raises an error, that is the error of
    all of them, and none was committed.
    """

    def __init__(self, commit: Callable[[Sequence[Change[object]]], None]) -> None:
        self._commit = commit
        self.after_fork_in_child()
        self.watch_forks()

    def after_fork_in_child(self) -> None:
        """Forget the threads of the parent process, which a child does not have."""
        self._lock = threading.Lock()
        self._waiting: deque[_Caller] = deque()
        self._is_busy = False  # whether some thread commits, or is about to

    def run(self, changes: Sequence[Change[object]]) -> None:
        """Commit `changes`, with those of other threads; return when each has its outcome."""
        caller = _Caller(changes)
        with self._lock:
            self._waiting.append(caller)
            if self._is_busy:
                caller.wake = threading.Lock()
                caller.wake.acquire()
            self._is_busy = True
        if caller.wake is not None:
            try:
                caller.wake.acquire()
            except BaseException:  # an interrupt
                self._leave(caller)
                raise
            if caller.is_done:
                return
        self._lead(caller)

    def _lead(self, caller: _Caller) -> None:
        """Commit one group, then let the next thread commit the next one."""
        group: list[_Caller] = []
        try:
            group = self._take_group()
            changes = [change for member in group for change in member.changes]
            try:
                self._commit(changes)
            except Exception as error:  # noqa: BLE001 - each thread raises it
                for change in changes:
                    change.error = error
            for member in group:
                member.is_done = True
        finally:
            with self._lock:
                # After an interrupt, the changes of the other threads are still to be done.
                others = [member for member in group if member is not caller]
                self._waiting.extendleft(
                    member for member in reversed(others) if not member.is_done
                )
                if caller in self._waiting:
                    self._waiting.remove(caller)
                self._choose_leader()
            for member in others:
                if member.is_done:
                    _wake(member)

    def _take_group(self) -> list[_Caller]:
        """Remove the threads whose changes are committed next from those that wait."""
        with self._lock:
            group: list[_Caller] = []
            count = size = 0
            while self._waiting and count < GROUP_CHANGES and size < GROUP_BYTES:
                group.append(self._waiting.popleft())
                count += len(group[-1].changes)
                size += sum(change.size for change in group[-1].changes)
            return group

    def _choose_leader(self) -> None:
        """Let the first thread that waits commit the next group. The caller has the lock."""
        self._is_busy = bool(self._waiting)
        if self._waiting:
            self._waiting[0].leads = True
            _wake(self._waiting[0])

    def _leave(self, caller: _Caller) -> None:
        """Give up waiting. The changes may be committed nevertheless."""
        with self._lock:
            if caller in self._waiting:
                self._waiting.remove(caller)
                if caller.leads:
                    self._choose_leader()


def _wake(caller: _Caller) -> None:
    if caller.wake is not None:
        caller.wake.release()
