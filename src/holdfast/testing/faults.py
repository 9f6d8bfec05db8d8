"""The queue of faults that a test injects into the replies of a node.

Each fault applies to the reply of the next request that it matches.
"""

import asyncio
import threading

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.node.http_server.http_connection import CONNECTION, DIRECT
from holdfast.testing.fault_kinds import (
    BodyFault,
    ChangedReply,
    CutBody,
    Delay,
    ErrorReply,
    Fault,
    LostReply,
    check_whole,
)

INVERTED = bytes(255 - value for value in range(256))


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
        elif isinstance(fault, LostReply):
            await app(_without_direct(scope), receive, _send_nothing)
            scope["extensions"][CONNECTION].close()
            await _wait_for_disconnect(receive)
        elif isinstance(fault, ChangedReply):
            await app(_without_direct(scope), receive, _changing(fault, send))
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
            matching = (
                each for each in self._queue if each.matches(scope["method"], scope["path"])
            )
            fault = next(matching, None)
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

        await app(_without_direct(scope), receive, send_with_fault)
        if is_cut:
            await _wait_for_disconnect(receive)


def _without_direct(scope: Scope) -> Scope:
    """Return `scope` for an application whose whole reply goes through `send`."""
    extensions = {key: each for key, each in scope["extensions"].items() if key != DIRECT}
    return {**scope, "extensions": extensions}


async def _send_nothing(_: Message) -> None:
    """Drop a part of a reply."""


def _changing(fault: ChangedReply, send: Send) -> Send:
    """Return a `send` that holds the reply back until it is complete, and then changes it."""
    start: Message = {}
    body = b""

    async def send_changed(message: Message) -> None:
        nonlocal start, body
        if message["type"] == "http.response.start":
            start = message
            return
        body += message.get("body", b"")
        if message.get("more_body"):
            return
        fields = {name.lower(): value for name, value in start["headers"]}
        fields |= {name.lower().encode(): each.encode() for name, each in fault.headers.items()}
        if fault.change is not None and body:
            body = fault.change(body)
            fields[b"content-length"] = str(len(body)).encode()
        await send({**start, "headers": list(fields.items())})
        await send({"type": "http.response.body", "body": body})

    return send_changed


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
