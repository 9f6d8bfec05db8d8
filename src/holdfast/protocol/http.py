"""A request and a reply, as plain values; what a reply may have beside its content."""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlsplit

from holdfast._version import __version__
from holdfast.config.secret import MASK, Secret
from holdfast.protocol import host_privacy

# Bytes of heads, chunk sizes, chunk extensions and trailers that are allowed without content.
MAX_OVERHEAD: Final = 1 << 20
RECEIVE_SIZE: Final = 1 << 20  # bytes that a transport receives at a time: each costs the same
MAX_INFORMATIONAL: Final = 100  # replies (status 100 to 199) that are allowed before the final one
PER_CONTENT_BYTE: Final = 16  # a chunk of one byte needs five more
MOST: Final = MAX_OVERHEAD + RECEIVE_SIZE
STREAM_ERROR: Final = b"x-stream-error"
MAX_TRAILER: Final = 1 << 14  # bytes of it that are looked at
LAST_CHUNK: Final = re.compile(rb"0+[ \t]*(;.*)?")
USER_AGENT = f"holdfast/{__version__}"
PIECE_SIZE = 1 << 18
MAX_DIGITS = 18  # the most digits of a plausible number of bytes
USUAL_PORTS = {"http": ":80", "https": ":443"}
EMPTY_LENGTHS = {"POST": 0, "PUT": 0, "PATCH": 0}  # methods that announce a body of no bytes

# An ordinary URL: its origin, of scheme and host, and the rest, which needs no quoting.
PLAIN_URL = re.compile(r"(https?://[\w.:\[\]-]+)(/[!$-;=?-Z_a-z~]*)", re.ASCII)
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
MAX_REPLY = 1 << 20  # an API's reply is a few hundred bytes; an error page may be larger


class Overhead:
    """Counts the bytes of one reply that are not content.

    Each byte of content allows `PER_CONTENT_BYTE` further bytes, so that a body may arrive in tiny
    chunks. The bytes of one receive are counted before they are recognised as content, so
    `RECEIVE_SIZE` more bytes than `MAX_OVERHEAD` are allowed.

    Example:
        >>> overhead = Overhead()
        >>> overhead.receive(1_000_000), overhead.is_too_much  # heads
        (None, False)
        >>> overhead.receive(RECEIVE_SIZE), overhead.is_too_much  # perhaps all of it is content
        (None, False)
        >>> overhead.receive(RECEIVE_SIZE), overhead.is_too_much
        (None, True)
        >>> overhead.take_content(RECEIVE_SIZE), overhead.is_too_much
        (None, False)
    """

    def __init__(self) -> None:
        self._left = MOST
        self._informational = 0

    @property
    def is_too_much(self) -> bool:
        """Whether the limit is exceeded."""
        return self._left < 0 or self._informational > MAX_INFORMATIONAL

    def receive(self, count: int) -> None:
        """Count bytes from the connection, of any kind."""
        self._left -= count

    def take_content(self, count: int) -> None:
        """Count received bytes that are content."""
        self._left = min(MOST, self._left + count * (1 + PER_CONTENT_BYTE))

    def take_informational(self) -> None:
        """Count an informational reply."""
        self._informational += 1


def read_stream_error(line: bytes) -> bytes:
    """Return the error in a line of the trailer; b"" if it has none."""
    name, _, value = line.partition(b":")
    return value.strip() if name.lower() == STREAM_ERROR else b""


class TrailingBytes:
    r"""The last bytes of a chunked reply, as they came from the connection.

    Its trailer is where Kubo and IPFS Cluster put an error that comes late::

        HTTP/1.1 200 OK                     the head
        5\r\nhello\r\n                      the chunks of the body
        0\r\n                               the last chunk, which is empty
        X-Stream-Error: out of memory\r\n   the trailer
        \r\n

    Example:
        >>> end = TrailingBytes()
        >>> end.feed(b"5\r\nhello\r\n0\r\nX-Stream")
        >>> end.feed(b"-Error: out of memory\r\n\r\n")
        >>> end.stream_error()
        b'out of memory'
    """

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes, and keep the last ones."""
        self._data = (self._data + data if len(data) < MAX_TRAILER else data)[-MAX_TRAILER:]

    def stream_error(self) -> bytes:
        """Return the error in the trailer; b"" if it has none. The reply must be complete."""
        for line in reversed(self._data.split(b"\r\n")):
            if LAST_CHUNK.fullmatch(line):
                break
            if error := read_stream_error(line):
                return error
        return b""


class SignedURL(str):
    """A URL whose query is a credential. Its `repr` masks the query.

    Example:
        >>> SignedURL("https://example.com/files/bafkqaaa?X-Signature=5f2a")
        'https://example.com/files/bafkqaaa?********'
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(f"{self.partition('?')[0]}?{MASK}")


class StreamBody(Protocol):
    """A body that is read while it is sent."""

    @property
    def length(self) -> int | None:
        """The number of bytes, or None if it is not known beforehand."""

    @property
    def repeatable(self) -> bool:
        """Whether `chunks` can be called again and starts from the beginning."""

    @property
    def end(self) -> int | None:
        """The number of bytes, known at the latest when the last chunk is taken.

        A peer that finds the end in the bytes may reply before `chunks` ends.
        """

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes. This may block: the transport chooses the thread."""


class BytesBody:
    """Bytes in memory, sent piece by piece: also a file of a form."""

    repeatable = True

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.length: int = len(data)
        self.end: int = self.length
        self.size: int | None = self.length

    def chunks(self) -> Iterator[bytes]:
        """Yield the pieces."""
        for start in range(0, self.length, PIECE_SIZE):
            yield self._data[start : start + PIECE_SIZE]


@dataclass(frozen=True, slots=True)
class Request:
    """A request. Secret headers stay wrapped until the HTTP library takes them.

    Attributes:
        method: The HTTP method, in capitals.
        url: The absolute URL.
        headers: The header fields; a `Secret` is masked everywhere except in the sent request.
        body: The body, whole or streamed, or None.
        on_sent: Called with the number of bytes of a streamed body that are sent so far.
        max_reply: How many bytes of the reply are kept when it is read whole.
        max_privacy: How private the address may be that it is sent to, after a redirect.
        retried: The statuses after which it may be sent again.
    """

    method: str
    url: str
    headers: Mapping[str, str | Secret] = field(default_factory=dict)
    body: bytes | StreamBody | None = None
    on_sent: Callable[[int], None] | None = None
    max_reply: int = MAX_REPLY
    max_privacy: int = host_privacy.METADATA
    retried: frozenset[int] = RETRIED

    @property
    def peer(self) -> str:
        """The host that the request is sent to, for messages."""
        return urlsplit(self.url).netloc

    @property
    def is_secure(self) -> bool:
        """Whether it is sent over TLS."""
        return self.url[:6].lower() == "https:"

    @property
    def length(self) -> int | None:
        """The size of the body in bytes, or None if it is not known."""
        if self.body is None:
            return 0
        return len(self.body) if isinstance(self.body, bytes) else self.body.length

    @property
    def host(self) -> str:
        """The value of its ``Host`` header: without the usual port."""
        scheme, _, rest = self.url.partition("://")
        return rest.partition("/")[0].removesuffix(USUAL_PORTS.get(scheme, ""))

    @property
    def repeatable(self) -> bool:
        """Whether it can be sent again."""
        return self.body is None or isinstance(self.body, bytes) or self.body.repeatable

    def header_values(self) -> dict[str, str]:
        """Return the header fields with their secrets, only for the HTTP library."""
        length = self.length if self.body is not None else EMPTY_LENGTHS.get(self.method)
        # One expression, because a traceback may show local variables.
        return {
            "User-Agent": USER_AGENT,
            "Accept-Encoding": "identity",
            **{
                name: value.reveal() if isinstance(value, Secret) else value
                for name, value in self.headers.items()
            },
            **({} if length is None else {"Content-Length": str(length)}),
        }

    def whole(self, target: str, host: str) -> bytes:
        """Return what is sent for the path `target` of `host`, with secrets and a whole body."""
        return head_bytes(
            f"{self.method} {target} HTTP/1.1", {"Host": host, **self.header_values()}
        ) + (self.body if isinstance(self.body, bytes) else b"")

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The credentials among its headers."""
        return tuple(value for value in self.headers.values() if isinstance(value, Secret))


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that was read whole. The names in `headers` are in lower case.

    Credentials that the peer repeats are masked. Headers and body are not in its `repr` anyway.

    Attributes:
        reply_lost: Whether an earlier attempt sent the whole request and got no reply.
        stream_error: The error that came after the body, in the trailer ``X-Stream-Error``, or "".
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    reply_lost: bool = False
    stream_error: str = ""

    @property
    def ok(self) -> bool:
        """Whether the status is a success."""
        return 200 <= self.status < 300

    @property
    def length(self) -> int | None:
        """The Content-Length, or None if there is none, or none that is valid and applies."""
        return body_length(self.headers)

    @property
    def is_framed(self) -> bool:
        """Whether the headers show where the body ends.

        If not, a broken connection looks like the end of the body.
        """
        encoding = self.headers.get("transfer-encoding", "")
        return self.length is not None or encoding.lower().endswith("chunked")

    @property
    def media_type(self) -> str:
        """The Content-Type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def body_length(headers: Mapping[str, str]) -> int | None:
    """Return the Content-Length, or None if there is none, or none that is valid and applies."""
    is_coded = "transfer-encoding" in headers
    return None if is_coded else read_size(headers.get("content-length", ""))


def read_size(text: str) -> int | None:
    """Return a number of bytes; None if `text` is not a number, or has too many digits."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    return int(text) if is_number else None


def head_bytes(first_line: str, fields: Mapping[str, str]) -> bytes:
    r"""Return the head of a request; raise `ValueError` if a field holds a line break or a NUL.

    Example:
        >>> head_bytes("GET / HTTP/1.1", {"Host": "ipfs.io"})
        b'GET / HTTP/1.1\r\nHost: ipfs.io\r\n\r\n'
    """
    lines = [first_line, *[f"{name}: {value}" for name, value in fields.items()], "\r\n"]
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) or text.count("\r") != len(lines) or "\0" in text:
        raise ValueError("a header field holds a line break")
    return text.encode("latin-1")


def authorization(token: Secret | None) -> dict[str, Secret]:
    """Return the header for a token: a bearer token, or ``user:password``; none without one."""
    if token is None:
        return {}
    if ":" in token.reveal():
        encoded = Secret(base64.b64encode(token.reveal().encode()).decode())
        return {"Authorization": encoded.prefixed("Basic ")}
    return {"Authorization": token.prefixed("Bearer ")}


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port. A credential is sent to one origin only."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
