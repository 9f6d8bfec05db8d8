"""One HTTP/1.1 connection of the node, with limits of time and memory."""

import asyncio
import logging
import os
import re
import socket
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, MutableMapping
from concurrent.futures import Executor
from contextlib import closing
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from holdfast.node.http_server.request_parser import BadRequestError, Head, RequestParser

# Names of what a request of the node has besides ASGI, in ``scope["extensions"]``.
#
# Under another ASGI server, for example in a test, none of them is there.

CONNECTION: Final = "holdfast.connection"  # the transport, to abort the connection
DRAIN: Final = "holdfast.drain"  # a function that waits until the client has read what was sent
TAKE_BODY: Final = "holdfast.take_body"  # one that takes the body, if all of it has arrived
# A sender that does not go through `send`; a middleware that changes bodies must remove it.
DIRECT: Final = "holdfast.direct"
RECEIVER: Final = "holdfast.receiver"  # receives parts of the body on a worker thread

Drain: TypeAlias = Callable[[], Awaitable[None]]


# One request and its reply, as ASGI has them.

NOT_IN_NAME: Final = re.compile(rb'[\x00-\x20\x7f-\xff()<>@,;:\[\]={}\\"/?]')
NOT_IN_VALUE: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
NO_BODY: Final = frozenset({204, 304})
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

Message = MutableMapping[str, Any]


class RequestCycle:
    """A request, whose body arrives, and its reply, which the application sends.

    `scope` has what is the same for all requests of the connection; the rest is added.

    Attributes:
        body: What has arrived and was not taken.
        more_body: Whether more of it follows.
        is_started: Whether the application has begun to reply.
        is_complete: Whether the whole reply was sent.
        is_disconnected: Whether the connection has ended before.
    """

    def __init__(self, connection: "NodeProtocol", head: Head, scope: Message) -> None:
        raw_path, _, query = head.target.partition(b"?")
        path = raw_path.decode("ascii")
        scope["http_version"] = head.version
        scope["method"] = head.method
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = query
        scope["headers"] = head.headers
        self._connection = connection
        self.scope = scope
        self._arrived = asyncio.Event()
        self._must_continue = head.expects_continue
        self._has_no_body = head.method == "HEAD"
        self._is_old = head.version == "1.0"
        self._head: bytes | None = None  # of the reply, until it is sent with the first bytes
        self.is_started: bool = False
        self._left: int | None = None  # bytes of a reply that declares its length
        self._is_chunked = False
        self.keep_alive: bool = head.keep_alive
        self.body: bytes = b""
        self.more_body: bool = True
        self.is_complete: bool = False
        self.is_disconnected: bool = False

    async def run(self, app: Any) -> None:
        """Let the application reply."""
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException:
            logger.exception("Exception in ASGI application\n")
        else:
            if self.is_complete or self.is_disconnected:
                return
            logger.error("ASGI callable returned without completing response.")
        if not (self.is_started or self.is_disconnected):
            self._connection.transport.write(last_reply(500, "Internal Server Error"))
        self._connection.transport.close()

    # The body of the request

    def add_body(self, body: bytes) -> None:
        """Take the next bytes of the body."""
        self.body = self.body + body if self.body else body
        self._arrived.set()

    def end_body(self) -> None:
        """Take note that the body has ended."""
        self.more_body = False
        self._arrived.set()

    def disconnect(self) -> None:
        """Take note that the connection has ended."""
        if not self.is_complete:
            self.is_disconnected = True
        self._arrived.set()

    def take_body(self) -> bytes | None:
        """Return what `receive` would, if that is the whole rest of the body; else None."""
        if self.more_body or self.is_disconnected or self.is_complete:
            return None
        body, self.body = self.body, b""
        self._arrived.clear()
        return body

    async def receive(self) -> Message:
        """Return the next bytes of the body; when there are no more, wait for a disconnect."""
        if self._must_continue and not self._connection.transport.is_closing():
            self._must_continue = False
            self._connection.transport.write(CONTINUE)
        if not (self.is_disconnected or self.is_complete):
            self._connection.flow.resume_reading()
            await self._arrived.wait()
            self._arrived.clear()
        if self.is_disconnected or self.is_complete:
            return {"type": "http.disconnect"}
        body, self.body = self.body, b""
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    # The reply

    async def send(self, message: Message) -> None:
        """Send the next part of the reply. Its head is sent with the first bytes of its body."""
        flow = self._connection.flow
        if flow.write_paused and not self.is_disconnected:
            await flow.drain()
        if self.is_disconnected:
            return
        expected = "http.response.body" if self.is_started else "http.response.start"
        if self.is_complete or message["type"] != expected:
            raise RuntimeError(f"{message['type']} is not what a reply has here")
        if not self.is_started:
            self._start(message["status"], message.get("headers", ()))
            return
        self._write(message.get("body", b""), is_last=not message.get("more_body", False))

    def _start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Make the head, and choose how the end of the body is told."""
        lines = [STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n".encode()]
        closes = False
        for name, value in (*self._connection.server_state.default_headers, *headers):
            key = _checked(name, value)
            if key == b"content-length":
                self._left = int(value)
            elif key == b"connection":
                closes = closes or b"close" in value.lower()
            lines += (key, b": ", value, b"\r\n")
        if status in NO_BODY:
            self._has_no_body = True
        elif self._left is None:
            self._is_chunked = not self._is_old
            # Without chunks, the end of the connection is that of the body.
            self.keep_alive = self.keep_alive and self._is_chunked
            lines += (b"transfer-encoding: chunked\r\n",) if self._is_chunked else ()
        if not closes and not self.keep_alive:
            lines.append(b"connection: close\r\n")
        self.keep_alive = self.keep_alive and not closes
        lines.append(b"\r\n")
        self._must_continue = False
        self.is_started = True
        self._head = b"".join(lines)

    def _write(self, body: bytes, *, is_last: bool) -> None:
        parts = [] if self._head is None else [self._head]
        self._head = None
        if self._has_no_body:
            self._left = 0
        elif self._is_chunked:
            if body:
                parts += (b"%x\r\n" % len(body), body, b"\r\n")
            if is_last:
                parts.append(b"0\r\n\r\n")
        elif body:
            self.count(len(body))
            parts.append(body)
        if parts:
            self._connection.transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
        if not is_last:
            return
        if self._left:
            raise RuntimeError("the reply is shorter than its header content-length")
        self.is_complete = True
        self._arrived.set()
        if not self.keep_alive:
            self._connection.transport.close()
        self._connection.on_response_complete()

    def send_head(self) -> None:
        """Send the head now, if it was not sent yet."""
        if self._head is not None:
            head, self._head = self._head, None
            self._connection.transport.write(head)

    def count(self, size: int) -> None:
        """Count bytes of the body that are sent, here or in another way."""
        if self._left is not None:
            if size > self._left:
                raise RuntimeError("the reply is longer than its header content-length")
            self._left -= size


def last_reply(status: int, text: str) -> bytes:
    """Return a reply of the server itself, after which the connection is closed."""
    head = "content-type: text/plain; charset=utf-8\r\nconnection: close"
    return STATUS_LINES[status] + f"{head}\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode()


def _checked(name: bytes, value: bytes) -> bytes:
    """Return the name of a header in lower case; raise RuntimeError if a reply may not have it."""
    if not name or NOT_IN_NAME.search(name) or NOT_IN_VALUE.search(value):
        raise RuntimeError("a header of the reply is not valid")
    name = name.lower()
    if name == b"transfer-encoding":
        raise RuntimeError("the server chooses the transfer coding of a reply")
    return name


# A limit of time for clients that do not read their replies.

STALL_SECONDS = 60.0  # after which a client that reads too little of a reply is disconnected
STALL_BYTES: Final = 16 << 10  # a client that reads fewer in `STALL_SECONDS` has stalled
CHECKS: Final = 12  # checks of a reply's progress in `STALL_SECONDS`


class StallLimit:
    """A transport that aborts the connection when the client reads too little of a reply."""

    def __init__(self, transport: asyncio.Transport, on_resume: Callable[[], None]) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._on_resume = on_resume
        self._written = 0
        self._is_watched = False
        self._mark = (0, 0.0)  # the bytes that the client had read, and when

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def resume_reading(self) -> None:
        """Read on: the application has taken what came before."""
        self._on_resume()
        self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Send `data`; what the client does not read at once waits in the buffer."""
        self._written += len(data)
        self._transport.write(data)
        if not self._is_watched and self._transport.get_write_buffer_size():
            self._is_watched = True
            self._mark = (self._taken(), self._loop.time())
            self._watch()

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


# Sending large parts of a reply's body from a worker thread, as fast as the client reads them.
#
# The event loop would copy what the client does not read at once into a buffer of its own, and wake
# up for every part of it. Here a thread passes whole blocks to the system. What the system does not
# take in time is not held: the caller only knows how many bytes were sent.

PIECE: Final = 64 << 10  # bytes; larger pieces take more memory, smaller ones more time
BATCH: Final = 32 << 20  # bytes that a worker thread sends before another reply can have it
WAIT_SECONDS: Final = 0.002  # a thread's wait for a client; a slower one is left to the event loop
PATIENCE: Final = 0.05  # the same for a client that was quick before, which may lack a processor


def second_socket(transport: Any) -> socket.socket:
    """Return a second socket of a connection, for a thread. It waits `WAIT_SECONDS` at most.

    The connection may end while the thread uses its socket. The system could then give the number
    of the descriptor to another connection, so the second socket has a descriptor of its own.
    """
    own = transport.get_extra_info("socket")
    copy = socket.socket(own.family, own.type, own.proto, os.dup(own.fileno()))
    copy.settimeout(WAIT_SECONDS)
    return copy


class Pieces(Iterator[bytes]):
    """The pieces of a body. Each is read on a worker thread unless `next_cached` returns it.

    This class itself has none.
    """

    def __next__(self) -> bytes:
        raise StopIteration

    def next_cached(self) -> bytes | None:
        """Return the next piece if that takes no time, else None."""
        return None

    @property
    def memory_used(self) -> int:
        """The approximate bytes of memory in use between two pieces."""
        return 0

    @property
    def left(self) -> int:
        """How many bytes `runs` can still return."""
        return 0

    @property
    def is_quick(self) -> bool:
        """Whether the client has used the last runs without a wait."""
        return False

    def runs(self, hashers: Executor) -> Generator[memoryview, None, None]:  # noqa: ARG002
        """Yield the next bytes in large runs, about `BATCH` of them. Use it on a worker thread.

        The caller uses a run from its start, calls `skip` for what it has used, and closes the
        generator unless it has used all. `hashers` read and verify blocks ahead.
        """
        yield from ()

    def skip(self, size: int) -> None:
        """Go on after the next `size` bytes."""


class DirectSender:
    """Sends bytes of a reply past the buffer of its connection.

    The reply must declare its length. Nothing else may be written to the connection meanwhile.
    """

    def __init__(self, transport: Any, cycle: RequestCycle) -> None:
        self._transport = transport
        self._cycle = cycle

    @property
    def is_ready(self) -> bool:
        """Whether the system has taken all bytes that were written before."""
        self._cycle.send_head()
        return not self._transport.is_closing() and not self._transport.get_write_buffer_size()

    def open(self) -> socket.socket:
        """Return a second socket of the connection. Call it in the event loop."""
        return second_socket(self._transport)

    def send(self, connection: socket.socket, pieces: Pieces, hashers: Executor) -> bool:
        """Send `pieces` on this thread; return False if the client does not read them in time."""
        with closing(pieces.runs(hashers)) as runs:
            for run in runs:
                connection.settimeout(PATIENCE if pieces.is_quick else WAIT_SECONDS)
                sent = 0
                while sent < len(run):
                    if self._transport.is_closing():
                        return False
                    try:
                        size = connection.send(run[sent:])
                    except OSError:  # a time-out, or the client has disconnected
                        return False
                    pieces.skip(size)
                    sent += size
        return True

    def record(self, size: int) -> None:
        """Count bytes that were sent as a part of the reply. Call it in the event loop."""
        if not self._cycle.is_disconnected:
            self._cycle.count(size)
            self._transport.count(size)


# Receiving large parts of a request's body on a worker thread, as fast as the client sends them.
#
# The event loop has several turns for each part that arrives, and passes each part to a thread.
# Here the thread that uses the bytes takes them from the system itself. It never waits long: a
# client that sends slowly is left to the event loop.

PIECE_SIZE: Final = 1 << 20  # bytes that are received before they are used
TURN_SIZE: Final = 16 << 20  # bytes after which the event loop looks at time and memory
WORTHWHILE: Final = 2 * PIECE_SIZE  # bytes of the body that are left
FOR_THE_LOOP: Final = 16 << 10  # the last bytes, with which the event loop ends the request


class DirectReceiver:
    """Receives bytes of a body that has a known length, past the buffer of its connection."""

    def __init__(self, connection: "NodeProtocol") -> None:
        self._connection = connection
        self._received = 0

    def open(self) -> socket.socket | None:
        """Return a second socket to receive from; None if that is not worthwhile.

        The event loop receives nothing until `record`.
        """
        connection = self._connection
        if connection.body_left < WORTHWHILE:
            return None
        connection.flow.pause_reading()
        if connection.has_unread_body or connection.transport.is_closing():
            return None
        self._received = 0
        return second_socket(connection.transport)

    def receive(self, source: socket.socket, use: Callable[[bytes], None]) -> bool:
        """Receive on this thread, and `use` each piece; return False if the client is slow."""
        most = min(TURN_SIZE, self._connection.body_left - FOR_THE_LOOP)
        while self._received < most:
            piece = self._receive_piece(source, min(PIECE_SIZE, most - self._received))
            self._received += len(piece)
            if piece:
                use(piece)
            if len(piece) < PIECE_SIZE:
                return self._received == most
        return True

    def _receive_piece(self, source: socket.socket, size: int) -> bytes:
        """Return the next bytes: fewer than `size` if they do not come at once."""
        parts: list[bytes] = []
        while size and not self._connection.transport.is_closing():
            try:
                part = source.recv(size)
            except OSError:  # a time-out, or the client has disconnected
                break
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def record(self) -> None:
        """Count what was received as a part of the body. Call it in the event loop."""
        self._connection.skip_body(self._received)


logger: Final = logging.getLogger("uvicorn.error")  # to which uvicorn logs everything else

HEAD_SECONDS = 20.0  # for a whole head, counted from the connection's start or the last reply's end
RECEIVE_SIZE: Final = 16 << 10  # the most bytes that are read ahead of a connection
BODY_SIZE: Final = 1 << 20  # the same for a body that the application reads
MAX_UNREAD: Final = 16  # connections that may have so many bytes that it has not taken yet
WRITE_BUFFER: Final = 32 << 10  # bytes that wait for the client besides the system's own buffer

INVALID: Final = "Invalid HTTP request received."


class NodeProtocol(asyncio.BufferedProtocol):
    """HTTP/1.1 with time limits for heads and replies, and a memory limit for bytes read ahead.

    uvicorn calls `shutdown`.

    Args:
        config: The configuration of uvicorn, which is loaded.
        server_state: What the connections of its server share.
        app_state: The state of the application.
        buffer: Where bytes are received, `BODY_SIZE` of them; all connections of one event loop
            share it.
        unread: The connections with many bytes that the application has not taken yet; shared in
            the same way. Many clients may send at the same moment.

    Attributes:
        on_lost: Called when the connection has ended.
    """

    transport: StallLimit
    flow: FlowControl

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        buffer: memoryview,
        unread: "set[NodeProtocol]",
    ) -> None:
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
        self.on_lost: Callable[[], None] = lambda: None
        self._buffer = buffer
        self._unread = unread

    def connection_made(self, transport: Any) -> None:
        """Start to wait for a request."""
        # Low is 0, because `DirectSender` needs an empty buffer.
        transport.set_write_buffer_limits(high=WRITE_BUFFER, low=0)
        self.transport = StallLimit(transport, partial(self._unread.discard, self))
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
        size = RECEIVE_SIZE
        left = self._reader.left
        # Reading is paused after the first bytes, until the application asks for more.
        is_read = self._has_request() and self._taken >= RECEIVE_SIZE
        if is_read and left > RECEIVE_SIZE and len(self._unread) < MAX_UNREAD:
            size = min(BODY_SIZE, left)
        return self._buffer[:size]

    def buffer_updated(self, nbytes: int) -> None:
        """Process the bytes in the buffer."""
        data = self._buffer[:nbytes]
        if nbytes > RECEIVE_SIZE:  # all of it belongs to the body
            self._read(data)
            self._unread.add(self)
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
            logger.warning(INVALID)
            self._refuse()
            return len(data)

    def _refuse(self) -> None:
        """Tell the client that it does not send valid requests, and end the connection."""
        cycle = self._cycle
        if cycle is None or cycle.is_complete:
            self.transport.write(last_reply(400, INVALID))
        elif not cycle.is_started:
            cycle.disconnect()
            self.transport.write(last_reply(400, INVALID))
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

    def shutdown(self) -> None:
        """End the connection, after the reply that is being sent."""
        if self._cycle is None or self._cycle.is_complete:
            self.transport.close()
        else:
            self._cycle.keep_alive = False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Stop the timer, and call `on_lost`."""
        self.server_state.connections.discard(self)
        self._unread.discard(self)
        self._ahead = b""
        self._reader.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._cycle is not None:
            self._cycle.disconnect()
        self.flow.resume_writing()
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
