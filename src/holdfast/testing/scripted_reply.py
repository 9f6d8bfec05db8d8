"""A reply that a test defines to the byte, including its faults."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

REASONS = {200: "OK", 301: "Moved Permanently", 307: "Temporary Redirect", 400: "Bad Request"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    r"""A reply and its faults.

    Attributes:
        status: The HTTP status.
        headers: Header fields besides Content-Length.
        body: The body; anything but bytes is sent as JSON.
        delay: Seconds to wait before the first byte.
        drip: Seconds to wait after each byte of the head and the body.
        cut: Send only this many bytes of the body, then apply the `ending`.
        cut_head: Send only this many bytes of the head, then apply the `ending`.
        ending: What follows a cut: close the connection, reset it (RST), or send nothing more.
        framed: Whether the reply has a Content-Length; without it, closing ends the reply.
        chunked: Whether to send the body in chunked encoding instead of with a Content-Length.
        raw: The exact bytes to send instead of head and body.
        early: Whether to reply without reading the body of the request.
        hang_up: Close the connection without a reply.

    Example:
        >>> Scripted(body=b"hello", cut=2, ending="reset").head_and_body()
        (b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n', b'he')
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = b""
    delay: float = 0
    drip: float = 0
    cut: int | None = None
    cut_head: int | None = None
    ending: Literal["close", "reset", "stall"] = "close"
    framed: bool = True
    chunked: bool = False
    raw: bytes | None = None
    early: bool = False
    hang_up: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the connection can be used for another request afterwards."""
        broken = self.early or self.raw is not None or self.is_cut
        return not broken and (self.framed or self.chunked)

    @property
    def is_cut(self) -> bool:
        """Whether a part of the reply is not sent."""
        return self.hang_up or self.cut is not None or self.cut_head is not None

    def head_and_body(self) -> tuple[bytes, bytes]:
        """Return the bytes to send: those of the head and those of the body."""
        if self.hang_up:
            return b"", b""
        if self.raw is not None:
            return self.raw[: self.cut], b""
        headers = dict(self.headers)
        given = {name.lower() for name in headers}
        body = self.body
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
            if "content-type" not in given:
                headers["Content-Type"] = "application/json"
        if self.chunked:
            headers["Transfer-Encoding"] = "chunked"
        elif self.framed and "content-length" not in given:
            headers["Content-Length"] = str(len(body))
        lines = [f"HTTP/1.1 {self.status} {REASONS.get(self.status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if self.cut_head is not None:
            return head[: self.cut_head], b""
        sent = body[: self.cut]
        if self.chunked:
            whole = b"" if self.is_cut else b"\r\n0\r\n\r\n"
            return head, b"%x\r\n%b%b" % (len(body), sent, whole)
        return head, sent

    def __post_init__(self) -> None:
        if self.ending != "close" and not self.is_cut:
            raise ValueError("ending needs a cut: set cut, cut_head or hang_up as well")


class ReplyOptions(TypedDict, total=False):
    """The fields of `Scripted` besides its status and its body, as keywords."""

    headers: Mapping[str, str]
    delay: float
    drip: float
    cut: int | None
    cut_head: int | None
    ending: Literal["close", "reset", "stall"]
    framed: bool
    chunked: bool
    raw: bytes | None
    early: bool
    hang_up: bool
