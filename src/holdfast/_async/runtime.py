"""What has a colour besides the transport, async: the twin of `_sync/runtime.py`."""

import asyncio
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

now = time.monotonic


async def run_blocking(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`, which waits for a disk or computes for long, on a worker thread."""
    return await asyncio.to_thread(function, *args, **kwargs)
