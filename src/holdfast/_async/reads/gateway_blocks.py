"""Gateways as a source of blocks, for reading directories block by block."""

from functools import partial

from holdfast._async.reads.output import Output
from holdfast._async.reads.peer import AsyncPeer
from holdfast._async.reads.refusals import RefusedError
from holdfast._async.reads.rounds import AsyncRounds
from holdfast._async.reads.state import ReadState
from holdfast._async.session import AsyncSession
from holdfast.calls import Call, Deadline
from holdfast.content.blocks import check_provable
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import UnprovenError
from holdfast.files.sinks import MemorySink
from holdfast.protocol.gateway import Gateway, Gateways


class AsyncGatewayBlocks:
    """Fetches verified blocks, each from the first gateway that has it."""

    def __init__(
        self, session: AsyncSession, gateways: Gateways, reference: Reference, call: Call
    ) -> None:
        self._session = session
        self._gateways = gateways
        self._reference = reference
        self._call = call
        self._last: Gateway | None = None  # the gateway that sent the last block

    async def get(self, cid: CID) -> bytes:
        """Return the block of `cid`, or raise the most serious failure of the gateways."""
        check_provable(cid)
        state = ReadState(self._reference, Output(MemorySink()), self._call)
        fetched: list[bytes] = []
        attempt = partial(self._fetch, cid, state, fetched)
        rounds = AsyncRounds(self._session, self._gateways, state, attempt)
        rounds.gateways.sort(key=lambda each: each != self._last)
        if not await rounds.ask(rounds.gateways):
            await rounds.ask_again()
        return fetched[0]

    async def _fetch(
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
        peer = AsyncPeer(self._session, gateway, state, deadline, verify=True)
        try:
            fetched.append(await peer.blocks.get(cid))
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
