# WARNING: this file is generated from src/holdfast/_async/reads/state.py
# by scripts/generate_sync.py. Change the original instead.
"""The state of one read, and the peer of one attempt.

The state lasts for the whole read: what is wanted, what is known, how much of it is verified. A
peer is asked during one attempt, for a body and for the blocks beside it. Each block is verified
when it comes, and kept for the rest of the read. A gateway is a peer to which requests are sent.
Redirects are followed, and refusals are told from failures.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from holdfast import errors
from holdfast._sync.runtime import at_end, now, run_blocking, together
from holdfast._sync.session import Session, read_whole
from holdfast.calls import Call, Deadline
from holdfast.config.client_config import MAX_UNVERIFIED_BYTES
from holdfast.content.blocks import MAX_BLOCK, BlockCache, Emit, check_block
from holdfast.content.budgets import BLOCKS_AT_ONCE, MAX_CACHED, SizeLimit, unverified_limit
from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block, require_codec
from holdfast.content.proof import joined
from holdfast.content.reference import Reference
from holdfast.content.unixfs.archive import CutOffError
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.walks import PathWalk
from holdfast.disk.block_cache import DiskBlockCache
from holdfast.errors import ProviderError, UnprovenError
from holdfast.protocol import gateway as gateways
from holdfast.protocol.gateway import FORMAT_REFUSALS, TRUSTLESS_FOR, Gateway
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.retrying import is_transient
from holdfast.protocol.transport_errors import READ_TIMEOUT, PrivateAddressError
from holdfast.single_line import short
from holdfast.sinks.sinks import Sink
from holdfast.sources.sources import Progress

if TYPE_CHECKING:
    from holdfast._sync.transport import Response

S = TypeVar("S", bound=Sink)


@dataclass
class Output:
    """A sink, and how far it is filled.

    Attributes:
        sink: Where the bytes go.
        progress: The user's callback, if there is one.
        written: How many bytes are in the sink, verified or not yet verified.
        furthest: The largest number of bytes that were ever verified. Only more is progress.
        failure: The error of the sink. Nothing is written after it: bytes may be missing.
    """

    sink: Sink
    progress: Progress | None = None
    written: int = 0
    furthest: int = 0
    failure: OSError | None = None
    _reported: int = -1

    def take(self, pieces: Sequence[Any], *, verified: bool) -> None:
        """Write `pieces`. If `verified`, all bytes in the sink are verified then."""
        if self.failure is not None:
            raise self.failure
        try:
            for piece in joined(pieces):
                self.sink.write(piece)
                self.written += len(piece)
        except OSError as error:
            self.failure = error
            raise
        if verified:
            self.confirm()

    def confirm(self) -> None:
        """Mark all bytes in the sink as verified."""
        self.sink.verified = self.written
        self.furthest = max(self.furthest, self.written)

    def restart(self, size: int = 0) -> None:
        """Remove all but the first `size` bytes, which are verified."""
        if self.failure is not None:
            raise self.failure
        self.sink.truncate(size)
        self.written = size
        self.confirm()

    def report(self, total: int | None) -> None:
        """Call the progress callback if bytes were written since its last call."""
        if self.progress is not None and self.written != self._reported:
            self._reported = self.written
            self.progress(self.written, total)


@dataclass
class KnownFile:
    """The facts about a file that a read has learned so far.

    Attributes:
        cid: The CID that the reference leads to, once it is verified.
        size: The bytes of the whole file, once they are verified.
        media_type: The media type that a gateway reports. It cannot be verified.
        blocks: Verified blocks that were fetched besides the body.
    """

    cid: CID | None = None
    size: int | None = None
    media_type: str = ""
    blocks: BlockCache = field(default_factory=lambda: BlockCache(MAX_CACHED))


@dataclass
class ReadState:
    """A file, or a part of one, that is read into an output.

    It lasts for the whole read. Each attempt continues where the one before it ended.

    Attributes:
        reference: What to read.
        output: Where the bytes go, and how many of them are verified.
        call: The operation of the client that the read belongs to.
        start: Where in the file to begin.
        stop: Where in the file to end; None is its end.
        max_unverified: The largest size of a body that is verified only at its end, if no verified
            block contains the size.
        cache: Keeps blocks on disk, if the configuration says so.
        file: The facts about the file that the read has learned so far.
    """

    reference: Reference
    output: Output
    call: Call
    start: int = 0
    stop: int | None = None
    max_unverified: int = MAX_UNVERIFIED_BYTES
    cache: DiskBlockCache | None = None
    file: KnownFile = field(default_factory=KnownFile)

    def __post_init__(self) -> None:
        self.file.cid = self.file.cid or self.reference.target

    @property
    def position(self) -> int:
        """The position in the file of the next byte to read."""
        return self.start + self.output.written

    @property
    def is_cached_part(self) -> bool:
        """Whether a part of a file is wanted, whose blocks are to be kept on disk."""
        return self.cache is not None and self.stop is not None

    @property
    def is_block(self) -> bool:
        """Whether the file is known to be one raw block."""
        return self.file.cid is not None and is_one_block(self.file.cid)

    @property
    def is_whole_tree(self) -> bool:
        """Whether a whole file is wanted that is known to be a tree of blocks."""
        is_whole = self.start == 0 and self.stop is None
        return is_whole and self.file.cid is not None and not is_one_block(self.file.cid)

    def learn_size(self, size: int | None) -> None:
        """Set the verified size of the whole file; raise an error if the sink cannot take it."""
        if size is not None and size != self.file.size:
            self.file.size = size
            self.output.sink.expect(size)

    def unverified_limit(self) -> SizeLimit:
        """Return the largest size of a body that is verified only at its end."""
        file = self.file
        return unverified_limit(self.reference, file.cid, file.size, self.max_unverified)

    def fork(self) -> "ReadState":
        """Return a state for one gateway in a race.

        It has its own `file`. The output is shared: only the winner may write to it.
        """
        return replace(self, file=replace(self.file, blocks=self.file.blocks.copy()))

    def adopt(self, fork: "ReadState") -> None:
        """Use the `file` of the winner of a race; the two states share it from now on."""
        blocks = self.file.blocks
        blocks.put_all(fork.file.blocks)
        fork.file.blocks = blocks
        self.file = fork.file


@dataclass(eq=False, repr=False)
class BodyBudget:
    """Counts what a gateway sends, and raises an error if it is too much or too late.

    Attributes:
        peer: The host of the gateway.
        reference: The file that is read.
        deadline: When the attempt must have ended.
        patience: How many seconds the body may bring nothing that is needed.
        limit: The largest size of a body that is verified only at its end.
        received: How many bytes were received.
    """

    peer: str
    reference: Reference
    deadline: Deadline
    patience: float | None
    limit: SizeLimit | None = None
    received: int = 0
    _progress: int = -1
    _progress_at: float = field(default_factory=now)

    def set_limit(self, limit: SizeLimit, length: int | None) -> None:
        """Limit the body; raise the error at once if the declared `length` is beyond the limit."""
        self.limit = limit
        limit.check(length or 0)
        limit.check(self.received)

    def receive(self, count: int) -> None:
        """Count the next bytes of the body."""
        self.check_time()
        self.received += count
        if self.limit is not None:
            self.limit.check(self.received)

    def check_time(self) -> None:
        """Raise an error if the time for the attempt is over."""
        check_time(self.deadline, self.peer)

    def note_progress(self, progress: int | None) -> None:
        """Note the progress: a number that grows with each needed byte, or None."""
        if progress is not None and progress > self._progress:
            self._progress = progress
            self.restart_clock()

    def restart_clock(self) -> None:
        """Count the time without progress from now on."""
        self._progress_at = now()

    def check_progress(self) -> None:
        """Raise an error if no needed bytes were received for `timeouts.read`."""
        if self.patience is not None and now() - self._progress_at > self.patience:
            words = f"{self.peer} sent nothing that {short(self.reference)} needs in time"
            raise errors.RequestTimeoutError(words, sent=True)


def check_time(deadline: Deadline, peer: str) -> None:
    """Raise the error of a peer that did not answer in time, if `deadline` has passed."""
    if deadline.has_passed:
        raise READ_TIMEOUT.error(peer, sent=True)


class RefusedError(UnprovenError):
    """A gateway does not serve what one strategy needs; another strategy may work.

    Attributes:
        reason: The gateway's own error, if it sent one.
    """

    def __init__(
        self, message: str, *, cid: str | None = None, reason: ProviderError | None = None
    ) -> None:
        super().__init__(message, cid=cid)
        self.reason = reason


class Sent(NamedTuple):
    """A request for plain content that was sent, and its reply, whose body is still to come."""

    response: "Response"
    deadline: Deadline


@dataclass(eq=False, repr=False)
class Begun:
    """What the first request of a read has begun, where it did not complete the read.

    Attributes:
        gateway: The gateway that it was sent to.
        deadline: When the attempt at this gateway must have ended.
    """

    gateway: Gateway
    deadline: Deadline
    _outcome: Sent | errors.ClientError | None

    def take(self) -> Sent | None:
        """Return the unread reply, or raise the error; the next time, return None."""
        outcome, self._outcome = self._outcome, None
        if isinstance(outcome, errors.ClientError):
            raise outcome
        return outcome


def fetch_together(
    get: Callable[[CID], bytes], need: CID, ahead: Iterable[CID], keep: Emit
) -> bytes:
    """Return the block of `need`; fetch those of `ahead` at the same time, and `keep` all.

    Those of `ahead` that fail are left out: they are fetched again when they are needed.
    """
    cids = list(dict.fromkeys([need, *ahead]))
    outcomes = together([partial(get, cid) for cid in cids])
    for cid, outcome in zip(cids, outcomes, strict=True):
        if not isinstance(outcome, Exception):
            keep(cid, outcome)
    if isinstance(outcomes[0], Exception):
        raise outcomes[0]
    return outcomes[0]


@dataclass(eq=False, repr=False)
class Peer(ABC):
    """Everything that the stream of a body needs besides the body.

    Attributes:
        host: The host of the peer.
        state: What to read, and what is known of it.
        deadline: When the attempt must have ended.
        patience: How many seconds the body may bring nothing that is needed.
        is_racing: Whether other peers are asked at the same time, so that a body that can only be
            verified at its end cannot win.
        was_imported: Whether its body was already imported again, without its blocks.
        verify: Whether the content must be verified.
    """

    host: str
    state: ReadState
    deadline: Deadline
    patience: float | None = None
    is_racing: bool = False
    verify: bool = True
    was_imported: bool = False

    def new_budget(self) -> BodyBudget:
        """Return the budget for one body."""
        return BodyBudget(self.host, self.state.reference, self.deadline, self.patience)

    def refusal(self) -> RefusedError:
        """Return the error for a peer that does not serve what a body needs."""
        cid = str(self.state.reference)
        return RefusedError(f"{cid} cannot be verified: {self.host} lacks blocks", cid=cid)

    def block(self, cid: CID, ahead: Sequence[CID] = ()) -> bytes:
        """Return one verified block; raise RefusedError where the gateway does not give blocks.

        If it must be fetched, the blocks of `ahead` are fetched at the same time and kept for
        later. Those of them that fail are left out.
        """
        cached = self.state.file.blocks
        block = cached.get(cid)
        if block is not None:
            return block
        missing = (other for other in ahead if cached.get(other) is None)
        return fetch_together(self.find, cid, missing, cached.put)

    def block_for_body(self, proof: BodyProof, need: CID) -> bytes:
        """Return the block `need` of `proof`, and fetch those that it will need next."""
        try:
            return self.block(need, proof.needed_next(BLOCKS_AT_ONCE - 1))
        except RefusedError:
            if (doubt := proof.doubt) is not None:
                raise doubt from None
            raise

    def target(self) -> CID:
        """Return the CID that the reference leads to, found through verified directories."""
        file, reference = self.state.file, self.state.reference
        if file.cid is None:
            walk = PathWalk(reference.cid, reference.path)
            while (need := walk.need) is not None:
                walk.feed(self.block(need))
            file.cid = walk.end()
            require_codec(file.cid)
        return file.cid

    def find(self, cid: CID) -> bytes:
        """Return one verified block, from the cache on disk if it is there."""
        cache = self.state.cache
        if cache is None:
            return self._fetch(cid)
        block = run_blocking(cache.get, cid)
        if block is None:
            block = self._fetch(cid)
            run_blocking(cache.put, cid, block)
        return block

    @abstractmethod
    def _fetch(self, cid: CID) -> bytes:
        """Fetch one block and verify it."""


@dataclass(eq=False, repr=False)
class BlocksPeer(Peer):
    """A peer whose verified blocks `get_block` returns."""

    get_block: Callable[[CID], bytes] = field(kw_only=True)

    def _fetch(self, cid: CID) -> bytes:
        return self.get_block(cid)


class GatewayPeer(Peer):
    """Everything that a strategy needs to read from one gateway.

    Args:
        session: What sends the requests.
        sent: The first request for plain content, where it is sent already.

    Attributes:
        gateway: The gateway.
        may_restart: Whether a strategy may drop verified bytes and begin again.
        plain_refusal: Its error for a request for plain content, if it refused that.
        sent_until: The deadline of the last request, with its reply.
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
        patience = session.config.timeouts.read
        super().__init__(gateway.peer, state, deadline, patience, is_racing, verify)
        self._session = session
        self._sent = sent
        self.gateway = gateway
        self.may_restart = may_restart
        self.plain_refusal: ProviderError | None = None
        self.sent_until: Deadline = deadline
        self._worst: UnprovenError | None = None

    def close(self) -> None:
        """Close the reply that was handed over, if nothing has asked for it."""
        sent, self._sent = self._sent, None
        if sent is not None:
            sent.response.close()

    def open_plain(self, start: int = 0, stop: int | None = None) -> "Response":
        """Ask for the plain content, or a part of it; return the reply, and note its media type.

        Raise RefusedError where the gateway gives blocks and archives only. Whether it does is
        known when one of them has come: until then its error may mean something else.
        """
        if self.is_trustless:
            raise self.refusal(self.plain_refusal)
        sent, self._sent = self._sent, None
        request = self.gateway.content(self.state.reference, start, stop)
        try:
            response = self._follow(request, sent)
        except ProviderError as error:
            if error.status not in gateways.FORMAT_REFUSALS:
                raise
            self.plain_refusal = error.with_traceback(None)
        else:
            self.state.file.media_type = response.headers.get("content-type", "")
            return response
        raise self.refusal(self.plain_refusal)

    def open_or_refuse(self, request: Request) -> "Response":
        """Return the reply to `request`; raise RefusedError where the gateway gives none."""
        if self.gateway.link is not None:
            raise self.refusal()
        try:
            return self._follow(request)
        except ProviderError as error:
            if is_transient(error):
                raise
            refusal = self.refusal(error.with_traceback(None))
        raise refusal

    def _follow(self, request: Request, sent: Sent | None = None) -> "Response":
        """Return the successful reply to `request`, redirects followed, its body still to come."""
        source, reply = request, Reply(200, {})
        for _ in range(gateways.MAX_REDIRECTS + 1):
            if sent is None:
                deadline = self.sent_until = self.deadline.copy()
                try:
                    response = self._session.send(request, self.state.call, deadline=deadline)
                except PrivateAddressError:
                    raise self.gateway.not_followed(source, reply, gateways.INTO_PRIVATE) from None
            else:
                response, deadline = sent
                sent = None
            try:
                source, reply = request, Reply(response.status, response.headers)
                if reply.status not in gateways.REDIRECTS:
                    if not reply.ok:
                        deadline.tighten(self._session.config.timeouts.read)
                        reply = _with_message(response)
                    self.gateway.check(reply)
                    return response
                request = self.gateway.redirected(
                    request, reply, self.state.reference, response.address
                )
            except BaseException:
                response.close()
                raise
            response.close()
        raise ProviderError(f"{request.peer} redirects more than {gateways.MAX_REDIRECTS} times")

    def _fetch(self, cid: CID) -> bytes:
        """Fetch one block and verify it."""
        response = self.open_or_refuse(self.gateway.block(cid))
        with closing(response):
            # No variable for the bytes: a traceback may show it, and a gateway may echo its token.
            reply = Reply(response.status, response.headers, response.read(MAX_BLOCK + 1))
        try:
            check_block(cid, reply.body)
        except errors.VerificationError:
            # A gateway that does not know the format sends the plain content instead.
            self.check_type(reply, gateways.RAW_TYPE)
            raise
        return reply.body

    # What the gateway has refused during this attempt

    @property
    def is_trustless(self) -> bool:
        """Whether the gateway is known to serve blocks and archives only."""
        return (
            self.plain_refusal is not None
            or self._session.trustless.get(self.gateway.base_url, 0.0) > now()
        )

    def confirm_trustless(self) -> None:
        """Remember for a while that the gateway serves blocks or archives and no plain content."""
        if self.plain_refusal is not None:
            self._session.trustless[self.gateway.base_url] = now() + TRUSTLESS_FOR

    def refusal(self, reason: ProviderError | None = None) -> RefusedError:
        """Return the error for a gateway that does not serve what a strategy needs."""
        reference = str(self.state.reference)
        return RefusedError(
            f"{short(reference)} cannot be verified: {self.gateway.base_url} gives neither its "
            "blocks nor an archive of them; add a gateway that does, or trust it with verify=False",
            cid=reference,
            reason=reason,
        )

    def check_type(self, reply: Reply, media_type: str) -> None:
        """Raise RefusedError unless `reply` has the wanted media type."""
        if reply.media_type != media_type:
            raise self.refusal() from None

    def note_refusal(self, error: UnprovenError) -> None:
        """Note why a strategy did not work."""
        latest = error
        if isinstance(error, CutOffError) and self.is_trustless:
            words = f"{self.gateway.peer} does not have all of {self.state.reference}"
            latest = self.refusal(errors.NotFoundError(words))
        if self._worst is None or self._tells_less(self._worst, latest):
            self._worst = latest

    def raise_refusal(self) -> None:
        """Raise the most useful error for the user, after the last strategy."""
        if self._worst is None:  # no strategy could work
            raise UnprovenError(f"{self.host} cannot send the rest of {self.state.reference}")
        raise self.as_told(self._worst)

    def _tells_less(self, first: UnprovenError, later: UnprovenError) -> bool:
        """Return whether the `first` error is less useful to the user than the `later` one."""
        if not isinstance(first, RefusedError) or not isinstance(later, RefusedError):
            return isinstance(first, RefusedError)
        # For a gateway without plain content, "not found" is more useful than "not in this format".
        reason = first.reason
        return not self.is_trustless or reason is None or reason.status in FORMAT_REFUSALS

    def as_told(self, error: UnprovenError) -> UnprovenError | ProviderError:
        """Return the error to raise for `error`.

        A gateway without plain content has refused every request. Then raise its own error,
        preferably the one for blocks or archives.
        """
        if not isinstance(error, RefusedError):
            return error
        reason = error.reason
        if self.is_trustless and reason is not None:
            if reason.status not in FORMAT_REFUSALS:
                return reason
            if self.plain_refusal is not None:
                return self.plain_refusal
        unproven = UnprovenError(error.message, cid=error.cid)
        if reason is not None:
            unproven.add_note(f"{self.gateway.base_url}: {reason.message}")
        return unproven


def _with_message(response: "Response") -> Reply:
    """Return a failed reply with its body; without it where it does not come in time."""
    try:
        return read_whole(response)
    except errors.NetworkError:
        return Reply(response.status, response.headers)


def commit(sink: S) -> S:
    """Commit `sink`, which a reader has filled; return the sink that has the content.

    That is another one if finishes have to make the content. They run in several jobs, so that a
    cancelled call ends soon. The owner of `sink` discards it in any case.
    """
    if sink.finishes:
        run_steps(sink.finish())
    final = sink.final or sink
    on_disk(final, final.commit)
    if final is not sink:
        sink.verified = 0  # so that nothing of it is saved
    return final


def run_steps(steps: Generator[bool, None, None]) -> None:
    """Run `steps` on a worker thread; close them if the call is cancelled between two of them."""
    with at_end(steps.close):
        while run_blocking(next, steps, None):
            pass


def on_disk(sink: Sink, step: Callable[[], None]) -> None:
    """Do a `step` of `sink`: on a worker thread, unless the sink is in memory."""
    if sink.is_in_memory:
        step()
    else:
        run_blocking(step)
