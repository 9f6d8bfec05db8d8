"""Work on many items, several at a time, on threads: the twin of `_async/workers.py`."""

import contextvars
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeAlias

from holdfast._sync.runtime import Racer, racer
from holdfast.disk.closing import on_error
from holdfast.records import Item, Outcome, Result

Items: TypeAlias = Iterable[Item]
"""The input of work on many items."""

iterate = iter
GRACE: Final = 5.0  # seconds that an interrupt waits for calls whose connections it has shut


class WorkGroup(Generic[Item, Result]):
    """The threads of one `Outcomes`. They do not refer to it, so that it can be collected.

    The consumer takes the items, on its own thread: an iterator may not work on another one. The
    threads are daemons, so that they never keep the interpreter from its end.
    """

    def __init__(
        self, function: Callable[[Item], Result], items: Items[Item], concurrency: int
    ) -> None:
        self._function = function
        self._items: Iterator[tuple[int, Item]] | None = enumerate(items)
        self._concurrency = concurrency
        self._todo: queue.SimpleQueue[tuple[int, Item] | None] = queue.SimpleQueue()
        # Outcomes, errors that end everything, and None for items that were not started.
        self._done: queue.SimpleQueue[Outcome[Item, Result] | BaseException | None]
        self._done = queue.SimpleQueue()
        self._ahead = 0  # items that were taken, and whose outcomes were not received
        self._threads: list[threading.Thread] = []
        self._racer = Racer()
        self._lock = threading.RLock()  # a collection of garbage may close while it is held
        self._stopped = False
        self._aborted = False
        self._error: Exception | None = None
        self.closed = False  # whether nobody may ask for outcomes any more
        self._process = os.getpid()

    def next(self) -> Outcome[Item, Result]:
        """Return the next outcome; after the last, raise the error of the input, if it has one."""
        if self.closed:
            raise StopIteration
        while True:
            while self._ahead < self._concurrency and self._done.empty() and self._take():
                pass
            if not self._ahead:
                break
            outcome = self._done.get()
            self._ahead -= 1
            if isinstance(outcome, Outcome):
                return outcome
            if outcome is not None:
                raise outcome
        self.stop()
        error, self._error = self._error, None
        try:
            raise error or StopIteration
        finally:
            del error  # the error and this frame would keep each other alive

    def _take(self) -> bool:
        """Take an item, and give it to a thread; return False if there is none."""
        if self._items is None or self._stopped:
            return False
        try:
            job = next(self._items)
        except StopIteration:
            self._items = None
        except Exception as error:  # noqa: BLE001 - raised after the outcomes
            self._items, self._error = None, error
        else:
            self._start(job)
            self._ahead += 1
        return self._items is not None

    def _start(self, job: tuple[int, Item]) -> None:
        with self._lock:
            if self._stopped:
                self._done.put(None)
                return
            if len(self._threads) <= self._ahead:
                self._add_thread()
            self._todo.put(job)

    def _add_thread(self) -> None:
        run = contextvars.copy_context().run
        args = (self._run,)
        thread = threading.Thread(target=run, args=args, name="holdfast-many", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system allows no more threads
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def _run(self) -> None:
        racer.set(self._racer)
        while (job := self._todo.get()) is not None:
            self._done.put(self._outcome(*job))
            del job  # a thread that waits must not hold an item

    def _outcome(self, index: int, item: Item) -> Outcome[Item, Result] | BaseException:
        try:
            return Outcome(index=index, item=item, record=self._function(item))
        except Exception as error:  # noqa: BLE001 - the caller looks at it
            return Outcome(index=index, item=item, error=error)
        except BaseException as error:  # noqa: BLE001 - raised in the consumer
            return error

    def stop(self, error: Exception | None = None) -> None:
        """Start nothing new. `error` is raised after the outcomes of what is under way."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            if self._items is not None:
                self._items, self._error = None, error
            while not self._todo.empty():
                try:
                    self._todo.get_nowait()
                except queue.Empty:
                    break  # a thread was faster
                self._done.put(None)
            for _ in self._threads:
                self._todo.put(None)

    def finish(self, error: Exception | None = None) -> None:
        """Start nothing new, and wait for what is under way. If that is interrupted, abort it."""
        self.stop(error)
        with on_error(self.abort):
            if not self._aborted:
                self._join(None)

    def abandon(self, on_end: Callable[[], None]) -> None:
        """Start nothing new, wait for what is under way, and call `on_end`."""
        self.finish()
        on_end()

    def abort(self) -> None:
        """Shut the connections of everything that is under way, and wait a moment for its end."""
        self._aborted = True
        self.stop()
        self._racer.shut()
        self._join(time.monotonic() + GRACE)

    def _join(self, end: float | None) -> None:
        if sys.is_finalizing() or os.getpid() != self._process:
            return  # the threads do not run any more
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(None if end is None else max(0.0, end - time.monotonic()))
