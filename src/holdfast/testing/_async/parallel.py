"""Calls in parallel, async. `_sync/parallel.py` is the blocking version."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def in_parallel(calls: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Run `calls` in parallel and return their results."""
    return await asyncio.gather(*(call() for call in calls))
