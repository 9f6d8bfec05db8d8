"""Connections of urllib3 that keep the limits of an exchange: the lower half of the transport.

urllib3's time-outs are for each read and write of a socket, so a peer that drips bytes never trips
them. Here every read and write of the socket first asks `Limits` how long it may take. A read may
take as long as is left until the next progress is due: a whole head, or a byte of the body.
"""

import errno
import http.client
import io
import os
import re
import socket
from collections.abc import Callable
from contextvars import ContextVar
from email.errors import FirstHeaderLineIsContinuationDefect, MissingHeaderBodySeparatorDefect
from functools import partial
from typing import Any, Final

from urllib3 import exceptions as library
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import wait_for_read

from holdfast._sync.runtime import now, racer
from holdfast.calls import Deadline
from holdfast.config.limits import Timeouts
from holdfast.protocol import addresses
from holdfast.protocol.overhead import Overhead

SMALL_CHUNK: Final = 1 << 12
CHUNK_HEAD: Final = re.compile(rb"\r\n([0-9A-Fa-f]{1,4})\r\n")  # behind the chunk before
BROKEN_HEAD: Final = (MissingHeaderBodySeparatorDefect, FirstHeaderLineIsContinuationDefect)


class OverheadError(library.HTTPError):
    """The peer has sent too much that is not content."""


class PrivateAddressError(library.HTTPError):
    """A redirect leads to an address that is more private than it may be."""


def _nothing() -> None:
    pass


class Limits:
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
            raise OverheadError

    def may_connect(self, address: str) -> bool:
        """Return whether the request may be sent to `address`."""
        return self._proxied or addresses.privacy(address) <= self._max_privacy

    def check_peer(self, sock: socket.socket) -> None:
        """Raise an error if `sock` is connected to an address that the request may not go to."""
        if not self._proxied:
            self.address = str(sock.getpeername()[0])
            if not self.may_connect(self.address):
                raise PrivateAddressError

    def _within(self, step: float | None) -> float | None:
        left = self._deadline.left()
        least = min((each for each in (step, left) if each is not None), default=None)
        if least is not None and least <= 0:
            raise TimeoutError
        return least


# urllib3 picks or makes the connection inside one call, on the calling thread: this is the way in.
current_limits: ContextVar[Limits] = ContextVar("current_limits")


class _LimitedReader(io.RawIOBase):
    """A socket's bytes, each read within the limits of the exchange that it was made for."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._raw = sock.makefile("rb", buffering=0)
        self.limits = current_limits.get()
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
            current_limits.get().check_peer(self.sock)
        self._unfinished = True
        super().request(*args, **kwargs)  # type: ignore[misc]
        self._unfinished = False
        current_limits.get().sent = True

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
        limits = current_limits.get()
        end = limits.connect_by()
        failure: Exception | None = None
        try:
            for address in candidates:
                if not limits.may_connect(address):
                    failure = failure or PrivateAddressError()
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
            current_limits.get().check_peer(sock)
        except BaseException:
            sock.close()
            raise
        return sock

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()  # type: ignore[attr-defined]
        limits = current_limits.get()
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


class Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection
