"""Replies in pieces: the next one is made when the peer has taken the last."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Self

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from holdfast.node.connections import CONNECTION, DRAIN, Drain
from holdfast.node.memory import HeldMemory, MemoryShare

PIECE: Final = 64 << 10  # larger ones would wait in memory, smaller ones cost time
AT_ONCE: Final = 16  # worker threads that read content
TURN: Final = 16  # pieces of one reply, before others have their turn


@dataclass(frozen=True, slots=True)
class Resources:
    """What the requests of a node share: memory, and worker threads that read content."""

    memory: HeldMemory = field(default_factory=HeldMemory)
    readers: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(AT_ONCE))

    def share_of(self, scope: Scope) -> MemoryShare:
        """Return a share for a request, whose connection ends where others need the memory."""
        connection = scope.get("extensions", {}).get(CONNECTION)
        return MemoryShare(self.memory, None if connection is None else connection.abort)


def resources_of(scope: Scope) -> Resources:
    """Return what the requests of an application share."""
    state = scope["app"].state
    if not hasattr(state, "resources"):
        state.resources = Resources()
    resources: Resources = state.resources
    return resources


def drain_of(scope: Scope) -> Drain:
    """Return what waits until the peer has taken what was sent."""
    drain: Drain = scope.get("extensions", {}).get(DRAIN, _no_wait)
    return drain


async def _no_wait() -> None:
    """Leave the waiting to `send`, where another server than the node's runs the application."""


class Pieces(Iterator[bytes]):
    """A body in pieces, each taken on a worker thread unless `next_cached` has it."""

    def __iter__(self) -> Self:
        return self

    def next_cached(self) -> bytes | None:
        """Return the next piece if that takes no time, else None."""
        return None

    @property
    def held(self) -> int:
        """How many bytes of memory they hold between two pieces, about."""
        return 0


class BegunPieces(Pieces):
    """Pieces of which the first is read at once: its errors can still be answered."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._rest = pieces if isinstance(pieces, Pieces) else _Gathered(iter(pieces))
        self._first: bytes | None = next(self._rest, None)

    def __next__(self) -> bytes:
        first, self._first = self._first, None
        return next(self._rest) if first is None else first

    def next_cached(self) -> bytes | None:
        """Return the first piece, then those that take no time."""
        first, self._first = self._first, None
        return self._rest.next_cached() if first is None else first

    @property
    def held(self) -> int:
        """How many bytes of memory they hold, about."""
        return self._rest.held + len(self._first or b"")


class _Gathered(Pieces):
    """Small pieces put together: each one that is sent costs a change of threads."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def __next__(self) -> bytes:
        held: list[bytes] = []
        size = 0
        while size < PIECE:
            piece = next(self._pieces, None)
            if piece is None:
                break
            held.append(piece)
            size += len(piece)
        if not held:
            raise StopIteration
        return b"".join(held)


class PieceResponse(StreamingResponse):
    """A reply of `pieces`. While the peer takes nothing, no piece is held."""

    def __init__(
        self, pieces: Pieces, status_code: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(iter(()), status_code, headers)
        self._pieces = pieces
        self._scope: Scope = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the reply."""
        self._scope = scope
        await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Send the head, then the pieces."""
        resources = resources_of(self._scope)
        drain = drain_of(self._scope)
        headers = self.raw_headers
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        with resources.share_of(self._scope) as share:
            for number in count():
                await drain()
                if number % TURN == TURN - 1:
                    await asyncio.sleep(0)
                piece = self._pieces.next_cached()
                if piece is None:
                    piece = await run_sync(next, self._pieces, None, limiter=resources.readers)
                if piece is None:
                    break
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                del piece
                share.hold(self._pieces.held)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def sending_in_pieces(resources: Resources, scope: Scope, send: Send) -> Send:
    """Return a `send` that waits for the peer, and sends a large body piece by piece.

    What is left of the body counts as held memory meanwhile.
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
