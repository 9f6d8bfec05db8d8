"""Threads that run jobs while the caller continues."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

HASH_THREADS: Final = 2  # that verify one transfer; more would wait for the network
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
        self._most = (
            int(__import__("os").environ.get("HF_MOST", DEPTH + threads - 1))
            if threads > 1
            else DEPTH
        )
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
        results = []
        while self._jobs:
            results.append(self._jobs.popleft().result())
        return results

    def close(self) -> None:
        """Wait for the current jobs, cancel the others, and end the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Turns:
    """Makes jobs of two steps for several threads.

    The first step runs beside those of other jobs. The second one runs alone, in the order in which
    the jobs were made. Submit them in that order.

    Example:
        >>> turns = Turns()
        >>> with Background(threads=2) as background:
        ...     _ = background.submit(turns.job(lambda: 1, print))
        ...     _ = background.submit(turns.job(lambda: 2, print))
        ...     _ = background.drain()
        1
        2
    """

    def __init__(self) -> None:
        self._last = threading.Lock()  # held until the second step of the last job has ended

    def job(self, first: Callable[[], T], second: Callable[[T], R]) -> Callable[[], R]:
        """Return a job that passes the result of `first` to `second`."""
        before, done = self._last, threading.Lock()
        done.acquire()
        self._last = done

        def run() -> R:
            try:
                try:
                    prepared = first()
                finally:
                    before.acquire()
                return second(prepared)
            finally:
                done.release()

        return run
