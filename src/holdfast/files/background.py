"""A thread that runs jobs one after the other while the caller continues."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, Self

P = ParamSpec("P")

DEPTH: Final = 2  # waiting jobs: the thread always has work, and their bytes stay in its cache


class Background:
    """A thread for work beside the network: hashing, and writing to the disk.

    It starts with the first job. Jobs must be short, because `close` waits for the current one.

    Example:
        >>> with Background() as background:
        ...     background.submit(sum, [1, 2])
        ...     background.drain()
        []
        [3]
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: deque[Future[Any]] = deque()

    def submit(self, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> list[Any]:
        """Queue a job. If `DEPTH` jobs wait, wait for the first of them and return its result."""
        results = [] if len(self._jobs) < DEPTH else [self._jobs.popleft().result()]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="holdfast-background")
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
        """Wait for the current job, cancel the others, and end the thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
