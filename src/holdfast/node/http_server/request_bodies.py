"""Read the body of a request within limits of size, time and memory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import Request

from holdfast.node.http_server.http_connection import RECEIVER, TAKE_BODY, DirectReceiver
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.memory import MemoryShare

PIECE_SIZE = 64 << 10  # bytes that a worker thread gets at a time
IDLE_BYTES = 1 << 10  # a body of which fewer bytes arrive in the idle time has stalled
PROGRESS_BYTES = 16 << 10  # when memory is short, bodies that advance by fewer end first


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The body of a request. A `Refusal` is raised when it exceeds a limit."""

    request: Request
    share: MemoryShare
    limit: int
    idle_seconds: float

    async def pieces(self, memory_used: Callable[[], int] | None = None) -> AsyncIterator[bytes]:
        """Yield the body in pieces of about `PIECE_SIZE`.

        `memory_used` returns how many bytes of the pieces so far the caller has in memory. Raise a
        `Refusal` if the body is too large or too slow, or if other requests need the memory.
        """
        declared = self.request.headers.get("content-length", "")
        if declared.isdecimal() and (len(declared) > 18 or int(declared) > self.limit):
            raise self._too_large()
        total = progress = 0
        piece = bytearray()
        async for chunk in self._chunks():
            total += len(chunk)
            progress += len(chunk)
            if total > self.limit:
                raise self._too_large()
            is_piece = not piece and len(chunk) >= PIECE_SIZE
            if not is_piece:
                piece += chunk
            # For a while, what is made of a piece is held beside it.
            size = 2 * (len(chunk) if is_piece else len(piece))
            size += 0 if memory_used is None else memory_used()
            self.share.hold(size, progress=progress >= PROGRESS_BYTES)
            if progress >= PROGRESS_BYTES:
                progress = 0
            if is_piece or len(piece) >= PIECE_SIZE:
                self._check_share()
                yield chunk if is_piece else bytes(piece)
                piece.clear()
            chunk = b""  # noqa: PLW2901 - it may be large: hold it no longer than its reader
        if piece:
            yield bytes(piece)

    async def _chunks(self) -> AsyncIterator[bytes]:
        """Yield the body in the chunks in which it arrives."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.idle_seconds
        received = 0
        has_more = True
        while has_more:
            self._check_share()
            try:
                async with asyncio.timeout_at(deadline) as timer:
                    self.share.on_end = partial(timer.reschedule, 0)
                    await self.share.memory.has_room.wait()
                    chunk, has_more = await self._receive()
            except TimeoutError:
                if not self.share.is_ended:
                    raise Refusal(408, "The body arrived too slowly") from None
            finally:
                self.share.on_end = None
            self._check_share()
            received += len(chunk)
            if chunk:
                yield chunk
            chunk = b""
            if received >= IDLE_BYTES:
                deadline = loop.time() + self.idle_seconds
                received = 0

    async def feed_directly(
        self,
        feed: Callable[[bytes], None],
        memory_used: Callable[[], int],
        threads: CapacityLimiter,
    ) -> None:
        """Receive the body on one of `threads`, and call `feed` there with each piece.

        Stop when little of the body is left, or when the client sends slowly.
        """
        receiver: DirectReceiver | None = self.request.scope.get("extensions", {}).get(RECEIVER)
        is_quick = True
        while receiver is not None and is_quick and (source := receiver.open()) is not None:
            try:
                is_quick = await run_sync(receiver.receive, source, feed, limiter=threads)
            finally:
                source.close()
                receiver.record()
            self.share.hold(memory_used())
            self._check_share()

    async def _receive(self) -> tuple[bytes, bool]:
        """Return the next bytes of the body, and whether more follow.

        `Request.stream` of Starlette would keep each chunk until the next one comes.
        """
        message = await self.request.receive()
        if message["type"] == "http.disconnect":
            raise bad_request("The body ended early")
        return message.get("body", b""), message.get("more_body", False)

    def _check_share(self) -> None:
        if self.share.is_ended:
            text = "The node has too many requests under way; try again later"
            raise Refusal(503, text, {"Connection": "close", "Retry-After": "5"})

    def _too_large(self) -> Refusal:
        return Refusal(413, f"The body is larger than the {self.limit} bytes that are allowed")

    def take(self) -> bytes | None:
        """Return the whole body if all of it has arrived; else None."""
        take_body = self.request.scope.get("extensions", {}).get(TAKE_BODY)
        body: bytes | None = None if take_body is None else take_body()
        if body is not None:
            if len(body) > self.limit:
                raise self._too_large()
            self.share.hold(len(body))
        return body

    async def read(self) -> bytes:
        """Return the whole body."""
        if (body := self.take()) is not None:  # no timer is needed: nothing is waited for
            return body
        pieces: list[bytes] = []
        async for piece in self.pieces(lambda: sum(map(len, pieces))):
            pieces.append(piece)  # noqa: PERF401 - the lambda reads the list while it grows
        return b"".join(pieces)

    @asynccontextmanager
    async def acquire(self, semaphore: asyncio.Semaphore) -> AsyncIterator[None]:
        """Hold `semaphore`; raise a `Refusal` if other requests need the memory before."""
        try:
            async with asyncio.timeout(None) as timer:
                self.share.on_end = partial(timer.reschedule, 0)
                self._check_share()
                await semaphore.acquire()
        except TimeoutError:
            self._check_share()
            raise
        finally:
            self.share.on_end = None
        try:
            yield
        finally:
            semaphore.release()
