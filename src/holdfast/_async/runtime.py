"""What has a colour besides the transport, async: the twin of `_sync/runtime.py`."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

now = time.monotonic


async def run_blocking(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`, which waits for a disk or computes for long, on a worker thread.

    A cancelled call still waits for the thread: whoever cleans up afterwards has the files alone.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # looked at, so that nobody warns of it
        raise


async def run_interruptible(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`, which may wait for somebody for ever, on a worker thread.

    Who cancels the call does not wait for the thread: it must have nothing to clean up.
    """
    return await asyncio.to_thread(function, *args, **kwargs)
