"""Threads that run jobs while the caller continues."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

HASH_THREADS: Final = 2  # that verify one download; more would wait for the network
DEPTH: Final = 2  # jobs of one thread: it always has work, and their bytes stay in its cache


class Background:
    """Threads for work beside the network: hashing, and writing to the disk.

    They start with the first jobs. One thread, the default, runs its jobs one after the other. Jobs
    must be short, because `close` waits for the current ones.

    Example:
        >>> with Background() as background:
        ...     background.submit(sum, [1, 2])
        ...     background.drain()
        []
        [3]
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._most = DEPTH * threads
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: deque[Future[Any]] = deque()

    def submit(self, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> list[Any]:
        """Queue a job. If the queue is full, first wait for the oldest and return its result."""
        results = [] if len(self._jobs) < self._most else [self._jobs.popleft().result()]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="holdfast-background")
        self._jobs.append(self._pool.submit(function, *args, **kwargs))
        return results

    @property
    def is_idle(self) -> bool:
        """Whether a new job would start at once."""
        return all(job.done() for job in self._jobs)

    def drain(self) -> list[Any]:
        """Wait for all jobs; return the results that `submit` did not return."""
        return list(self.results())

    def results(self) -> Iterator[Any]:
        """Yield the results that `drain` would return, each when its job has ended."""
        while self._jobs:
            yield self._jobs.popleft().result()

    def close(self) -> None:
        """Wait for the current jobs, cancel the others, and end the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Turns(Generic[R]):
    """Makes jobs of two steps for several threads.

    The first steps run side by side. The second ones run one at a time, in the order in which the
    jobs were made. Submit them in that order. A job whose turn has not come leaves its second step
    to the job before it, so no thread waits. Each job returns the results of the second steps that
    it has run: all results are there when all jobs are done. After an error, no further second
    step runs.

    Example:
        >>> turns: Turns[int] = Turns()
        >>> with Background(threads=2) as background:
        ...     _ = background.submit(turns.job(lambda: 1, abs))
        ...     _ = background.submit(turns.job(lambda: 2, abs))
        ...     sum(background.drain(), [])
        [1, 2]
    """

    def __init__(self) -> None:
        self._made = 0
        self._next = 0  # the number of the job whose turn it is
        self._ready: dict[int, Callable[[], R]] = {}  # second steps that wait for their turn
        self._lock = threading.Lock()  # held by the thread that runs second steps

    def job(self, first: Callable[[], T], second: Callable[[T], R]) -> Callable[[], list[R]]:
        """Return a job that passes the result of `first` to `second`."""
        number = self._made
        self._made += 1

        def run() -> list[R]:
            prepared = first()
            self._ready[number] = lambda: second(prepared)
            results: list[R] = []
            has_turn = self._next == number
            while has_turn and self._lock.acquire(blocking=False):
                try:
                    while (step := self._ready.pop(self._next, None)) is not None:
                        results.append(step())
                        self._next += 1
                finally:
                    self._lock.release()
                # The next job may have become ready while the lock was held.
                has_turn = self._next in self._ready
            return results

        return run
