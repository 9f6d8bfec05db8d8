# WARNING: this file is generated from src/holdfast/_async/reads/strategies/raw_block.py
# by scripts/generate_sync.py. Change the original instead.
"""A file that is one raw block, asked for as a block: for a gateway without plain content."""

from holdfast._sync.reads.peer import GatewayPeer
from holdfast._sync.reads.strategies.interface import Transfer
from holdfast._sync.reads.streams import Stream, closing_on_error
from holdfast.content.proof import NoProof, Proof, block_proof
from holdfast.protocol.gateway import RAW_TYPE
from holdfast.protocol.http import Reply


class RawBlock:
    """Fetch the one block, and compare its hash with the CID."""

    def may_work(self, peer: GatewayPeer) -> bool:
        """Return whether the gateway serves no plain content, and a whole raw block is wanted."""
        return peer.refusals.is_trustless and peer.state.is_block and peer.state.stop is None

    def begin(self, peer: GatewayPeer) -> Transfer:
        """Ask for the block."""
        cid = peer.target()
        response = peer.open_or_refuse(peer.gateway.block(cid))
        with closing_on_error(response):
            peer.refusals.check_type(Reply(response.status, response.headers), RAW_TYPE)
            may_verify = peer.verify or cid.is_provable
            proof: Proof = block_proof(peer.state.reference, cid) if may_verify else NoProof()
            return Stream(peer, proof, response).begin()
