"""Connections of aiohttp that enforce the limits of each exchange: see `_sync/connections.py`."""

import asyncio
from functools import partial
from http.cookies import SimpleCookie
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict

from holdfast._async.exchange_limits import current_limits
from holdfast.protocol import host_privacy
from holdfast.protocol.overhead import Overhead

RECEIVE_SIZE: Final = 1 << 20
_NO_COOKIES: Final = SimpleCookie()


class OverheadError(aiohttp.ClientError):
    """The peer has sent too much that is not content."""


class GarbledError(aiohttp.ClientError):
    """The peer has sent a body that cannot be parsed."""


class ForbiddenAddressError(aiohttp.ClientError):
    """The address is more private than the request allows."""


class MarkedRequest(aiohttp.ClientRequest):
    """Has no headers but ours, and notes in `ExchangeLimits` when all of it is sent."""

    _skip_auto_headers = CIMultiDict({"Content-Type": None})

    def update_auto_headers(self, _: Any) -> None:
        """Add no headers."""

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        """Send the head, and start to send the body if there is one."""
        response = await super().send(conn)
        if not self.body:
            current_limits.get().sent = True
        return response

    async def write_bytes(self, *args: Any, **options: Any) -> None:
        """Send the body. A streamed body does the rest itself."""
        await super().write_bytes(*args, **options)
        current_limits.get().sent = True


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
        if most is None or most >= host_privacy.METADATA:
            return found
        allowed = [each for each in found if host_privacy.privacy(each["host"]) <= most]
        if found and not allowed:
            raise ForbiddenAddressError
        return allowed

    async def _create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Make a connection, also through a proxy, within the time for it."""
        async with asyncio.timeout(current_limits.get().connect_seconds()):
            return await super()._create_connection(*args, **kwargs)

    async def connect(self, *args: Any, **kwargs: Any) -> Any:
        """Return a new or kept connection to an address that the request may be sent to."""
        connection: Any = await super().connect(*args, **kwargs)
        limits = current_limits.get()
        if limits.max_privacy is not None:
            peer = connection.transport and connection.transport.get_extra_info("peername")
            if not peer:
                connection.close()
                raise aiohttp.ClientConnectionResetError("the connection is closed")
            limits.address = address = str(peer[0])
            # The most private level allows every address.
            most = limits.max_privacy
            if most < host_privacy.METADATA and host_privacy.privacy(address) > most:
                connection.close()
                raise ForbiddenAddressError
        limits.start(connection.protocol)
        return connection


class _Handler(ResponseHandler):
    """Parses the replies on one connection. Closes it if they have too little content."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._overhead = Overhead()
        self._counted: tuple[Any, int] = (None, 0)  # a payload, and the bytes counted of it
        self._length: int | None = None  # of the body, if the head declares it
        self._in_body = False  # whether only bytes of such a body can come now

    def set_response_params(self, **options: Any) -> None:
        """Start a new exchange."""
        # While reading is paused, the parser may hold the bytes of one receive.
        self._overhead = Overhead(slack=RECEIVE_SIZE)
        self._length, self._in_body = None, False
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        """Parse bytes from the connection."""
        self._overhead.receive(len(data))
        if self._in_body:
            self._receive_body(data)
        else:
            super().data_received(data)
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

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Take a complete head."""
        if 100 <= data[0].code < 200:
            self._overhead.take_informational()
        if not self._overhead.is_too_much:
            if not data[0].chunked and "Content-Length" in data[0].headers:
                self._length = int(data[0].headers["Content-Length"])
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


class NoCookies(aiohttp.DummyCookieJar):
    """Ignores cookies without parsing them: aiohttp would log those that it cannot parse."""

    def filter_cookies(self, _: Any) -> Any:
        """Return no cookies."""
        return _NO_COOKIES

    def update_cookies_from_headers(self, *_: Any) -> None:
        """Do nothing."""
