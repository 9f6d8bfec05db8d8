"""A real TCP server that records each request and sends the replies that a test defines."""

import contextlib
import http.client
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self, TypeAlias, Unpack
from urllib.parse import urlsplit

from holdfast.testing.recorded_requests import Recorded, RequestReader
from holdfast.testing.scripted_reply import ReplyOptions, Scripted

# Header fields of one connection, which are not forwarded.
HOP_BY_HOP = frozenset({"host", "connection", "keep-alive", "transfer-encoding", "content-length"})


Script: TypeAlias = Callable[[Recorded], Scripted]
"""A function that returns the reply to a request: your own, or `forward_to`."""


class ScriptedServer:
    """Sends the replies that `reply` has queued, then those of its script, else status 500.

    With the script `forward_to` it is a proxy of a real server: queue faulty replies with `reply`,
    or change the replies in a script of your own.

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
        self._port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="scripted-server", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port of the server."""
        return self._port

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
            reader = RequestReader(connection)
            while self._exchange(reader):
                pass
        except OSError:
            pass  # the client closed the connection
        except Exception as error:  # noqa: BLE001 - raised when the server is closed
            self._error = error
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _exchange(self, reader: RequestReader) -> bool:
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
        return self._send(reader.connection, reply, data)

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
        try:
            headers = {
                name: value for name, value in request.headers.items() if name not in HOP_BY_HOP
            }
            connection.request(request.method, request.target, request.body or None, headers)
            with connection.getresponse() as reply:
                # In a reply to HEAD, Content-Length is not the length of the body that is read.
                kept = {"content-length"} if request.method == "HEAD" else frozenset()
                fields = {
                    name: value
                    for name, value in reply.getheaders()
                    if name.lower() not in HOP_BY_HOP - kept
                }
                return Scripted(status=reply.status, headers=fields, body=reply.read())
        finally:
            connection.close()

    return forward
