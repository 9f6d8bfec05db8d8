"""Many calls at once, on threads: the twin of `_async/parallel.py`."""

from concurrent.futures import ThreadPoolExecutor


def in_parallel(calls):
    """The results of `calls`, all under way at once."""
    calls = list(calls)
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]
