"""Jobs on a thread of their own, one after the other, while the caller goes on."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, Self

P = ParamSpec("P")

DEPTH: Final = 3  # jobs in line, so that the thread does not run dry


class Background:
    """A thread for what may overlap with the network: hashing, and writing to disk.

    It starts with the first job. Jobs must be short: whoever leaves waits for those under way.

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
        """Put a job in line, when there is room; the results that were waited for, in order."""
        results = [] if len(self._jobs) < DEPTH else [self._jobs.popleft().result()]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="holdfast-background")
        self._jobs.append(self._pool.submit(function, *args, **kwargs))
        return results

    @property
    def is_idle(self) -> bool:
        """Whether a job would begin at once."""
        return all(job.done() for job in self._jobs)

    def drain(self) -> list[Any]:
        """Wait for all jobs; their results."""
        results = []
        while self._jobs:
            results.append(self._jobs.popleft().result())
        return results

    def close(self) -> None:
        """Wait for the job under way, forget the others, and let the thread go."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
