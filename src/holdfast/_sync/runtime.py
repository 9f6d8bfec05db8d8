"""Threads, locks, files and races, blocking: the twin of `_async/runtime.py`.

Few other files differ between the async and the blocking code: `_sync/__init__.py` lists them.
"""

import contextvars
import io
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, Generic, ParamSpec, Self, TypeAlias, TypeVar

from holdfast.disk.background import Background
from holdfast.disk.closing import on_error
from holdfast.forks import ForkAware

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

now = time.monotonic

IDLE: Final = 5.0  # seconds after which a thread without a call ends
LOOK: Final = 0.2  # seconds after which a wait looks whether its own race is lost
GRACE: Final = 5.0  # seconds to wait for threads whose connections are shut

Worker = Background


class Writer:
    """Runs jobs at once: another thread would take processor time from the one that verifies."""

    def submit(self, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> list[Any]:
        """Do a job and return its result in a list."""
        return [function(*args, **kwargs)]

    def drain(self) -> list[Any]:
        """Return no results: all jobs are done."""
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


Semaphore = threading.BoundedSemaphore
Lock = threading.Lock
FileBase = io.BufferedIOBase


def run_blocking(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` on this thread."""
    return function(*args, **kwargs)


def compute(_size: int, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` on this thread."""
    return function(*args, **kwargs)


run_interruptible = run_blocking


@contextmanager
def at_end(close: Callable[[], object]) -> Iterator[None]:
    """Call `close` at the end of the block."""
    try:
        yield
    finally:
        close()


def sleep(seconds: float) -> None:
    """Wait for `seconds`; in a race that is lost, raise `RaceLost` instead."""
    me = racer.get()
    if me is None:
        time.sleep(seconds)
    else:
        me.sleep(seconds)


class RaceLost(BaseException):
    """Raised in a runner that has lost the race when it uses a connection or sleeps."""


class Racer:
    """The open connections of one runner in a race, so that they can be shut when it has lost.

    Attributes:
        lost: Set when the race is over for this runner.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.lost: threading.Event = threading.Event()

    def watch(self, connection: socket.socket) -> None:
        """Add `connection`; raise `RaceLost` if the race is over."""
        with self._lock:
            if self.lost.is_set():
                raise RaceLost
            if connection not in self._sockets:
                self._sockets.append(connection)

    def forget(self, connection: socket.socket) -> None:
        """Remove `connection`: its exchange is over, and another may use it next."""
        with self._lock:
            if connection in self._sockets:
                self._sockets.remove(connection)

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`; raise `RaceLost` when the race is over."""
        if self.lost.wait(seconds):
            raise RaceLost

    def shut(self) -> None:
        """End the race for this runner and wake it where it waits for a connection."""
        with self._lock:
            self.lost.set()
            for connection in self._sockets:
                with suppress(OSError):  # it may be closed already
                    connection.shutdown(socket.SHUT_RDWR)


racer: contextvars.ContextVar[Racer | None] = contextvars.ContextVar("racer", default=None)


class _Threads(ForkAware):
    """Threads that make calls, and then wait for others: to start one takes long.

    There is no limit on them, because a call may wait for other calls. Those that have nothing to
    do for `IDLE` seconds end. They are daemons, so they never keep the interpreter from its end.
    """

    def __init__(self) -> None:
        self.after_fork_in_child()
        self.watch_forks()

    def after_fork_in_child(self) -> None:
        """Forget the threads, which do not run in the child."""
        self._lock = threading.RLock()  # a collection of garbage may make calls while it is held
        self._idle: list[queue.SimpleQueue[Callable[[], object]]] = []

    def run(self, call: Callable[[], object]) -> None:
        """Make `call` on a thread that has nothing to do, or on a new one. It must not raise."""
        with self._lock:
            if self._idle:
                self._idle.pop().put(call)
                return
        calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        calls.put(call)
        args = (calls,)
        threading.Thread(target=self._work, args=args, name="holdfast-call", daemon=True).start()

    def _work(self, calls: "queue.SimpleQueue[Callable[[], object]]") -> None:
        while True:
            try:
                call = calls.get(timeout=IDLE)
            except queue.Empty:
                with self._lock:
                    if calls in self._idle:
                        self._idle.remove(calls)
                    if calls.empty():
                        return
                continue
            call()
            del call  # a thread that waits must not hold what it has worked on
            with self._lock:
                self._idle.append(calls)


_threads: Final = _Threads()
_Finished: TypeAlias = "queue.SimpleQueue[tuple[int, T | BaseException]]"


def together(calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Make all `calls` at once on threads, and return their results or errors in order."""
    if len(calls) == 1:
        return [_outcome(calls[0])]
    outcomes: dict[int, T | BaseException] = {}
    finished: _Finished[T] = queue.SimpleQueue()
    me = racer.get() or Racer()
    with on_error(me.shut):  # if interrupted: wake the threads that wait for a gateway
        for place, call in enumerate(calls):
            _start(call, place, me, finished)
        for _ in calls:
            place, outcomes[place] = finished.get()
    results: list[T | Exception] = []
    for place in range(len(calls)):
        outcome = outcomes[place]
        if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
            raise outcome
        results.append(outcome)
    return results


def _outcome(call: Callable[[], T]) -> T | Exception:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - the caller looks at it
        return error


def _start(
    call: Callable[[], T],
    place: int,
    me: Racer,
    finished: "_Finished[T]",
    on_late: Callable[[], None] = lambda: None,
) -> None:
    """Make `call` on a thread, and put its outcome into `finished`.

    If `me` has lost the race by then, call `on_late`, too.
    """

    def run() -> None:
        racer.set(me)
        outcome: T | BaseException
        try:
            outcome = call()
        except BaseException as error:  # noqa: BLE001 - raised in the caller
            outcome = error
        finished.put((place, outcome))
        if me.lost.is_set():
            on_late()

    _threads.run(partial(contextvars.copy_context().run, run))


class Running(Generic[R, T]):
    """Calls of several runners at once, on threads. At the end, the connections of others are shut.

    A thread that is still waiting for a new connection by then sends nothing over it.

    Args:
        discard: Gets results that come too late. Without it, the end of the block waits a while for
            the calls that still run.
    """

    def __init__(self, discard: Callable[[T], object] | None = None) -> None:
        self._racers: dict[int, tuple[R, Racer]] = {}
        self._finished: _Finished[T] = queue.SimpleQueue()
        self._discard = discard
        self._outer = racer.get()
        self._count = 0

    @property
    def runners(self) -> list[R]:
        """The runners whose calls have not ended."""
        return [runner for runner, _ in self._racers.values()]

    def start(self, runner: R, call: Callable[[], T]) -> None:
        """Start a call of `runner`."""
        me, place = Racer(), self._count
        self._count += 1
        self._racers[place] = runner, me
        _start(call, place, me, self._finished, self._discard_late)

    def next(self, until: float) -> tuple[R, T | Exception] | None:
        """Return the next runner whose call ends, and its outcome; None if none ends in time."""
        while True:
            left = until - now()
            if self._outer is not None:  # which may lose its race meanwhile
                self._outer.sleep(0)
                left = min(left, LOOK)
            try:
                wait = None if left == float("inf") else max(0.0, left)
                place, outcome = self._finished.get(timeout=wait)
            except queue.Empty:
                if now() >= until:
                    return None
                continue
            runner, _ = self._racers.pop(place)
            if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
                raise outcome
            return runner, outcome

    def _discard_late(self) -> None:
        """Discard results: called after each late one, and once at the end, so none is left."""
        with suppress(queue.Empty):
            while self._discard is not None:
                _, outcome = self._finished.get_nowait()
                if not isinstance(outcome, BaseException):
                    self._discard(outcome)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _runner, me in self._racers.values():
            me.shut()
        self._discard_late()
        end = now() + GRACE
        with suppress(queue.Empty):
            while self._racers and self._discard is None:
                place, _outcome = self._finished.get(timeout=max(0.0, end - now()))
                del self._racers[place]
