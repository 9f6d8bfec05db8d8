"""A file that is one raw block, asked for as a block: for a gateway without plain content."""

from holdfast._async.reads.peer import AsyncGatewayPeer
from holdfast._async.reads.strategies.interface import AsyncTransfer
from holdfast._async.reads.streams import AsyncStream, closing_on_error
from holdfast.content.proof import NoProof, Proof, block_proof
from holdfast.protocol.gateway import RAW_TYPE
from holdfast.protocol.http import Reply


class AsyncRawBlock:
    """Fetch the one block, and compare its hash with the CID."""

    def may_work(self, peer: AsyncGatewayPeer) -> bool:
        """Return whether the gateway serves no plain content, and a whole raw block is wanted."""
        return peer.refusals.is_trustless and peer.state.is_block and peer.state.stop is None

    async def begin(self, peer: AsyncGatewayPeer) -> AsyncTransfer:
        """Ask for the block."""
        cid = await peer.target()
        response = await peer.open_or_refuse(peer.gateway.block(cid))
        async with closing_on_error(response):
            peer.refusals.check_type(Reply(response.status, response.headers), RAW_TYPE)
            may_verify = peer.verify or cid.is_provable
            proof: Proof = block_proof(peer.state.reference, cid) if may_verify else NoProof()
            return await AsyncStream(peer, proof, response).begin()
