"""What has a colour besides the transport, async: the twin of `_sync/runtime.py`."""

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast

from holdfast.files.background import DEPTH

P = ParamSpec("P")
T = TypeVar("T")

now = time.monotonic
sleep = asyncio.sleep

AsyncSlots = asyncio.BoundedSemaphore
AsyncTurnstile = asyncio.Lock


async def run_blocking(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`, which waits for a disk or computes for long, on a worker thread.

    A cancelled call still waits for the thread: whoever cleans up afterwards has the files alone.
    """
    return await _uninterrupted(asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs)))


async def run_interruptible(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`, which may wait for somebody for ever, on a worker thread.

    Who cancels the call does not wait for the thread, and neither does the end of the process: it
    must have nothing to clean up.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    call = partial(contextvars.copy_context().run, function, *args, **kwargs)

    def settle(result: T | None, failure: BaseException | None) -> None:
        if outcome.done():
            return  # nobody waits any more
        if failure is None:
            outcome.set_result(cast("T", result))
        elif isinstance(failure, StopIteration):
            outcome.set_exception(RuntimeError("the function raised StopIteration"))
        else:
            outcome.set_exception(failure)

    def run() -> None:
        result: T | None = None
        failure: BaseException | None = None
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for it
            failure = error
        with suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="holdfast-source", daemon=True).start()
    return await outcome


async def _uninterrupted(work: "asyncio.Future[T]") -> T:
    """The result of `work`, which is waited for to its end also by a caller who is cancelled."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await _ended([work])
        raise


async def _ended(works: "Iterable[asyncio.Future[Any]]") -> None:
    """Wait for all of `works`, also when cancelled meanwhile: that is raised afterwards."""
    cancelled = False
    for work in works:
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                cancelled = True
        if not work.cancelled():
            work.exception()  # looked at, so that nobody warns of it
    if cancelled:
        raise asyncio.CancelledError


class AsyncWorker:
    """Jobs on a thread of their own, one after the other, while the caller goes on.

    The twin of `files.background.Background`, awaited.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: deque[asyncio.Future[Any]] = deque()

    async def submit(
        self, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[Any]:
        """Put a job in line, when there is room; the results that were waited for, in order."""
        results = [] if len(self._jobs) < DEPTH else [await _uninterrupted(self._jobs.popleft())]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="holdfast-background")
        job = self._pool.submit(function, *args, **kwargs)
        self._jobs.append(asyncio.wrap_future(job))
        return results

    async def drain(self) -> list[Any]:
        """Wait for all jobs; their results."""
        results = []
        while self._jobs:
            results.append(await _uninterrupted(self._jobs.popleft()))
        return results

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        await _ended(self._jobs)


AsyncWriter = AsyncWorker  # a thread of its own: the event loop must not wait for a disk


class AsyncFileBase:
    """What an open file has besides reading; the blocking one has it from `io`."""

    closed = False

    async def aclose(self) -> None:
        """Close the file. A second time does nothing."""
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


async def together(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
    """Make all `calls` at the same time; return their results or errors, in order."""
    tasks = [asyncio.ensure_future(call()) for call in calls]
    try:
        await asyncio.wait(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await _ended(tasks)
    outcomes: list[T | Exception] = []
    for task in tasks:
        failure = task.exception()
        if failure is not None and not isinstance(failure, Exception):
            raise failure
        outcomes.append(task.result() if failure is None else failure)
    return outcomes


async def race(
    runners: Sequence[Callable[[], Awaitable[T]]],
    delay: float,
    discard: Callable[[T], Awaitable[object]],
) -> tuple[T | None, dict[int, Exception]]:
    """The result of the runner that is first to succeed, and what the others failed with, by place.

    They start one after the other: the next when `delay` has passed, or one has failed. Those that
    have lost are cancelled; a result that comes too late goes to `discard`.
    """
    running: dict[asyncio.Future[T], int] = {}
    failures: dict[int, Exception] = {}
    started = 0
    winner: asyncio.Future[T] | None = None
    try:
        while running or started < len(runners):
            more = started < len(runners)
            if more:
                running[asyncio.ensure_future(runners[started]())] = started
                started += 1
            timeout = delay if started < len(runners) else None
            done, _ = await asyncio.wait(
                running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                failure = task.exception()
                if failure is None:
                    winner = task
                    return task.result(), failures
                if not isinstance(failure, Exception):
                    raise failure
                failures[running.pop(task)] = failure
        return None, failures
    finally:
        for task in running:
            task.cancel()
        try:
            await _ended(running)
        finally:
            for task in running:
                if task is not winner and not task.cancelled() and task.exception() is None:
                    await discard(task.result())
