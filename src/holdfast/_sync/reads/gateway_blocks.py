# WARNING: this file is generated from src/holdfast/_async/reads/gateway_blocks.py
# by scripts/generate_sync.py. Change the original instead.
"""Gateways as a source of blocks, for reading directories block by block."""

from functools import partial

from holdfast._sync.reads.output import Output
from holdfast._sync.reads.peer import Peer
from holdfast._sync.reads.refusals import RefusedError
from holdfast._sync.reads.rounds import Rounds
from holdfast._sync.reads.state import ReadState
from holdfast._sync.session import Session
from holdfast.calls import Call, Deadline
from holdfast.content.blocks import check_provable
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import UnprovenError
from holdfast.files.sinks import MemorySink
from holdfast.protocol.gateway import Gateway, Gateways


class GatewayBlocks:
    """Fetches verified blocks, each from the first gateway that has it."""

    def __init__(
        self, session: Session, gateways: Gateways, reference: Reference, call: Call
    ) -> None:
        self._session = session
        self._gateways = gateways
        self._reference = reference
        self._call = call
        self._last: Gateway | None = None  # the gateway that sent the last block

    def get(self, cid: CID) -> bytes:
        """Return the block of `cid`, or raise the most serious failure of the gateways."""
        check_provable(cid)
        state = ReadState(self._reference, Output(MemorySink()), self._call)
        fetched: list[bytes] = []
        attempt = partial(self._fetch, cid, state, fetched)
        rounds = Rounds(self._session, self._gateways, state, attempt)
        rounds.gateways.sort(key=lambda each: each != self._last)
        if not rounds.ask(rounds.gateways):
            rounds.ask_again()
        return fetched[0]

    def _fetch(
        self,
        cid: CID,
        state: ReadState,
        fetched: list[bytes],
        gateway: Gateway,
        deadline: Deadline,
        *,
        is_last: bool,  # noqa: ARG002 - no verified bytes are given up here
    ) -> None:
        self._last = None  # a gateway that fails is not asked first any more
        peer = Peer(self._session, gateway, state, deadline, verify=True)
        try:
            fetched.append(peer.blocks.get(cid))
        except RefusedError as refusal:
            raise refusal.reason or self._without_blocks(gateway) from None
        self._last = gateway

    def _without_blocks(self, gateway: Gateway) -> UnprovenError:
        reference = str(self._reference)
        return UnprovenError(
            f"{reference} cannot be listed: {gateway.base_url} does not give blocks; "
            "add a gateway that does",
            cid=reference,
        )
