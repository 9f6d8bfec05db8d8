"""The interface that all strategies share."""

from typing import Protocol

from holdfast._async.reads.peer import AsyncGatewayPeer


class AsyncTransfer(Protocol):
    """Content that a gateway has begun to send. Its beginning is verified if that is possible."""

    async def finish(self) -> None:
        """Verify all of it, write it to the output, and close it."""

    async def aclose(self) -> None:
        """Close it unfinished."""


class AsyncStrategy(Protocol):
    """A way to ask a gateway for content and to verify it.

    It raises `UnprovenError` if another strategy may work with the same gateway.
    """

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether the strategy is worth a try."""

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Send the request, and verify the beginning of the reply."""
