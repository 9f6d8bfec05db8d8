"""Sends a request with a whole body, or none, on a connection of urllib3, and reads the reply.

urllib3 takes most of the time of a small request for retries, redirects and decoding, which are not
used here, and sends the body apart from the head. See `_async/plain_exchange.py`.
"""

import http.client
import re
import ssl
from contextlib import suppress
from typing import Any, Final

from urllib3 import exceptions as library
from urllib3.connectionpool import HTTPConnectionPool

from holdfast._sync.connections import LimitedResponse
from holdfast._sync.exchange_limits import ExchangeLimits
from holdfast.protocol.http import MAX_DIGITS, head_bytes

# A head that is parsed here: without a continued line, a wrong character, or a coded body.
SIMPLE_HEAD: Final = re.compile(
    rb"HTTP/1\.1 ([2-5][0-9][0-9])(?: [ -~]*)?\r\n"
    rb"((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[ -~]*\r\n){1,100})\r\n"
)
FRAMING: Final = ("transfer-encoding", "connection")
WITHOUT_BODY: Final = frozenset({204, 304})


class PlainResponse:
    """The part of `urllib3.HTTPResponse` that the transport uses.

    Attributes:
        status: The HTTP status.
        headers: The header fields with names in lower case. Fields of one name are joined.
    """

    def __init__(
        self, pool: HTTPConnectionPool, connection: Any, response: LimitedResponse
    ) -> None:
        self._pool = pool
        self._connection = connection
        self._response = response
        self._left: int | None = None  # bytes of the body, if their number is known
        self._may_reuse = True
        self.status = 0
        self.headers: dict[str, str] = {}
        self.closed = False

    def read_head(self) -> None:
        """Read the head of the reply."""
        if self._read_simple_head():
            return
        response = self._response
        response.begin()
        self.status = response.status
        for name, value in response.headers.items():
            self._add_field(name.lower(), value)
        self._left = None if response.chunked else response.length
        self._may_reuse = not response.will_close

    def _read_simple_head(self) -> bool:
        """Read the head if all of it has arrived and it is an ordinary one."""
        head = SIMPLE_HEAD.match(self._response.arrived())
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
        self._response.skip(head.end())
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
            data = self._response.read_buffered(min(size, self._left))
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
        if not reuse:
            self._connection.close()
        self._response.close()
        self._pool._put_conn(self._connection)  # noqa: SLF001


def exchange_plain(
    pool: HTTPConnectionPool, limits: ExchangeLimits, head: str, headers: dict[str, str], body: Any
) -> PlainResponse:
    """Send a request whose first line is `head`, and return the reply."""
    data = head_bytes(head, headers) + (body or b"")
    connection: Any = pool._get_conn()  # noqa: SLF001
    try:
        if connection.sock is None:
            connection.connect()
        else:
            limits.check_peer(connection.sock)
        with suppress(BrokenPipeError, ConnectionResetError):  # there may be a reply nevertheless
            connection.send(data)
            limits.sent = True
        response = PlainResponse(pool, connection, LimitedResponse(connection.sock))
        response.read_head()
    except BaseException as error:
        connection.close()
        pool._put_conn(connection)  # noqa: SLF001
        if isinstance(error, ssl.SSLError):
            raise library.SSLError(error) from None
        raise
    return response
