"""Connections of aiohttp that enforce the limits of each exchange (a request and its reply).

aiohttp has no time-out for writing and none for a whole exchange with a streamed body. Its time-out
for reading is not used: every received byte restarts it, even one that is not progress. So here a
step notes when it must have ended, and one timer for all exchanges of a transport looks at the
steps. When the time of one is over, its connection is closed, which wakes the waiting caller. See
`_sync/connections.py`.
"""

import asyncio
from contextvars import ContextVar
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Final, Protocol

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError
from multidict import CIMultiDict

from holdfast._async.runtime import now
from holdfast.calls import Deadline
from holdfast.config import Timeouts
from holdfast.protocol import host_privacy
from holdfast.protocol.http import PLAIN_URL, RECEIVE_SIZE, Overhead, Request, TrailingBytes
from holdfast.protocol.transport_errors import READ_TIMEOUT, ErrorKind

MAX_ORIGINS: Final = 100  # that are remembered
BUFFER_SIZE: Final = 1 << 19  # bytes of a reply that may be received before they are read

# aiohttp makes a connection in the task of the caller. The limits are found here.
_current_limits: ContextVar["ExchangeLimits"] = ContextVar("_current_limits")


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


class GarbledError(aiohttp.ClientError):
    """The peer has sent something that cannot be parsed."""


class PlainResponse:
    """The part of `aiohttp.ClientResponse` that the transport uses."""

    __slots__ = ("connection", "content", "headers", "status")

    def __init__(self, connection: Any, status: int, headers: Any, content: Any) -> None:
        self.connection = connection
        self.status = status
        self.headers = headers
        self.content = content

    def release(self) -> None:
        """Keep the connection for another request."""
        self.connection.release()

    def close(self) -> None:
        """Close the connection, and wake whoever waits for the body."""
        if self.content.exception() is None:
            self.content.set_exception(aiohttp.ClientConnectionError("Connection closed"))
        self.connection.close()


class _Sending:
    """Sends the bytes of a request when it is called.

    They hold secrets. Tracebacks, and asyncio in its debug mode, show only the `repr` of this.
    """

    __slots__ = ("_data", "_limits", "_transport")

    def __init__(self, transport: Any, limits: ExchangeLimits, data: bytes) -> None:
        self._transport = transport
        self._limits = limits
        self._data = data

    def __call__(self) -> None:
        if not self._transport.is_closing():
            # The system takes it at once, or the event loop sends the rest: the body is short.
            self._transport.write(self._data)
            self._limits.sent = True


def is_final(status: int) -> bool:
    """Return whether no other reply to the same request follows."""
    return status >= HTTPStatus.OK or status == HTTPStatus.SWITCHING_PROTOCOLS


async def exchange_plain(
    connection: Any, limits: ExchangeLimits, request: Request, target: str, host: str
) -> PlainResponse:
    """Send `request` for the path `target` of `host`, and return the reply."""
    protocol = connection.protocol
    transport = protocol.transport
    if transport is None or transport.is_closing():
        raise aiohttp.ClientConnectionResetError("the connection is closed")
    # It is sent when all tasks that are ready have made theirs: each alone would wake the peer.
    loop = asyncio.get_running_loop()
    loop.call_soon(_Sending(transport, limits, request.whole(target, host)))
    try:
        message, content = await protocol.read()
        while not is_final(message.code):
            message, content = await protocol.read()
    except HttpProcessingError:
        raise GarbledError from None
    return PlainResponse(connection, message.code, message.headers, content)


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
