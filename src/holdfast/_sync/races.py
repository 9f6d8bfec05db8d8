# WARNING: this file is generated from src/holdfast/_async/races.py
# by scripts/generate_sync.py. Change the original instead.
"""Races: several runners do the same, and the first one that succeeds wins."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from holdfast._sync.runtime import Running, now

R = TypeVar("R")
T = TypeVar("T")


def race(
    runners: Sequence[R],
    start: Callable[[R], T],
    delay: float,
    discard: Callable[[T], object],
) -> tuple[tuple[R, T] | None, dict[R, Exception]]:
    """Return the first of the `runners` that succeeds, with its result, and the others' errors.

    The first one starts at once, each further one after `delay` seconds, or as soon as one has
    failed. When one succeeds, the others are cancelled. `discard` gets results that come too late.
    """
    failures: dict[R, Exception] = {}
    waiting = deque(runners)
    with Running[R, T](discard) as running:
        while waiting or running.runners:
            if waiting:
                runner = waiting.popleft()
                running.start(runner, partial(start, runner))
            ended = running.next(now() + delay if waiting else float("inf"))
            if ended is None:
                continue
            runner, outcome = ended
            if not isinstance(outcome, Exception):
                return (runner, outcome), failures
            failures[runner] = outcome
    return None, failures
