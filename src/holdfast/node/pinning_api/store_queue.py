"""Small stores that wait for the disk together."""

import asyncio
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

    While one transaction runs on a worker thread, the next stores collect. So many stores at once
    need few hops to a thread and few synchronisations, and a single one does not wait. Use it in
    the event loop only.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._waiting: list[_Store] = []
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
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
                await self._add_batch([store for store in batch if not store.done.cancelled()])
        finally:
            self._task = None

    async def _add_batch(self, batch: Sequence[_Store]) -> None:
        try:
            outcomes = await run_in_threadpool(self._commit, batch)
        except BaseException as error:
            for store in batch:
                if not store.done.done():
                    store.done.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for store, outcome in zip(batch, outcomes, strict=True):
            if store.done.done():  # its request was cancelled
                continue
            if isinstance(outcome, Exception):
                store.done.set_exception(outcome)
            else:
                store.done.set_result(outcome)

    def _commit(self, batch: Sequence[_Store]) -> list[tuple[Pin, bool] | Exception]:
        pins = []
        for store in batch:
            adding = self._repository.adding()
            part = import_content(store.data, store.profile, adding.put)
            pins.append(NewPin(adding, part.cid, {"size": part.dag_size, **store.about}))
        changes = pin_together(pins) if pins else []
        return [change.error or change.result() for change in changes]
