# WARNING: this file is generated from src/holdfast/_async/reads/strategies/plain.py
# by scripts/generate_sync.py. Change the original instead.
"""The plain body, not verified: for `verify=False`."""

from holdfast._sync.reads.peer import GatewayPeer
from holdfast._sync.reads.strategies.interface import Transfer
from holdfast._sync.reads.streams import Stream, closing_on_error
from holdfast.content.proof import NoProof


class Plain:
    """Return what the gateway sends, without verification."""

    def may_work(self, peer: GatewayPeer) -> bool:
        """Return whether the gateway serves plain content."""
        return not peer.refusals.is_trustless

    def begin(self, peer: GatewayPeer) -> Transfer:
        """Ask for the plain content."""
        response = peer.open_plain()
        with closing_on_error(response):
            return PlainStream(peer, NoProof(), response).begin()


class PlainStream(Stream[NoProof]):
    """A body that nothing verifies."""

    def _set_limit(self) -> None:
        """Limit a body of unknown length. A length that the gateway declares is accepted."""
        if self.reply.length is None:
            super()._set_limit()

    def _check_race(self) -> None:
        """Do nothing: there is no verification to wait for."""
