"""The faults that a test injects into the replies of a node, and the queue that applies them.

Each fault applies to the reply of the next request that it matches. Invalid values raise an error
when the fault is created, in the test that asks for it.
"""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias, get_args

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.node.api_calls import wait_for_disconnect
from holdfast.node.http_server.http_connection import CONNECTION, DIRECT

Part: TypeAlias = Literal["any", "api", "gateway"]
"""The part of a node that receives a request: its APIs, or its gateway, ``/ipfs/…``."""

GATEWAY = ("/ipfs/", "/files/")  # how the paths of public and private content begin
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
HEADER_VALUE = re.compile(r"[\t -~\x80-\xff]*")
# The body determines these. To send wrong ones, use `ScriptedServer`.
FRAMING = frozenset({"content-length", "transfer-encoding"})
INVERTED = bytes(255 - value for value in range(256))


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
        cls, *, status: int, headers: Mapping[str, str], body: Any, on: Part, method: str | None
    ) -> Self:
        """Return the reply with this `body`: bytes are sent unchanged, None is empty, else JSON."""
        check_whole("status", status)
        if not 300 <= status <= 599:
            raise ValueError(f"status must be that of a failure, 300 to 599, not {status}")
        check_headers(headers)
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

    The other bytes are wrong; or, if it `cuts`, the connection is closed there, even if the body
    ends there. It stays in the queue until a reply has a body of that length.
    """

    after: int
    cuts: bool

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_whole("after", self.after)
        if self.after < 0:
            raise ValueError(f"after must be 0 or more, not {self.after}")


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
        check_headers(self.headers)


def check_whole(name: str, value: object) -> None:
    """Raise TypeError unless `value` is an int."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}")


def check_headers(headers: Mapping[Any, Any]) -> None:
    """Raise an error for a header field that cannot be sent, or that the body determines."""
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"headers must be text, not {name!r}: {value!r}")
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise ValueError(f"headers must be one line of Latin-1 each, not {name!r}: {value!r}")
        if name.lower() in FRAMING:
            raise ValueError(f"headers must not have {name}: it follows from the body")


class FaultQueue:
    """The queue of faults, and the ASGI middleware that applies them."""

    def __init__(self) -> None:
        self._queue: list[Fault] = []
        self._requests: list[str] = []
        self._lock = threading.Lock()
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None  # of the node, set by a request
        self._connections: set[asyncio.Transport] = set()  # of the requests under way

    def add(self, fault: Fault, times: int) -> None:
        """Apply `fault` to the next `times` replies that it matches."""
        check_whole("times", times)
        if times < 1:
            raise ValueError(f"times must be 1 or more, not {times}")
        with self._lock:
            self._queue += [fault] * times

    def clear(self) -> None:
        """Remove the remaining faults and the recorded requests."""
        with self._lock:
            self._queue.clear()
            self._requests.clear()

    @property
    def left(self) -> int:
        """The number of faults that were not applied yet."""
        with self._lock:
            return len(self._queue)

    @property
    def requests(self) -> list[str]:
        """The requests so far, in order."""
        with self._lock:
            return list(self._requests)

    def stop(self) -> None:
        """Abort the connections of all requests that are under way."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._abort_connections)

    def _abort_connections(self) -> None:
        self._stopping.set()
        for connection in self._connections:
            connection.abort()

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return `app` with the faults applied."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            connection = scope["extensions"][CONNECTION]
            self._loop = asyncio.get_running_loop()
            self._connections.add(connection)
            try:
                await self._serve(app, scope, receive, send)
            finally:
                self._connections.discard(connection)

        return serve

    # Without a whole reply, wait until the connection has ended, because uvicorn logs an error for
    # an earlier return.
    async def _serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        fault = self._next_fault(scope)
        if isinstance(fault, ErrorReply):
            await _send_error(fault, receive, send)
            return
        if isinstance(fault, Delay) and not await self._wait(fault.seconds):
            await wait_for_disconnect(receive)
            return
        if fault is None or isinstance(fault, Delay):
            await app(scope, receive, send)
            return
        # The whole reply goes through `send`.
        extensions = {key: value for key, value in scope["extensions"].items() if key != DIRECT}
        faulty = _FaultySend(self, fault, scope, send)
        await app({**scope, "extensions": extensions}, receive, faulty)
        if faulty.is_cut:
            scope["extensions"][CONNECTION].close()
            await wait_for_disconnect(receive)

    def _next_fault(self, scope: Scope) -> Fault | None:
        """Record a request, and return the fault for it.

        A `BodyFault` stays in the queue: the length of the body decides whether it applies.
        """
        query = scope["query_string"].decode("latin-1")
        target = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        with self._lock:
            self._requests.append(f"{scope['method']} {target}")
            method, path = scope["method"], scope["path"]
            fault = next((fault for fault in self._queue if fault.matches(method, path)), None)
            if fault is not None and not isinstance(fault, BodyFault):
                self._queue.remove(fault)
            return fault

    def take(self, fault: Fault) -> bool:
        """Remove `fault` from the queue; return False if another request or `clear` has done so."""
        with self._lock:
            is_queued = fault in self._queue
            if is_queued:
                self._queue.remove(fault)
            return is_queued

    async def _wait(self, seconds: float) -> bool:
        """Wait; return whether the node still runs afterwards."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return True
        return False


class _FaultySend:
    """A `send` that applies a fault to the reply. If `is_cut`, the connection must be closed."""

    def __init__(self, queue: FaultQueue, fault: Fault, scope: Scope, send: Send) -> None:
        self._queue = queue
        self._fault = fault
        self._connection = scope["extensions"][CONNECTION]
        self._has_body = scope["method"] != "HEAD"
        self._send = send
        self._start: Message = {}
        self._body = b""
        self._done = 0  # bytes of the body so far
        self._applies = False
        self.is_cut: bool = isinstance(fault, LostReply)

    async def __call__(self, message: Message) -> None:
        """Send the next part of the reply."""
        if self.is_cut:
            return
        if isinstance(self._fault, ChangedReply):
            await self._change(self._fault, message)
        elif isinstance(self._fault, BodyFault) and message["type"] == "http.response.body":
            await self._send(self._spoiled(self._fault, message))
            if self.is_cut:
                self._connection.close()
        else:
            await self._send(message)

    def _spoiled(self, fault: BodyFault, message: Message) -> Message:
        piece = bytes(message.get("body", b"")) if self._has_body else b""
        correct = max(0, fault.after - self._done)
        self._done += len(piece)
        is_long = self._done + fault.cuts > fault.after
        self._applies = self._applies or (is_long and self._queue.take(fault))
        self.is_cut = self._applies and fault.cuts
        if self._applies:
            rest = b"" if self.is_cut else piece[correct:].translate(INVERTED)
            piece = piece[:correct] + rest
        return {**message, "body": piece, "more_body": self.is_cut or message.get("more_body")}

    async def _change(self, fault: ChangedReply, message: Message) -> None:
        """Hold the reply back until it is complete, then change it."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        if message.get("more_body"):
            return
        fields = {name.lower(): value for name, value in self._start["headers"]}
        fields |= {name.lower().encode(): text.encode() for name, text in fault.headers.items()}
        if fault.change is not None and self._body:
            self._body = fault.change(self._body)
            fields[b"content-length"] = str(len(self._body)).encode()
        await self._send({**self._start, "headers": list(fields.items())})
        await self._send({"type": "http.response.body", "body": self._body})


async def _send_error(reply: ErrorReply, receive: Receive, send: Send) -> None:
    # Read the request's body first: a client that is still sending would see a broken pipe.
    while (await receive()).get("more_body"):
        pass
    headers = [(name.encode(), value.encode("latin-1")) for name, value in reply.headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
