"""The twin of `_async/opening.py`: a blocking call returns what it opens."""

from collections.abc import Callable
from typing import Never, ParamSpec, TypeVar

P = ParamSpec("P")
Opened = TypeVar("Opened")


def opens(function: Callable[P, Opened]) -> Callable[P, Opened]:
    """Return `function`."""
    return function


class Closes:
    """Closes by `close` only. Says what to write in place of ``async with``."""

    @property
    def __aenter__(self) -> Never:
        """Raise the error: an AttributeError, so that `hasattr` is False."""
        raise AttributeError(f"{type(self).__name__} is blocking: use `with`, not `async with`")
