"""Connections of aiohttp that enforce the limits of each exchange: see `_sync/connections.py`."""

import asyncio
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, Final

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict

from holdfast._async.exchange_limits import ExchangeLimits
from holdfast._async.plain_exchange import (
    GarbledError,
    PlainResponse,
    exchange_plain,
    is_final,
)
from holdfast.protocol import host_privacy
from holdfast.protocol.http import PLAIN_URL, RECEIVE_SIZE, Overhead, Request, TrailingBytes

MAX_ORIGINS: Final = 100  # that are remembered
BUFFER_SIZE: Final = 1 << 19  # bytes of a reply that may be received before they are read


class OverheadError(aiohttp.ClientError):
    """The peer has sent too much that is not content."""


class ClosedError(aiohttp.ClientError):
    """The client was closed while the connection was in use."""


class ForbiddenAddressError(aiohttp.ClientError):
    """The address is more private than the request allows."""


class _Request(aiohttp.ClientRequest):
    """A request with no headers but ours."""

    _skip_auto_headers = CIMultiDict({"Content-Type": None})

    def update_auto_headers(self, _: Any) -> None:
        """Add no headers."""


# aiohttp makes a connection in the task of the caller. The limits are found here.
_current_limits: ContextVar[ExchangeLimits] = ContextVar("_current_limits")


class Connector(aiohttp.TCPConnector):
    """Makes exchanges on connections to addresses that the request may be sent to.

    This does what a `ClientSession` does for one request, but without redirects, cookies, retries,
    hooks, and a task to send the body. They take half the time of a small request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # The session limits the number of calls, so connections have no limit here. A call that
        # holds the connection of a body may need another for a block, and would wait for ever.
        super().__init__(limit=0)
        self._factory = partial(_Handler, loop)  # type: ignore[assignment]
        self._origins: dict[str, _Request] = {}

    async def exchange(
        self,
        limits: ExchangeLimits,
        request: Request,
        *,
        streamed: aiohttp.Payload | None,
        **options: Any,
    ) -> PlainResponse | aiohttp.ClientResponse:
        """Send a request and return the reply, whose body is not read yet."""
        is_plain = streamed is None and "proxy" not in options
        parts = PLAIN_URL.fullmatch(request.url) if is_plain else None
        if parts is not None:
            library_request = self._origin(parts[1], options)
        else:
            # yarl must not quote and normalise what is quoted already.
            address = yarl.URL(request.url, encoded=True)
            if address.scheme not in {"http", "https"}:
                raise aiohttp.NonHttpUrlClientError(address)
            library_request = _Request(
                request.method,
                address,
                headers=request.header_values(),
                data=streamed or request.body,
                loop=self._loop,
                **options,
            )
        connection = await self._connection(library_request, limits)
        try:
            connection.protocol.set_response_params(
                skip_payload=request.method == "HEAD",
                read_until_eof=True,
                auto_decompress=False,
                read_bufsize=BUFFER_SIZE,
            )
            limits.start(connection.protocol)
            limits.end_of_reply = connection.protocol.end
            if parts is None:
                return await self._streamed(library_request, connection, limits)
            host = library_request.headers["Host"]
            return await exchange_plain(connection, limits, request, parts[2], host)
        except BaseException:
            # Closing would first wait for the peer to take the buffered bytes, perhaps for ever.
            if connection.protocol is not None:
                connection.protocol.abort()
            connection.close()
            raise

    def _origin(self, origin: str, options: dict[str, Any]) -> _Request:
        """Return a request to `origin`, with which aiohttp finds or makes a connection."""
        found = self._origins.get(origin)
        if found is None:
            if len(self._origins) >= MAX_ORIGINS:
                self._origins.clear()
            found = _Request("GET", yarl.URL(origin, encoded=True), loop=self._loop, **options)
            self._origins[origin] = found
        return found

    async def _connection(self, request: _Request, limits: ExchangeLimits) -> Any:
        """Return a new or kept connection to an address that the request may be sent to."""
        token = _current_limits.set(limits)
        try:
            timeouts = _library_timeouts(limits.timeouts.connect)
            connection = await self.connect(request, [], timeouts)
        except TimeoutError:
            raise aiohttp.ConnectionTimeoutError from None
        finally:
            _current_limits.reset(token)
        if limits.max_privacy is not None:
            try:
                self._check_address(connection, limits)
            except BaseException:
                connection.close()
                raise
        return connection

    async def _streamed(
        self, request: _Request, connection: Any, limits: ExchangeLimits
    ) -> aiohttp.ClientResponse:
        """Send a request with a streamed body, or through a proxy, and return the reply."""
        response = await request.send(connection)
        limits.sent = not request.body
        try:
            return await response.start(connection)
        except BaseException:
            response.close()
            raise

    @staticmethod
    def _check_address(connection: Any, limits: ExchangeLimits) -> None:
        """Raise an error if the request may not be sent to the address of `connection`."""
        peer = connection.transport and connection.transport.get_extra_info("peername")
        if not peer:
            raise aiohttp.ClientConnectionResetError("the connection is closed")
        limits.address = str(peer[0])
        if not _may_connect(limits.address, limits):
            raise ForbiddenAddressError

    async def close(self, **options: Any) -> None:
        """Close all connections. Those that are in use fail at once, whatever they wait for."""
        for each in tuple(self._acquired):
            if isinstance(each, _Handler):
                each.fail(ClosedError())
        await super().close(**options)

    async def _create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Make a connection, also through a proxy, within the time for it."""
        async with asyncio.timeout(_current_limits.get().connect_seconds()):
            return await super()._create_connection(*args, **kwargs)

    async def _resolve_host(self, *args: Any, **kwargs: Any) -> Any:
        found = await super()._resolve_host(*args, **kwargs)
        limits = _current_limits.get()
        allowed = [each for each in found if _may_connect(each["host"], limits)]
        if found and not allowed:
            raise ForbiddenAddressError
        return allowed


def receive_more_at_once(transport: Any) -> None:
    """Let the event loop receive more bytes at a time: each receive costs the same."""
    if hasattr(transport, "max_size"):
        transport.max_size = RECEIVE_SIZE


def _may_connect(address: str, limits: ExchangeLimits) -> bool:
    most = limits.max_privacy
    # The most private level allows every address.
    return most is None or most >= host_privacy.METADATA or host_privacy.privacy(address) <= most


@lru_cache(8)
def _library_timeouts(connect: float | None) -> aiohttp.ClientTimeout:
    """Return the time-outs that aiohttp is left to enforce: that of a connection to one address."""
    return aiohttp.ClientTimeout(total=None, sock_connect=connect)


class _Handler(ResponseHandler):
    """Parses the replies on one connection. Closes it if they have too little content."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._overhead = Overhead()
        self._counted: tuple[Any, int] = (None, 0)  # a payload, and the bytes counted of it
        self._length: int | None = None  # of the body, if the head declares it
        self._in_body = False  # whether only bytes of such a body can come now
        self._has_head = False  # whether the final head has come
        self._is_chunked = False
        self.end = TrailingBytes()  # of the reply, in which aiohttp's parser drops the trailer

    def set_response_params(self, **options: Any) -> None:
        """Start a new exchange."""
        self._overhead = Overhead()
        self._length, self._in_body, self._has_head, self._is_chunked = None, False, False, False
        self.end = TrailingBytes()
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        """Parse bytes from the connection."""
        if data and self._has_head and self._payload is not None and self._payload.is_eof():
            # Nothing was asked for. The next request would take this for its reply.
            self.fail(GarbledError())
            return
        self._overhead.receive(len(data))
        if self._in_body:
            self._receive_body(data)
        else:
            super().data_received(data)
        if self._is_chunked:
            self.end.feed(data)
        payload = self._payload
        if payload is not None:
            if self._length is not None and not payload.is_eof():
                # While reading is paused, the parser may hold bytes of the body.
                self._in_body = self._in_body or not self._reading_paused
            known, counted = self._counted
            self._overhead.take_content(payload.total_bytes - (counted if known is payload else 0))
            self._counted = (payload, payload.total_bytes)
        if self._overhead.is_too_much:
            self.fail(OverheadError())
        elif self._exception is not None:
            self.fail(self._exception)

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002
        """Read on if reading is paused. aiohttp calls this for every piece that is taken."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Take a complete head."""
        message = data[0]
        if 100 <= message.code < 200:
            self._overhead.take_informational()
        elif not message.chunked and "Content-Length" in message.headers:
            self._length = int(message.headers["Content-Length"])
        self._has_head = is_final(message.code)
        self._is_chunked = self._has_head and message.chunked
        if not self._overhead.is_too_much:
            super().feed_data(data, size)

    def _receive_body(self, data: bytes) -> None:
        """Take bytes of a body of known length without the parser, which would copy them."""
        payload = self._payload
        if payload is None or self._length is None or not data:
            return
        left = self._length - payload.total_bytes
        if len(data) > left:
            self.force_close()  # more than one reply: the connection cannot be used again
            data = data[:left]
        payload.feed_data(data, len(data))
        if len(data) == left:
            self._in_body = False
            payload.feed_eof()
            self._parser = None  # it still waits for the body; the next request has its own

    def fail(self, error: BaseException) -> None:
        """End the exchange with `error`, and close the connection.

        When bytes cannot be parsed, aiohttp raises an error for the caller that waits for a head,
        but not for the one that waits for the body.
        """
        payload, self._payload = self._payload, None
        self.set_exception(error)
        if payload is not None and not payload.is_eof():
            payload.set_exception(
                error if isinstance(error, OSError | aiohttp.ClientError) else GarbledError()
            )
        if self.transport is not None:
            self.transport.abort()
