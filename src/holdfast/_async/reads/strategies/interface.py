"""The interface that all strategies share."""

from typing import Protocol

from holdfast._async.reads.peer import AsyncPeer


class AsyncTransfer(Protocol):
    """Content that a gateway has begun to send, its beginning verified as far as that can be."""

    async def finish(self) -> None:
        """Bring all of it into the output, verified; close it."""

    async def aclose(self) -> None:
        """Close it unfinished."""


class AsyncStrategy(Protocol):
    """A way to ask a gateway for content and to verify it.

    Its errors are `UnprovenError` where another strategy may work with the same gateway.
    """

    def may_work(self, peer: AsyncPeer) -> bool:
        """Return whether the strategy is worth a try."""

    async def begin(self, peer: AsyncPeer) -> AsyncTransfer:
        """Send the request, and verify the beginning of the reply."""
