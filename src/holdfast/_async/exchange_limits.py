"""The time limits of one exchange (a request and its reply), async: see `_sync/exchange_limits.py`.

aiohttp has no time-out for writing and none for a whole exchange with a streamed body. Its time-out
for reading is not used: every received byte restarts it, even one that is not progress. So here a
step notes when it must have ended, and one timer for all exchanges of a transport looks at the
steps. When the time of one is over, its connection is closed, which wakes the waiting caller.
"""

import asyncio
from typing import Protocol

from holdfast._async.runtime import now
from holdfast.calls import Deadline
from holdfast.config import Timeouts
from holdfast.protocol.http import TrailingBytes
from holdfast.protocol.transport_errors import READ_TIMEOUT, ErrorKind


class Abortable(Protocol):
    """A connection that the timer can close."""

    def fail(self, error: BaseException, /) -> None:
        """Close the connection, and raise `error` where the caller waits for it."""


class ExchangeTimer:
    """Ends the exchanges of one transport whose time is over."""

    def __init__(self) -> None:
        self._watched: set[ExchangeLimits] = set()
        self._handle: asyncio.TimerHandle | None = None
        self._at = 0.0

    def watch(self, limits: "ExchangeLimits", end: float) -> None:
        """Look at the exchange of `limits` at the time `end`, if not before."""
        self._watched.add(limits)
        if self._handle is None or end < self._at:
            self._set(end)

    def forget(self, limits: "ExchangeLimits") -> None:
        """Look at the exchange of `limits` no more."""
        self._watched.discard(limits)

    def _set(self, end: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._at = end
        delay = max(0.0, end - now())
        self._handle = asyncio.get_running_loop().call_later(delay, self._check)

    def _check(self) -> None:
        self._handle = None
        ends = [end for each in tuple(self._watched) if (end := each.check()) is not None]
        if ends:
            self._set(min(ends))

    def stop(self) -> None:
        """Look at no exchange any more."""
        self._watched.clear()
        if self._handle is not None:
            self._handle.cancel()


class ExchangeLimits:
    """How long each step of one exchange may take.

    Attributes:
        timeouts: The limits of the single steps.
        sent: Whether the whole request was sent.
        max_privacy: How private the address may be that the request is sent to; None for any.
        address: The address that it was sent to; None if a proxy made the connection.
        timeout_error: The kind of error for a time-out in the current step.
        has_expired: Whether a step took too long.
        end_of_reply: The last bytes of the reply, with its trailer.
    """

    __slots__ = (
        "_connection",
        "_deadline",
        "_is_waiting",
        "_step_end",
        "_timer",
        "address",
        "end_of_reply",
        "has_expired",
        "max_privacy",
        "sent",
        "timeout_error",
        "timeouts",
    )

    def __init__(
        self,
        timer: ExchangeTimer,
        timeouts: Timeouts,
        deadline: Deadline,
        *,
        max_privacy: int | None = None,
    ) -> None:
        self.timeouts = timeouts
        self.sent = False
        self.max_privacy = max_privacy
        self.address: str | None = None
        self.timeout_error = READ_TIMEOUT
        self.has_expired = False
        self.end_of_reply = TrailingBytes()
        self._deadline = deadline
        self._connection: Abortable | None = None
        self._is_waiting = False
        self._step_end: float | None = None
        self._timer = timer

    def start(self, connection: Abortable) -> None:
        """Start to limit the exchange on `connection`. The first step is the wait for the head.

        A request without a streamed body is sent at once. A streamed body starts steps of its own.
        """
        self._connection = connection
        self.wait_for_body()

    def start_step(self, seconds: float | None, timeout_error: ErrorKind = READ_TIMEOUT) -> None:
        """Start a step that may take `seconds`, but not beyond the deadline.

        An early reply may come while the body is still sent: then the step has no limit.
        """
        self.timeout_error = timeout_error
        if self._is_waiting:
            self._start(seconds)

    def wait_for_body(self) -> None:
        """Start the time for the head, or the next bytes of the body, of the reply."""
        self._is_waiting = True
        self._start(self.timeouts.read)

    def pause(self) -> None:
        """Stop limiting the time: the caller does not wait for the peer."""
        self._is_waiting = False

    def end(self) -> None:
        """End the exchange."""
        self._is_waiting = False
        self._connection = None
        self._timer.forget(self)

    def connect_seconds(self) -> float | None:
        """Return how long making the connection may take."""
        left = self._deadline.left()
        return _earlier(self.timeouts.connect, None if left is None else max(0.0, left))

    @property
    def is_over(self) -> bool:
        """Whether no time is left for the exchange."""
        return self._deadline.has_passed

    def _start(self, seconds: float | None) -> None:
        self._step_end = None if seconds is None else now() + seconds
        end = _earlier(self._step_end, self._deadline.at)
        if end is not None:
            self._timer.watch(self, end)

    def check(self) -> float | None:
        """Close the connection if the time of the current step is over; else return when it is."""
        end = _earlier(self._step_end, self._deadline.at)
        if not self._is_waiting or end is None or now() < end:
            return end if self._is_waiting else None
        if self._connection is not None:
            self.has_expired = True
            self._connection.fail(TimeoutError())
        return None


def _earlier(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)
