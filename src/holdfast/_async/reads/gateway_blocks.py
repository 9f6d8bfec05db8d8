"""The verified blocks of directories, and of the roots of files, from HTTP gateways."""

from functools import partial

from holdfast._async.reads.blocks import AsyncFetchedBlocks
from holdfast._async.reads.peer import AsyncGatewayPeer, RefusedError
from holdfast._async.reads.rounds import AsyncRounds
from holdfast._async.reads.state import Output, ReadState
from holdfast._async.session import AsyncSession
from holdfast.calls import Call, Deadline
from holdfast.content.blocks import check_provable
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import NotFoundError, ProviderError, UnprovenError
from holdfast.files.block_cache import DiskBlockCache
from holdfast.files.sinks import MemorySink
from holdfast.protocol.gateway import Gateway, Gateways


class AsyncGatewayBlocks(AsyncFetchedBlocks):
    """Fetches the verified blocks of a directory, each from the first gateway that gives it."""

    is_verified = True

    def __init__(
        self,
        session: AsyncSession,
        gateways: Gateways,
        reference: Reference,
        call: Call,
        cache: DiskBlockCache | None = None,
    ) -> None:
        self._session = session
        self._gateways = gateways
        self._reference = reference
        self._call = call
        self._cache = cache
        self._last: Gateway | None = None  # the gateway that gave the last block

    def continue_in(self, call: Call) -> None:
        """Make the next requests within `call`."""
        self._call = call

    async def get(self, cid: CID, /) -> bytes:
        """Return the block of `cid`, or raise the gravest failure of the gateways."""
        check_provable(cid)
        state = ReadState(self._reference, Output(MemorySink()), self._call, cache=self._cache)
        fetched: list[bytes] = []
        attempt = partial(self._ask, cid, state, fetched)
        rounds = AsyncRounds(self._session, self._gateways, state, attempt)
        rounds.gateways.sort(key=lambda each: each != self._last)
        if not await rounds.ask(rounds.gateways):
            await rounds.ask_again()
        return fetched[0]

    async def _ask(
        self,
        cid: CID,
        state: ReadState,
        fetched: list[bytes],
        gateway: Gateway,
        deadline: Deadline,
        *,
        is_last: bool,  # noqa: ARG002 - no verified bytes are given up here
    ) -> None:
        self._last = None  # one that fails has no precedence any more
        peer = AsyncGatewayPeer(self._session, gateway, state, deadline, verify=True)
        try:
            fetched.append(await peer.block(cid))
        except RefusedError as refusal:
            raise self._without_blocks(gateway, refusal) from None
        self._last = gateway

    def _without_blocks(
        self, gateway: Gateway, refusal: RefusedError
    ) -> UnprovenError | ProviderError:
        """Return the gateway's own error, or ours if it has sent something else than the block."""
        reason, reference = refusal.reason, str(self._reference)
        if reason is None:
            return UnprovenError(
                f"{reference} cannot be listed: {gateway.base_url} does not give blocks; "
                "add a gateway that does",
                cid=reference,
            )
        if not isinstance(reason, NotFoundError):
            reason.add_note(
                f"{gateway.base_url} does not give the blocks of {reference}, without which "
                "directories cannot be looked into; add a gateway that does"
            )
        return reason
