"""Faults on command, between the network and a node: replies pass through, piece by piece.

Each fault waits in a queue for the next request that it is meant for, and spoils that one's reply.
"""

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.node.server import HANG_UP

Part: TypeAlias = Literal["any", "api", "gateway"]
"""The part of a node that a request is for: its pinning API, or its gateway, ``/ipfs/…``."""

INVERTED = bytes(255 - value for value in range(256))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is to go wrong with one reply.

    Attributes:
        on: Which requests it may meet.
        status: The failure to reply with; the request does not reach the node.
        body: The JSON of that reply; None for an empty body.
        headers: Header fields of that reply.
        delay: Seconds to wait before the request reaches the node.
        corrupt: From which byte on the body is wrong.
        cut: After how many bytes of the body the connection ends.
    """

    on: Part = "any"
    status: int | None = None
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0
    corrupt: int | None = None
    cut: int | None = None

    def __post_init__(self) -> None:
        if self.on not in get_args(Part):
            raise ValueError(f"on must be one of {', '.join(get_args(Part))}, not {self.on!r}")
        if self.status is not None and not 300 <= self.status <= 599:
            raise ValueError(f"status must be that of a failure, 300 to 599, not {self.status}")
        for name, value in (("seconds", self.delay), ("after", self.corrupt), ("after", self.cut)):
            if value is not None and value < 0:
                raise ValueError(f"{name} must not be negative, and is {value}")

    def is_for(self, path: str) -> bool:
        """Whether it may meet a request for `path`."""
        return self.on == "any" or (self.on == "gateway") == path.startswith("/ipfs/")


class Faults:
    """The queue of faults, and the application that stands around the node's and obeys it."""

    def __init__(self) -> None:
        self._queue: list[Fault] = []
        self._requests: list[str] = []
        self._lock = threading.Lock()
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None  # the node's, once anybody waits in it

    def add(self, fault: Fault, times: int) -> None:
        """Let `fault` meet the next requests, `times` of them."""
        if times < 1:
            raise ValueError(f"times must be 1 or more, and is {times}")
        with self._lock:
            self._queue += [fault] * times

    def clear(self) -> None:
        """Forget the faults that met nobody yet, and the requests that came."""
        with self._lock:
            self._queue.clear()
            self._requests.clear()

    @property
    def left(self) -> int:
        """How many faults met nobody yet."""
        with self._lock:
            return len(self._queue)

    @property
    def requests(self) -> list[str]:
        """What was asked for, in order."""
        with self._lock:
            return list(self._requests)

    def stop(self) -> None:
        """Hang up on whoever is being delayed."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    def around(self, app: ASGIApp) -> ASGIApp:
        """`app`, with the faults."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            fault = self._meet(scope) if scope["type"] == "http" else None
            if fault is None:
                await app(scope, receive, send)
            elif fault.status is not None:
                await _refuse(fault, fault.status, receive, send)
            elif fault.delay and not await self._wait(fault.delay):
                await _hang_up(scope, receive)
            else:
                await _spoil(fault, app, scope, receive, send)

        return serve

    def _meet(self, scope: Scope) -> Fault | None:
        """Note a request; the fault that it meets."""
        query = scope["query_string"].decode("latin-1")
        target = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        with self._lock:
            self._requests.append(f"{scope['method']} {target}")
            for number, fault in enumerate(self._queue):
                if fault.is_for(scope["path"]):
                    return self._queue.pop(number)
        return None

    async def _wait(self, seconds: float) -> bool:
        """Wait; whether the node is still there afterwards."""
        self._loop = asyncio.get_running_loop()
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return True
        return False


async def _refuse(fault: Fault, status: int, receive: Receive, send: Send) -> None:
    # The body of the request first: a client in the midst of sending it would see a broken pipe.
    while (await receive()).get("more_body"):
        pass
    body = b"" if fault.body is None else json.dumps(fault.body).encode()
    given = {"Content-Length": str(len(body)), "Content-Type": "application/json", **fault.headers}
    headers = [(name.lower().encode(), value.encode()) for name, value in given.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _spoil(fault: Fault, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    done = 0
    is_cut = False

    async def send_spoilt(message: Message) -> None:
        nonlocal done, is_cut
        if is_cut:
            return
        if message["type"] == "http.response.body":
            piece = bytes(message.get("body", b""))
            if fault.corrupt is not None:
                right = max(0, fault.corrupt - done)
                piece = piece[:right] + piece[right:].translate(INVERTED)
            if fault.cut is not None and done + len(piece) > fault.cut:
                is_cut = True
                piece = piece[: fault.cut - done]
            done += len(piece)
            more = is_cut or message.get("more_body", False)
            message = {**message, "body": piece, "more_body": more}
        await send(message)
        if is_cut:
            scope["extensions"][HANG_UP]()

    await app(scope, receive, send_spoilt)
    if is_cut:
        await _gone(receive)


async def _hang_up(scope: Scope, receive: Receive) -> None:
    scope["extensions"][HANG_UP]()
    await _gone(receive)


async def _gone(receive: Receive) -> None:
    """Wait until the connection has ended: the server complains of those who return before."""
    while (await receive())["type"] != "http.disconnect":
        pass
