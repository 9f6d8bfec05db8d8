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
from holdfast.protocol import host_privacy
from holdfast.protocol.overhead import Overhead

RECEIVE_SIZE: Final = 1 << 20
BUFFER_SIZE: Final = 1 << 19  # bytes of a reply that may be received before they are read


class OverheadError(aiohttp.ClientError):
    """The peer has sent too much that is not content."""


class GarbledError(aiohttp.ClientError):
    """The peer has sent a body that cannot be parsed."""


class ForbiddenAddressError(aiohttp.ClientError):
    """The address is more private than the request allows."""


class _Request(aiohttp.ClientRequest):
    """Has no headers but ours, and notes in `ExchangeLimits` when all of it is sent."""

    limits: ExchangeLimits
    _skip_auto_headers = CIMultiDict({"Content-Type": None})

    def update_auto_headers(self, _: Any) -> None:
        """Add no headers."""

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        """Send the head, and start to send the body if there is one."""
        response = await super().send(conn)
        if not self.body:
            self.limits.sent = True
        return response

    async def write_bytes(self, *args: Any, **options: Any) -> None:
        """Send the body."""
        await super().write_bytes(*args, **options)
        self.limits.sent = True


# aiohttp resolves the name of a host in the task of the caller. The limits are found here.
_current_limits: ContextVar[ExchangeLimits] = ContextVar("_current_limits")


class Connector(aiohttp.TCPConnector):
    """Makes exchanges on connections to addresses that the request may be sent to.

    This is what a `ClientSession` does for one request, but without redirects, cookies, retries and
    hooks, which take a quarter of the time of a small request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # The session limits the number of calls, so connections have no limit here. A call that
        # holds the connection of a body may need another for a block, and would wait for ever.
        super().__init__(limit=0)
        self._factory = partial(_Handler, loop)  # type: ignore[assignment]

    async def exchange(
        self, limits: ExchangeLimits, method: str, url: str, **options: Any
    ) -> aiohttp.ClientResponse:
        """Send a request and return the reply, whose body is not read yet."""
        # yarl must not quote and normalise what is quoted already.
        address = yarl.URL(url, encoded=True)
        if address.scheme not in {"http", "https"}:
            raise aiohttp.NonHttpUrlClientError(address)
        request = _Request(method, address, loop=self._loop, **options)
        request.limits = limits
        try:
            connection: Any = await self.connect(
                request, [], _library_timeouts(limits.timeouts.connect)
            )
        except TimeoutError:
            raise aiohttp.ConnectionTimeoutError from None
        try:
            if limits.max_privacy is not None:
                self._check_address(connection, limits)
            connection.protocol.set_response_params(
                read_until_eof=True, auto_decompress=False, read_bufsize=BUFFER_SIZE
            )
            limits.start(connection.protocol)
            response = await request.send(connection)
            try:
                return await response.start(connection)
            except BaseException:
                response.close()
                raise
        except BaseException:
            connection.close()
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

    async def _create_connection(self, req: Any, *args: Any, **kwargs: Any) -> Any:
        """Make a connection, also through a proxy, within the time for it."""
        token = _current_limits.set(req.limits)
        try:
            async with asyncio.timeout(req.limits.connect_seconds()):
                return await super()._create_connection(req, *args, **kwargs)
        finally:
            _current_limits.reset(token)

    async def _resolve_host(self, *args: Any, **kwargs: Any) -> Any:
        found = await super()._resolve_host(*args, **kwargs)
        limits = _current_limits.get()
        allowed = [each for each in found if _may_connect(each["host"], limits)]
        if found and not allowed:
            raise ForbiddenAddressError
        return allowed


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
            self.fail(OverheadError())
        elif self._exception is not None:
            self.fail(self._exception)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Take a complete head."""
        if 100 <= data[0].code < 200:
            self._overhead.take_informational()
        if not self._overhead.is_too_much:
            super().feed_data(data, size)

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
