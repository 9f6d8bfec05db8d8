"""One connection of the node: HTTP/1.1 that waits neither for ever nor with much in memory."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 20.0  # for a whole head, from the connection's beginning or the last reply's end
STALL_SECONDS = 60.0  # for a peer that takes no bytes of a reply
STALL_BYTES: Final = 16 << 10  # a peer that takes fewer in `STALL_SECONDS` stands still
CHECKS: Final = 12  # of a reply's progress in `STALL_SECONDS`
MAX_HEAD: Final = 32 << 10
MAX_HEADERS: Final = 100
RECEIVE_SIZE: Final = 16 << 10  # what is read ahead of a connection at the most
WRITE_BUFFER: Final = 32 << 10  # what waits for the peer beyond the system's own buffer

# ASGI extensions, for what stands around the application: the transport, to end the connection; and
# a function to wait until the peer has taken what was sent.
CONNECTION = "holdfast.connection"
DRAIN = "holdfast.drain"

Drain = Callable[[], Awaitable[None]]


class NodeProtocol(H11Protocol, asyncio.BufferedProtocol):
    """HTTP/1.1 with limits of time for heads and replies, and of memory for what is read ahead.

    Attributes:
        on_lost: Called when the connection has ended.
    """

    on_lost: Callable[[], None] | None = None
    _timer: asyncio.TimerHandle | None = None
    _received = bytearray()

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        self.conn._receive_buffer = _ShortHeads()  # noqa: SLF001 - h11 has no setting for it
        transport.set_write_buffer_limits(high=WRITE_BUFFER)
        super().connection_made(WatchedTransport(transport, self.loop))  # type: ignore[arg-type]
        self._wait()

    # asyncio would read 256 KiB at once, and with pipelined requests these would wait here.

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - as asyncio calls it
        """Return where the next bytes go."""
        self._received = bytearray(RECEIVE_SIZE)
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        """Take the bytes that came."""
        data, self._received = self._received, bytearray()
        self.data_received(bytes(data[:nbytes]))

    def handle_events(self) -> None:
        """Take what has come."""
        super().handle_events()
        if self._has_request():
            scope: Any = self.scope
            scope["extensions"] = {CONNECTION: self.transport, DRAIN: self.flow.drain}
            cycle: Any = self.cycle
            if len(cycle.body) >= RECEIVE_SIZE:  # uvicorn would wait for 64 KiB
                self.flow.pause_reading()
        if self._timer is not None and self._has_request():
            self._timer.cancel()
            self._timer = None

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there already."""
        super().on_response_complete()
        if self._timer is None and not self.transport.is_closing() and not self._has_request():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
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
        """Drop a peer that sends no request; not one that still reads the last reply."""
        if self.transport.get_write_buffer_size():
            self._wait()
        else:
            self._timer = None
            self.transport.abort()


class _ShortHeads(ReceiveBuffer):
    """What h11 has received, of which it parses no head with too many headers: that takes long."""

    def maybe_extract_lines(self) -> Any:
        """Return the lines of a head, once it is whole."""
        lines = super().maybe_extract_lines()
        if lines is not None and len(lines) > MAX_HEADERS + 1:
            raise h11.RemoteProtocolError("too many headers", error_status_hint=431)
        return lines


class WatchedTransport:
    """A transport that ends the connection when its peer takes too little of what is written."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written = 0
        self._is_watched = False
        self._mark = (0, 0.0)  # how much the peer had taken, and when

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send `data`, or as much as the peer takes, and the rest later."""
        self._written += len(data)
        self._transport.write(data)
        if not self._is_watched and self._transport.get_write_buffer_size():
            self._is_watched = True
            self._mark = (self._taken(), self._loop.time())
            self._watch()

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
