"""Sends a request with a whole body, or none, on a connection of urllib3, and reads the reply.

urllib3 takes most of the time of a small request for retries, redirects and decoding, which are not
used here, and sends the body apart from the head. See `_async/plain_exchange.py`.
"""

import http.client
import re
from typing import Any, Final

from urllib3 import exceptions as library
from urllib3.connectionpool import HTTPConnectionPool

from holdfast._sync.connections import LimitedResponse
from holdfast._sync.exchange_limits import ExchangeLimits
from holdfast.protocol.http import MAX_DIGITS, Request

# A head that is parsed here: without a continued line, a wrong character, or a coded body.
SIMPLE_HEAD: Final = re.compile(
    rb"HTTP/1\.1 ([2-5][0-9][0-9])(?: [ -~]*)?\r\n"
    rb"((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[ -~]*\r\n){1,99})\r\n"  # http.client reads 99 fields, too
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
        self,
        pool: HTTPConnectionPool,
        connection: Any,
        response: LimitedResponse,
        *,
        may_reuse: bool,
        has_body: bool = True,
    ) -> None:
        self._pool = pool
        self._connection = connection
        self._response = response
        self._left: int | None = None  # bytes of the body, if their number is known
        self._may_reuse = may_reuse
        self._has_body = has_body  # not in the reply to HEAD, whatever its length says
        self.status: int = 0
        self.headers: dict[str, str] = {}
        self.closed: bool = False

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

    @property
    def stream_error(self) -> bytes:
        """The error in the trailer, or b""."""
        return self._response.stream_error

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
        lengths = {int(each) for each in value.split(",")}
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
        response = PlainResponse(pool, connection, reader, may_reuse=limits.sent, has_body=has_body)
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
