"""Replies that are sent in pieces. The next piece is read when the client has read the last one."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import count
from typing import Final

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from holdfast.node.http_server import http_connection
from holdfast.node.http_server.http_connection import PIECE, DirectSender, Drain, Pieces
from holdfast.node.memory import HeldMemory, MemoryShare

AT_ONCE: Final = 16  # worker threads that read content
TURN: Final = 16  # pieces of one reply before other requests get the event loop
SENDERS: Final = 4  # worker threads that send; each holds a block, and 3 MiB that are read ahead
HASHERS: Final = 2  # worker threads that read and verify blocks ahead of the senders
WORTHWHILE: Final = 256 << 10  # bytes; for fewer, the switch of threads costs more than it saves


class Resources:
    """The resources that requests share: memory, and worker threads that read and send content."""

    def __init__(self) -> None:
        self.memory: HeldMemory = HeldMemory()
        self.readers: Executor = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="holdfast-read")
        self.senders: CapacityLimiter = CapacityLimiter(SENDERS)
        self.hashers: Executor = ThreadPoolExecutor(HASHERS, thread_name_prefix="holdfast-hash")

    def close(self) -> None:
        """End the threads, each after its current job."""
        self.readers.shutdown()
        self.hashers.shutdown()

    def share_of(self, scope: Scope) -> MemoryShare:
        """Return a memory share for a request; ending the share aborts the connection."""
        connection = scope.get("extensions", {}).get(http_connection.CONNECTION)
        return MemoryShare(self.memory, None if connection is None else connection.abort)


def resources_of(scope: Scope) -> Resources:
    """Return the resources that the requests of an application share."""
    resources: Resources = scope["app"].state.resources
    return resources


def drain_of(scope: Scope) -> Drain:
    """Return the function that waits until the client has read what was sent."""
    drain: Drain = scope.get("extensions", {}).get(http_connection.DRAIN, _no_wait)
    return drain


async def _no_wait() -> None:
    """Do not wait: under another ASGI server than the node's, `send` waits itself."""


class PieceResponse(StreamingResponse):
    """A reply whose body is `pieces`. While the client reads nothing, no piece is in memory.

    The first piece is read at once, so that its errors can still set the status.
    """

    def __init__(
        self, pieces: Pieces | None, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(iter(()), status, headers)
        self._pieces = Pieces() if pieces is None else pieces
        self._first: bytes | None = next(self._pieces, None)
        self._scope: Scope = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the reply."""
        self._scope = scope
        await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Send the head, then the pieces."""
        resources = resources_of(self._scope)
        drain = drain_of(self._scope)
        loop = asyncio.get_running_loop()
        headers = self.raw_headers
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        piece, self._first = self._first, None
        with resources.share_of(self._scope) as share:
            for number in count(1):
                await drain()
                if piece is None:
                    await self._send_directly(resources)
                    piece = self._pieces.next_cached()
                if piece is None:
                    piece = await loop.run_in_executor(resources.readers, next, self._pieces, None)
                if piece is None:
                    break
                if number % TURN == 0:
                    await asyncio.sleep(0)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                piece = None
                share.hold(self._pieces.memory_used)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_directly(self, resources: Resources) -> None:
        """Send as much as the client reads quickly, if a worker thread is free for it."""
        extensions = self._scope.get("extensions", {})
        sender: DirectSender | None = extensions.get(http_connection.DIRECT)
        pieces = self._pieces
        while (
            sender is not None
            and (left := pieces.left) >= WORTHWHILE
            and sender.is_ready
            and resources.senders.available_tokens >= 1
        ):
            with sender.open() as connection:
                is_quick = await run_sync(
                    sender.send, connection, pieces, resources.hashers, limiter=resources.senders
                )
            sent = left - pieces.left
            sender.record(sent)
            if not is_quick or not sent:
                break


def sending_in_pieces(resources: Resources, scope: Scope, send: Send) -> Send:
    """Return a `send` that waits for the client, and sends a large body in pieces.

    The unsent rest of the body counts as memory that the request holds.
    """
    drain = drain_of(scope)

    async def send_pieces(message: Message) -> None:
        body = message.get("body", b"")
        if len(body) <= PIECE:
            await drain()
            await send(message)
            return
        with resources.share_of(scope) as share:
            for at in range(0, len(body), PIECE):
                share.hold(len(body) - at)
                await drain()
                more = at + PIECE < len(body) or message.get("more_body", False)
                await send({**message, "body": body[at : at + PIECE], "more_body": more})

    return send_pieces
