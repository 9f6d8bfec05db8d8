"""Many calls at once, on threads: the twin of `_async/parallel.py`."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def in_parallel(calls: Iterable[Callable[[], T]]) -> list[T]:
    """The results of `calls`, all under way at once."""
    calls = list(calls)
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]
