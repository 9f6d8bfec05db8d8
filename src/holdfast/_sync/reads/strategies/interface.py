# WARNING: this file is generated from src/holdfast/_async/reads/strategies/interface.py
# by scripts/generate_sync.py. Change the original instead.
"""The interface that all strategies share."""

from typing import Protocol

from holdfast._sync.reads.peer import GatewayPeer


class Transfer(Protocol):
    """Content that a gateway has begun to send. Its beginning is verified if that is possible."""

    def finish(self) -> None:
        """Verify all of it, write it to the output, and close it."""

    def close(self) -> None:
        """Close it unfinished."""


class Strategy(Protocol):
    """A way to ask a gateway for content and to verify it.

    It raises `UnprovenError` if another strategy may work with the same gateway.
    """

    def may_work(self, peer: GatewayPeer) -> bool:
        """Return whether the strategy is worth a try."""

    def begin(self, peer: GatewayPeer) -> Transfer:
        """Send the request, and verify the beginning of the reply."""
