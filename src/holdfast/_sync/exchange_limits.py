"""The limits of one exchange (a request and its reply), blocking: see `_async/exchange_limits.py`.

urllib3's time-outs hold for each single read and write of a socket, so a peer that sends one byte
now and then never exceeds them. Here, every read and write of the socket first asks
`ExchangeLimits` how long it may take. A read may take until the next progress is due: a complete
head, or a byte of the body.
"""

import socket
from collections.abc import Callable
from contextvars import ContextVar

from urllib3 import exceptions as library

from holdfast._sync.runtime import now
from holdfast.calls import Deadline
from holdfast.config.limits import Timeouts
from holdfast.protocol import host_privacy
from holdfast.protocol.http import Overhead


class OverheadError(library.HTTPError):
    """The peer has sent too much that is not content."""


class ForbiddenAddressError(library.HTTPError):
    """The address is more private than the request allows."""


def _do_nothing() -> None:
    pass


class ExchangeLimits:
    """How long each step of one exchange may take, and how many bytes may be other than content.

    Attributes:
        sent: Whether the whole request was sent.
        address: The address that it was sent to; None if a proxy made the connection.
        release: Called when the exchange is over, so that a race no longer shuts its connection.
    """

    def __init__(
        self, timeouts: Timeouts, deadline: Deadline, *, proxied: bool, max_privacy: int
    ) -> None:
        self._timeouts = timeouts
        self._deadline = deadline
        self._proxied = proxied
        self._max_privacy = max_privacy
        self._overhead = Overhead()
        self._progress_by: float | None = None
        self.sent = False
        self.address: str | None = None
        self.release: Callable[[], None] = _do_nothing

    def connect_seconds(self) -> float | None:
        """Return how long making the connection may take."""
        return self._within_deadline(self._timeouts.connect)

    @property
    def read_timeout(self) -> float | None:
        """The time-out for reading."""
        return self._timeouts.read

    def connect_by(self) -> float | None:
        """Return when the connection must be made."""
        seconds = self.connect_seconds()
        return None if seconds is None else now() + seconds

    def write_seconds(self) -> float | None:
        """Return how long the next write may take."""
        return self._within_deadline(self._timeouts.write)

    def expect_progress(self) -> None:
        """Start the time in which the peer must make progress."""
        read = self._timeouts.read
        self._progress_by = None if read is None else now() + read

    def read_seconds(self) -> float | None:
        """Return the time that is left until progress is due."""
        if self._progress_by is None:
            return self._within_deadline(None)
        return self._within_deadline(max(0.0, self._progress_by - now()))

    def receive(self, count: int) -> None:
        """Count bytes from the socket."""
        self._overhead.receive(count)
        self._check_overhead()

    def take_content(self, count: int) -> None:
        """Count bytes of the body."""
        self._overhead.take_content(count)

    def take_informational(self) -> None:
        """Count an informational reply."""
        self._overhead.take_informational()
        self._check_overhead()

    def _check_overhead(self) -> None:
        if self._overhead.is_too_much:
            raise OverheadError

    def may_connect(self, address: str) -> bool:
        """Return whether the request may be sent to `address`."""
        # The most private level allows every address.
        if self._proxied or self._max_privacy >= host_privacy.METADATA:
            return True
        return host_privacy.privacy(address) <= self._max_privacy

    def check_peer(self, sock: socket.socket) -> None:
        """Raise an error if the request may not be sent to the address at the end of `sock`."""
        if not self._proxied:
            self.address = str(sock.getpeername()[0])
            if not self.may_connect(self.address):
                raise ForbiddenAddressError

    def _within_deadline(self, seconds: float | None) -> float | None:
        left = self._deadline.left()
        if left is not None and (seconds is None or left < seconds):
            seconds = left
        if seconds is not None and seconds <= 0:
            raise TimeoutError
        return seconds


# urllib3 picks or makes the connection inside one call, on the thread of the caller. The connection
# finds its limits here.
current_limits: ContextVar[ExchangeLimits] = ContextVar("current_limits")
