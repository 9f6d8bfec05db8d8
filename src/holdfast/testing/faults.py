"""Faults on command, between the network and a node: replies pass through, piece by piece.

Each fault waits in a queue for the next request that it is meant for, and spoils that one's reply.
What is wrong with a fault itself shows when it is made, in the test that asks for it.
"""

import asyncio
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, get_args

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.node.http_server.http_connection import CONNECTION

Part: TypeAlias = Literal["any", "api", "gateway"]
"""The part of a node that a request is for: its pinning API, or its gateway, ``/ipfs/…``."""

INVERTED = bytes(255 - value for value in range(256))
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
HEADER_VALUE = re.compile(r"[\t -~\x80-\xff]*")
# These follow from the body. Replies whose body is framed wrongly are for `ScriptedServer`.
FRAMING = frozenset({"content-length", "transfer-encoding"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is to go wrong with one reply; `on` says which requests it may meet."""

    on: Part

    def __post_init__(self) -> None:
        if self.on not in get_args(Part):
            raise ValueError(f"on must be one of {', '.join(get_args(Part))}, not {self.on!r}")

    def is_for(self, path: str) -> bool:
        """Whether it may meet a request for `path`."""
        return self.on == "any" or (self.on == "gateway") == path.startswith("/ipfs/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Fault):
    """A reply in place of the node's, which never sees the request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, *, on: Part, status: int, headers: Mapping[str, str], body: Any) -> Self:
        """The failure with this `body`: bytes as they are, all else as JSON, None for none."""
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
    """A wait before the node sees the request."""

    seconds: float

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float):
            raise TypeError(f"seconds must be a number, not {self.seconds!r}")
        if not self.seconds >= 0:
            raise ValueError(f"seconds must be 0 or more, not {self.seconds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiling(Fault):
    """A body of which the first `after` bytes are right; it waits for one that has as many."""

    after: int

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_whole("after", self.after)
        if self.after < 0:
            raise ValueError(f"after must be 0 or more, not {self.after}")


class Corruption(Spoiling):
    """The bytes that follow are wrong."""

    __slots__ = ()


class Cut(Spoiling):
    """The connection ends there, also where no bytes would follow."""

    __slots__ = ()


def check_whole(name: str, value: object) -> None:
    """Refuse what is no whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}")


def check_header(name: object, value: object) -> None:
    """Refuse what cannot stand in a head, or is not for a test to say."""
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"headers must be text, not {name!r}: {value!r}")
    if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
        raise ValueError(f"headers must be one line of Latin-1 each, not {name!r}: {value!r}")
    if name.lower() in FRAMING:
        raise ValueError(f"headers must not hold {name}: it follows from the body")


class Faults:
    """The queue of faults, and the application that stands around the node's and obeys it."""

    def __init__(self) -> None:
        self._queue: list[Fault] = []
        self._requests: list[str] = []
        self._lock = threading.Lock()
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None  # the node's, once it had a request
        self._connections: set[asyncio.Transport] = set()  # of the requests under way

    def add(self, fault: Fault, times: int) -> None:
        """Let `fault` spoil the next replies, `times` of them."""
        check_whole("times", times)
        if times < 1:
            raise ValueError(f"times must be 1 or more, not {times}")
        with self._lock:
            self._queue += [fault] * times

    def clear(self) -> None:
        """Forget the faults that are left, and the requests that came."""
        with self._lock:
            self._queue.clear()
            self._requests.clear()

    @property
    def left(self) -> int:
        """How many faults have spoilt no reply yet."""
        with self._lock:
            return len(self._queue)

    @property
    def requests(self) -> list[str]:
        """What was asked for, in order."""
        with self._lock:
            return list(self._requests)

    def stop(self) -> None:
        """Hang up on all whose requests are under way."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._hang_up)

    def _hang_up(self) -> None:
        self._stopping.set()
        for connection in self._connections:
            connection.abort()

    def around(self, app: ASGIApp) -> ASGIApp:
        """`app`, with the faults."""

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
        fault = self._meet(scope)
        if isinstance(fault, Failure):
            await _fail(fault, receive, send)
        elif isinstance(fault, Spoiling):
            await self._spoil(fault, app, scope, receive, send)
        elif isinstance(fault, Delay) and not await self._wait(fault.seconds):
            await _gone(receive)
        else:
            await app(scope, receive, send)

    def _meet(self, scope: Scope) -> Fault | None:
        """Note a request; the fault that it meets. Bodies have yet to show whether it bites."""
        query = scope["query_string"].decode("latin-1")
        target = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        with self._lock:
            self._requests.append(f"{scope['method']} {target}")
            fault = next((each for each in self._queue if each.is_for(scope["path"])), None)
            if fault is not None and not isinstance(fault, Spoiling):
                self._queue.remove(fault)
            return fault

    def _take(self, fault: Fault) -> bool:
        """Whether `fault` is still to be had: another request may have met it, or a test healed."""
        with self._lock:
            is_there = fault in self._queue
            if is_there:
                self._queue.remove(fault)
            return is_there

    async def _wait(self, seconds: float) -> bool:
        """Wait; whether the node is still there afterwards."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return True
        return False

    async def _spoil(
        self, fault: Spoiling, app: ASGIApp, scope: Scope, receive: Receive, send: Send
    ) -> None:
        done = 0
        bites = is_cut = False

        async def send_spoilt(message: Message) -> None:
            nonlocal done, bites, is_cut
            if is_cut:
                return
            if message["type"] == "http.response.body":
                piece = b"" if scope["method"] == "HEAD" else bytes(message.get("body", b""))
                right = max(0, fault.after - done)
                done += len(piece)
                reaches = done >= fault.after if isinstance(fault, Cut) else done > fault.after
                bites = bites or (reaches and self._take(fault))
                is_cut = bites and isinstance(fault, Cut)
                if bites:
                    rest = b"" if is_cut else piece[right:].translate(INVERTED)
                    piece = piece[:right] + rest
                more = is_cut or message.get("more_body", False)
                message = {**message, "body": piece, "more_body": more}
            await send(message)
            if is_cut:
                scope["extensions"][CONNECTION].close()

        await app(scope, receive, send_spoilt)
        if is_cut:
            await _gone(receive)


async def _fail(failure: Failure, receive: Receive, send: Send) -> None:
    # The body of the request first: a client in the midst of sending it would see a broken pipe.
    while (await receive()).get("more_body"):
        pass
    headers = [(name.encode(), value.encode("latin-1")) for name, value in failure.headers.items()]
    await send({"type": "http.response.start", "status": failure.status, "headers": headers})
    await send({"type": "http.response.body", "body": failure.body})


async def _gone(receive: Receive) -> None:
    """Wait until the connection has ended: the server complains of those who return before."""
    while (await receive())["type"] != "http.disconnect":
        pass
