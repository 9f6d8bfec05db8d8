"""Threads that hash, write and synchronise blocks."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from holdfast.forks import ForkAware
from holdfast.repository.database.errors import closed_error

THREADS: Final = 8  # most of the time they wait for the disk
AT_ONCE: Final = THREADS + 4  # jobs that run or wait

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class BlockThreads(ForkAware):
    """The threads of one open repository, which all its adds share. They start when needed.

    A job must not wait for a lock, a transaction or another job.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._places = threading.Semaphore(AT_ONCE)
        self._is_closed = False
        self.watch_forks()

    def submit(
        self,
        function: Callable[Arguments, Result],
        /,
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> "Future[Result]":
        """Run `function` on a thread.

        Wait while `AT_ONCE` jobs are not done: the blocks that they hold take memory.
        """
        places = self._places
        places.acquire()
        try:
            future = self._started().submit(function, *args, **kwargs)
        except BaseException:
            places.release()
            raise
        future.add_done_callback(lambda _: places.release())
        return future

    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._is_closed:
                raise closed_error()
            if self._pool is None:
                self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-blocks")
            return self._pool

    def after_fork_in_child(self) -> None:
        """Start again without threads, which a forked child does not have."""
        self._lock = threading.Lock()
        self._pool = None
        self._places = threading.Semaphore(AT_ONCE)

    def close(self) -> None:
        """Wait for the jobs, and end the threads."""
        with self._lock:
            self._is_closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
