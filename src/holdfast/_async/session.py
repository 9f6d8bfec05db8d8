"""One conversation with peers: the configured time-outs, and replies read whole or as a stream."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast._async.runtime import now
from holdfast.config import Timeouts
from holdfast.protocol.http import MAX_REPLY, Reply, Request

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse, AsyncTransport


class AsyncSession:
    """Sends requests through a transport that others may share."""

    def __init__(self, transport: "AsyncTransport", timeouts: Timeouts) -> None:
        self._transport = transport
        self._timeouts = timeouts

    def deadline(self) -> float | None:
        """When a call that begins now must have ended."""
        return None if self._timeouts.total is None else now() + self._timeouts.total

    async def fetch(self, request: Request, *, deadline: float | None = None) -> Reply:
        """The whole reply to `request`."""
        async with self.stream(request, deadline=deadline) as response:
            return await read_whole(response)

    @asynccontextmanager
    async def stream(
        self, request: Request, *, deadline: float | None = None
    ) -> "AsyncIterator[AsyncResponse]":
        """The reply to `request`, its body still to come."""
        response = await self._transport.send(request, timeouts=self._timeouts, deadline=deadline)
        try:
            yield response
        finally:
            await response.aclose()


async def read_whole(response: "AsyncResponse") -> Reply:
    """The reply with its body, of which at most `MAX_REPLY` bytes are kept."""
    body = bytearray()
    async for chunk in response.chunks():
        body += chunk
        if len(body) > MAX_REPLY:
            break
    return Reply(response.status, response.headers, bytes(body[:MAX_REPLY]))
