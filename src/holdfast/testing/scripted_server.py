"""A real TCP server that records the bytes of each request, and replies, or fails, as told."""

import contextlib
import http.client
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeAlias, Unpack
from urllib.parse import urlsplit

from holdfast.testing.recorded_requests import Recorded, Wire
from holdfast.testing.scripted_reply import Scripted, Ways

# Header fields that belong to one connection, or that are made anew for the next.
HOPS = frozenset({"host", "connection", "keep-alive", "transfer-encoding", "content-length"})


Script: TypeAlias = Callable[[Recorded], Scripted]
"""What a server says to a request: a function of your own, or `forward_to`."""


class ScriptedServer:
    """Replies with what was queued by `reply`, else with what its script says, else with 500.

    With `forward_to` for a script it stands before a real server and breaks what passes by: queue
    the faults with `reply`, or change the replies in a script of your own.

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
        self._failure: Exception | None = None
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="scripted-server", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port

    @property
    def url(self) -> str:
        """The address of its root."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Recorded]:
        """What came so far, in order."""
        with self._lock:
            return list(self._requests)

    def reply(self, status: int = 200, body: Any = b"", **how: Unpack[Ways]) -> None:
        """Queue a reply; the fields of `Scripted` are its keywords.

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
            self._queue.append(Scripted(status=status, body=body, **how))

    def close(self) -> None:
        """Stop listening and drop every connection. A second time does nothing.

        Raises what a script raised, or what was wrong with a request: that is a mistake of a test,
        and not to be taken for a fault that it wanted.
        """
        self._stop()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _stop(self) -> None:
        if self._stopping.is_set():
            return
        self._stopping.set()
        # Closing alone does not wake an accept that waits.
        with socket.socket() as waker:
            waker.connect_ex(("127.0.0.1", self.port))
        self._thread.join()
        self._listener.close()
        with self._lock:
            for connection in self._open:
                _shut(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        self._stop()
        if self._failure is not None:
            error.add_note(f"The scripted server failed as well: {self._failure!r}")

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
            wire = Wire(connection)
            while self._exchange(wire):
                pass
        except OSError:
            pass  # the client hung up, which is its right
        except Exception as error:  # noqa: BLE001 - raised when the server is closed
            self._failure = error
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _exchange(self, wire: Wire) -> bool:
        """Read one request and reply; whether the connection may carry another."""
        head = wire.read_head()
        if head is None:
            return False
        with self._lock:
            queued = self._queue.popleft() if self._queue else None
        body = b"" if queued is not None and queued.early else wire.read_body(head)
        request = head.with_body(body, wire.take_raw())
        with self._lock:
            self._requests.append(request)
        reply = self._scripted(request) if queued is None else queued
        if self._stopping.wait(reply.delay):
            return False
        first, rest = reply.head_and_body()
        # To HEAD, the head is all that is said, whatever its Content-Length.
        return self._send(wire.connection, reply, first if head.method == "HEAD" else first + rest)

    def _scripted(self, request: Recorded) -> Scripted:
        if self._script is None:
            return Scripted(status=500)
        try:
            reply = self._script(request)
            if not isinstance(reply, Scripted):
                raise TypeError(f"a script returns a Scripted, not {reply!r}")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - raised when the server is closed
            self._failure = error
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
            # Closing with nothing to linger for is a reset.
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        return reply.is_whole


def _shut(connection: socket.socket) -> None:
    """Wake whoever reads from `connection`."""
    with contextlib.suppress(OSError):  # it may be closed already
        connection.shutdown(socket.SHUT_RDWR)


def forward_to(url: str) -> Script:
    """A script that passes each request on to the server at `url`, and its reply back.

    The path of a request stays as it is; `url` says host and port only.

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
            headers = {name: value for name, value in request.headers.items() if name not in HOPS}
            connection.request(request.method, request.target, request.body or None, headers)
            with connection.getresponse() as reply:
                # Only to HEAD, the length is not that of what comes.
                made_anew = HOPS - {"content-length"} if request.method == "HEAD" else HOPS
                found = {
                    name: value
                    for name, value in reply.getheaders()
                    if name.lower() not in made_anew
                }
                return Scripted(status=reply.status, headers=found, body=reply.read())
        finally:
            connection.close()

    return forward
