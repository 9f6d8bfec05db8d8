"""One call of a client's method: its name, its deadline, and its events."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any, Final, Self, TypeVar

from holdfast.events import Event, EventHook, Kind, logger
from holdfast.single_line import short, single_line

P = TypeVar("P")

CALLS_AT_ONCE: Final = 100  # calls of a client; each holds one or two connections

gateway_hosts: ContextVar[set[str] | None] = ContextVar("gateway_hosts", default=None)
"""The set to which reads add the gateways that sent verified content; None if nobody asks."""


def note_gateway(host: str) -> None:
    """Note that the gateway at `host` sent verified content."""
    hosts = gateway_hosts.get()
    if hosts is not None and host:
        hosts.add(host)


class Deadline:
    """The time by which something must have ended; None for no limit.

    Two kinds of waits postpone all deadlines of a call: for a turn under the rate limit, and for
    the time that a peer asks for with ``Retry-After``.
    """

    def __init__(self, at: float | None, clock: "Clock | None" = None) -> None:
        self._at = at
        self._clock = clock
        self._postponed = 0.0 if clock is None else clock.postponed

    @property
    def at(self) -> float | None:
        """The time on the monotonic clock, as it is now; waits may postpone it."""
        if self._at is None or self._clock is None:
            return self._at
        return self._at + self._clock.postponed - self._postponed

    def copy(self) -> "Deadline":
        """Return another deadline at the same time."""
        return Deadline(self.at, self._clock)

    def move_to(self, at: float | None) -> None:
        """Change it to the time `at`; None for no limit."""
        self._at = at
        self._postponed = 0.0 if self._clock is None else self._clock.postponed

    def tighten(self, seconds: float | None) -> None:
        """Reduce the time that is left to at most `seconds`. None changes nothing."""
        if seconds is not None:
            at, self._clock = self.at, None
            until = time.monotonic() + seconds
            self._at = until if at is None else min(at, until)

    def left(self) -> float | None:
        """Return the seconds that are left; negative after the deadline."""
        at = self.at
        return None if at is None else at - time.monotonic()

    @property
    def has_passed(self) -> bool:
        """Whether no time is left."""
        left = self.left()
        return left is not None and left <= 0


NEVER = Deadline(None)


class Clock:
    """The time of one call, or of several that share it, such as those for the pages of a list.

    Attributes:
        started: When it was started, on the monotonic clock.
        postponed: The seconds by which all its deadlines are postponed.
        asked_wait: The seconds that were waited because peers asked for it.
    """

    __slots__ = ("_total", "asked_wait", "postponed", "started")

    def __init__(self, total: float | None) -> None:
        self.started: float = time.monotonic()
        self.postponed: float = 0.0
        self.asked_wait: float = 0.0
        self._total = total

    @property
    def deadline(self) -> Deadline:
        """The end of the time: a new object each time, because it refers to the clock."""
        if self._total is None:
            return NEVER
        return Deadline(self.started + self._total + self.postponed, self)

    def renew(self) -> None:
        """Start the time of all deadlines again."""
        self.postponed = time.monotonic() - self.started

    def share(self, parts: int) -> Deadline:
        """Return a deadline for one of `parts` equal parts of the time that is left.

        So a peer that does not answer cannot use up the time of the others.
        """
        if self._total is None:
            return Deadline(None, self)
        now = time.monotonic()
        left = self.started + self._total + self.postponed - now
        return Deadline(now + left / parts, self)


class Call:
    """One call of a client's method, while it runs.

    Attributes:
        attempt: The number of requests that it has sent so far.
        url: The address of the last of them.
        clock: Its time, which it may share with other calls.
    """

    def __init__(
        self,
        operation: str,
        *,
        cid: str | None = None,
        total: float | None = None,
        hook: EventHook | None = None,
        clock: Clock | None = None,
        provider: str | None = None,
    ) -> None:
        self.operation = operation
        self.cid = cid
        self.attempt = 0
        self.url = ""
        self.started: float = time.monotonic()
        self.clock: Clock = Clock(total) if clock is None else clock
        self._hook = hook
        self._provider = provider
        self._over = False

    @property
    def deadline(self) -> Deadline:
        """When it must have ended."""
        return self.clock.deadline

    def renew(self) -> None:
        """Start the time of all its deadlines again."""
        self.clock.renew()

    def share(self, parts: int) -> Deadline:
        """Return a deadline for one of `parts` equal parts of the time that is left."""
        return self.clock.share(parts)

    def turns(self, peers: Sequence[P]) -> Iterator[tuple[P, Deadline]]:
        """Yield the `peers` in order, each with its share of the time that is left then."""
        for number, peer in enumerate(peers):
            yield peer, self.share(len(peers) - number)

    def is_heard(self, level: int = logging.DEBUG) -> bool:
        """Return whether anybody listens to events of `level`: a hook, or a handler of the log."""
        return self._hook is not None or logger.isEnabledFor(level)

    def tell(
        self, kind: Kind, words: str, *args: object, level: int = logging.DEBUG, **facts: Any
    ) -> None:
        """Log `words` and call the hook. An error of the hook is logged and otherwise ignored."""
        # A runner that has lost a race may still report something after the call has ended.
        if self._over or not self.is_heard(level):
            return
        cid = self.cid and short(self.cid)
        facts = {"cid": cid, "attempt": self.attempt, "provider": self._provider, **facts}
        shown = {name: _shown(value) for name, value in facts.items()}
        event = Event(kind=kind, operation=self.operation, **shown)
        logger.log(level, words, *map(_shown, args), extra=asdict(event))
        if self._hook is not None:
            try:
                self._hook(event)
            except Exception:  # noqa: BLE001 - logged
                logger.exception("on_event raised an exception; the call continues")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.is_heard():
            name = None if kind is None else kind.__name__
            elapsed = time.monotonic() - self.started
            outcome = f"ended with {name}" if name else "done"
            self.tell("call", "%s: %s", self.operation, outcome, elapsed=elapsed, error=name)
        self._over = True


def _shown(value: Any) -> Any:
    """Return a value for the log: a text may be a peer's."""
    return single_line(value) if isinstance(value, str) else value
