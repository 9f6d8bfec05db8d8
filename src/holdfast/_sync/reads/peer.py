# WARNING: this file is generated from src/holdfast/_async/reads/peer.py
# by scripts/generate_sync.py. Change the original instead.
"""One gateway during one attempt: its requests, its blocks, its refusals and its budgets."""

from holdfast._sync.reads.blocks import Blocks
from holdfast._sync.reads.body_budget import BodyBudget
from holdfast._sync.reads.refusals import Refusals
from holdfast._sync.reads.requests import Requests, Sent
from holdfast._sync.reads.state import ReadState
from holdfast._sync.session import Session
from holdfast.calls import Deadline
from holdfast.protocol.gateway import Gateway


class Peer:
    """What a strategy works with.

    Attributes:
        gateway: The gateway.
        state: What to read, and what is known of it.
        verify: Whether the content must be verified.
        may_restart: Whether verified bytes may be given up for a strategy that begins again.
        is_racing: Whether other gateways are asked at the same time, so that a body that can only
            be verified at its end is of no use.
        was_imported: Whether its body was already imported again, without its blocks.
        requests: Sends requests.
        blocks: Fetches blocks.
        refusals: What it has refused.
    """

    def __init__(
        self,
        session: Session,
        gateway: Gateway,
        state: ReadState,
        deadline: Deadline,
        *,
        verify: bool,
        may_restart: bool = False,
        is_racing: bool = False,
        sent: Sent | None = None,
    ) -> None:
        self._deadline = deadline
        self._patience = session.timeouts.read
        self.gateway = gateway
        self.state = state
        self.verify = verify
        self.may_restart = may_restart
        self.is_racing = is_racing
        self.was_imported = False
        self.refusals = Refusals(gateway, state.reference, session.trustless)
        self.requests = Requests(session, gateway, state, deadline, self.refusals, sent=sent)
        self.blocks = Blocks(gateway, self.requests, self.refusals, state)

    def new_budget(self) -> BodyBudget:
        """Return the budget for one body."""
        return BodyBudget(self.gateway.peer, self.state.reference, self._deadline, self._patience)
