"""Hooks for forks of the process: pause in the parent, replace locks in the child."""

import os
import weakref
from functools import partial


class ForkAware:
    """The base of classes with locks or connections, which a forked child must not share.

    The other methods are called only after `watch_forks` was called.
    """

    def watch_forks(self) -> None:
        """Register the three methods below for every fork, as long as the object exists."""
        _watching.add(self)

    def before_fork(self) -> None:
        """Wait until no operation is running, and let none start."""

    def after_fork_in_parent(self) -> None:
        """Undo what `before_fork` did."""

    def after_fork_in_child(self) -> None:
        """Replace locks and connections. Called before anything else runs; must not fail."""


_watching: "weakref.WeakSet[ForkAware]" = weakref.WeakSet()


def _call(method: str) -> None:
    for watcher in list(_watching):
        getattr(watcher, method)()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=partial(_call, "before_fork"),
        after_in_parent=partial(_call, "after_fork_in_parent"),
        after_in_child=partial(_call, "after_fork_in_child"),
    )
