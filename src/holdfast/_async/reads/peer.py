"""The peer that sends a body, during one attempt: the blocks beside the body, and its limits.

Each block is verified when it comes, and kept for the rest of the read. A gateway is a peer to
which requests are sent. Redirects are followed, and refusals are told from failures.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from holdfast._async.reads.body_budget import BodyBudget
from holdfast._async.reads.refusals import Refusals, RefusedError
from holdfast._async.reads.state import ReadState
from holdfast._async.runtime import run_blocking, together
from holdfast._async.session import AsyncSession, read_whole
from holdfast.calls import Deadline
from holdfast.content.blocks import MAX_BLOCK, check_block
from holdfast.content.budgets import BLOCKS_AT_ONCE
from holdfast.content.cid import CID
from holdfast.content.codecs import require_codec
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.walks import PathWalk
from holdfast.errors import ClientError, NetworkError, ProviderError, VerificationError
from holdfast.protocol import gateway as gateways
from holdfast.protocol.gateway import Gateway
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.retrying import is_transient
from holdfast.protocol.transport_errors import PrivateAddressError

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse


class AsyncSent(NamedTuple):
    """A request for plain content that was sent, and its reply, whose body is still to come."""

    response: "AsyncResponse"
    deadline: Deadline


class AsyncBegun:
    """What the first request of a read has begun, where it did not complete the read.

    Attributes:
        gateway: The gateway that it was sent to.
        deadline: When the attempt at this gateway must have ended.
    """

    def __init__(
        self, gateway: Gateway, deadline: Deadline, outcome: AsyncSent | ClientError
    ) -> None:
        self.gateway = gateway
        self.deadline = deadline
        self._outcome: AsyncSent | ClientError | None = outcome

    def take(self) -> AsyncSent | None:
        """Return the unread reply, or raise the error; the next time, return None."""
        outcome, self._outcome = self._outcome, None
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome


class AsyncPeer:
    """Everything that the stream of a body needs besides the body.

    Args:
        deadline: When the attempt must have ended.
        fetch: Returns one verified block.
        patience: How many seconds the body may bring nothing that is needed.

    Attributes:
        host: The host of the peer.
        state: What to read, and what is known of it.
        is_racing: Whether other peers are asked at the same time, so that a body that can only be
            verified at its end cannot win.
        was_imported: Whether its body was already imported again, without its blocks.
        verify: Whether the content must be verified.
    """

    verify: bool = True

    def __init__(
        self,
        host: str,
        state: ReadState,
        deadline: Deadline,
        fetch: Callable[[CID], Awaitable[bytes]],
        *,
        patience: float | None = None,
        is_racing: bool = False,
    ) -> None:
        self.host = host
        self.state = state
        self.is_racing = is_racing
        self.was_imported = False
        self._deadline = deadline
        self._fetch = fetch
        self._patience = patience

    def new_budget(self) -> BodyBudget:
        """Return the budget for one body."""
        return BodyBudget(self.host, self.state.reference, self._deadline, self._patience)

    def refusal(self) -> RefusedError:
        """Return the error for a peer that does not serve what a body needs."""
        about = str(self.state.reference)
        return RefusedError(f"{about} cannot be verified: {self.host} lacks blocks", cid=about)

    async def block(self, cid: CID, ahead: Sequence[CID] = ()) -> bytes:
        """Return one verified block; raise RefusedError where the gateway does not give blocks.

        If it must be fetched, the blocks of `ahead` are fetched at the same time and kept for
        later. Those of them that fail are left out.
        """
        known = self.state.found.blocks
        block = known.get(cid)
        if block is not None:
            return block
        wanted = dict.fromkeys([cid, *(each for each in ahead if known.get(each) is None)])
        outcomes = await together([partial(self._find, each) for each in wanted])
        for each, outcome in zip(wanted, outcomes, strict=True):
            if not isinstance(outcome, Exception):
                known.put(each, outcome)
        if isinstance(outcomes[0], Exception):
            raise outcomes[0]
        return outcomes[0]

    async def block_for_body(self, proof: BodyProof, need: CID) -> bytes:
        """Return the block `need` of `proof`, and fetch those that it will need next."""
        try:
            return await self.block(need, proof.needed_next(BLOCKS_AT_ONCE - 1))
        except RefusedError:
            if (doubt := proof.doubt) is not None:
                raise doubt from None
            raise

    async def target(self) -> CID:
        """Return the CID that the reference leads to, found through verified directories."""
        found, reference = self.state.found, self.state.reference
        if found.cid is None:
            walk = PathWalk(reference.cid, reference.path)
            while (need := walk.need) is not None:
                walk.feed(await self.block(need))
            found.cid = walk.end()
            require_codec(found.cid)
        return found.cid

    async def _find(self, cid: CID) -> bytes:
        """Return one verified block, from the cache on disk if it is there."""
        cache = self.state.cache
        if cache is None:
            return await self._fetch(cid)
        block = await run_blocking(cache.get, cid)
        if block is None:
            block = await self._fetch(cid)
            await run_blocking(cache.put, cid, block)
        return block


class AsyncGatewayPeer(AsyncPeer):
    """Everything that a strategy needs to read from one gateway.

    Args:
        session: What sends the requests.
        deadline: When the attempt must have ended.
        sent: The first request for plain content, where it is sent already.

    Attributes:
        gateway: The gateway.
        may_restart: Whether a strategy may drop verified bytes and begin again.
        refusals: Collects the refusals of the gateway.
    """

    def __init__(
        self,
        session: AsyncSession,
        gateway: Gateway,
        state: ReadState,
        deadline: Deadline,
        *,
        verify: bool,
        may_restart: bool = False,
        is_racing: bool = False,
        sent: AsyncSent | None = None,
    ) -> None:
        patience = session.timeouts.read
        super().__init__(
            gateway.peer, state, deadline, self._request, patience=patience, is_racing=is_racing
        )
        self._session = session
        self._sent = sent
        self.gateway = gateway
        self.verify = verify
        self.may_restart = may_restart
        self.refusals = Refusals(gateway, state.reference, session.trustless)

    def refusal(self) -> RefusedError:
        """Return the error for a gateway that does not serve what a strategy needs."""
        return self.refusals.error()

    async def aclose(self) -> None:
        """Close the reply that was handed over, if nothing has asked for it."""
        sent, self._sent = self._sent, None
        if sent is not None:
            await sent.response.aclose()

    async def open_plain(self, start: int = 0, stop: int | None = None) -> "AsyncResponse":
        """Ask for the plain content, or a part of it; return the reply, and note its media type.

        Raise RefusedError where the gateway gives blocks and archives only. Whether it does is
        known when one of them has come: until then its error may mean something else.
        """
        if self.refusals.is_trustless:
            raise self.refusals.error(self.refusals.plain)
        sent, self._sent = self._sent, None
        request = self.gateway.content(self.state.reference, start, stop)
        try:
            response = await self._follow(request, sent)
        except ProviderError as error:
            if error.status not in gateways.FORMAT_REFUSALS:
                raise
            self.refusals.plain = error.with_traceback(None)
        else:
            self.state.found.media_type = response.headers.get("content-type", "")
            return response
        raise self.refusals.error(self.refusals.plain)

    async def open_or_refuse(self, request: Request) -> "AsyncResponse":
        """Return the reply to `request`; raise RefusedError where the gateway gives none."""
        if self.gateway.link is not None:
            raise self.refusals.error()
        try:
            return await self._follow(request)
        except ProviderError as error:
            if is_transient(error):
                raise
            refusal = self.refusals.error(error.with_traceback(None))
        raise refusal

    async def _follow(self, request: Request, sent: AsyncSent | None = None) -> "AsyncResponse":
        """Return the successful reply to `request`, redirects followed, its body still to come."""
        source, reply = request, Reply(200, {})
        for _ in range(gateways.MAX_REDIRECTS + 1):
            if sent is None:
                deadline = self._deadline.copy()
                try:
                    response = await self._session.send(request, self.state.call, deadline=deadline)
                except PrivateAddressError:
                    raise self.gateway.not_followed(source, reply, gateways.INTO_PRIVATE) from None
            else:
                response, deadline = sent
                sent = None
            try:
                source, reply = request, Reply(response.status, response.headers)
                if reply.status not in gateways.REDIRECTS:
                    if not reply.ok:
                        deadline.tighten(self._session.timeouts.read)
                        reply = await _with_message(response)
                    self.gateway.check(reply)
                    return response
                request = self.gateway.redirected(
                    request, reply, self.state.reference, response.address
                )
            except BaseException:
                await response.aclose()
                raise
            await response.aclose()
        raise gateways.too_many_redirects(request)

    async def _request(self, cid: CID) -> bytes:
        """Fetch one block and verify it."""
        response = await self.open_or_refuse(self.gateway.block(cid))
        try:
            # No variable for the bytes: a traceback may show it, and a gateway may echo its token.
            reply = Reply(response.status, response.headers, await response.read(MAX_BLOCK + 1))
        finally:
            await response.aclose()
        try:
            check_block(cid, reply.body)
        except VerificationError:
            # A gateway that does not know the format sends the plain content instead.
            self.refusals.check_type(reply, gateways.RAW_TYPE)
            raise
        return reply.body


async def _with_message(response: "AsyncResponse") -> Reply:
    """Return a failed reply with its body; without it where it does not come in time."""
    try:
        return await read_whole(response)
    except NetworkError:
        return Reply(response.status, response.headers)
