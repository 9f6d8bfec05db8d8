"""Connections of urllib3 that enforce the limits of each exchange (a request and its reply).

urllib3's time-outs hold for each single read and write of a socket, so a peer that sends one byte
now and then never exceeds them. Here, every read and write of the socket first asks
`ExchangeLimits` how long it may take. A read may take until the next progress is due: a complete
head, or a byte of the body.

A request with a whole body, or none, is sent and its reply is read by `exchange_plain`. urllib3
takes most of the time of a small request for retries, redirects and decoding, which are not used
here, and sends the body apart from the head. See `_async/connections.py`.

All undocumented parts of urllib3 and http.client that the package uses are used here: see `PARTS`.
"""

import errno
import http.client
import io
import os
import platform
import re
import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.errors import FirstHeaderLineIsContinuationDefect, MissingHeaderBodySeparatorDefect
from functools import partial
from http.client import HTTPResponse
from typing import Any, Final

import urllib3
from urllib3 import exceptions as library
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import wait_for_read
from urllib3.util.ssltransport import SSLTransport

from holdfast._sync.runtime import now, racer
from holdfast.calls import Deadline
from holdfast.config.limits import Timeouts
from holdfast.disk.closing import on_error
from holdfast.protocol import host_privacy
from holdfast.protocol.http import MAX_DIGITS, MAX_TRAILER, Overhead, Request, read_stream_error
from holdfast.protocol.library_parts import LibraryPart, has_shortcuts

# urllib3 picks or makes the connection inside one call, on the thread of the caller. The connection
# finds its limits here.
current_limits: ContextVar["ExchangeLimits"] = ContextVar("current_limits")
SMALL_CHUNK: Final = 1 << 12
# With the end of the chunk before it.
CHUNK_HEAD: Final = re.compile(rb"\r\n([0-9A-Fa-f]{1,4})\r\n")
BROKEN_HEAD: Final = (MissingHeaderBodySeparatorDefect, FirstHeaderLineIsContinuationDefect)

# A head that is parsed here: without a continued line, a wrong character, or a coded body.
SIMPLE_HEAD: Final = re.compile(
    rb"HTTP/1\.1 ([2-5][0-9][0-9])(?: [ -~]*)?\r\n"
    rb"((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[ -~]*\r\n){1,99})\r\n"  # http.client reads 99 fields, too
)
FRAMING: Final = ("transfer-encoding", "connection")

SEEN: Final = "urllib3 2.7.0 to 2.8.0"
SEEN_PYTHON: Final = "Python 3.11 to 3.13"
PARTS: Final = (
    LibraryPart(HTTPConnection, "_new_conn", "only allowed addresses are connected to", SEEN),
    LibraryPart(HTTPConnection, "_dns_host", "the address that was checked is used", SEEN),
    LibraryPart(HTTPConnection, "is_connected", "connections with unread bytes are closed", SEEN),
    LibraryPart(SSLTransport, "incoming", "unread bytes below TLS are no reply", SEEN),
    LibraryPart(SSLTransport, "sslobj", "unread bytes of TLS are no reply", SEEN),
    LibraryPart(HTTPConnectionPool, "_get_conn", "a request in one write", SEEN, is_shortcut=True),
    LibraryPart(HTTPConnectionPool, "_put_conn", "a request in one write", SEEN, is_shortcut=True),
    LibraryPart(HTTPConnectionPool, "pool", "a host is looked up once", SEEN, is_shortcut=True),
)
PYTHON_PARTS: Final = (
    LibraryPart(
        http.client.HTTPConnection, "response_class", "replies are read in limits", SEEN_PYTHON
    ),
    LibraryPart(HTTPResponse, "_read_status", "informational replies are counted", SEEN_PYTHON),
    LibraryPart(
        HTTPResponse, "_read_and_discard_trailer", "errors after a body are seen", SEEN_PYTHON
    ),
    LibraryPart(
        HTTPResponse, "_read1_chunked", "small chunks are joined", SEEN_PYTHON, is_shortcut=True
    ),
)
WITHOUT_BODY: Final = frozenset({204, 304})


def can_exchange_plain() -> bool:
    """Return whether `exchange_plain` can be used. Raise ImportError if our limits would not hold.

    The connections look for the shortcut through http.client by themselves.
    """
    has_shortcuts(PYTHON_PARTS, "Python", platform.python_version())
    return has_shortcuts(PARTS, "urllib3", urllib3.__version__)  # type: ignore[attr-defined]


class OverheadError(library.HTTPError):
    """The peer has sent too much that is not content."""


class ForbiddenAddressError(library.HTTPError):
    """The address is more private than the request allows."""


@dataclass(eq=False, repr=False)
class ExchangeLimits:
    """How long each step of one exchange may take, and how many bytes may be other than content.

    Attributes:
        sent: Whether the whole request was sent.
        address: The address that it was sent to; None if a proxy made the connection.
        stream_error: The error in the trailer of the reply, or b"".
        release: Called when the exchange is over, so that a race no longer shuts its connection.
    """

    _timeouts: Timeouts
    _deadline: Deadline
    proxied: bool
    max_privacy: int
    sent: bool = False
    address: str | None = None
    stream_error: bytes = b""
    release: Callable[[], None] = lambda: None
    _overhead: Overhead = field(default_factory=Overhead)
    _progress_by: float | None = None

    def connect_seconds(self) -> float | None:
        """Return how long making the connection may take."""
        return self._within_deadline(self._timeouts.connect)

    def write_seconds(self) -> float | None:
        """Return how long the next write may take."""
        return self._within_deadline(self._timeouts.write)

    def expect_progress(self) -> None:
        """Start the time in which the peer must make progress."""
        read = self._timeouts.read
        self._progress_by = None if read is None else now() + read

    def read_seconds(self) -> float | None:
        """Return the time that is left until progress is due."""
        if self._progress_by is None:
            return self._within_deadline(None)
        return self._within_deadline(max(0.0, self._progress_by - now()))

    def receive(self, count: int) -> None:
        """Count bytes from the socket."""
        self._overhead.receive(count)
        self._check_overhead()

    def take_content(self, count: int) -> None:
        """Count bytes of the body."""
        self._overhead.take_content(count)

    def take_informational(self) -> None:
        """Count an informational reply."""
        self._overhead.take_informational()
        self._check_overhead()

    def _check_overhead(self) -> None:
        if self._overhead.is_too_much:
            raise OverheadError

    def may_connect(self, address: str) -> bool:
        """Return whether the request may be sent to `address`."""
        return self.proxied or host_privacy.allows(self.max_privacy, address)

    def check_peer(self, sock: socket.socket) -> None:
        """Raise an error if the request may not be sent to the address at the end of `sock`."""
        if not self.proxied:
            self.address = str(sock.getpeername()[0])
            if not self.may_connect(self.address):
                raise ForbiddenAddressError

    def _within_deadline(self, seconds: float | None) -> float | None:
        left = self._deadline.left()
        if left is not None and (seconds is None or left < seconds):
            seconds = left
        if seconds is not None and seconds <= 0:
            raise TimeoutError
        return seconds


class _LimitedReader(io.RawIOBase):
    """Reads from a socket within the limits of the current exchange."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._raw = sock.makefile("rb", buffering=0)
        self.limits = current_limits.get()
        self.limits.expect_progress()
        self.in_head = False
        self.is_paused = False  # if so, nothing is read from the socket

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self.is_paused:
            return None
        self._socket.settimeout(self.limits.read_seconds())
        count = self._raw.readinto(buffer)
        self.limits.receive(count or 0)
        if count == 0 and self.in_head:
            # http.client would take this as the end of the headers.
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _LimitedSocket:
    """The part of a socket that `http.client.HTTPResponse` uses."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - it is always "rb"
        return io.BufferedReader(_LimitedReader(self._socket), 1 << 16)


class LimitedResponse(HTTPResponse):
    """A reply that is read within the limits of the current exchange."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(_LimitedSocket(sock), *args, **kwargs)  # type: ignore[arg-type]
        self._reader: Any = self.fp.raw

    def has_more(self) -> bool:
        """Return whether bytes have arrived, and were not taken, that are not of this reply."""
        return not self.isclosed() and bool(self._ahead())

    def _ahead(self) -> bytes:
        """Return bytes that were received already, without taking them."""
        self._reader.is_paused = True
        ahead: bytes = self.fp.peek()
        self._reader.is_paused = False
        return ahead

    def begin(self) -> None:
        """Read the head."""
        self._reader.in_head = True
        try:
            super().begin()
        finally:
            self._reader.in_head = False
        if any(isinstance(defect, BROKEN_HEAD) for defect in self.headers.defects):
            # urllib3 would log what it cannot parse, and a peer may repeat a credential there.
            raise library.InvalidHeader("the head cannot be read")

    def _read_status(self) -> tuple[str, int, str]:
        """Read the status line of the final reply and skip the informational ones before it.

        http.client skips only those of status 100, and any number of them.
        """
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not 100 <= status < 200 or status == http.HTTPStatus.SWITCHING_PROTOCOLS:
                return version, status, reason
            self._reader.limits.take_informational()
            http.client.parse_headers(self.fp)

    def _read_and_discard_trailer(self) -> None:
        """Read the trailer, and keep the error in it.

        http.client discards it, and takes the end of the connection for its end.
        """
        limits: ExchangeLimits = self._reader.limits
        self._reader.in_head = True
        while (line := self.fp.readline(MAX_TRAILER)) not in {b"\r\n", b"\n"}:
            limits.stream_error = read_stream_error(line) or limits.stream_error
        self._reader.in_head = False

    def _read1_chunked(self, n: int) -> bytes:
        """Read a chunk and all further chunks that are in the buffer: there may be many small ones.

        http.client reads one at a time.
        """
        data: bytes = super()._read1_chunked(n)  # type: ignore[misc]
        if len(data) >= SMALL_CHUNK or self.chunk_left != 0:
            return data
        ahead = self._ahead()
        pieces, position, left = [data], 0, n - len(data)
        while (head := CHUNK_HEAD.match(ahead, position)) is not None:
            size = int(head[1], 16)
            if not 0 < size <= min(left, len(ahead) - head.end()):
                break
            position = head.end() + size
            left -= size
            pieces.append(ahead[head.end() : position])
        self.fp.read(position)
        return b"".join(pieces)


class _LimitedSends:
    """Mixin for a connection: sends within the limits, and only to addresses that are allowed."""

    response_class: Any = LimitedResponse
    sock: Any
    _unfinished = False

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is not None:  # kept from before, or connected already for TLS
            current_limits.get().check_peer(self.sock)
        self._unfinished = True
        super().request(*args, **kwargs)  # type: ignore[misc]
        self._unfinished = False
        current_limits.get().sent = True

    @property
    def is_connected(self) -> bool:
        # The pool asks this before it uses a connection again. After half a request, the peer
        # would take the next request for the other half. Unread bytes would be taken for the reply
        # to the next request; urllib3 asks the system for them, but not TLS.
        is_unusable = self._unfinished or _has_unread_tls(self.sock)
        return not is_unusable and super().is_connected  # type: ignore[misc]

    def _new_conn(self) -> socket.socket:
        """Try all addresses of the host within the one time-out for a connection.

        urllib3 gives each address the whole time-out.
        """
        connection: Any = self
        name = connection._dns_host  # noqa: SLF001 - what is connected to; `host` is for the headers
        try:
            hosts = socket.getaddrinfo(name, connection.port, type=socket.SOCK_STREAM)
        except OSError:
            hosts = []  # urllib3 will fail too, and raises the right error
        candidates = list(dict.fromkeys(str(info[4][0]) for info in hosts)) or [name]
        limits = current_limits.get()
        seconds = limits.connect_seconds()
        end = None if seconds is None else now() + seconds
        failure: Exception | None = None
        try:
            for address in candidates:
                if not limits.may_connect(address):
                    failure = failure or ForbiddenAddressError()
                    continue
                connection._dns_host = address  # noqa: SLF001
                connection.timeout = None if end is None else max(0.001, end - now())
                try:
                    return self._checked(super()._new_conn())  # type: ignore[misc]
                except (library.NewConnectionError, library.ConnectTimeoutError) as error:
                    failure = error
                    if end is not None and now() >= end:
                        break
        finally:
            connection._dns_host = name  # noqa: SLF001
        raise failure or OSError("the host has no address")

    @staticmethod
    def _checked(sock: socket.socket) -> socket.socket:
        """Return `sock` if the request may be sent to its address; else close it and raise.

        The name may have been resolved again meanwhile, to another address.
        """
        with on_error(sock.close):
            current_limits.get().check_peer(sock)
        return sock

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()  # type: ignore[attr-defined]
        limits = current_limits.get()
        if (me := racer.get()) is not None:
            me.watch(self.sock)
            limits.release = partial(me.forget, self.sock)
        self.sock.settimeout(limits.write_seconds())
        try:
            super().send(data)  # type: ignore[misc]
        except TimeoutError:
            # The peer may have replied and stopped reading. urllib3 reads the reply only after a
            # broken pipe.
            if wait_for_read(self.sock, timeout=0):
                raise BrokenPipeError from None
            raise


def _has_unread_tls(sock: Any) -> bool:
    """Return whether TLS has received bytes on `sock` that were not read."""
    if isinstance(sock, SSLTransport):  # TLS to a host, inside of TLS to a proxy
        return sock.incoming.pending > 0 or sock.sslobj.pending() > 0
    return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0


class _Connection(_LimitedSends, HTTPConnection):
    pass


class _SecureConnection(_LimitedSends, HTTPSConnection):
    pass


class Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


@dataclass(eq=False, repr=False)
class PlainResponse:
    """The part of `urllib3.HTTPResponse` that the transport uses.

    Attributes:
        status: The HTTP status.
        headers: The header fields with names in lower case. Fields of one name are joined.
    """

    _pool: HTTPConnectionPool
    _connection: Any
    _response: LimitedResponse
    _may_reuse: bool
    _has_body: bool  # not in the reply to HEAD, whatever its length says
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    closed: bool = False
    _left: int | None = None  # bytes of the body, if their number is known

    def read_head(self) -> None:
        """Read the head of the reply."""
        if self._has_body and self._read_simple_head():
            return
        response = self._response
        response.begin()
        self.status = response.status
        for name, value in response.headers.items():
            self._add_field(name.lower(), value)
        if not response.chunked:
            length = _one_length(self.headers.get("content-length", ""))
            self._left = length if response.length is None else response.length
        self._may_reuse = self._may_reuse and not response.will_close

    def _read_simple_head(self) -> bool:
        """Read the head if all of it has arrived and it is an ordinary one."""
        # What has arrived, without taking it; if that is nothing, this waits for it.
        head = SIMPLE_HEAD.match(self._response.fp.peek())
        if head is None:
            return False
        for line in head[2].decode("ascii").splitlines():
            name, _, value = line.partition(":")
            self._add_field(name.lower(), value.strip())
        length = self.headers.get("content-length", "")
        self.status = int(head[1])
        if (
            self.status in WITHOUT_BODY
            or not (length.isdecimal() and len(length) <= MAX_DIGITS)
            or any(name in self.headers for name in FRAMING)
        ):
            self.headers = {}
            return False
        self._left = int(length)
        self._response.fp.read(head.end())
        return True

    def _add_field(self, name: str, value: str) -> None:
        fields = self.headers
        fields[name] = f"{fields[name]}, {value}" if name in fields else value

    def read1(self, size: int, **_: Any) -> bytes:
        """Return the next bytes of the body, at most `size`, or b"" at its end."""
        if self.closed:
            return b""
        if self._left is None:
            data: bytes = self._response.read1(size)
        elif self._left:
            data = self._response.fp.read1(min(size, self._left))
            self._left -= len(data)
            if not data:
                raise http.client.IncompleteRead(b"", self._left)
        else:
            data = b""
        if not data:
            self._end(reuse=self._may_reuse)
        return data

    def close(self) -> None:
        """Keep the connection if all of the body was read, else close it."""
        if not self.closed:
            self._end(reuse=self._may_reuse and self._left == 0)

    def _end(self, *, reuse: bool) -> None:
        self.closed = True
        if not reuse or self._response.has_more():
            self._connection.close()
        self._response.close()
        self._pool._put_conn(self._connection)  # noqa: SLF001


def _one_length(value: str) -> int | None:
    """Return the Content-Length if `value` is one, perhaps repeated; raise an error if two differ.

    http.client uses the first of several fields.
    """
    try:
        lengths = {int(length) for length in value.split(",")}
    except ValueError:
        return None
    if len(lengths) > 1:
        raise library.InvalidHeader("the head has different lengths")
    length = lengths.pop()
    return None if length < 0 else length


def exchange_plain(
    pool: HTTPConnectionPool, limits: ExchangeLimits, request: Request, target: str
) -> PlainResponse:
    """Send `request` for the path `target`, and return the reply."""
    connection: Any = pool._get_conn()  # noqa: SLF001
    try:
        if connection.sock is None:
            connection.connect()
        else:
            limits.check_peer(connection.sock)
        _send(connection, limits, request, target)
        reader = LimitedResponse(connection.sock, method=request.method)
        # After half a request, the peer would take the next request for the other half.
        has_body = request.method != "HEAD"
        response = PlainResponse(pool, connection, reader, limits.sent, has_body)
        response.read_head()
    except BaseException:
        connection.close()
        pool._put_conn(connection)  # noqa: SLF001
        raise
    return response


def _send(connection: Any, limits: ExchangeLimits, request: Request, target: str) -> None:
    try:
        # Secrets are not put in variables: a traceback may show those.
        connection.send(request.whole(target, request.host))
        limits.sent = True
    except (BrokenPipeError, ConnectionResetError):
        pass  # there may be a reply nevertheless
    except TimeoutError as error:
        raise library.ProtocolError(error) from None  # so it is known from one while reading
