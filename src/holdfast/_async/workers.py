"""Work on many items, several at a time, as tasks. `_sync/workers.py` does it on threads."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Generic, TypeAlias

from holdfast._async.runtime import wait_for_end
from holdfast.records import Item, Outcome, Result

AsyncItems: TypeAlias = Iterable[Item] | AsyncIterable[Item]
"""The input of work on many items."""


class AsyncWorkGroup(Generic[Item, Result]):
    """The tasks of one `AsyncOutcomes`. They do not refer to it, so that it can be collected.

    One task, the feeder, takes the items. It waits for a slot before it takes one. The consumer
    frees the slot when it receives the outcome.
    """

    def __init__(
        self,
        function: Callable[[Item], Awaitable[Result]],
        items: AsyncItems[Item],
        concurrency: int,
    ) -> None:
        self._function = function
        self._items = iterate(items)
        self._slots = asyncio.Semaphore(concurrency)
        self._feeder: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Outcomes, errors that end everything, and None when the feeder has ended.
        self._done: asyncio.Queue[Outcome[Item, Result] | BaseException | None] = asyncio.Queue()
        self._taken = 0
        self._returned = 0
        self._stopped = False
        self._error: Exception | None = None
        self.closed = False  # whether nobody may ask for outcomes any more

    async def next(self) -> Outcome[Item, Result]:
        """Return the next outcome; after the last, raise the error of the input, if it has one."""
        if self.closed:
            raise StopAsyncIteration
        if self._feeder is None and not self._stopped:
            self._feeder = asyncio.create_task(self._feed())
        while self._returned < self._taken or not (self._stopped or self._is_fed()):
            outcome = await self._done.get()
            if isinstance(outcome, Outcome):
                self._returned += 1
                self._slots.release()
                return outcome
            if outcome is not None:
                raise outcome
        error, self._error = self._error, None
        try:
            raise error or StopAsyncIteration
        finally:
            del error  # the error and this frame would keep each other alive

    def _is_fed(self) -> bool:
        return self._feeder is not None and self._feeder.done()

    async def _feed(self) -> None:
        try:
            await self._take_all()
        except Exception as error:  # noqa: BLE001 - raised after the outcomes
            self._error = error
        except BaseException as error:
            if not self._stopped:
                self._done.put_nowait(error)
            raise
        finally:
            asyncio.get_running_loop().call_soon(self._done.put_nowait, None)

    async def _take_all(self) -> None:
        items: Any = self._items
        try:
            await self._slots.acquire()
            async for item in items:
                if self._stopped:
                    break
                task = asyncio.create_task(self._run(self._taken, item))
                self._taken += 1
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                await self._slots.acquire()
        finally:
            if hasattr(items, "aclose"):
                await items.aclose()

    async def _run(self, index: int, item: Item) -> None:
        try:
            outcome = Outcome(index=index, item=item, record=await self._function(item))
        except Exception as error:  # noqa: BLE001 - the caller looks at it
            outcome = Outcome(index=index, item=item, error=error)
        except BaseException as error:
            self._done.put_nowait(error)
            raise
        self._done.put_nowait(outcome)

    def stop(self, error: Exception | None = None) -> None:
        """Start nothing new. `error` is raised after the outcomes of what is under way."""
        if not self._stopped and not self._is_fed():
            self._error = error
        self._stopped = True
        if self._feeder is not None and not self._feeder.done():
            with suppress(RuntimeError):  # the loop may be closed
                self._feeder.get_loop().call_soon_threadsafe(self._feeder.cancel)

    async def finish(self, error: Exception | None = None) -> None:
        """Start nothing new, and wait for what is under way. If that is cancelled, cancel it."""
        self.stop(error)
        try:
            while tasks := self._under_way():
                await asyncio.wait(tasks)
        except BaseException:
            await self.abort()
            raise

    def abandon(self, _on_end: Callable[[], None]) -> None:
        """Start nothing new: nobody asks for outcomes any more. Closing the client waits."""
        self.stop()

    async def abort(self) -> None:
        """Cancel everything, and wait for its end."""
        self.stop()
        tasks = self._under_way()
        for task in tasks:
            task.cancel()
        await wait_for_end(tasks)

    def _under_way(self) -> list[asyncio.Task[Any]]:
        tasks = [*self._tasks, *([] if self._feeder is None else [self._feeder])]
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        return [
            task for task in tasks if not task.done() and task is not me and task.get_loop() is loop
        ]


def iterate(items: AsyncItems[Item]) -> AsyncIterator[Item]:
    """Return an iterator over `items`; raise TypeError if there is none."""
    return aiter(items) if isinstance(items, AsyncIterable) else _as_async(iter(items))


async def _as_async(items: Iterable[Item]) -> AsyncIterator[Item]:
    for item in items:
        yield item
