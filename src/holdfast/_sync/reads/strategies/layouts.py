# WARNING: this file is generated from src/holdfast/_async/reads/strategies/layouts.py
# by scripts/generate_sync.py. Change the original instead.
"""The plain body alone, imported again in all known layouts: for a gateway without blocks.

The content is right if one of the layouts results in the CID. That is known only at its end.
"""

from holdfast._sync.reads.peer import GatewayPeer
from holdfast._sync.reads.strategies.interface import Transfer
from holdfast._sync.reads.streams import Stream, closing_on_error
from holdfast.content.unixfs.layouts import LayoutProof


class Layouts:
    """Import the body again, and compare the CIDs of the known layouts with the wanted one."""

    def may_work(self, peer: GatewayPeer) -> bool:
        """Return whether a whole tree is wanted, and its body was not imported yet."""
        state = peer.state
        may = state.is_whole_tree and not peer.was_imported and not peer.refusals.is_trustless
        return may and (peer.may_restart or not state.output.written)

    def begin(self, peer: GatewayPeer) -> Transfer:
        """Ask for the plain content."""
        response = peer.open_plain()
        with closing_on_error(response):
            proof = LayoutProof(peer.target())
            return Stream(peer, proof, response).begin()
