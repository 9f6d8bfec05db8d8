"""Small stores that wait for the disk together."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from starlette.concurrency import run_in_threadpool

from holdfast.content.profiles import Profile
from holdfast.files.importing import import_content
from holdfast.records import Pin
from holdfast.repository import Repository
from holdfast.repository.adding import NewPin, pin_together

BATCH: Final = 64  # stores in one transaction


class _Store(NamedTuple):
    """A store that waits, and the future that its request awaits."""

    data: bytes
    profile: Profile
    about: Mapping[str, Any]
    done: asyncio.Future[tuple[Pin, bool]]


class StoreQueue:
    """Adds small contents to `repository`. All that wait at a time share one transaction.

    While a worker thread commits one transaction, the next stores collect, and it goes on with
    them. So many stores at once need few hops to a thread and few synchronisations, and a single
    one does not wait. Use it in the event loop only.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._waiting: deque[_Store] = deque()
        self._task: asyncio.Task[None] | None = None

    async def add(self, data: bytes, profile: Profile, **about: Any) -> tuple[Pin, bool]:
        """Do what `Repository.add` does; return when the content is durable."""
        store = _Store(data, profile, about, asyncio.get_running_loop().create_future())
        self._waiting.append(store)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await store.done

    async def _work(self) -> None:
        """Add what waits, until nothing does."""
        try:
            while self._waiting:  # the thread may have ended just before another store came
                await run_in_threadpool(self._add_batches, asyncio.get_running_loop())
        finally:
            self._task = None

    def _add_batches(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do the same on a worker thread, so that no batch waits for the event loop."""
        while batch := self._next_batch():
            try:
                outcomes = self._commit(batch)
            except Exception as error:  # noqa: BLE001 - each request raises it
                outcomes = [error] * len(batch)
            loop.call_soon_threadsafe(_finish, batch, outcomes)

    def _next_batch(self) -> list[_Store]:
        batch: list[_Store] = []
        while self._waiting and len(batch) < BATCH:
            store = self._waiting.popleft()
            if not store.done.cancelled():
                batch.append(store)
        return batch

    def _commit(self, batch: Sequence[_Store]) -> Sequence[tuple[Pin, bool] | Exception]:
        pins = []
        for store in batch:
            adding = self._repository.adding()
            part = import_content(store.data, store.profile, adding.put)
            pins.append(NewPin(adding, part.cid, {"size": part.dag_size, **store.about}))
        return pin_together(pins)


def _finish(batch: Sequence[_Store], outcomes: Sequence[tuple[Pin, bool] | Exception]) -> None:
    for store, outcome in zip(batch, outcomes, strict=True):
        if store.done.done():  # its request was cancelled
            continue
        if isinstance(outcome, Exception):
            store.done.set_exception(outcome)
        else:
            store.done.set_result(outcome)
