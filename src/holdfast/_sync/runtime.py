"""Threads, locks, files and races, blocking: the twin of `_async/runtime.py`.

With the transport, this is all that differs between the async and the blocking code.
"""

import contextvars
import io
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar, cast

from holdfast.disk.background import Background
from holdfast.forks import ForkAware

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

now = time.monotonic

IDLE: Final = 5.0  # seconds after which a thread without a call ends

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
    """The open connections of one runner in a race, so that they can be shut when it has lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._lost = threading.Event()

    def watch(self, connection: socket.socket) -> None:
        """Add `connection`; raise `RaceLost` if the race is over."""
        with self._lock:
            if self._lost.is_set():
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
        if self._lost.wait(seconds):
            raise RaceLost

    def shut(self) -> None:
        """End the race for this runner and wake it where it waits for a connection."""
        with self._lock:
            self._lost.set()
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


def together(calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Make all `calls` at once on threads, and return their results or errors in order."""
    if len(calls) == 1:
        return [_outcome(calls[0])]
    outcomes: dict[int, T | BaseException] = {}
    finished: queue.SimpleQueue[int] = queue.SimpleQueue()
    me = racer.get() or Racer()

    def run(place: int) -> None:
        racer.set(me)
        try:
            outcomes[place] = _outcome(calls[place])
        except BaseException as error:  # noqa: BLE001 - raised in the caller
            outcomes[place] = error
        finished.put(place)

    try:
        for place in range(len(calls)):
            _threads.run(partial(contextvars.copy_context().run, run, place))
        for _ in calls:
            finished.get()
    except BaseException:
        me.shut()  # interrupted: wake the threads that wait for a gateway
        raise
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


class _Race(Generic[R, T]):
    """Runners on threads of their own. The first result wins; later ones are discarded."""

    def __init__(
        self, runners: Sequence[R], start: Callable[[R], T], discard: Callable[[T], object]
    ) -> None:
        self._runners = runners
        self._start = start
        self._discard = discard
        self._racers: list[Racer] = []
        self._finished: queue.SimpleQueue[tuple[int, T | None, BaseException | None]]
        self._finished = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._over = False

    @property
    def started(self) -> int:
        return len(self._racers)

    def start(self) -> None:
        """Start the next runner, if there is one."""
        if self.started < len(self._runners):
            place, me = self.started, Racer()
            self._racers.append(me)
            run = contextvars.copy_context().run
            args = (self._run, place, me)
            threading.Thread(target=run, args=args, name="holdfast-race", daemon=True).start()

    def _run(self, place: int, me: Racer) -> None:
        racer.set(me)
        result: T | None = None
        failure: BaseException | None = None
        try:
            result = self._start(self._runners[place])
        except RaceLost:
            return
        except BaseException as error:  # noqa: BLE001 - raised in the caller
            failure = error
        with self._lock:
            if not self._over:
                self._finished.put((place, result, failure))
                return
        if result is not None:
            self._discard(result)

    def next(self, timeout: float | None) -> tuple[int, T | None, BaseException | None] | None:
        """Return the next runner that ends, its result and its error; None after `timeout`."""
        try:
            return self._finished.get(timeout=timeout)
        except queue.Empty:
            return None

    def end(self, winner: int | None) -> None:
        """Shut the connections of all runners but the winner."""
        with self._lock:
            self._over = True
        for place, each in enumerate(self._racers):
            if place != winner:
                each.shut()
        while not self._finished.empty():
            _, result, _ = self._finished.get()
            if result is not None:
                self._discard(result)


def race(
    runners: Sequence[R], start: Callable[[R], T], delay: float, discard: Callable[[T], object]
) -> tuple[tuple[R, T] | None, dict[R, Exception]]:
    """Return the first of the `runners` that succeeds, with its result, and the others' errors.

    The first one starts at once, each further one after `delay` seconds, or as soon as one has
    failed. When one succeeds, the connections of the others are shut. `discard` gets results that
    come too late.
    """
    failures: dict[R, Exception] = {}
    winner: int | None = None
    contest = _Race(runners, start, discard)
    contest.start()
    try:
        while len(failures) < len(runners):
            finished = contest.next(delay if contest.started < len(runners) else None)
            if finished is not None:
                place, result, failure = finished
                if failure is None:
                    winner = place
                    return (runners[place], cast("T", result)), failures
                if not isinstance(failure, Exception):
                    raise failure
                failures[runners[place]] = failure
            contest.start()
        return None, failures
    finally:
        contest.end(winner)
