"""The plain body, not verified: for `verify=False`."""

from holdfast._async.reads.peer import AsyncGatewayPeer
from holdfast._async.reads.strategies.interface import AsyncTransfer
from holdfast._async.reads.streams import AsyncStream, closing_on_error
from holdfast.content.proof import NoProof


class AsyncPlain:
    """Return what the gateway sends, without verification."""

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether the gateway serves plain content."""
        return not peer.refusals.is_trustless

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Ask for the plain content."""
        response = await peer.open_plain()
        async with closing_on_error(response):
            return await AsyncPlainStream(peer, NoProof(), response).begin()


class AsyncPlainStream(AsyncStream[NoProof]):
    """A body that nothing verifies."""

    def _set_limit(self) -> None:
        """Limit a body of unknown length. A length that the gateway declares is accepted."""
        if self.reply.length is None:
            super()._set_limit()

    def _check_race(self) -> None:
        """Do nothing: there is no verification to wait for."""
