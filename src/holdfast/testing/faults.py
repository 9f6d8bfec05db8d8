"""Faults that a test injects into the replies of a node.

Faults wait in a queue. Each applies to the reply of the next request that it matches. Invalid
values raise an error when the fault is created, in the test that asks for it.
"""

import asyncio
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, get_args

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.node.http_server.asgi_extensions import CONNECTION, DIRECT

Part: TypeAlias = Literal["any", "api", "gateway"]
"""The part of a node that receives a request: its pinning API, or its gateway, ``/ipfs/…``."""

INVERTED = bytes(255 - value for value in range(256))
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
HEADER_VALUE = re.compile(r"[\t -~\x80-\xff]*")
# The body determines these. To send wrong ones, use `ScriptedServer`.
FRAMING = frozenset({"content-length", "transfer-encoding"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of one reply. It applies to requests to the part `on`."""

    on: Part

    def __post_init__(self) -> None:
        if self.on not in get_args(Part):
            raise ValueError(f"on must be one of {', '.join(get_args(Part))}, not {self.on!r}")

    def matches(self, path: str) -> bool:
        """Return whether the fault applies to requests for `path`."""
        return self.on == "any" or (self.on == "gateway") == path.startswith("/ipfs/")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReply(Fault):
    """A reply that is sent instead of the node's. The node does not receive the request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, *, on: Part, status: int, headers: Mapping[str, str], body: Any) -> Self:
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
        return cls(
            on=on, status=status, headers={**fields, "content-length": str(len(data))}, body=data
        )


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

    async def _serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        fault = self._next_fault(scope)
        if isinstance(fault, ErrorReply):
            await _send_error(fault, receive, send)
        elif isinstance(fault, BodyFault):
            await self._serve_faulty_body(fault, app, scope, receive, send)
        elif isinstance(fault, Delay) and not await self._wait(fault.seconds):
            await _wait_for_disconnect(receive)
        else:
            await app(scope, receive, send)

    def _next_fault(self, scope: Scope) -> Fault | None:
        """Record a request, and return the fault for it.

        A `BodyFault` stays in the queue: the length of the body decides whether it applies.
        """
        query = scope["query_string"].decode("latin-1")
        target = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        with self._lock:
            self._requests.append(f"{scope['method']} {target}")
            fault = next((each for each in self._queue if each.matches(scope["path"])), None)
            if fault is not None and not isinstance(fault, BodyFault):
                self._queue.remove(fault)
            return fault

    def _take(self, fault: Fault) -> bool:
        """Remove `fault` from the queue; return False if another request or `clear` has done so."""
        with self._lock:
            is_there = fault in self._queue
            if is_there:
                self._queue.remove(fault)
            return is_there

    async def _wait(self, seconds: float) -> bool:
        """Wait; return whether the node still runs afterwards."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return True
        return False

    async def _serve_faulty_body(
        self, fault: BodyFault, app: ASGIApp, scope: Scope, receive: Receive, send: Send
    ) -> None:
        done = 0
        applies = is_cut = False

        async def send_with_fault(message: Message) -> None:
            nonlocal done, applies, is_cut
            if is_cut:
                return
            if message["type"] == "http.response.body":
                piece = b"" if scope["method"] == "HEAD" else bytes(message.get("body", b""))
                correct = max(0, fault.after - done)
                done += len(piece)
                is_long = done >= fault.after if isinstance(fault, CutBody) else done > fault.after
                applies = applies or (is_long and self._take(fault))
                is_cut = applies and isinstance(fault, CutBody)
                if applies:
                    rest = b"" if is_cut else piece[correct:].translate(INVERTED)
                    piece = piece[:correct] + rest
                more = is_cut or message.get("more_body", False)
                message = {**message, "body": piece, "more_body": more}
            await send(message)
            if is_cut:
                scope["extensions"][CONNECTION].close()

        extensions = {key: each for key, each in scope["extensions"].items() if key != DIRECT}
        await app({**scope, "extensions": extensions}, receive, send_with_fault)
        if is_cut:
            await _wait_for_disconnect(receive)


async def _send_error(reply: ErrorReply, receive: Receive, send: Send) -> None:
    # Read the request's body first: a client that is still sending would see a broken pipe.
    while (await receive()).get("more_body"):
        pass
    headers = [(name.encode(), value.encode("latin-1")) for name, value in reply.headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


async def _wait_for_disconnect(receive: Receive) -> None:
    """Wait until the connection has ended, because uvicorn logs an error for an earlier return."""
    while (await receive())["type"] != "http.disconnect":
        pass
