"""Read requests from a connection and record their bytes."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RECEIVE_SIZE = 1 << 18


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request that a server received.

    Attributes:
        method: GET, POST or DELETE.
        target: The target of the request line: path and query, or a whole URL at a proxy.
        headers: The header fields, with names in lower case.
        body: The body, decoded if it was sent in chunked encoding.
        raw: The bytes of head and body as they were received.

    Example:
        >>> from holdfast import Client
        >>> from holdfast.testing import ScriptedServer
        >>> with ScriptedServer() as server:
        ...     server.reply(200, {"message": "hi"})
        ...     options = {"provider": "pinning", "provider_token": "x", "pin_api_url": server.url}
        ...     with Client.init(options) as client:
        ...         client.test_connection()
        ...     request = server.requests[0]
        True
        >>> request.method, request.target, request.headers["authorization"], request.body
        ('GET', '/data/testAuthentication', 'Bearer x', b'')
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    raw: bytes = field(repr=False)

    def json(self) -> Any:
        """Return the JSON value of the body."""
        return json.loads(self.body)


class RequestReader:
    """Reads the requests of a connection, and keeps the raw bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._buffer = bytearray()
        self._raw = bytearray()

    def read_head(self) -> Recorded | None:
        """Return the next request without its body, or None if the client has disconnected."""
        lines = []
        while line := self._line():
            lines.append(line.decode("latin-1"))
        if not lines:
            return None
        if lines[0].count(" ") < 2:
            raise ValueError(f"this is not an HTTP request: {lines[0]!r}")
        method, target, _ = lines[0].split(" ", 2)
        fields = (line.partition(":") for line in lines[1:])
        headers = {name.lower(): value.strip() for name, _, value in fields}
        return Recorded(method, target, headers, b"", b"")

    def read_body(self, headers: Mapping[str, str]) -> bytes:
        """Return the body of the request with these headers."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunked()
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            raise ValueError(f"the Content-Length of the request is {length!r}")
        return self._exactly(int(length))

    def take_raw(self) -> bytes:
        """Return all bytes that were read since the last call."""
        raw, self._raw = bytes(self._raw), bytearray()
        return raw

    def _chunked(self) -> bytes:
        body = bytearray()
        while size := int(self._exactly_line(), 16):
            body += self._exactly(size)
            self._exactly(2)
        self._exactly(2)
        return bytes(body)

    def _exactly_line(self) -> bytes:
        line = self._line()
        if not line:
            raise ConnectionError("the request ended early")
        return line

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if not self._fill():
                return b""
        line = bytes(self._buffer[: self._buffer.index(b"\r\n")])
        self._drop(len(line) + 2)
        return line

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not self._fill():
                raise ConnectionError("the request ended early")
        data = bytes(self._buffer[:size])
        self._drop(size)
        return data

    def _fill(self) -> bool:
        data = self.connection.recv(RECEIVE_SIZE)
        self._buffer += data
        return bool(data)

    def _drop(self, size: int) -> None:
        self._raw += self._buffer[:size]
        del self._buffer[:size]
