"""Threads, locks, files and races for async code. `_sync/runtime.py` has them for blocking code.

Few other files differ between the async and the blocking code: `_sync/__init__.py` lists them.
"""

import asyncio
import contextvars
import queue
import sys
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, Generic, ParamSpec, Self, TypeVar, cast

from holdfast.content.budgets import SMALL_BATCH
from holdfast.disk.background import DEPTH

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

now = time.monotonic
sleep = asyncio.sleep

AsyncSemaphore = asyncio.BoundedSemaphore
AsyncLock = asyncio.Lock


async def run_blocking(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` on a worker thread. For work on disk and long computations.

    When the call is cancelled, it still waits for the thread to end, so that no thread uses the
    files while the caller cleans up.
    """
    return await _finish(asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs)))


async def compute(size: int, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`, which computes something from `size` bytes and does not wait for a disk.

    Many bytes are left to a worker thread. For few bytes, that costs more than the computation.
    """
    if size <= SMALL_BATCH:
        return function(*args, **kwargs)
    return await run_blocking(function, *args, **kwargs)


@asynccontextmanager
async def at_end(close: Callable[[], object]) -> AsyncIterator[None]:
    """Call `close` on a worker thread at the end of the block."""
    try:
        yield
    finally:
        await run_blocking(close)


class ThreadReader:
    """Reads an iterator on a thread of its own, one item ahead of the caller.

    For iterators that may wait without end: nobody waits for the thread after `close`, or when the
    process ends. It ends when the iterator has given its current item.
    """

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items
        self._loop = asyncio.get_running_loop()
        self._orders: queue.SimpleQueue[str] = queue.SimpleQueue()  # "" ends the thread
        self._read: asyncio.Queue[Any] = asyncio.Queue()
        self._thread: threading.Thread | None = None

    async def next(self) -> Any:
        """Return the next item, or b"" at the end."""
        self._orders.put("next")
        if self._thread is None:
            self._orders.put("next")
            run = contextvars.copy_context().run
            self._thread = threading.Thread(
                target=run, args=(self._run,), name="holdfast-source", daemon=True
            )
            self._thread.start()
        item = await self._read.get()
        try:
            if isinstance(item, BaseException):
                raise item
            return item
        finally:
            del item  # an error and this frame would keep each other alive

    def close(self) -> None:
        """Read no more items."""
        self._orders.put("")

    def _run(self) -> None:
        while self._orders.get():
            try:
                item = next(self._items, b"")
                is_last = not item  # which may fail, too
            except BaseException as error:  # noqa: BLE001 - raised in the caller
                item, is_last = error, True
            with suppress(RuntimeError):  # the loop may be closed
                self._loop.call_soon_threadsafe(self._read.put_nowait, item)
            del item  # the caller may let it go while this thread waits
            if is_last:
                return


async def run_interruptible(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` on a worker thread. For functions that may wait without end.

    When the call is cancelled, or the process ends, nobody waits for the thread. So the function
    must have nothing to clean up.
    """

    def once() -> Iterator[T]:
        yield function(*args, **kwargs)

    return cast("T", await ThreadReader(once()).next())


async def _finish(work: "asyncio.Future[T]") -> T:
    """Return the result of `work`. A caller that is cancelled still waits for its end."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await wait_for_end([work])
        raise


async def wait_for_end(works: "Iterable[asyncio.Future[Any]]") -> None:
    """Wait for the end of all `works`. A cancellation meanwhile is raised afterwards."""
    cancelled = False
    for work in works:
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                cancelled = True
        if not work.cancelled():
            work.exception()  # asyncio warns of exceptions that are never retrieved
    if cancelled:
        raise asyncio.CancelledError


class AsyncWorker:
    """Runs jobs on threads of its own while the caller continues; one by one on a single thread.

    The async twin of `files.background.Background`.
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._most = DEPTH * threads
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: deque[asyncio.Future[Any]] = deque()

    async def submit(
        self, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[Any]:
        """Queue a job. If the queue is full, first wait for the oldest and return its result."""
        results = [] if len(self._jobs) < self._most else [await _finish(self._jobs.popleft())]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="holdfast-background")
        job = self._pool.submit(function, *args, **kwargs)
        self._jobs.append(asyncio.wrap_future(job))
        return results

    async def drain(self) -> list[Any]:
        """Wait for all jobs and return their results in order."""
        results = []
        while self._jobs:
            results.append(await _finish(self._jobs.popleft()))
        return results

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        await wait_for_end(self._jobs)


AsyncWriter = AsyncWorker  # the event loop must not wait for a disk


class AsyncFileBase:
    """The methods of an open file that derive from others. The blocking file has them from `io`."""

    closed: bool = False

    @abstractmethod
    async def read(self, size: int | None = -1, /) -> bytes:
        """Return the next `size` bytes, fewer at the end."""

    @abstractmethod
    async def peek(self, size: int = 0, /) -> bytes:
        """Return some of the next bytes; the position does not change."""

    async def readline(self, size: int | None = -1, /) -> bytes:
        r"""Return the next line with its ``\n``, but at most `size` bytes; b"" at the end.

        If it fails, the position may have changed.
        """
        limit = sys.maxsize if size is None or size < 0 else size
        line = bytearray()
        while len(line) < limit and not line.endswith(b"\n") and (ahead := await self.peek()):
            end = ahead.find(b"\n") + 1 or len(ahead)
            line += await self.read(min(end, limit - len(line)))
        return bytes(line)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if line := await self.readline():
            return line
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close the file. A second call does nothing."""
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def together(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
    """Make all `calls` at the same time and return their results or errors in order."""
    tasks = [asyncio.ensure_future(call()) for call in calls]
    try:
        await asyncio.wait(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await wait_for_end(tasks)
    outcomes: list[T | Exception] = []
    for task in tasks:
        failure = task.exception()
        if failure is not None and not isinstance(failure, Exception):
            raise failure
        outcomes.append(task.result() if failure is None else failure)
    return outcomes


class AsyncRunning(Generic[R, T]):
    """Calls of several runners at the same time. Those that run when the block ends are cancelled.

    Args:
        discard: Gets results that come too late.
    """

    def __init__(self, discard: Callable[[T], Awaitable[object]] | None = None) -> None:
        self._discard = discard
        self._tasks: dict[asyncio.Future[T], R] = {}

    @property
    def runners(self) -> list[R]:
        """The runners whose calls have not ended."""
        return [*self._tasks.values()]

    def start(self, runner: R, call: Callable[[], Awaitable[T]]) -> None:
        """Start a call of `runner`."""
        self._tasks[asyncio.ensure_future(call())] = runner

    async def next(self, until: float) -> tuple[R, T | Exception] | None:
        """Return the next runner whose call ends, and its outcome; None if none ends in time."""
        wait = None if until == float("inf") else max(0.0, until - now())
        done, _ = await asyncio.wait(self._tasks, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            failure = task.exception()
            if failure is not None and not isinstance(failure, Exception):
                raise failure
            return self._tasks.pop(task), task.result() if failure is None else failure
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        try:
            await wait_for_end(self._tasks)
        finally:
            for task in self._tasks:
                if self._discard and not task.cancelled() and task.exception() is None:
                    await self._discard(task.result())
