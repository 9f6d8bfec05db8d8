"""One job at a time on a thread of its own, while the caller goes on."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, ParamSpec, Self

P = ParamSpec("P")


class Background:
    """A thread for what may overlap with the network: hashing, and writing to disk.

    It starts with the first job. Jobs must be short: whoever leaves waits for the last one.

    Example:
        >>> with Background() as background:
        ...     background.submit(sum, [1, 2])
        ...     background.drain()
        3
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._job: Future[Any] | None = None

    def submit(self, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Begin a job, when the one before it is done; that one's result, if there was one."""
        result = self.drain()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="holdfast-background")
        self._job = self._pool.submit(function, *args, **kwargs)
        return result

    def drain(self) -> Any:
        """Wait for the job under way; its result, or None."""
        job, self._job = self._job, None
        return None if job is None else job.result()

    def close(self) -> None:
        """Wait for the job under way, and let the thread go."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
