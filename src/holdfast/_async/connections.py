"""Connections of aiohttp that keep the limits of an exchange: the lower half of the transport.

aiohttp has no time-out for writing and none for a whole exchange with a streamed body: the scope
around a request is moved on with every chunk that was taken. Its time-out for reading begins anew
with every byte that comes, whatever it is, so it is not used.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

from holdfast.calls import Deadline
from holdfast.config import Timeouts
from holdfast.protocol import addresses, transport_errors
from holdfast.protocol.overhead import Overhead

RECEIVE_SIZE: Final = 1 << 20


class OverheadError(aiohttp.ClientError):
    """The peer has sent too much that is not content."""


class GarbledError(aiohttp.ClientError):
    """The peer has sent something in a body that cannot be parsed."""


class PrivateAddressError(aiohttp.ClientError):
    """A redirect leads to an address that is more private than it may be."""


class Patience:
    """How long one exchange may stand still: moved on as it passes from phase to phase.

    Attributes:
        unsent: The bytes of the body that are still to go out, or None where that is not known.
        sent: Whether the request is out whole.
        max_privacy: How private the address may be that the request is sent to; None for any.
        address: The address that it was sent to; None where a proxy has made the connection.
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
        self._deadline = deadline
        self._scope: asyncio.Timeout | None = None
        self.fault = transport_errors.READ_TIMEOUT

    @asynccontextmanager
    async def scope(self) -> AsyncIterator[None]:
        """Within it, a wait that is too long is a `TimeoutError`."""
        try:
            async with asyncio.timeout(self._left()) as self._scope:
                yield
        finally:
            self._scope = None

    def allow(
        self, step: float | None, fault: transport_errors.Fault = transport_errors.READ_TIMEOUT
    ) -> None:
        """From now on the peer has `step` seconds, within the deadline; else it is `fault`."""
        self.fault = fault
        # An early reply ends the scope while the body may still be on its way.
        if self._scope is not None:
            self._scope.reschedule(_loop_time(_least(step, self._left())))

    def until_progress(self) -> float | None:
        """Return how long the next bytes of the body may take."""
        return _least(self.timeouts.read, self._left())

    @property
    def is_over(self) -> bool:
        """Whether no time is left for the exchange."""
        return self._left() == 0

    def _left(self) -> float | None:
        left = self._deadline.left()
        return None if left is None else max(0.0, left)

    def take_note(self, sent: int) -> None:
        """Count bytes of the body that are out. After the last, the head of the reply is due.

        Informational replies do not move that time.
        """
        if self.unsent is not None:
            self.unsent -= sent
            self.sent = self.unsent <= 0
            if self.sent:
                self.allow(self.timeouts.read)

    @classmethod
    def tracing(cls) -> aiohttp.TraceConfig:
        """Hooks for a session.

        They limit the making of a connection, a proxy's part included, and see what goes out.
        """

        async def start(_: Any, context: Any, __: Any) -> None:
            patience: Patience = context.trace_request_ctx
            patience.allow(patience.timeouts.connect, transport_errors.CONNECT_TIMEOUT)

        async def end(_: Any, context: Any, __: Any) -> None:
            context.trace_request_ctx.allow(None)

        async def headers_sent(_: Any, context: Any, __: Any) -> None:
            context.trace_request_ctx.take_note(0)

        async def chunk_sent(_: Any, context: Any, about: Any) -> None:
            context.trace_request_ctx.take_note(len(about.chunk))

        trace = aiohttp.TraceConfig()
        trace.on_connection_create_start.append(start)
        trace.on_connection_create_end.append(end)
        trace.on_request_headers_sent.append(headers_sent)
        trace.on_request_chunk_sent.append(chunk_sent)
        return trace


# aiohttp picks or makes the connection inside one call, in the task of the caller.
current_patience: ContextVar[Patience] = ContextVar("current_patience")


class Connector(aiohttp.TCPConnector):
    """Connects to addresses only that the request may go to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Calls are limited, by the session, not connections: one that holds a body may need a
        # block besides, and would wait for ever for a connection of its own kind.
        super().__init__(limit=0)
        self._factory = partial(_Handler, loop)  # type: ignore[assignment]

    async def _resolve_host(self, *args: Any, **kwargs: Any) -> Any:
        found = await super()._resolve_host(*args, **kwargs)
        most = current_patience.get().max_privacy
        if most is None:
            return found
        allowed = [each for each in found if addresses.privacy(each["host"]) <= most]
        if found and not allowed:
            raise PrivateAddressError
        return allowed

    async def connect(self, *args: Any, **kwargs: Any) -> Any:
        """Return a connection, new or kept, whose other end may have the request."""
        connection = await super().connect(*args, **kwargs)
        patience = current_patience.get()
        if patience.max_privacy is not None:
            peer = connection.transport and connection.transport.get_extra_info("peername")
            if not peer:
                connection.close()
                raise aiohttp.ClientConnectionResetError("the connection is closed")
            patience.address = str(peer[0])
            if addresses.privacy(patience.address) > patience.max_privacy:
                connection.close()
                raise PrivateAddressError
        return connection


class _Handler(ResponseHandler):
    """Parses the replies on one connection, and closes it when they are hardly any content."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._overhead = Overhead()
        self._counted: tuple[Any, int] = (None, 0)  # a payload, and the bytes counted of it

    def set_response_params(self, **options: Any) -> None:
        """Begin a new exchange."""
        # While reading is paused, the parser may keep the bytes of one receipt.
        self._overhead = Overhead(slack=RECEIVE_SIZE)
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        """Parse what came from the connection."""
        self._overhead.receive(len(data))
        super().data_received(data)
        payload = self._payload
        if payload is not None:
            known, counted = self._counted
            self._overhead.take_content(payload.total_bytes - (counted if known is payload else 0))
            self._counted = (payload, payload.total_bytes)
        if self._overhead.is_too_much:
            self._fail(OverheadError())
        elif self._exception is not None:
            self._fail(self._exception)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Take a head that is whole."""
        if 100 <= data[0].code < 200:
            self._overhead.take_informational()
        if not self._overhead.is_too_much:
            super().feed_data(data, size)

    def _fail(self, error: BaseException) -> None:
        """End the exchange with `error`, and the connection with it.

        aiohttp tells whoever waits for a head of bytes that cannot be parsed, but not whoever
        waits for the body.
        """
        payload, self._payload = self._payload, None
        self.set_exception(error)
        if payload is not None and not payload.is_eof():
            payload.set_exception(
                error if isinstance(error, OSError | aiohttp.ClientError) else GarbledError()
            )
        if self.transport is not None:
            self.transport.abort()


class NoCookies(aiohttp.DummyCookieJar):
    """Takes no cookies, and does not parse them: aiohttp would log those that it cannot read."""

    def update_cookies_from_headers(self, *_: Any) -> None:
        """Do nothing."""


def _least(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _loop_time(delay: float | None) -> float | None:
    return None if delay is None else asyncio.get_running_loop().time() + delay
