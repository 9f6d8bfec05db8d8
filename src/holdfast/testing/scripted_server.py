"""A real TCP server that records each request and sends the replies that a test defines."""

import contextlib
import http.client
import json
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias, TypedDict, Unpack
from urllib.parse import urlsplit

# A reply that a test defines to the byte, including its faults.

REASONS = {200: "OK", 301: "Moved Permanently", 307: "Temporary Redirect", 400: "Bad Request"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    r"""A reply and its faults.

    Attributes:
        status: The HTTP status.
        headers: Header fields besides Content-Length.
        body: The body; anything but bytes is sent as JSON.
        delay: Seconds to wait before the first byte.
        drip: Seconds to wait after each byte of the head and the body.
        cut: Send only this many bytes of the body, then apply the `ending`.
        cut_head: Send only this many bytes of the head, then apply the `ending`.
        ending: What follows a cut: close the connection, reset it (RST), or send nothing more.
        framed: Whether the reply has a Content-Length; without it, closing ends the reply.
        chunked: Whether to send the body in chunked encoding instead of with a Content-Length.
        raw: The exact bytes to send instead of head and body.
        early: Whether to reply without reading the body of the request.
        hang_up: Close the connection without a reply.

    Example:
        >>> Scripted(body=b"hello", cut=2, ending="reset").head_and_body()
        (b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n', b'he')
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = b""
    delay: float = 0
    drip: float = 0
    cut: int | None = None
    cut_head: int | None = None
    ending: Literal["close", "reset", "stall"] = "close"
    framed: bool = True
    chunked: bool = False
    raw: bytes | None = None
    early: bool = False
    hang_up: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the connection can be used for another request afterwards."""
        broken = self.early or self.raw is not None or self.is_cut
        return not broken and (self.framed or self.chunked)

    @property
    def is_cut(self) -> bool:
        """Whether a part of the reply is not sent."""
        return self.hang_up or self.cut is not None or self.cut_head is not None

    def head_and_body(self) -> tuple[bytes, bytes]:
        """Return the bytes to send: those of the head and those of the body."""
        if self.hang_up:
            return b"", b""
        if self.raw is not None:
            return self.raw[: self.cut], b""
        headers = dict(self.headers)
        names = {name.lower() for name in headers}
        body = self.body
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
            if "content-type" not in names:
                headers["Content-Type"] = "application/json"
        if self.chunked:
            headers["Transfer-Encoding"] = "chunked"
        elif self.framed and "content-length" not in names:
            headers["Content-Length"] = str(len(body))
        lines = [f"HTTP/1.1 {self.status} {REASONS.get(self.status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if self.cut_head is not None:
            return head[: self.cut_head], b""
        sent = body[: self.cut]
        if self.chunked:
            whole = b"" if self.is_cut else b"\r\n0\r\n\r\n"
            return head, b"%x\r\n%b%b" % (len(body), sent, whole)
        return head, sent

    def __post_init__(self) -> None:
        if self.ending != "close" and not self.is_cut:
            raise ValueError("ending needs a cut: set cut, cut_head or hang_up as well")


class ReplyOptions(TypedDict, total=False):
    """The fields of `Scripted` besides its status and its body, as keywords."""

    headers: Mapping[str, str]
    delay: float
    drip: float
    cut: int | None
    cut_head: int | None
    ending: Literal["close", "reset", "stall"]
    framed: bool
    chunked: bool
    raw: bytes | None
    early: bool
    hang_up: bool


# Read requests from a connection and record their bytes.

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

    def __init__(self, file: Any) -> None:
        self._file = file
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
        while size := int(self._line() or b"0", 16):
            body += self._exactly(size)
            self._exactly(2)
        self._exactly(2)
        return bytes(body)

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\r\n"):
            if not (piece := self._file.readline()):
                return b""
            line += piece
            self._raw += piece
        return line[:-2]

    def _exactly(self, size: int) -> bytes:
        data: bytes = self._file.read(size)
        self._raw += data
        if len(data) < size:
            raise ConnectionError("the request ended early")
        return data


# Header fields of one connection, which are not forwarded.
HOP_BY_HOP = frozenset({"host", "connection", "keep-alive", "transfer-encoding", "content-length"})


Script: TypeAlias = Callable[[Recorded], Scripted]
"""A function that returns the reply to a request: your own, or `forward_to`."""


class ScriptedServer:
    """Sends the replies that `reply` has queued, then those of its script, else status 500.

    With the script `forward_to` it is a proxy of a real server: queue faulty replies with `reply`,
    or change the replies in a script of your own.

    Attributes:
        port: The port of the server.
        connections: How many connections were made to it so far.

    Example:
        >>> import urllib.request
        >>> with ScriptedServer() as server:
        ...     server.reply(200, {"message": "hi"})
        ...     with urllib.request.urlopen(server.url + "/greeting") as response:
        ...         print(response.read().decode())
        ...     print(server.requests[0].target)
        {"message": "hi"}
        /greeting
    """

    def __init__(self, script: Script | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self._queue: deque[Scripted] = deque()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._stopping = threading.Event()
        self._requests: list[Recorded] = []
        self._error: Exception | None = None
        self.connections: int = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="scripted-server", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Recorded]:
        """The requests so far, in order."""
        with self._lock:
            return list(self._requests)

    def reply(self, status: int = 200, body: Any = b"", **options: Unpack[ReplyOptions]) -> None:
        """Queue a reply. The keywords are the other fields of `Scripted`.

        Example:
            >>> import urllib.request
            >>> with ScriptedServer() as server:
            ...     server.reply(200, b"hello", cut=2)
            ...     try:
            ...         with urllib.request.urlopen(server.url) as response:
            ...             response.read()
            ...     except http.client.IncompleteRead as error:
            ...         print(error.partial)
            b'he'
        """
        with self._lock:
            self._queue.append(Scripted(status=status, body=body, **options))

    def close(self) -> None:
        """Stop listening and close all connections. A second call does nothing.

        Raise the error of a script or of an invalid request, if there was one. It is a mistake in
        the test, not a fault that the test wanted.
        """
        self._stop()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _stop(self) -> None:
        if self._stopping.is_set():
            return
        self._stopping.set()
        # Closing the listener does not wake a waiting accept, so connect to it.
        with socket.socket() as waker:
            waker.connect_ex(("127.0.0.1", self.port))
        self._thread.join()
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # it may be closed already
                    connection.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if error is None:
            self.close()
            return
        self._stop()
        if self._error is not None:
            error.add_note(f"The scripted server failed as well: {self._error!r}")

    def _accept(self) -> None:
        while not self._stopping.is_set():
            connection, _ = self._listener.accept()
            if self._stopping.is_set():
                connection.close()
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
        except OSError:
            connection.close()
            return
        with self._lock:
            self._open.add(connection)
            self.connections += 1
        try:
            with connection.makefile("rb", RECEIVE_SIZE) as file:
                reader = RequestReader(file)
                while self._exchange(connection, reader):
                    pass
        except OSError:
            pass  # the client closed the connection
        except Exception as error:  # noqa: BLE001 - raised when the server is closed
            self._error = error
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _exchange(self, connection: socket.socket, reader: RequestReader) -> bool:
        """Read one request and reply; return whether the connection can be used again."""
        head = reader.read_head()
        if head is None:
            return False
        with self._lock:
            queued = self._queue.popleft() if self._queue else None
        body = b"" if queued is not None and queued.early else reader.read_body(head.headers)
        request = replace(head, body=body, raw=reader.take_raw())
        with self._lock:
            self._requests.append(request)
        reply = self._scripted(request) if queued is None else queued
        if self._stopping.wait(reply.delay):
            return False
        first, rest = reply.head_and_body()
        # A reply to HEAD has no body, whatever its Content-Length.
        data = first if head.method == "HEAD" else first + rest
        return self._send(connection, reply, data)

    def _scripted(self, request: Recorded) -> Scripted:
        if self._script is None:
            return Scripted(status=500)
        try:
            reply = self._script(request)
            if not isinstance(reply, Scripted):
                raise TypeError(f"a script returns a Scripted, not {reply!r}")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - raised when the server is closed
            self._error = error
            return Scripted(status=500, body=repr(error).encode())
        return reply

    def _send(self, connection: socket.socket, reply: Scripted, data: bytes) -> bool:
        if reply.drip:
            for byte in data:
                connection.sendall(bytes([byte]))
                if self._stopping.wait(reply.drip):
                    return False
        else:
            connection.sendall(data)
        if reply.early:
            self._stopping.wait(reply.delay or 0.2)
        if reply.is_cut and reply.ending == "stall":
            self._stopping.wait()
        if reply.is_cut and reply.ending == "reset":
            # With a linger time of 0, closing sends a reset (RST).
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        return reply.is_whole


def forward_to(url: str) -> Script:
    """Return a script that forwards each request to the server at `url`, and returns its reply.

    The path of a request does not change; only the host and port of `url` are used.

    Example:
        >>> import urllib.request
        >>> with ScriptedServer() as real, ScriptedServer(forward_to(real.url)) as between:
        ...     between.reply(503)
        ...     real.reply(200, "hi")
        ...     for _ in range(2):
        ...         try:
        ...             with urllib.request.urlopen(between.url) as response:
        ...                 print(response.read())
        ...         except OSError as error:
        ...             print(error.code)
        ...             error.close()
        503
        b'"hi"'
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"requests are forwarded to http:// addresses, not to {url}")

    def forward(request: Recorded) -> Scripted:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        with contextlib.closing(connection):
            headers = {
                name: value for name, value in request.headers.items() if name not in HOP_BY_HOP
            }
            connection.request(request.method, request.target, request.body or None, headers)
            with connection.getresponse() as reply:
                # In a reply to HEAD, Content-Length is not the length of the body that is read.
                forwarded = {"content-length"} if request.method == "HEAD" else frozenset()
                fields = {
                    name: value
                    for name, value in reply.getheaders()
                    if name.lower() not in HOP_BY_HOP - forwarded
                }
                return Scripted(status=reply.status, headers=fields, body=reply.read())

    return forward
