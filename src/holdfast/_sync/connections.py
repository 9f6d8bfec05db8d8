"""Connections of urllib3 that enforce the limits of each exchange: see `_async/connections.py`."""

import errno
import http.client
import io
import os
import re
import socket
import ssl
from email.errors import FirstHeaderLineIsContinuationDefect, MissingHeaderBodySeparatorDefect
from functools import partial
from typing import Any, Final

from urllib3 import exceptions as library
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import wait_for_read
from urllib3.util.ssltransport import SSLTransport

from holdfast._sync.exchange_limits import ForbiddenAddressError, current_limits
from holdfast._sync.runtime import now, racer
from holdfast.protocol.http import MAX_TRAILER, read_stream_error

SMALL_CHUNK: Final = 1 << 12
CHUNK_HEAD: Final = re.compile(
    rb"\r\n([0-9A-Fa-f]{1,4})\r\n"
)  # with the end of the chunk before it
BROKEN_HEAD: Final = (MissingHeaderBodySeparatorDefect, FirstHeaderLineIsContinuationDefect)


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


class LimitedResponse(http.client.HTTPResponse):
    """A reply that is read within the limits of the current exchange."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(_LimitedSocket(sock), *args, **kwargs)  # type: ignore[arg-type]
        self._reader: Any = self.fp.raw
        self.stream_error: bytes = b""

    def arrived(self) -> bytes:
        """Return what has arrived, without taking it. If that is nothing, wait for it."""
        data: bytes = self.fp.peek()
        return data

    def skip(self, count: int) -> None:
        """Take bytes that have arrived."""
        self.fp.read(count)

    def read_buffered(self, count: int) -> bytes:
        """Return bytes of the body that have arrived. If there are none, wait for them."""
        data: bytes = self.fp.read1(count)
        return data

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
        self._reader.in_head = True
        while (line := self.fp.readline(MAX_TRAILER)) not in {b"\r\n", b"\n"}:
            self.stream_error = read_stream_error(line) or self.stream_error
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
            found = socket.getaddrinfo(name, connection.port, type=socket.SOCK_STREAM)
        except OSError:
            found = []  # urllib3 will fail too, and raises the right error
        candidates = list(dict.fromkeys(str(info[4][0]) for info in found)) or [name]
        limits = current_limits.get()
        end = limits.connect_by()
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
