# WARNING: this file is generated from src/holdfast/_async/reads/peer.py
# by scripts/generate_sync.py. Change the original instead.
"""One gateway, asked on behalf of one reading: its redirects, its blocks, and its refusals."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from holdfast._sync.reads.state import ReadState
from holdfast._sync.runtime import now, run_blocking, together
from holdfast._sync.session import Session, read_content, read_whole
from holdfast.calls import Deadline
from holdfast.content.blocks import MAX_BLOCK, check_block
from holdfast.content.cid import CID
from holdfast.content.proof import Proof
from holdfast.content.unixfs.archive import CutOffError
from holdfast.content.unixfs.body import BodyProof
from holdfast.errors import (
    NetworkError,
    NotFoundError,
    ProviderError,
    RequestTimeoutError,
    UnprovenError,
    VerificationError,
)
from holdfast.protocol.gateway import (
    FORMAT_REFUSALS,
    INTO_PRIVATE,
    MAX_REDIRECTS,
    PARTIAL,
    RAW_TYPE,
    REDIRECTS,
    TRUSTLESS_FOR,
    Gateway,
    too_many_redirects,
)
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.retrying import is_transient
from holdfast.protocol.transport_errors import READ_TIMEOUT, PrivateAddressError

if TYPE_CHECKING:
    from holdfast._sync.transport import Response

BLOCKS_AT_ONCE = 8  # that are fetched from one gateway at the same time


class RefusedError(UnprovenError):
    """A gateway does not give what a way of proving needs; another way may do.

    Attributes:
        reason: What it said instead.
    """

    def __init__(
        self, message: str, *, cid: str | None = None, reason: ProviderError | None = None
    ) -> None:
        super().__init__(message, cid=cid)
        self.reason = reason


class Peer:
    """A gateway, and for what, and until when, it is asked.

    Attributes:
        plain_refusal: What it said to a request for plain content, if it gives none.
    """

    def __init__(
        self, session: Session, gateway: Gateway, reading: ReadState, deadline: Deadline
    ) -> None:
        self._session = session
        self._deadline = deadline
        self.gateway = gateway
        self.reading = reading
        self.plain_refusal: ProviderError | None = None

    @property
    def is_trustless(self) -> bool:
        """Whether the gateway gives blocks and archives only, as far as is known."""
        until = self._session.trustless.get(self.gateway.base_url, 0.0)
        return self.plain_refusal is not None or until > now()

    def confirm_trustless(self) -> None:
        """Remember for a while that the gateway gives blocks or archives and no plain content."""
        if self.plain_refusal is not None:
            self._session.trustless[self.gateway.base_url] = now() + TRUSTLESS_FOR

    def check_time(self) -> None:
        """Raise an error if the time for the call is over."""
        left = self._deadline.left()
        if left is not None and left <= 0:
            raise READ_TIMEOUT.error(self.gateway.peer, sent=True)

    def check_progress(self, since: float) -> None:
        """Raise an error if nothing that is wanted has come `since` then, for `timeouts.read`."""
        patience = self._session.timeouts.read
        if patience is not None and now() - since > patience:
            words = f"{self.gateway.peer} sent nothing that {self.reading.reference} needs in time"
            raise RequestTimeoutError(words, sent=True)

    def block(self, cid: CID, ahead: Sequence[CID] = ()) -> bytes:
        """Return one verified block; raise `RefusedError` where the gateway does not give blocks.

        If it must be fetched, the blocks of `ahead` are fetched at the same time and kept for
        later; what fails of these is left out.
        """
        known = self.reading.blocks
        block = known.get(cid)
        if block is not None:
            return block
        wanted = dict.fromkeys([cid, *(each for each in ahead if known.get(each) is None)])
        outcomes = together([partial(self._fetch, each) for each in wanted])
        for each, outcome in zip(wanted, outcomes, strict=True):
            if not isinstance(outcome, Exception):
                known.put(each, outcome)
        if isinstance(outcomes[0], Exception):
            raise outcomes[0]
        return outcomes[0]

    def needed_block(self, proof: Proof, need: CID) -> bytes:
        """Return the block that `proof` needs; fetch those with it that it will need next."""
        if not isinstance(proof, BodyProof):
            return self.block(need)
        try:
            return self.block(need, proof.needed_next(BLOCKS_AT_ONCE - 1))
        except RefusedError:
            if proof.doubts_bytes:
                raise proof.wrong_bytes() from None
            raise

    def explain_end(self, proof: Proof, response: "Response | None") -> None:
        """Feed `proof` the blocks that tell why a body ended too early.

        A node that declares other sizes than its children have raises `MalformedError` here.
        """
        if not isinstance(proof, BodyProof) or response is None or response.status == PARTIAL:
            return  # it did not claim that this was all
        while proof.ends_too_early() and (need := proof.need) is not None:
            try:
                block = self.block(need)
            except RefusedError:
                return
            run_blocking(proof.feed_block, block)

    def _fetch(self, cid: CID) -> bytes:
        """Fetch one block and verify it."""
        response = self.open_or_refuse(self.gateway.block(cid))
        try:
            reply = read_content(response, MAX_BLOCK + 1)
        finally:
            response.close()
        try:
            check_block(cid, reply.body)
        except VerificationError:
            # One that does not know the format sends the plain content: that is no lie.
            self.check_type(reply, RAW_TYPE)
            raise
        return reply.body

    def check_type(self, reply: Reply, wanted: str) -> None:
        """Raise a refusal unless `reply` is of the type that was asked for."""
        if reply.media_type != wanted:
            raise self.refusal() from None

    def open_plain(self, request: Request) -> "Response":
        """Return the reply to a `request` for plain content.

        Raise a refusal where the gateway gives blocks and archives only. Whether it does is known
        when one of them has come: until then its words may mean something else.
        """
        if self.is_trustless:
            raise self.refusal(self.plain_refusal)
        try:
            return self.open(request)
        except ProviderError as error:
            if error.status not in FORMAT_REFUSALS:
                raise
            self.plain_refusal = error.with_traceback(None)
        raise self.refusal(self.plain_refusal)

    def open_or_refuse(self, request: Request) -> "Response":
        """Return the reply to `request`; raise a refusal where the gateway will not give one."""
        try:
            return self.open(request)
        except ProviderError as error:
            if is_transient(error):
                raise
            refusal = self.refusal(error.with_traceback(None))
        raise refusal

    def open(self, request: Request) -> "Response":
        """Return the reply to `request`, redirects followed, its body still to come."""
        source, reply = request, Reply(200, {})
        for _ in range(MAX_REDIRECTS + 1):
            deadline = self._deadline.copy()
            try:
                response = self._session.send(request, self.reading.call, deadline=deadline)
            except PrivateAddressError:
                raise self.gateway.not_followed(source, reply, INTO_PRIVATE) from None
            try:
                source, reply = request, Reply(response.status, response.headers)
                if reply.status not in REDIRECTS:
                    if not reply.ok:
                        deadline.tighten(self._session.timeouts.read)
                        reply = self._with_words(response)
                    self.gateway.check(reply)
                    return response
                request = self.gateway.redirected(
                    request, reply, self.reading.reference, response.address
                )
            except BaseException:
                response.close()
                raise
            response.close()
        raise too_many_redirects(request)

    def _with_words(self, response: "Response") -> Reply:
        """Return an error with its words; without them where they do not come in time."""
        try:
            return read_whole(response)
        except NetworkError:
            return Reply(response.status, response.headers)

    def refusal(self, reason: ProviderError | None = None) -> RefusedError:
        """Return the error for a gateway that does not give what a strategy needs."""
        reference = str(self.reading.reference)
        return RefusedError(
            f"{reference} cannot be proven: {self.gateway.base_url} gives neither its blocks nor "
            "an archive of them; add a gateway that does, or say verify=False to take its word",
            cid=reference,
            reason=reason,
        )

    def as_refusal(self, error: UnprovenError) -> UnprovenError:
        """Return a refusal where a gateway without plain content lacks what is asked for."""
        if isinstance(error, CutOffError) and self.is_trustless:
            words = f"{self.gateway.peer} does not have all of {self.reading.reference}"
            return self.refusal(NotFoundError(words))
        return error

    def tells_less(self, obstacle: UnprovenError, other: UnprovenError) -> bool:
        """Whether the user learns less from `obstacle` than from `other`, which came later."""
        if not isinstance(obstacle, RefusedError) or not isinstance(other, RefusedError):
            return isinstance(obstacle, RefusedError)
        # Of a gateway without plain content, "not found" tells more than "not in this format".
        reason = obstacle.reason
        return not self.is_trustless or reason is None or reason.status in FORMAT_REFUSALS

    def told(self, obstacle: UnprovenError) -> UnprovenError | ProviderError:
        """Return what the user hears of `obstacle`.

        A gateway that gives no plain content either is in the end asked for nothing that it has:
        what it said is the error, its last words before its first ones.
        """
        if not isinstance(obstacle, RefusedError):
            return obstacle
        reason = obstacle.reason
        if self.is_trustless and reason is not None:
            if reason.status not in FORMAT_REFUSALS:
                return reason
            if self.plain_refusal is not None:
                return self.plain_refusal
        error = UnprovenError(obstacle.message, cid=obstacle.cid)
        if reason is not None:
            error.add_note(f"{self.gateway.base_url}: {reason.name}: {reason.message}")
        return error
