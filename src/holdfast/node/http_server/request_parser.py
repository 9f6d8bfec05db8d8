"""Read the requests of one connection from its bytes, one request at a time.

httptools parses whatever it gets, also the requests that a client sends ahead. Those would take
much more memory than their bytes. So the bytes are passed on in steps, none of which goes beyond
the end of a request::

    head           up to the next empty line
    known length   what is left of the body
    chunked body   up to the next empty line: only there can it end
"""

from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import httptools

MAX_HEAD: Final = 32 << 10
MAX_HEADERS: Final = 100
EMPTY_LINE: Final = b"\r\n\r\n"
NAMED: Final = frozenset({b"host", b"content-length", b"transfer-encoding", b"expect"})


class BadRequestError(Exception):
    """What the client sends is not a request that the node reads."""


@dataclass(slots=True)
class Head:
    """The head of a request; names of headers are in lower case."""

    method: str = ""
    target: bytes = b""
    version: str = ""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    keep_alive: bool = False
    expects_continue: bool = False


class Receiver(Protocol):
    """What is told about the requests."""

    def on_head(self, head: Head) -> None:
        """Start a request."""

    def on_body(self, body: bytes) -> None:
        """Take the next bytes of its body."""

    def on_end(self) -> None:
        """Take note that the body has ended."""


class RequestParser:
    """Tells `receiver` about the requests in the bytes of `feed`.

    Attributes:
        left: How many bytes of a body with a known length have not been fed.
        is_between: Whether the next byte belongs to a new request.
    """

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._parser: Any = httptools.HttpRequestParser(self)
        self._head: Head | None = None  # the one that is being read
        self._size = 0  # bytes of the head, or of a chunked body since its last content
        self._count = 0  # of headers
        self._last = b""  # the last bytes that were fed, in which an empty line may begin
        self._parses_body = True
        self._must_begin_anew = False
        self.left: int = 0
        self.is_between: bool = True

    def feed(self, data: bytes | memoryview) -> int:
        """Read on, at most to the end of the current request; return how many bytes were used.

        Raise `BadRequestError` if they are not a request; nothing can be read after that. More
        bytes than `left` must be of the type bytes.
        """
        size = min(self.left, len(data)) if self.left else self._to_empty_line(bytes(data))
        step = data[:size]
        if self.left and not self._parses_body:
            self.on_body(bytes(step))
            if not self.left:
                self.on_message_complete()
            return size
        if not self.left:
            self._size += size
        try:
            self._parser.feed_data(step)
        except httptools.HttpParserUpgrade:
            pass  # we change to no other protocol, and it ends where the step does
        except httptools.HttpParserError as error:
            raise BadRequestError(str(error)) from error
        if self._size > MAX_HEAD:
            raise BadRequestError("the head is too large")
        return size

    def skip(self, size: int) -> None:
        """Take note of bytes of a body with a known length that were received in another way."""
        self.left -= size
        # httptools counts the bytes of the body too, and cannot be told of these.
        self._parses_body = False
        self._must_begin_anew = True

    def _to_empty_line(self, data: bytes) -> int:
        """Return how many bytes there are up to the end of the next empty line."""
        seen = self._last
        line_at = (seen + data).find(EMPTY_LINE) if seen else data.find(EMPTY_LINE)
        size = len(data) if line_at < 0 else line_at + len(EMPTY_LINE) - len(seen)
        self._last = (seen + data[-3:])[-3:] if line_at < 0 else b""
        return size

    # Called by httptools

    def on_message_begin(self) -> None:
        """Begin a request."""
        if not self.is_between:
            raise BadRequestError("a request begins in another one")
        self._head = Head()
        self._count = 0
        self.is_between = False

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        if self._head is not None:
            self._head.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those after a chunked body are dropped."""
        self._count += 1
        if self._count > MAX_HEADERS:
            raise BadRequestError("too many headers")
        if self._head is not None:
            self._head.headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """Check the head, and pass it on."""
        head = self._head
        if head is None:
            return
        self._head, self._size, self._count = None, 0, 0
        head.method = self._parser.get_method().decode("ascii")
        head.version = self._parser.get_http_version()
        named: dict[bytes, bytes] = {}
        for name, value in head.headers:
            if name in named:
                raise BadRequestError(f"more than one header {name.decode()}")
            if name in NAMED:
                named[name] = value
        is_chunked = b"transfer-encoding" in named
        length = named.get(b"content-length", b"0")
        if head.version not in {"1.0", "1.1"} or head.method == "CONNECT":
            raise BadRequestError("another version, or another use, of HTTP")
        if head.version == "1.1" and b"host" not in named:
            raise BadRequestError("no header host")
        if is_chunked and named[b"transfer-encoding"].lower() != b"chunked":
            raise BadRequestError("another transfer coding than chunked")
        if not length.isdigit() or (is_chunked and b"content-length" in named):
            raise BadRequestError("no valid length")
        head.keep_alive = head.version == "1.1" and self._parser.should_keep_alive()
        head.expects_continue = named.get(b"expect", b"").lower() == b"100-continue"
        # After a head with `Upgrade`, httptools takes a body for something else.
        self._parses_body = not self._parser.should_upgrade()
        if is_chunked and not self._parses_body:
            raise BadRequestError("a chunked body and an upgrade")
        self.left = int(length)
        self._receiver.on_head(head)

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._size = 0
        if self.left:
            self.left -= len(body)
        self._receiver.on_body(body)

    def on_message_complete(self) -> None:
        """Pass on that the request is complete."""
        if not self.left:
            self._size = 0
            self.is_between = True
            if self._must_begin_anew:
                self._must_begin_anew = False
                self._parser = httptools.HttpRequestParser(self)
            self._receiver.on_end()

    def close(self) -> None:
        """Let go of the parser, which refers to this object."""
        self._parser = None
