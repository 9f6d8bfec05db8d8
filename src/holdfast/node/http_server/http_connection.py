"""One HTTP/1.1 connection of the node, with limits of time and memory."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from holdfast.node.http_server.asgi_extensions import (
    CONNECTION,
    DIRECT,
    DRAIN,
    RECEIVER,
    TAKE_BODY,
)
from holdfast.node.http_server.direct_receiving import DirectReceiver
from holdfast.node.http_server.direct_sending import DirectSender
from holdfast.node.http_server.request_cycle import RequestCycle
from holdfast.node.http_server.request_parser import BadRequestError, Head, RequestParser
from holdfast.node.http_server.stall_limit import StallLimit

logger: Final = logging.getLogger("uvicorn.error")  # to which uvicorn logs everything else

HEAD_SECONDS = 20.0  # for a whole head, counted from the connection's start or the last reply's end
RECEIVE_SIZE: Final = 16 << 10  # the most bytes that are read ahead of a connection
BODY_SIZE: Final = 1 << 20  # the same for a body that the application reads
MAX_UNREAD: Final = 16  # connections that may have so many bytes that it has not taken yet
WRITE_BUFFER: Final = 32 << 10  # bytes that wait for the client besides the system's own buffer

INVALID: Final = b"Invalid HTTP request received."
BAD_REQUEST: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(INVALID), INVALID)
)


class NodeProtocol(asyncio.BufferedProtocol):
    """HTTP/1.1 with time limits for heads and replies, and a memory limit for bytes read ahead.

    uvicorn makes it, and calls `shutdown`.

    Attributes:
        on_lost: Called when the connection has ended.
        buffer: Where bytes are received, `BODY_SIZE` of them; connections of one event loop can
            share it.
        unread: The connections with many bytes that the application has not taken yet; shared in
            the same way. Many clients may send at the same moment.
    """

    transport: StallLimit
    flow: FlowControl

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any]
    ) -> None:
        if not config.loaded:
            config.load()
        self._app = config.loaded_app
        self._app_state = app_state
        self._loop = asyncio.get_running_loop()
        self._reader = RequestParser(self)
        self._cycle: RequestCycle | None = None
        self._ahead = b""  # bytes of the next requests
        self._taken = 0  # bytes of the body so far
        self._timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0
        self.server_state = server_state
        self.on_lost: Callable[[], None] | None = None
        self.buffer: memoryview | None = None
        self.unread: set[NodeProtocol] = set()

    def connection_made(self, transport: Any) -> None:
        """Start to wait for a request."""
        # Low is 0, because `DirectSender` needs an empty buffer.
        transport.set_write_buffer_limits(high=WRITE_BUFFER, low=0)
        self.transport = StallLimit(transport, self._loop, partial(self.unread.discard, self))
        self.flow = FlowControl(self.transport)  # type: ignore[arg-type]
        self._fixed_scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "scheme": "http",
            "root_path": "",
            "server": get_local_addr(transport),
            "client": get_remote_addr(transport),
        }
        self.server_state.connections.add(self)  # type: ignore[arg-type]
        self._wait()

    # Without an own buffer, asyncio reads 256 KiB at a time and keeps pipelined requests in memory.

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as asyncio calls it
        """Return the buffer for the next bytes.

        asyncio fills it and calls `buffer_updated` at once, so all connections can use the same.
        """
        if self.buffer is None:
            self.buffer = memoryview(bytearray(BODY_SIZE))
        size = RECEIVE_SIZE
        left = self._reader.left
        # Reading is paused after the first bytes, until the application asks for more.
        is_read = self._has_request() and self._taken >= RECEIVE_SIZE
        if is_read and left > RECEIVE_SIZE and len(self.unread) < MAX_UNREAD:
            size = min(BODY_SIZE, left)
        return self.buffer[:size]

    def buffer_updated(self, nbytes: int) -> None:
        """Process the bytes in the buffer."""
        if self.buffer is None:
            return
        data = self.buffer[:nbytes]
        if nbytes > RECEIVE_SIZE:  # all of it belongs to the body
            self._read(data)
            self.unread.add(self)
            return
        self._ahead = self._ahead + data if self._ahead else bytes(data)
        self._read_ahead()

    def _read_ahead(self) -> None:
        """Read up to the end of the current request; what follows waits for its reply."""
        while self._ahead:
            if self._reader.is_between and self._has_request():
                self.flow.pause_reading()
                return
            if self.transport.is_closing():
                self._ahead = b""
                return
            data, self._ahead = self._ahead, b""
            self._ahead = data[self._read(data) :]

    def _read(self, data: bytes | memoryview) -> int:
        try:
            return self._reader.feed(data)
        except BadRequestError:
            logger.warning(INVALID.decode())
            self._refuse()
            return len(data)

    def _refuse(self) -> None:
        """Tell the client that it does not send valid requests, and end the connection."""
        cycle = self._cycle
        if cycle is None or cycle.is_complete:
            self.transport.write(BAD_REQUEST)
        elif not cycle.is_started:
            cycle.disconnect()
            self.transport.write(BAD_REQUEST)
        self.transport.close()

    def on_head(self, head: Head) -> None:
        """Start the application for a request."""
        cycle = RequestCycle(self, head, {**self._fixed_scope, "state": self._app_state.copy()})
        cycle.scope["extensions"] = {
            CONNECTION: self.transport,
            DRAIN: self.flow.drain,
            TAKE_BODY: cycle.take_body,
            DIRECT: DirectSender(self.transport, cycle),
            RECEIVER: DirectReceiver(self),
        }
        self._cycle, self._taken = cycle, 0
        task = self._loop.create_task(cycle.run(self._app))
        task.add_done_callback(self.server_state.tasks.discard)
        self.server_state.tasks.add(task)

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body to the application, unless it has replied already."""
        self._taken += len(body)
        if self._cycle is not None and not self._cycle.is_complete:
            self._cycle.add_body(body)
            if len(self._cycle.body) >= RECEIVE_SIZE:
                self.flow.pause_reading()

    @property
    def body_left(self) -> int:
        """The bytes of a body with a known length that have not arrived."""
        return self._reader.left

    @property
    def has_unread_body(self) -> bool:
        """Whether bytes of the body wait for the application."""
        return self._cycle is None or bool(self._cycle.body)

    def skip_body(self, size: int) -> None:
        """Take note of bytes of the body that a thread has received."""
        self._taken += size
        self._reader.skip(size)

    def on_end(self) -> None:
        """Tell the application that the body has ended."""
        if self._cycle is not None:
            self._cycle.end_body()

    def on_response_complete(self) -> None:
        """Read the next request, or start to wait for it."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        self._wait()
        if self._ahead:
            # Not at once: the reply of that request would be sent within the call of this one.
            self._loop.call_soon(self._read_ahead)

    def pause_writing(self) -> None:
        """Let the application wait: the client does not read."""
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        """Let the application send again."""
        self.flow.resume_writing()

    def eof_received(self) -> None:
        """Close the connection, as asyncio does."""

    def shutdown(self) -> None:
        """End the connection, after the reply that is being sent."""
        if self._cycle is None or self._cycle.is_complete:
            self.transport.close()
        else:
            self._cycle.keep_alive = False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Stop the timer, and call `on_lost`."""
        self.server_state.connections.discard(self)
        self.unread.discard(self)
        self._ahead = b""
        self._reader.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._cycle is not None:
            self._cycle.disconnect()
        self.flow.resume_writing()
        if self.on_lost is not None:
            self.on_lost()

    def _has_request(self) -> bool:
        return self._cycle is not None and not self._cycle.is_complete

    def _wait(self) -> None:
        """Limit the time until the next request. One timer serves many requests."""
        self._idle_since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(HEAD_SECONDS, self._check)

    def _check(self) -> None:
        """Abort the connection if no request came; wait on while the client reads a reply."""
        self._timer = None
        if self._has_request():
            return  # its end starts the timer again
        if self.transport.get_write_buffer_size():
            self._wait()
            return
        left = self._idle_since + HEAD_SECONDS - self._loop.time()
        if left > 0.001:
            self._timer = self._loop.call_later(left, self._check)
        else:
            self.transport.abort()
