"""One request and its reply, as ASGI has them."""

import asyncio
import logging
import re
from collections.abc import Iterable, MutableMapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from holdfast.node.http_server.request_parser import Head

if TYPE_CHECKING:
    from holdfast.node.http_server.http_connection import NodeProtocol

logger: Final = logging.getLogger("uvicorn.error")  # to which uvicorn logs everything else

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
        await self._fail()

    async def _fail(self) -> None:
        """Reply with status 500, or end a reply that has begun."""
        if self.is_started:
            self._connection.transport.close()
            return
        text = b"Internal Server Error"
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(text)).encode()),
            (b"connection", b"close"),
        ]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": text})

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
        wanted = "http.response.body" if self.is_started else "http.response.start"
        if self.is_complete or message["type"] != wanted:
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


def _checked(name: bytes, value: bytes) -> bytes:
    """Return the name of a header in lower case; raise RuntimeError if a reply may not have it."""
    if not name or NOT_IN_NAME.search(name) or NOT_IN_VALUE.search(value):
        raise RuntimeError("a header of the reply is not valid")
    name = name.lower()
    if name == b"transfer-encoding":
        raise RuntimeError("the server chooses the transfer coding of a reply")
    return name
