"""One HTTP/1.1 connection of the node, with limits of time and memory."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import h11
from h11._readers import ContentLengthReader
from h11._receivebuffer import ReceiveBuffer
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.node.http_server.direct_sending import DirectSender

HEAD_SECONDS = 20.0  # for a whole head, counted from the connection's start or the last reply's end
STALL_SECONDS = 60.0  # after which a client that reads too little of a reply is disconnected
STALL_BYTES: Final = 16 << 10  # a client that reads fewer in `STALL_SECONDS` has stalled
CHECKS: Final = 12  # checks of a reply's progress in `STALL_SECONDS`
MAX_HEAD: Final = 32 << 10
MAX_HEADERS: Final = 100
RECEIVE_SIZE: Final = 16 << 10  # the most bytes that are read ahead of a connection
BODY_SIZE: Final = 1 << 20  # the same for a body that the application reads
MAX_UNREAD: Final = 16  # connections that may have so many bytes that it has not taken yet
WRITE_BUFFER: Final = 32 << 10  # bytes that wait for the client besides the system's own buffer

# ASGI extensions: the transport, to abort the connection; a function that waits until the client
# has read what was sent; one that takes the body of the request, if all of it has arrived; and a
# sender that does not go through `send`, which a middleware that changes bodies must remove.
CONNECTION = "holdfast.connection"
DRAIN = "holdfast.drain"
TAKE_BODY = "holdfast.take_body"
DIRECT = "holdfast.direct"

Drain = Callable[[], Awaitable[None]]


class NodeProtocol(H11Protocol, asyncio.BufferedProtocol):
    """HTTP/1.1 with time limits for heads and replies, and a memory limit for bytes read ahead.

    Attributes:
        on_lost: Called when the connection has ended.
        buffer: Where bytes are received, `BODY_SIZE` of them; connections of one event loop can
            share it.
        unread: The connections with many bytes that the application has not taken yet; shared in
            the same way. Many clients may send at the same moment.
    """

    on_lost: Callable[[], None] | None = None
    buffer: memoryview | None = None
    unread: "set[NodeProtocol]"
    _timer: asyncio.TimerHandle | None = None
    _is_body_only = False  # whether the next bytes are of a body, and not its last ones

    def connection_made(self, transport: Any) -> None:
        """Start to wait for a request."""
        self.conn._receive_buffer = _LimitedHeads()  # noqa: SLF001 - h11 has no setting for it
        # Low is 0, because `DirectSender` needs an empty buffer.
        transport.set_write_buffer_limits(high=WRITE_BUFFER, low=0)
        if not hasattr(self, "unread"):
            self.unread = set()
        taken = partial(self.unread.discard, self)
        super().connection_made(StallLimit(transport, self.loop, taken))  # type: ignore[arg-type]
        self._wait()

    # Without an own buffer, asyncio reads 256 KiB at a time and keeps pipelined requests in memory.

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as asyncio calls it
        """Return the buffer for the next bytes.

        asyncio fills it and calls `buffer_updated` at once, so all connections can use the same.
        """
        self._is_body_only = self._body_left() > RECEIVE_SIZE
        if self.buffer is None:
            self.buffer = memoryview(bytearray(BODY_SIZE))
        size = RECEIVE_SIZE
        if self._is_body_only and len(self.unread) < MAX_UNREAD:
            # The last bytes go through h11, which then knows that the body has ended.
            size = min(BODY_SIZE, self._body_left() - 1)
        return self.buffer[:size]

    def buffer_updated(self, nbytes: int) -> None:
        """Process the bytes in the buffer."""
        data = bytes(self.buffer[:nbytes]) if self.buffer is not None else b""
        if not self._is_body_only:
            self.data_received(data)
            return
        # What h11 would do, without its copies.
        reader: Any = self.conn._reader  # noqa: SLF001 - see `_body_left`
        reader._remaining -= nbytes  # noqa: SLF001
        cycle: Any = self.cycle
        cycle.body = data if not cycle.body else bytes(cycle.body) + data
        cycle.message_event.set()
        self.flow.pause_reading()
        if nbytes > RECEIVE_SIZE:
            self.unread.add(self)

    def _body_left(self) -> int:
        """Return how many bytes of the body have not arrived, if the application reads it; else 0.

        Reading is paused after the first `RECEIVE_SIZE` bytes until the application asks for more.
        """
        reader = self.conn._reader  # noqa: SLF001 - h11 has no other way to tell
        if type(reader) is not ContentLengthReader or not self._has_request():
            return 0
        left, length = reader._remaining, reader._length  # noqa: SLF001
        is_read = length - left >= RECEIVE_SIZE
        return left if is_read and not self.conn._receive_buffer else 0  # noqa: SLF001

    def handle_events(self) -> None:
        """Process the events that h11 has parsed."""
        super().handle_events()
        if self._has_request():
            scope: Any = self.scope
            cycle: Any = self.cycle
            if "extensions" not in scope:
                scope["extensions"] = {
                    CONNECTION: self.transport,
                    DRAIN: self.flow.drain,
                    TAKE_BODY: partial(_take_body, cycle),
                    DIRECT: DirectSender(self.transport, self.conn),
                }
            if len(cycle.body) >= RECEIVE_SIZE:  # uvicorn pauses only at 64 KiB
                self.flow.pause_reading()
        if self._timer is not None and self._has_request():
            self._timer.cancel()
            self._timer = None

    def on_response_complete(self) -> None:
        """Start to wait for the next request, unless it has arrived already."""
        super().on_response_complete()
        if self._timer is None and not self.transport.is_closing() and not self._has_request():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer, and call `on_lost`."""
        self.unread.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()

    def _has_request(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """Abort the connection if no request came; wait on while the client reads a reply."""
        if self.transport.get_write_buffer_size():
            self._wait()
        else:
            self._timer = None
            self.transport.abort()


def _take_body(cycle: Any) -> bytes | None:
    """Return what ASGI's ``receive`` would, if that is the whole rest of the body; else None."""
    if cycle.more_body or cycle.disconnected or cycle.response_complete:
        return None
    body, cycle.body = bytes(cycle.body), bytearray()
    cycle.message_event.clear()
    return body


class _LimitedHeads(ReceiveBuffer):
    """The receive buffer of h11, which rejects a head with too many headers before parsing it."""

    def maybe_extract_lines(self) -> Any:
        """Return the lines of a head once it is complete."""
        lines = super().maybe_extract_lines()
        if lines is not None and len(lines) > MAX_HEADERS + 1:
            raise h11.RemoteProtocolError("too many headers", error_status_hint=431)
        return lines


class StallLimit:
    """A transport that aborts the connection when the client reads too little of a reply."""

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        on_resume: Callable[[], None] | None = None,
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._on_resume = on_resume
        self._held: list[bytes] | None = None
        self._written = 0
        self._is_watched = False
        self._mark = (0, 0.0)  # the bytes that the client had read, and when

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def resume_reading(self) -> None:
        """Read on: the application has taken what came before."""
        if self._on_resume is not None:
            self._on_resume()
        self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Send `data`; what the client does not read at once waits in the buffer."""
        if self._held is not None:
            self._held.append(data)
            return
        self._written += len(data)
        self._transport.write(data)
        if not self._is_watched and self._transport.get_write_buffer_size():
            self._is_watched = True
            self._mark = (self._taken(), self._loop.time())
            self._watch()

    def hold(self) -> None:
        """Keep what is written until `release`, to send it in one packet."""
        self._held = []

    def release(self) -> None:
        """Send what was kept."""
        held, self._held = self._held, None
        if held:
            self.write(b"".join(held))

    def close(self) -> None:
        """Close the connection when all was sent."""
        self.release()
        self._transport.close()

    def count(self, size: int) -> None:
        """Count bytes that were sent past this object, while its buffer was empty."""
        self._written += size

    def _taken(self) -> int:
        return self._written - self._transport.get_write_buffer_size()

    def _watch(self) -> None:
        self._loop.call_later(STALL_SECONDS / CHECKS, self._check)

    def _check(self) -> None:
        if not self._transport.get_write_buffer_size():
            self._is_watched = False
            return
        taken, since = self._mark
        if self._taken() - taken >= STALL_BYTES:
            self._mark = (self._taken(), self._loop.time())
        elif self._loop.time() - since >= STALL_SECONDS:
            self._transport.abort()
            return
        self._watch()
