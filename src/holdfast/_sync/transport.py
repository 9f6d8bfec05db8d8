"""HTTP by urllib3, blocking: the twin of `_async/transport.py`; no other file knows urllib3.

urllib3's time-outs are for each read and write of a socket, so a peer that drips bytes never trips
them. Here every read and write of the socket first asks `_Limits` how long it may take. A read may
take as long as is left until the next progress is due: a whole head, or a byte of the body.
"""

import errno
import http.client
import io
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from email.errors import FirstHeaderLineIsContinuationDefect, MissingHeaderBodySeparatorDefect
from functools import partial
from math import inf
from typing import Any, Final

import urllib3
from urllib3 import exceptions as library
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import wait_for_read

from holdfast import network
from holdfast._sync.runtime import now, racer
from holdfast.config import ClientConfig
from holdfast.errors import ClientClosedError
from holdfast.events import NEVER, Deadline
from holdfast.forks import renew_after_fork
from holdfast.limits import Timeouts
from holdfast.protocol import addresses, faults
from holdfast.protocol.http import Request, StreamBody
from holdfast.protocol.overhead import Overhead
from holdfast.secret import Scrubber, Secret

POOL_SIZE: Final = 100  # connections kept for reuse with each host; more threads open more
CHUNK_SIZE: Final = 1 << 18
SMALL_CHUNK: Final = 1 << 12
CHUNK_HEAD: Final = re.compile(rb"\r\n([0-9A-Fa-f]{1,4})\r\n")  # behind the chunk before
BROKEN_HEAD: Final = (MissingHeaderBodySeparatorDefect, FirstHeaderLineIsContinuationDefect)


class _OverheadError(library.HTTPError):
    """The peer has sent too much that is not content."""


class _PrivateAddressError(library.HTTPError):
    """A redirect leads to an address that is more private than it may be."""


TABLE: Final[faults.Table] = {
    _OverheadError: faults.OVERHEAD,
    _PrivateAddressError: faults.PRIVATE_ADDRESS,
    library.NameResolutionError: faults.UNKNOWN_HOST,
    library.NewConnectionError: faults.UNREACHABLE,
    library.ConnectTimeoutError: faults.CONNECT_TIMEOUT,
    library.ReadTimeoutError: faults.READ_TIMEOUT,
    library.TimeoutError: faults.READ_TIMEOUT,
    TimeoutError: faults.READ_TIMEOUT,
    library.SSLError: faults.TLS,
    library.ProxyError: faults.PROXY,
    library.ProxySchemeUnsupported: faults.PROXY,
    library.ProtocolError: faults.BROKEN,
    library.IncompleteRead: faults.BROKEN,
    library.InvalidChunkLength: faults.GARBLED,
    library.InvalidHeader: faults.GARBLED,
    library.HeaderParsingError: faults.GARBLED,
    library.DecodeError: faults.GARBLED,
    library.ResponseError: faults.GARBLED,
    library.BodyNotHttplibCompatible: faults.GARBLED,
    library.LocationValueError: faults.BAD_ADDRESS,
    library.UnrewindableBodyError: faults.BROKEN,
    library.TimeoutStateError: faults.BROKEN,
    library.ClosedPoolError: None,
    library.PoolError: faults.BROKEN,
    library.HTTPError: faults.BROKEN,
    OSError: faults.BROKEN,
    ValueError: faults.BAD_ADDRESS,
}


def _nothing() -> None:
    pass


class _Limits:
    """What one exchange may take: time for its next step, and bytes that are not content.

    Attributes:
        sent: Whether the request is out whole.
        address: The address that it was sent to; None where a proxy has made the connection.
        release: Tells a race that the connection is free again.
    """

    def __init__(
        self, timeouts: Timeouts, deadline: Deadline, *, proxied: bool, max_privacy: int
    ) -> None:
        self._timeouts = timeouts
        self._deadline = deadline
        self._proxied = proxied
        self._max_privacy = max_privacy
        self._overhead = Overhead()
        self._progress_by: float | None = None
        self.sent = False
        self.address: str | None = None
        self.release: Callable[[], None] = _nothing

    def connect(self) -> float | None:
        return self._within(self._timeouts.connect)

    def connect_by(self) -> float | None:
        step = self.connect()
        return None if step is None else now() + step

    def write(self) -> float | None:
        return self._within(self._timeouts.write)

    def expect_progress(self) -> None:
        """From now on, the peer has the time for one read to make progress."""
        read = self._timeouts.read
        self._progress_by = None if read is None else now() + read

    def read(self) -> float | None:
        """Return the time that is left until progress is due."""
        if self._progress_by is None:
            return self._within(None)
        return self._within(max(0.0, self._progress_by - now()))

    def receive(self, count: int) -> None:
        """Count bytes that came from the socket."""
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
            raise _OverheadError

    def may_connect(self, address: str) -> bool:
        """Return whether the request may be sent to `address`."""
        return self._proxied or addresses.privacy(address) <= self._max_privacy

    def check_peer(self, sock: socket.socket) -> None:
        """Raise an error if `sock` is connected to an address that the request may not go to."""
        if not self._proxied:
            self.address = str(sock.getpeername()[0])
            if not self.may_connect(self.address):
                raise _PrivateAddressError

    def _within(self, step: float | None) -> float | None:
        left = self._deadline.left()
        least = min((each for each in (step, left) if each is not None), default=None)
        if least is not None and least <= 0:
            raise TimeoutError
        return least


# urllib3 picks or makes the connection inside one call, on the calling thread: this is the way in.
_limits: ContextVar[_Limits] = ContextVar("_limits")


class _LimitedReader(io.RawIOBase):
    """A socket's bytes, each read within the limits of the exchange that it was made for."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._raw = sock.makefile("rb", buffering=0)
        self.limits = _limits.get()
        self.limits.expect_progress()
        self.in_head = False
        self.is_paused = False  # whether nothing more is to come than is in the buffer

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self.is_paused:
            return None
        self._socket.settimeout(self.limits.read())
        count = self._raw.readinto(buffer)
        self.limits.receive(count or 0)
        if count == 0 and self.in_head:
            # http.client would take this for the end of the headers.
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _LimitedSocket:
    """As much of a socket as `http.client.HTTPResponse` uses."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - it is always "rb"
        return io.BufferedReader(_LimitedReader(self._socket), 1 << 16)


class _LimitedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(_LimitedSocket(sock), *args, **kwargs)  # type: ignore[arg-type]
        self._reader: Any = self.fp.raw

    def begin(self) -> None:
        self._reader.in_head = True
        try:
            super().begin()
        finally:
            self._reader.in_head = False
        if any(isinstance(defect, BROKEN_HEAD) for defect in self.headers.defects):
            # urllib3 would log what it cannot read, and a peer may echo a credential there.
            raise library.InvalidHeader("the head cannot be read")

    def _read_status(self) -> tuple[str, int, str]:
        """Read the status line of the real reply. The informational ones before it are skipped.

        http.client would skip those of status 100 alone, and any number of them.
        """
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not 100 <= status < 200 or status == http.HTTPStatus.SWITCHING_PROTOCOLS:
                return version, status, reason
            self._reader.limits.take_informational()
            http.client.parse_headers(self.fp)

    def _read1_chunked(self, n: int) -> bytes:
        """Read a chunk, and with it all that follow in the buffer: there may be many small ones.

        http.client would read one at a time.
        """
        data: bytes = super()._read1_chunked(n)  # type: ignore[misc]
        if len(data) >= SMALL_CHUNK or self.chunk_left != 0:
            return data
        self._reader.is_paused = True
        ahead = self.fp.peek()
        self._reader.is_paused = False
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
    """Mixed into a connection: each send within the limits, and to an address that may be."""

    response_class: Any = _LimitedResponse
    sock: Any
    _unfinished = False

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is not None:  # one that was kept, or is connected already for TLS
            _limits.get().check_peer(self.sock)
        self._unfinished = True
        super().request(*args, **kwargs)  # type: ignore[misc]
        self._unfinished = False
        _limits.get().sent = True

    @property
    def is_connected(self) -> bool:
        # The pool asks before it uses a connection again. One with half a request in it must not
        # be: the peer would take the next request for the other half.
        return not self._unfinished and super().is_connected  # type: ignore[misc]

    def _new_conn(self) -> socket.socket:
        """Try all addresses of the host, together in the time that there is for a connection.

        urllib3 would give each of them all of it.
        """
        connection: Any = self
        name = connection._dns_host  # noqa: SLF001 - what is connected to, not what is asked for
        try:
            found = socket.getaddrinfo(name, connection.port, type=socket.SOCK_STREAM)
        except OSError:
            found = []  # urllib3 will find out too, and has the right error for it
        candidates = list(dict.fromkeys(str(info[4][0]) for info in found)) or [name]
        limits = _limits.get()
        end = limits.connect_by()
        failure: Exception | None = None
        try:
            for address in candidates:
                if not limits.may_connect(address):
                    failure = failure or _PrivateAddressError()
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
        """Return `sock`, unless it is connected to an address that the request may not go to.

        The name may have been resolved a second time on the way to it.
        """
        try:
            _limits.get().check_peer(sock)
        except BaseException:
            sock.close()
            raise
        return sock

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()  # type: ignore[attr-defined]
        limits = _limits.get()
        if (me := racer.get()) is not None:
            me.watch(self.sock)
            limits.release = partial(me.forget, self.sock)
        self.sock.settimeout(limits.write())
        try:
            super().send(data)  # type: ignore[misc]
        except TimeoutError:
            # A peer that has answered and reads no further: urllib3 reads the answer when the
            # pipe is broken, and only then.
            if wait_for_read(self.sock, timeout=0):
                raise BrokenPipeError from None
            raise


class _Connection(_LimitedSends, HTTPConnection):
    pass


class _SecureConnection(_LimitedSends, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class _FeedFailed(Exception):  # noqa: N818 - a signal to `send`, no error of its own
    """Raised through urllib3, which would take an OSError of the source for one of the network."""


class _Feed:
    """A streamed body on its way out. Keeps the source's own failure apart from the network's."""

    def __init__(self, body: StreamBody, on_sent: Callable[[int], None] | None) -> None:
        self._body = body
        self._on_sent = on_sent
        self.failure: Exception | None = None
        self.finished = False

    def __iter__(self) -> Iterator[bytes]:
        sent = 0
        try:
            for chunk in self._body.chunks():
                yield chunk
                sent += len(chunk)
                if self._on_sent is not None:
                    self._on_sent(sent)
        except Exception as error:  # noqa: BLE001 - kept, and raised by `send`
            self.failure = error
            raise _FeedFailed from None
        self.finished = True


class Response:
    """A reply whose body is still to be read. Close it, or read it to its end.

    Attributes:
        status: The HTTP status.
        headers: The header fields, names in lower case, echoed credentials masked.
        address: The address that sent it, or None where only a proxy knows it.
    """

    def __init__(
        self,
        response: urllib3.BaseHTTPResponse,
        *,
        peer: str,
        limits: _Limits,
        scrubber: Scrubber,
    ) -> None:
        self._response = response
        self._peer = peer
        self._limits = limits
        self._scrubber = scrubber
        self.address = limits.address
        self.status = response.status
        # What stands there several times is joined by commas.
        self.headers = scrubber.headers({name: response.headers[name] for name in response.headers})

    def chunks(self) -> Iterator[bytes]:
        """Give the body as it arrives."""
        while chunk := self._next():
            yield chunk

    def read(self, limit: int) -> bytes:
        """Return the whole body, but at most `limit` bytes of it."""
        return self._read(limit).getvalue()[:limit]

    def read_masked(self, limit: int, patience: float | None = None) -> bytes:
        """Return the same, with the credentials masked that the peer has echoed.

        After `patience` seconds, what has come by then is all.
        """
        return self._scrubber.data(self._read(limit, patience).getvalue())[:limit]

    def _read(self, limit: int, patience: float | None = None) -> io.BytesIO:
        until = inf if patience is None else now() + patience
        body = io.BytesIO()  # a traceback shows no more of it than its name
        while body.tell() <= limit and now() < until and body.write(self._next()):
            pass
        return body

    def _next(self) -> bytes:
        """Return the next bytes of the body; none at its end."""
        failure = None
        try:
            self._limits.expect_progress()
            chunk = self._response.read1(CHUNK_SIZE, decode_content=False)
            self._limits.take_content(len(chunk))
            if self._response.closed:
                self._limits.release()
            return chunk
        except (library.HTTPError, OSError, http.client.HTTPException) as error:
            failure = faults.translate(error, TABLE, self._peer, sent=True)
        try:
            raise failure
        finally:
            del failure  # or it and this frame would hold each other

    def close(self) -> None:
        """Give the connection back, or close it where the body was not read to its end."""
        self._limits.release()
        self._response.close()


class Transport:
    """Sends requests over connections that are kept open and shared by all threads."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._managers: dict[tuple[Secret | None, bool], urllib3.PoolManager] = {}
        self._lock = threading.Lock()
        self._closed = False
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Leave the connections, and a lock that may be held, to the parent."""
        self._managers, self._lock = {}, threading.Lock()

    def send(self, request: Request, *, timeouts: Timeouts, deadline: Deadline = NEVER) -> Response:
        """Send `request` and wait for the head of the reply; no redirect is followed."""
        proxy = network.proxy_for(request.url, self._config)
        manager = self._manager(proxy, secure=request.is_secure)
        limits = _Limits(
            timeouts, deadline, proxied=proxy is not None, max_privacy=request.max_privacy
        )
        feed: _Feed | None = None
        if request.body is not None and not isinstance(request.body, bytes):
            feed = _Feed(request.body, request.on_sent)
        token = _limits.set(limits)
        failure: Exception | None = None
        try:
            response = manager.urlopen(
                request.method,
                request.url,
                body=request.body if feed is None else feed,
                headers=request.header_values(),
                timeout=urllib3.Timeout(connect=limits.connect(), read=timeouts.read),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except _FeedFailed:
            failure = feed.failure if feed is not None else None
        except (library.HTTPError, OSError, ValueError, http.client.HTTPException) as error:
            failure = faults.translate(error, TABLE, request.peer, sent=limits.sent)
        finally:
            _limits.reset(token)
        # Outside of the handlers: the library's own frames hold headers in the clear, so its
        # exception does not go along.
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # or it and this frame would hold each other, and the connections
        if feed is not None and not feed.finished and response.status < 300:
            limits.release()
            response.close()
            raise faults.plain(faults.UNSENT, request.peer)
        scrubber = Scrubber((*request.secrets, *network.secrets(self._config, proxy)))
        return Response(response, peer=request.peer, limits=limits, scrubber=scrubber)

    def _manager(self, proxy: Secret | None, *, secure: bool) -> urllib3.PoolManager:
        with self._lock:
            if self._closed:
                raise ClientClosedError
            key = (proxy, secure)
            if key not in self._managers:
                self._managers[key] = self._new_manager(proxy, secure=secure)
            return self._managers[key]

    def _new_manager(self, proxy: Secret | None, *, secure: bool) -> urllib3.PoolManager:
        options: dict[str, Any] = {"num_pools": 20, "maxsize": POOL_SIZE}
        if secure:
            options["ssl_context"] = network.tls_context(self._config)
        if proxy is None:
            manager = urllib3.PoolManager(**options)
        else:
            address, credentials = network.split_proxy(proxy)
            manager = urllib3.ProxyManager(
                address,
                proxy_headers={"Proxy-Authorization": credentials.reveal()}
                if credentials is not None
                else None,
                **options,
            )
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
        return manager

    def close(self) -> None:
        """Close all connections. A second time does nothing."""
        with self._lock:
            self._closed = True
            managers, self._managers = self._managers, {}
        for manager in managers.values():
            for key in manager.pools.keys():  # noqa: SIM118 - it cannot be iterated over
                manager.pools[key].close()
            manager.clear()
