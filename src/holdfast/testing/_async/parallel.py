"""Many calls at once, async: the twin of `_sync/parallel.py`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def in_parallel(calls: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """The results of `calls`, functions that return awaitables, all under way at once."""
    return await asyncio.gather(*(call() for call in calls))
