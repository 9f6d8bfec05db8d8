"""Many calls at once, async: the twin of `_sync/parallel.py`."""

import asyncio


async def in_parallel(calls):
    """The results of `calls`, functions that return awaitables, all under way at once."""
    return await asyncio.gather(*(call() for call in calls))
