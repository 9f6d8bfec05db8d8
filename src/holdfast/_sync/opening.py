"""The twin of `_async/opening.py`: a blocking call returns what it opens."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
Opened = TypeVar("Opened")


def opens(function: Callable[P, Opened]) -> Callable[P, Opened]:
    """Return `function`."""
    return function


class Closes:
    """Closes by `close` only."""
