"""Connections of aiohttp that enforce the limits of each exchange: see `_sync/connections.py`."""

import asyncio
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

from holdfast._async.exchange_limits import ExchangeLimits, current_limits
from holdfast.protocol import host_privacy, transport_errors
from holdfast.protocol.overhead import Overhead

RECEIVE_SIZE: Final = 1 << 20


class OverheadError(aiohttp.ClientError):
    """The peer has sent too much that is not content."""


class GarbledError(aiohttp.ClientError):
    """The peer has sent a body that cannot be parsed."""


class ForbiddenAddressError(aiohttp.ClientError):
    """The address is more private than the request allows."""


def exchange_tracing() -> aiohttp.TraceConfig:
    """Return hooks for a session that report its steps to `ExchangeLimits`.

    They limit the time to make a connection, also through a proxy, and count the bytes that are
    sent.
    """

    async def connection_start(_: Any, context: Any, __: Any) -> None:
        limits: ExchangeLimits = context.trace_request_ctx
        limits.start_step(limits.timeouts.connect, transport_errors.CONNECT_TIMEOUT)

    async def connection_end(_: Any, context: Any, __: Any) -> None:
        context.trace_request_ctx.start_step(None)

    async def headers_sent(_: Any, context: Any, __: Any) -> None:
        context.trace_request_ctx.count_sent(0)

    async def chunk_sent(_: Any, context: Any, about: Any) -> None:
        context.trace_request_ctx.count_sent(len(about.chunk))

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_start.append(connection_start)
    trace.on_connection_create_end.append(connection_end)
    trace.on_request_headers_sent.append(headers_sent)
    trace.on_request_chunk_sent.append(chunk_sent)
    return trace


class Connector(aiohttp.TCPConnector):
    """Connects only to addresses that the request may be sent to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # The session limits the number of calls, so connections have no limit here. A call that
        # holds the connection of a body may need another for a block, and would wait for ever.
        super().__init__(limit=0)
        self._factory = partial(_Handler, loop)  # type: ignore[assignment]

    async def _resolve_host(self, *args: Any, **kwargs: Any) -> Any:
        found = await super()._resolve_host(*args, **kwargs)
        most = current_limits.get().max_privacy
        if most is None:
            return found
        allowed = [each for each in found if host_privacy.privacy(each["host"]) <= most]
        if found and not allowed:
            raise ForbiddenAddressError
        return allowed

    async def connect(self, *args: Any, **kwargs: Any) -> Any:
        """Return a new or kept connection to an address that the request may be sent to."""
        connection = await super().connect(*args, **kwargs)
        limits = current_limits.get()
        if limits.max_privacy is not None:
            peer = connection.transport and connection.transport.get_extra_info("peername")
            if not peer:
                connection.close()
                raise aiohttp.ClientConnectionResetError("the connection is closed")
            limits.address = str(peer[0])
            if host_privacy.privacy(limits.address) > limits.max_privacy:
                connection.close()
                raise ForbiddenAddressError
        return connection


class _Handler(ResponseHandler):
    """Parses the replies on one connection. Closes it if they have too little content."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._overhead = Overhead()
        self._counted: tuple[Any, int] = (None, 0)  # a payload, and the bytes counted of it

    def set_response_params(self, **options: Any) -> None:
        """Start a new exchange."""
        # While reading is paused, the parser may hold the bytes of one receive.
        self._overhead = Overhead(slack=RECEIVE_SIZE)
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        """Parse bytes from the connection."""
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
        """Take a complete head."""
        if 100 <= data[0].code < 200:
            self._overhead.take_informational()
        if not self._overhead.is_too_much:
            super().feed_data(data, size)

    def _fail(self, error: BaseException) -> None:
        """End the exchange with `error`, and close the connection.

        When bytes cannot be parsed, aiohttp tells the caller that waits for a head, but not the
        one that waits for the body.
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
    """Ignores cookies without parsing them: aiohttp would log those that it cannot parse."""

    def update_cookies_from_headers(self, *_: Any) -> None:
        """Do nothing."""
