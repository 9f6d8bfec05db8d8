"""What must be made anew in a forked child: locks that the parent's threads held, connections."""

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that does not survive a fork as it is."""

    def after_fork(self) -> None:
        """Called in the child, before anything else runs there. It must not fail."""


_alive: "weakref.WeakSet[Forkable]" = weakref.WeakSet()


def renew_after_fork(thing: Forkable) -> None:
    """See to it that `thing.after_fork()` is called in every child, for as long as it lives."""
    _alive.add(thing)


def _after_fork() -> None:
    for thing in list(_alive):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
