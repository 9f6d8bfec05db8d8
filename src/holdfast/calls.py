"""One operation of a client under way: its name, its deadline, and its events."""

import logging
import time
from dataclasses import asdict
from typing import Any, Self

from holdfast.events import Event, EventHook, Kind

logger = logging.getLogger("holdfast")


class Deadline:
    """When something must have ended; None is never.

    Two kinds of waits move all deadlines of a call on: for a turn under the rate limit, and for as
    long as a peer asks for with ``Retry-After``.
    """

    def __init__(self, at: float | None, call: "Call | None" = None) -> None:
        self._at = at
        self._call = call
        self._postponed = 0.0 if call is None else call.postponed

    @property
    def at(self) -> float | None:
        """The monotonic time, as of now."""
        if self._at is None or self._call is None:
            return self._at
        return self._at + self._call.postponed - self._postponed

    def copy(self) -> "Deadline":
        """Return another deadline at the same time."""
        return Deadline(self.at, self._call)

    def tighten(self, seconds: float | None) -> None:
        """Let no more than `seconds` be left; None changes nothing."""
        if seconds is not None:
            at, self._call = self.at, None
            until = time.monotonic() + seconds
            self._at = until if at is None else min(at, until)

    def left(self) -> float | None:
        """The seconds that are left; less than 0 when it has passed."""
        at = self.at
        return None if at is None else at - time.monotonic()


NEVER = Deadline(None)


class Call:
    """One operation under way: its name, its deadline, and whom to tell about it.

    Attributes:
        attempt: How many requests were sent for it so far.
        postponed: The seconds by which its deadlines have moved on.
        asked_wait: The seconds that it has waited because peers asked for it.
    """

    def __init__(
        self,
        operation: str,
        *,
        cid: str | None = None,
        total: float | None = None,
        hook: EventHook | None = None,
    ) -> None:
        self.operation = operation
        self.cid = cid
        self.attempt = 0
        self.postponed = 0.0
        self.asked_wait = 0.0
        self.started = time.monotonic()
        self.deadline = Deadline(None if total is None else self.started + total, self)
        self._hook = hook
        self._over = False

    def renew(self) -> None:
        """Start the time of all its deadlines anew."""
        self.postponed = time.monotonic() - self.started

    def share(self, parts: int) -> Deadline:
        """A fair part of the time that is left: who hangs does not use up the others'."""
        left = self.deadline.left()
        return Deadline(None if left is None else time.monotonic() + left / parts, self)

    def tell(
        self, kind: Kind, words: str, *args: object, level: int = logging.DEBUG, **facts: Any
    ) -> None:
        """Log `words` and call the hook. What the hook raises is logged, and stops nothing."""
        # A racer that has lost may still have something to say when all is over.
        if self._over or (self._hook is None and not logger.isEnabledFor(level)):
            return
        known = {"cid": self.cid, "attempt": self.attempt}
        event = Event(kind=kind, operation=self.operation, **{**known, **facts})
        logger.log(level, words, *args, extra=asdict(event))
        if self._hook is not None:
            try:
                self._hook(event)
            except Exception:
                logger.exception("on_event raised; the call goes on")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        name = None if kind is None else kind.__name__
        elapsed = time.monotonic() - self.started
        outcome = f"ended with {name}" if name else "succeeded"
        self.tell("call", "%s %s", self.operation, outcome, elapsed=elapsed, error=name)
        self._over = True
