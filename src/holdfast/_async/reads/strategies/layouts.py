"""The plain body alone, imported again in all known layouts: for a gateway without blocks.

The content is right if one of the layouts results in the CID. That is known only at its end.
"""

from holdfast._async.reads.peer import AsyncGatewayPeer
from holdfast._async.reads.strategies.interface import AsyncTransfer
from holdfast._async.reads.streams import AsyncStream, closing_on_error
from holdfast.content.unixfs.layouts import LayoutProof


class AsyncLayouts:
    """Import the body again, and compare the CIDs of the known layouts with the wanted one."""

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether a whole tree is wanted, and its body was not imported yet."""
        state = peer.state
        may = state.is_whole_tree and not peer.was_imported and not peer.refusals.is_trustless
        return may and (peer.may_restart or not state.output.written)

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Ask for the plain content."""
        response = await peer.open_plain()
        async with closing_on_error(response):
            proof = LayoutProof(await peer.target())
            return await AsyncStream(peer, proof, response).begin()
