"""Connections of aiohttp that enforce the limits of each exchange (a request and its reply).

aiohttp has no time-out for writing and none for a whole exchange with a streamed body. Its time-out
for reading is not used: every received byte restarts it, even one that is not progress. So here a
step notes when it must have ended, and one timer for all exchanges of a transport looks at the
steps. When the time of one is over, its connection is closed, which wakes the waiting caller. See
`_sync/connections.py`.

All undocumented parts of aiohttp that the package uses are used here: see `PARTS`.
"""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError

from holdfast._async.runtime import now
from holdfast.calls import Deadline
from holdfast.config import Timeouts
from holdfast.disk.closing import on_error
from holdfast.protocol import host_privacy
from holdfast.protocol.http import PLAIN_URL, RECEIVE_SIZE, Overhead, Request, TrailingBytes
from holdfast.protocol.library_parts import LibraryPart, has_shortcuts
from holdfast.protocol.transport_errors import READ_TIMEOUT, ErrorKind

SEEN: Final = "aiohttp 3.14.3 to 3.14.5"
PARTS: Final = (
    LibraryPart(aiohttp.TCPConnector, "_factory", "replies are read within our limits", SEEN),
    LibraryPart(aiohttp.TCPConnector, "_resolve_host", "only allowed addresses are used", SEEN),
    LibraryPart(aiohttp.TCPConnector, "_create_connection", "connecting has a time-out", SEEN),
    LibraryPart(aiohttp.TCPConnector, "connect", "connections are made and kept", SEEN),
    LibraryPart(aiohttp.ClientRequest, "send", "requests have no headers but ours", SEEN),
    LibraryPart(aiohttp.ClientResponse, "start", "redirects are not followed", SEEN),
    LibraryPart(ResponseHandler, "set_response_params", "each reply is counted anew", SEEN),
    LibraryPart(ResponseHandler, "feed_data", "informational replies are counted", SEEN),
    LibraryPart(ResponseHandler, "_payload", "bytes that are not content are counted", SEEN),
    LibraryPart(ResponseHandler, "read", "a request in one write", SEEN, is_shortcut=True),
    LibraryPart(ResponseHandler, "_parser", "bodies are not parsed", SEEN, is_shortcut=True),
    LibraryPart(
        ResponseHandler, "_reading_paused", "bodies are not parsed", SEEN, is_shortcut=True
    ),
)

MAX_ORIGINS: Final = 100  # that are remembered
AUTO_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
BUFFER_SIZE: Final = 1 << 19  # bytes of a reply that may be received before they are read

# aiohttp makes a connection in the task of the caller. The limits are found here.
_current_limits: ContextVar["ExchangeLimits"] = ContextVar("_current_limits")


def has_aiohttp_shortcuts() -> bool:
    """Return whether aiohttp has all `PARTS`; raise ImportError if our limits would not hold."""
    return has_shortcuts(PARTS, "aiohttp", aiohttp.__version__)


class ExchangeTimer:
    """Ends the exchanges of one transport whose time is over, and all when the client is closed.

    Attributes:
        exchanges: Those that have begun, and have not ended.
    """

    def __init__(self) -> None:
        self.exchanges: set[ExchangeLimits] = set()
        self._handle: asyncio.TimerHandle | None = None
        self._at = 0.0

    def schedule(self, end: float) -> None:
        """Look at the exchanges at the time `end`, if not before."""
        if self._handle is None or end < self._at:
            if self._handle is not None:
                self._handle.cancel()
            self._at = end
            delay = max(0.0, end - now())
            self._handle = asyncio.get_running_loop().call_later(delay, self._check)

    def _check(self) -> None:
        self._handle = None
        ends = [end for limits in tuple(self.exchanges) if (end := limits.check()) is not None]
        if ends:
            self.schedule(min(ends))

    def stop(self) -> None:
        """End all exchanges, whatever they wait for."""
        if self._handle is not None:
            self._handle.cancel()
        for limits in tuple(self.exchanges):
            limits.fail(ClosedError())
        self.exchanges.clear()


@dataclass(eq=False, repr=False)
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

    _timer: ExchangeTimer
    timeouts: Timeouts
    _deadline: Deadline
    max_privacy: int | None = None
    sent: bool = False
    address: str | None = None
    timeout_error: ErrorKind = READ_TIMEOUT
    has_expired: bool = False
    end_of_reply: TrailingBytes = field(default_factory=TrailingBytes)
    _connection: "_Handler | None" = None
    _is_waiting: bool = False
    _step_end: float | None = None

    def start(self, connection: "_Handler") -> None:
        """Start to limit the exchange on `connection`. The first step is the wait for the head.

        A request without a streamed body is sent at once. A streamed body starts steps of its own.
        """
        self._connection = connection
        self._timer.exchanges.add(self)
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
        self._timer.exchanges.discard(self)

    def may_connect(self, address: str) -> bool:
        """Return whether the request may be sent to `address`."""
        return self.max_privacy is None or host_privacy.allows(self.max_privacy, address)

    def connect_seconds(self) -> float | None:
        """Return how long making the connection may take."""
        left = self._deadline.left()
        return _earlier(self.timeouts.connect, None if left is None else max(0.0, left))

    def _start(self, seconds: float | None) -> None:
        self._step_end = None if seconds is None else now() + seconds
        end = _earlier(self._step_end, self._deadline.at)
        if end is not None:
            self._timer.schedule(end)

    def check(self) -> float | None:
        """Close the connection if the time of the current step is over; else return when it is."""
        end = _earlier(self._step_end, self._deadline.at)
        if not self._is_waiting or end is None or now() < end:
            return end if self._is_waiting else None
        self.has_expired = self._connection is not None
        self.fail(TimeoutError())
        return None

    def fail(self, error: BaseException) -> None:
        """Close the connection, if there is one, and raise `error` where the caller waits."""
        if self._connection is not None:
            self._connection.fail(error)


def _earlier(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


class GarbledError(aiohttp.ClientError):
    """The peer has sent something that cannot be parsed."""


@dataclass(eq=False, repr=False, slots=True)
class PlainResponse:
    """The part of `aiohttp.ClientResponse` that the transport uses."""

    connection: Any
    status: int
    headers: Any
    content: Any

    def release(self) -> None:
        """Keep the connection for another request."""
        self.connection.release()

    def close(self) -> None:
        """Close the connection, and wake whoever waits for the body."""
        if self.content.exception() is None:
            self.content.set_exception(aiohttp.ClientConnectionError("Connection closed"))
        self.connection.close()


@dataclass(eq=False, repr=False, slots=True)
class _Sending:
    """Sends the bytes of a request when it is called.

    They hold secrets. Tracebacks, and asyncio in its debug mode, show only the `repr` of this.
    """

    _transport: Any
    _limits: ExchangeLimits
    _data: bytes

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


class Connector(aiohttp.TCPConnector):
    """Makes exchanges on connections to addresses that the request may be sent to.

    This does what a `ClientSession` does for one request, but without redirects, cookies, retries,
    hooks, and a task to send the body. They take half the time of a small request.

    Without `shortcuts`, every request is sent as those with a streamed body.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, shortcuts: bool) -> None:
        # The session limits the number of calls, so connections have no limit here. A call that
        # holds the connection of a body may need another for a block, and would wait for ever.
        super().__init__(limit=0)
        handler = _QuickHandler if shortcuts else _Handler
        self._factory = partial(handler, loop)  # type: ignore[assignment]
        self._event_loop = loop
        self._shortcuts = shortcuts
        self._origins: dict[str, aiohttp.ClientRequest] = {}

    async def exchange(
        self,
        limits: ExchangeLimits,
        request: Request,
        *,
        streamed: aiohttp.Payload | None,
        **options: Any,
    ) -> PlainResponse | aiohttp.ClientResponse:
        """Send a request and return the reply, whose body is not read yet."""
        is_plain = self._shortcuts and streamed is None and "proxy" not in options
        parts = PLAIN_URL.fullmatch(request.url) if is_plain else None
        if parts is not None:
            library_request = self._origin(parts[1], options)
        else:
            # yarl must not quote and normalise what is quoted already.
            address = yarl.URL(request.url, encoded=True)
            if address.scheme not in {"http", "https"}:
                raise aiohttp.NonHttpUrlClientError(address)
            library_request = aiohttp.ClientRequest(
                request.method,
                address,
                headers=request.header_values(),
                skip_auto_headers=AUTO_HEADERS,
                data=streamed or request.body,
                loop=self._event_loop,
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
                response = await library_request.send(connection)
                limits.sent = streamed is None  # a whole body is short, and is written at once
                with on_error(response.close):
                    return await response.start(connection)
            host = library_request.headers["Host"]
            return await exchange_plain(connection, limits, request, parts[2], host)
        except BaseException:
            # Not closed in order: the peer may never read the bytes that are still in the buffer.
            if connection.protocol is not None:
                connection.protocol.abort()
            connection.close()
            raise

    def _origin(self, origin: str, options: dict[str, Any]) -> aiohttp.ClientRequest:
        """Return a request to `origin`, with which aiohttp finds or makes a connection."""
        request = self._origins.get(origin)
        if request is None:
            if len(self._origins) >= MAX_ORIGINS:
                self._origins.clear()
            url = yarl.URL(origin, encoded=True)
            request = aiohttp.ClientRequest("GET", url, loop=self._event_loop, **options)
            self._origins[origin] = request
        return request

    async def _connection(self, request: aiohttp.ClientRequest, limits: ExchangeLimits) -> Any:
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
            with on_error(connection.close):
                self._check_address(connection, limits)
        return connection

    @staticmethod
    def _check_address(connection: Any, limits: ExchangeLimits) -> None:
        """Raise an error if the request may not be sent to the address of `connection`."""
        peer = connection.transport and connection.transport.get_extra_info("peername")
        if not peer:
            raise aiohttp.ClientConnectionResetError("the connection is closed")
        limits.address = str(peer[0])
        if not limits.may_connect(limits.address):
            raise ForbiddenAddressError

    async def _create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Make a connection, also through a proxy, within the time for it."""
        async with asyncio.timeout(_current_limits.get().connect_seconds()):
            return await super()._create_connection(*args, **kwargs)

    async def _resolve_host(self, *args: Any, **kwargs: Any) -> Any:
        addresses = await super()._resolve_host(*args, **kwargs)
        limits = _current_limits.get()
        allowed = [address for address in addresses if limits.may_connect(address["host"])]
        if addresses and not allowed:
            raise ForbiddenAddressError
        return allowed


def receive_more_at_once(transport: Any) -> None:
    """Let the event loop receive more bytes at a time: each receive costs the same."""
    if hasattr(transport, "max_size"):
        transport.max_size = RECEIVE_SIZE


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
        self._has_head = False  # whether the final head has come
        self._is_chunked = False
        self.end = TrailingBytes()  # of the reply, in which aiohttp's parser drops the trailer

    def set_response_params(self, **options: Any) -> None:
        """Start a new exchange."""
        self._overhead = Overhead()
        self._has_head = self._is_chunked = False
        self.end = TrailingBytes()
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        """Parse bytes from the connection."""
        if data and self._has_head and self._payload is not None and self._payload.is_eof():
            # Nothing was asked for. The next request would take this for its reply.
            self.fail(GarbledError())
            return
        self._overhead.receive(len(data))
        self._receive(data)
        if self._is_chunked:
            self.end.feed(data)
        payload = self._payload
        if payload is not None:
            counted_payload, counted = self._counted
            new = payload.total_bytes - (counted if counted_payload is payload else 0)
            self._overhead.take_content(new)
            self._counted = (payload, payload.total_bytes)
        if self._overhead.is_too_much:
            self.fail(OverheadError())
        elif (error := self.exception()) is not None:
            self.fail(error)

    def _receive(self, data: bytes) -> None:
        super().data_received(data)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Take a complete head."""
        message = data[0]
        if self._has_head:
            self.fail(GarbledError())  # nobody asked for a second reply
            return
        if 100 <= message.code < 200:
            self._overhead.take_informational()
        self._has_head = is_final(message.code)
        self._is_chunked = self._has_head and message.chunked
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


class _QuickHandler(_Handler):
    """Takes bodies of known length without the parser, which would copy them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._length: int | None = None  # of the body, if the head declares it
        self._in_body = False  # whether only bytes of such a body can come now

    def set_response_params(self, **options: Any) -> None:
        """Start a new exchange."""
        self._length, self._in_body = None, False
        super().set_response_params(**options)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Take a complete head."""
        message = data[0]
        if message.code >= 200 and not message.chunked and "Content-Length" in message.headers:
            self._length = int(message.headers["Content-Length"])
        super().feed_data(data, size)

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002
        """Read on if reading is paused. aiohttp calls this for every piece that is taken."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def _receive(self, data: bytes) -> None:
        payload = self._payload
        if not self._in_body:
            super()._receive(data)
            payload = self._payload
            if self._length is not None and payload is not None and not payload.is_eof():
                # While reading is paused, the parser may hold bytes of the body.
                self._in_body = not self._reading_paused
        elif payload is not None and self._length is not None and data:
            left = self._length - payload.total_bytes
            if len(data) > left:
                self.force_close()  # more than one reply: the connection cannot be used again
                data = data[:left]
            payload.feed_data(data, len(data))
            if len(data) == left:
                self._in_body = False
                payload.feed_eof()
                self._parser = None  # it still waits for the body; the next request has its own
