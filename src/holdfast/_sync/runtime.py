"""What has a colour besides the transport, blocking: the twin of `_async/runtime.py`."""

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

now = time.monotonic


def run_blocking(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`, here and now."""
    return function(*args, **kwargs)


run_interruptible = run_blocking
