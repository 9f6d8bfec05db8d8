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


class Pausable(Protocol):
    """Something that must not be in the middle of its work when the process is forked."""

    def before_fork(self) -> None:
        """Wait until nothing is under way, and keep it so."""

    def after_fork_in_parent(self) -> None:
        """Go on."""


_pausable: "weakref.WeakSet[Pausable]" = weakref.WeakSet()


def pause_for_fork(thing: Pausable) -> None:
    """See to it that `thing` pauses whenever the process is forked, for as long as it lives."""
    _pausable.add(thing)


def _before_fork() -> None:
    for thing in list(_pausable):
        thing.before_fork()


def _after_fork_in_parent() -> None:
    for thing in list(_pausable):
        thing.after_fork_in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork,
    )
