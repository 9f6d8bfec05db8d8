"""The time limits of one exchange (a request and its reply), async: see `_sync/exchange_limits.py`.

aiohttp has no time-out for writing and none for a whole exchange with a streamed body. So each
request runs inside one `asyncio.timeout`, which is rescheduled at every step. aiohttp's time-out
for reading is not used: every received byte restarts it, even one that is not progress.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from holdfast.calls import Deadline
from holdfast.config import Timeouts
from holdfast.protocol.transport_errors import READ_TIMEOUT, ErrorKind


class ExchangeLimits:
    """How long each step of one exchange may take.

    Attributes:
        timeouts: The limits of the single steps.
        unsent: The bytes of the body that are still to be sent, or None if that is not known.
        sent: Whether the whole request was sent.
        max_privacy: How private the address may be that the request is sent to; None for any.
        address: The address that it was sent to; None if a proxy made the connection.
        timeout_error: The kind of error for a time-out in the current step.
    """

    def __init__(
        self,
        timeouts: Timeouts,
        deadline: Deadline,
        unsent: int | None,
        *,
        max_privacy: int | None,
    ) -> None:
        self.timeouts = timeouts
        self.unsent = unsent
        self.sent = False
        self.max_privacy = max_privacy
        self.address: str | None = None
        self.timeout_error = READ_TIMEOUT
        self._deadline = deadline
        self._timer: asyncio.Timeout | None = None

    @asynccontextmanager
    async def enforced(self) -> AsyncIterator[None]:
        """Raise `TimeoutError` in the block when a step takes too long."""
        try:
            async with asyncio.timeout(self._left()) as self._timer:
                yield
        finally:
            self._timer = None

    def start_step(self, seconds: float | None, timeout_error: ErrorKind = READ_TIMEOUT) -> None:
        """Start a step that may take `seconds`, but not beyond the deadline."""
        self.timeout_error = timeout_error
        # An early reply ends the block of `enforced` while the body may still be sent.
        if self._timer is not None:
            seconds = _least(seconds, self._left())
            loop = asyncio.get_running_loop()
            self._timer.reschedule(None if seconds is None else loop.time() + seconds)

    def read_seconds(self) -> float | None:
        """Return how long the next bytes of the reply's body may take."""
        return _least(self.timeouts.read, self._left())

    @property
    def is_over(self) -> bool:
        """Whether no time is left for the exchange."""
        return self._left() == 0

    def count_sent(self, size: int) -> None:
        """Count bytes of the body that were sent.

        The wait for the head of the reply starts after the last one. Informational replies do not
        restart it.
        """
        if self.unsent is not None:
            self.unsent -= size
            self.sent = self.unsent <= 0
            if self.sent:
                self.start_step(self.timeouts.read)

    def _left(self) -> float | None:
        left = self._deadline.left()
        return None if left is None else max(0.0, left)


def _least(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


# aiohttp picks or makes the connection inside one call, in the task of the caller. The connection
# finds its limits here.
current_limits: ContextVar[ExchangeLimits] = ContextVar("current_limits")
