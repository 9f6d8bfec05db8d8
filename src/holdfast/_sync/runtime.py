"""What has a colour besides the transport, blocking: the twin of `_async/runtime.py`."""

import contextvars
import io
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from holdfast.files.background import Background

P = ParamSpec("P")
T = TypeVar("T")

now = time.monotonic

Worker = Background


class Writer:
    """Jobs done here and now: a third thread would take the processor from the one that proves."""

    def submit(self, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> list[Any]:
        """Do a job; its result."""
        return [function(*args, **kwargs)]

    def drain(self) -> list[Any]:
        """Nothing is left to be done."""
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass


Slots = threading.BoundedSemaphore
Turnstile = threading.Lock
FileBase = io.BufferedIOBase


def run_blocking(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`, here and now."""
    return function(*args, **kwargs)


run_interruptible = run_blocking


def sleep(seconds: float) -> None:
    """Wait; in a race, not longer than it lasts."""
    me = racer.get()
    if me is None:
        time.sleep(seconds)
    else:
        me.sleep(seconds)


class Abandoned(BaseException):
    """Raised in a racer that has lost, where it would use a connection."""


class Racer:
    """The connections that one runner in a race has open, for the end of the race to shut."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._lost = threading.Event()

    def watch(self, connection: socket.socket) -> None:
        """Remember `connection`; `Abandoned` where the race is over."""
        with self._lock:
            if self._lost.is_set():
                raise Abandoned
            if connection not in self._sockets:
                self._sockets.append(connection)

    def forget(self, connection: socket.socket) -> None:
        """An exchange has ended: its connection may be another's by now."""
        with self._lock:
            if connection in self._sockets:
                self._sockets.remove(connection)

    def sleep(self, seconds: float) -> None:
        """Wait; `Abandoned` when the race is over."""
        if self._lost.wait(seconds):
            raise Abandoned

    def shut(self) -> None:
        """Wake whoever waits on one of the connections."""
        with self._lock:
            self._lost.set()
            for connection in self._sockets:
                with suppress(OSError):  # it may be closed already
                    connection.shutdown(socket.SHUT_RDWR)


racer: contextvars.ContextVar[Racer | None] = contextvars.ContextVar("racer", default=None)


def together(calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Make all `calls` at the same time, on threads; return their results or errors, in order."""
    if len(calls) == 1:
        return [_outcome(calls[0])]
    outcomes: dict[int, T | BaseException] = {}
    me = racer.get() or Racer()

    def run(place: int) -> None:
        racer.set(me)
        try:
            outcomes[place] = _outcome(calls[place])
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for it
            outcomes[place] = error

    threads = []
    try:
        for place in range(len(calls)):
            args = (run, place)
            target = contextvars.copy_context().run
            threads.append(threading.Thread(target=target, args=args, daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()
    except BaseException:
        me.shut()  # interrupted: wake those that wait for a gateway
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


class _Race(Generic[T]):
    """Runners on threads of their own; the first result wins, later ones are discarded."""

    def __init__(self, runners: Sequence[Callable[[], T]], discard: Callable[[T], object]) -> None:
        self._runners = runners
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
            result = self._runners[place]()
        except Abandoned:
            return
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for it
            failure = error
        with self._lock:
            if not self._over:
                self._finished.put((place, result, failure))
                return
        if result is not None:
            self._discard(result)

    def next(self, timeout: float | None) -> tuple[int, T | None, BaseException | None] | None:
        """Who has finished next, and how; None if nobody has in time."""
        try:
            return self._finished.get(timeout=timeout)
        except queue.Empty:
            return None

    def end(self, winner: int | None) -> None:
        """Cut off all but the winner."""
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
    runners: Sequence[Callable[[], T]], delay: float, discard: Callable[[T], object]
) -> tuple[T | None, dict[int, Exception]]:
    """The result of the runner that is first to succeed, and what the others failed with, by place.

    They start one after the other: the next when `delay` has passed, or one has failed. Those that
    have lost are cut off; a result that comes too late goes to `discard`.
    """
    failures: dict[int, Exception] = {}
    winner: int | None = None
    contest = _Race(runners, discard)
    contest.start()
    try:
        while len(failures) < len(runners):
            finished = contest.next(delay if contest.started < len(runners) else None)
            if finished is not None:
                place, result, failure = finished
                if failure is None:
                    winner = place
                    return result, failures
                if not isinstance(failure, Exception):
                    raise failure
                failures[place] = failure
            contest.start()
        return None, failures
    finally:
        contest.end(winner)
