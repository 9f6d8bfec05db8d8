"""Calls in parallel, on threads. `_async/parallel.py` is the async version."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def in_parallel(calls: Iterable[Callable[[], T]]) -> list[T]:
    """Run `calls` in parallel and return their results."""
    calls = list(calls)
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]
