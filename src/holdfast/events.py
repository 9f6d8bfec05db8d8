"""What a client does, told to the ``holdfast`` logger and to a hook of the user's.

A `Call` is one operation under way. All that happens for it is told through it, so every event
and every log record says which operation it belongs to. Nothing secret is ever told: no header, no
body, no query.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

logger = logging.getLogger("holdfast")
logger.addHandler(logging.NullHandler())  # what nobody asked to see does not go to stderr

Kind: TypeAlias = Literal["request", "retry", "gateway", "call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a client.

    Attributes:
        kind: ``request``: a request was answered or failed. ``retry``: it will be sent again, after
            `delay` seconds. ``gateway``: a gateway did not give what the CID names. ``call``: the
            whole operation has ended.
        operation: ``store``, ``retrieve``, ``upload``, ``download``, ``open``, ``revoke`` or
            ``test_connection``; messages are stored and retrieved.
        cid: What it is about, where that is known.
        attempt: How many requests the operation has sent so far.
        peer: The host that was asked.
        status: Its HTTP status, if it gave one.
        elapsed: Seconds since the request, or for ``call`` the operation, began.
        delay: For ``retry``, the seconds until the next attempt.
        error: The class of the error that it ended with, if it did.

    Example:
        >>> from holdfast import Client
        >>> def count(event: Event) -> None:
        ...     if event.kind == "call":
        ...         print(event.operation, event.error)
        >>> import tempfile
        >>> with Client.init(path=tempfile.mkdtemp(), on_event=count) as client:
        ...     cid = client.store([1]).cid
        store None
    """

    kind: Kind
    operation: str
    cid: str | None = None
    attempt: int = 0
    peer: str | None = None
    status: int | None = None
    elapsed: float = 0.0
    delay: float | None = None
    error: str | None = None


EventHook: TypeAlias = Callable[[Event], None]


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        name = None if kind is None else kind.__name__
        elapsed = time.monotonic() - self.started
        outcome = f"ended with {name}" if name else "succeeded"
        self.tell("call", "%s %s", self.operation, outcome, elapsed=elapsed, error=name)
        self._over = True
