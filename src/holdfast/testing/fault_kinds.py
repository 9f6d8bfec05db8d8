"""The kinds of faults that a test injects into the replies of a node.

Invalid values raise an error when the fault is created, in the test that asks for it.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias, get_args

Part: TypeAlias = Literal["any", "api", "gateway"]
"""The part of a node that receives a request: its APIs, or its gateway, ``/ipfs/…``."""

GATEWAY = ("/ipfs/", "/files/")  # how the paths of public and private content begin
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
HEADER_VALUE = re.compile(r"[\t -~\x80-\xff]*")
# The body determines these. To send wrong ones, use `ScriptedServer`.
FRAMING = frozenset({"content-length", "transfer-encoding"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of one reply. It applies to requests to the part `on` with this method, or any."""

    on: Part
    method: str | None = None

    def __post_init__(self) -> None:
        if self.on not in get_args(Part):
            raise ValueError(f"on must be one of {', '.join(get_args(Part))}, not {self.on!r}")
        if self.method is not None and not (self.method.isalpha() and self.method.isupper()):
            raise ValueError(f"method must be one in capitals, such as GET, not {self.method!r}")

    def matches(self, method: str, path: str) -> bool:
        """Return whether the fault applies to requests with `method` for `path`."""
        is_part = self.on == "any" or (self.on == "gateway") == path.startswith(GATEWAY)
        return is_part and self.method in {None, method}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReply(Fault):
    """A reply that is sent instead of the node's. The node does not receive the request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(
        cls,
        *,
        on: Part,
        status: int,
        headers: Mapping[str, str],
        body: Any,
        method: str | None = None,
    ) -> Self:
        """Return the reply with this `body`: bytes are sent unchanged, None is empty, else JSON."""
        check_whole("status", status)
        if not 300 <= status <= 599:
            raise ValueError(f"status must be that of a failure, 300 to 599, not {status}")
        for name, value in headers.items():
            check_header(name, value)
        fields = {name.lower(): value for name, value in headers.items()}
        if not isinstance(body, bytes | None):
            body = json.dumps(body).encode()
            fields.setdefault("content-type", "application/json")
        if body and status == 304:
            raise ValueError("body must be left out: a reply of status 304 has none")
        data = body or b""
        fields["content-length"] = str(len(data))
        return cls(on=on, method=method, status=status, headers=fields, body=data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay(Fault):
    """A wait before the node receives the request."""

    seconds: float

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float):
            raise TypeError(f"seconds must be a number, not {self.seconds!r}")
        if not self.seconds >= 0:
            raise ValueError(f"seconds must be 0 or more, not {self.seconds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyFault(Fault):
    """A fault in the body of a reply after its first `after` bytes.

    It stays in the queue until a reply has a body of that length.
    """

    after: int

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_whole("after", self.after)
        if self.after < 0:
            raise ValueError(f"after must be 0 or more, not {self.after}")


class CorruptBody(BodyFault):
    """All bytes after the first `after` are wrong."""

    __slots__ = ()


class CutBody(BodyFault):
    """The connection is closed after the first `after` bytes, even if the body ends there."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LostReply(Fault):
    """The request is processed, and the connection is closed without a reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedReply(Fault):
    """The node's reply with other headers, or with a body that a function has changed."""

    headers: Mapping[str, str] = field(default_factory=dict)
    change: Callable[[bytes], bytes] | None = None

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        for name, value in self.headers.items():
            check_header(name, value)


def check_whole(name: str, value: object) -> None:
    """Raise TypeError unless `value` is an int."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}")


def check_header(name: object, value: object) -> None:
    """Raise an error for a header field that cannot be sent, or that the body determines."""
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"headers must be text, not {name!r}: {value!r}")
    if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
        raise ValueError(f"headers must be one line of Latin-1 each, not {name!r}: {value!r}")
    if name.lower() in FRAMING:
        raise ValueError(f"headers must not have {name}: it follows from the body")
