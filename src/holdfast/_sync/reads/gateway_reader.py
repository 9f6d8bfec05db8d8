# WARNING: this file is generated from src/holdfast/_async/reads/gateway_reader.py
# by scripts/generate_sync.py. Change the original instead.
"""Reads through HTTP gateways, none of which is trusted: files, parts of files, directories.

Gateways are asked in rounds. Each has one attempt in a round, and continues where the one before it
ended. Gateways whose failure may be temporary are asked again in the next round, after a wait. With
`hedge_after`, they race before the first round.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar, Final, TypeAlias

from holdfast import errors
from holdfast._sync.content_file import LARGEST_RANGE, Ranges
from holdfast._sync.races import race
from holdfast._sync.reads.blocks import ArchiveFeed, Blocks, FetchedBlocks
from holdfast._sync.reads.reader import Reader
from holdfast._sync.reads.state import (
    Begun,
    GatewayPeer,
    KnownFile,
    Output,
    ReadState,
    RefusedError,
    Sent,
    check_time,
)
from holdfast._sync.reads.strategies import BODY, PLAIN, drop_unverified, fill
from holdfast._sync.runtime import at_end, now, run_blocking
from holdfast._sync.session import Session
from holdfast.calls import Call, Deadline, note_gateway
from holdfast.config import ClientConfig
from holdfast.config.locations import cache_folder
from holdfast.content.blocks import check_provable
from holdfast.content.budgets import SMALL_BLOCK
from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block, require_codec
from holdfast.content.hashes import SHA2_256
from holdfast.content.proof import wrong_bytes
from holdfast.content.reference import Reference
from holdfast.content.unixfs.root_nodes import RootInfo, stat_record
from holdfast.disk.block_cache import DiskBlockCache
from holdfast.errors import ClientError, NetworkError, ProviderError, UnprovenError
from holdfast.protocol.gateway import CAR_TYPE, ArchiveScope, Gateway
from holdfast.protocol.http import Reply, body_length
from holdfast.protocol.peer_set import PeerSet, is_wrong_content
from holdfast.protocol.retrying import Retry, retry_reason
from holdfast.records import Entry
from holdfast.registry import SERVICE, row_of
from holdfast.single_line import short
from holdfast.sinks.sinks import MemorySink, Sink, SpoolSink
from holdfast.sources.blob import Blob
from holdfast.sources.sources import Progress

# Errors that one gateway can cause, those that tell most first. Another gateway may do better.
FAILURES = (
    errors.MalformedError,
    errors.NotAFileError,
    errors.SerializationError,
    errors.TooLargeError,
    errors.UnprovenError,
    errors.ProviderError,
    errors.NetworkError,
    errors.VerificationError,
)
OK: Final = 200
EMPTY_BLOCK: Final = Reference.parse("bafkqaaa")  # every gateway has it: it is in the CID itself
Attempt: TypeAlias = Callable[..., None]
"""One attempt at a gateway, with a deadline; `is_last` if no other one is asked in this round."""
Sign: TypeAlias = Callable[[Reference, Call], Reader]
AT_ONCE = float("-inf")  # the time for a gateway that may be asked again without a wait


@dataclass(eq=False, repr=False)
class Rounds:
    """Asks gateways for one read.

    Attributes:
        gateways: The gateways in the order in which they are asked.
        failures: The last failure of each gateway that has failed.
    """

    _session: Session
    _all: PeerSet[Gateway]
    _state: ReadState
    _attempt: Attempt
    failures: dict[Gateway, ClientError] = field(default_factory=dict)
    _resting: dict[ClientError, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gateways = self._all.in_order(now())

    def ask(self, gateways: list[Gateway]) -> bool:
        """Ask `gateways` one after the other; return whether one of them completed the read."""
        for gateway, deadline in self._state.call.turns(gateways):
            is_last = gateway is gateways[-1]
            if self._try(gateway, partial(self._attempt, gateway, deadline, is_last=is_last)):
                return True
        return False

    def race(self, delay: float, *, verify: bool) -> bool:
        """Let the gateways race to the first verified bytes; return whether the winner has all.

        The next gateway starts after `delay` seconds, or when one has failed. Each works on a fork
        of the state. The state adopts the fork of the winner, and the winner alone writes. A
        gateway that refuses is not counted as failed: it may support another strategy.
        """
        state, strategy = self._state, BODY if verify else PLAIN
        peer_for = partial(GatewayPeer, self._session, verify=verify, is_racing=True)
        deadline = state.call.deadline
        peers = [peer_for(gateway, state.fork(), deadline) for gateway in self.gateways]
        winner, lost = race(peers, strategy.begin, delay, lambda transfer: transfer.close())
        for peer, error in lost.items():
            if not isinstance(error, FAILURES):
                if winner is not None:
                    winner[1].close()
                raise error
            self._note(peer.gateway, error, in_race=True)
        if winner is None:
            return False
        peer, transfer = winner
        state.adopt(peer.state)
        return self._try(peer.gateway, transfer.finish, in_race=True)

    def _try(self, gateway: Gateway, step: Callable[[], None], *, in_race: bool = False) -> bool:
        """Return whether `step` completed the read; if not, note why the gateway failed."""
        try:
            step()
        except FAILURES as error:
            failure = without_frames(error)
            if isinstance(error, errors.TooLargeError) and self._state.file.size is not None:
                raise  # the size is verified: no gateway can help
        else:
            self._session.succeeded()
            note_gateway(gateway.peer)
            return True
        drop_unverified(self._state)
        self._note(gateway, failure, in_race=in_race)
        return False

    def ask_again(self) -> None:
        """Ask the gateways whose failure may be temporary, until one has completed the read.

        A gateway that asks for a wait with ``Retry-After`` does not delay the others. If all
        remaining gateways ask for one, the shortest wait is used. If no gateway may be asked again,
        raise the most serious failure, with the others as notes.
        """
        backoff, output = self._session.backoff(), self._state.output
        waiting: dict[Gateway, float] = {}  # when which gateway may be asked again; none at first

        def ask_ready() -> bool:
            before, time = output.furthest, max(now(), min(waiting.values(), default=AT_ONCE))
            is_done = self.ask([gateway for gateway, ready in waiting.items() if ready <= time])
            if output.furthest > before:
                backoff.restart()
            return is_done

        def reason(is_done: object) -> Retry | None:
            nonlocal waiting
            failed = [] if is_done else self.gateways
            reasons = {
                gateway: why for gateway in failed if (why := retry_reason(self.failures[gateway]))
            }
            waiting = {
                gateway: self._rests_until(gateway, why.asked) for gateway, why in reasons.items()
            }
            if not waiting:
                return None
            soonest = min(waiting.values())
            last = [reasons[gateway] for gateway, ready in waiting.items() if ready == soonest][-1]
            return last._replace(asked=None if soonest == AT_ONCE else max(0.0, soonest - now()))

        if not self._session.retry(ask_ready, self._state.call, reason, backoff):
            raise _gravest(self.failures)

    def _rests_until(self, gateway: Gateway, asked: float | None) -> float:
        """Return until when a gateway that `asked` for a wait must not be asked; remember it."""
        if asked is None:
            return AT_ONCE
        return self._resting.setdefault(self.failures[gateway], now() + asked)

    def _note(self, gateway: Gateway, error: ClientError, *, in_race: bool) -> None:
        """Remember and report why a gateway failed; avoid it for a while if it does not work."""
        if in_race and isinstance(error, UnprovenError):
            return
        self.failures[gateway] = without_frames(error)
        self._all.note_failure(gateway, error, now())
        call = self._state.call
        call.tell(
            "gateway",
            "%s: %s: %s",
            gateway.base_url,
            error.name,
            error.message,
            level=logging.WARNING if is_wrong_content(error) else logging.INFO,
            peer=gateway.peer,
            error=error.name,
            status=getattr(error, "status", None),
            elapsed=now() - call.started,
        )


def without_frames(error: ClientError) -> ClientError:
    """Return `error` without its traceback.

    The frames hold bytes that are not verified, and a gateway may echo its token among them.
    """
    chain: list[BaseException | None] = [error]
    while chain:
        if (cause := chain.pop()) is not None and cause.__traceback__ is not None:
            cause.__traceback__ = None
            chain += [cause.__cause__, cause.__context__]
    return error


def _gravest(failures: dict[Gateway, ClientError]) -> ClientError:
    """Return the failure that tells most, with the others as its notes; of equals, the last.

    Wrong content comes before all other failures.
    """

    def rank(error: ClientError) -> int:
        if is_wrong_content(error):
            return -1
        return next(place for place, kind in enumerate(FAILURES) if isinstance(error, kind))

    least = min(map(rank, failures.values()))
    chosen = [gateway for gateway, error in failures.items() if rank(error) == least][-1]
    for gateway, other in failures.items():
        if gateway != chosen:
            failures[chosen].add_note(f"{gateway.base_url}: {other.message}")
    return failures[chosen]


@dataclass(eq=False, repr=False)
class GatewayBlocks(FetchedBlocks):
    """Fetches the verified blocks of a directory, each from the first gateway that gives it."""

    session: Session
    gateways: PeerSet[Gateway]
    reference: Reference
    call: Call
    cache: DiskBlockCache | None = None
    is_verified: bool = True
    _last: Gateway | None = None  # the gateway that gave the last block

    def continue_in(self, call: Call) -> None:
        """Make the next requests within `call`."""
        self.call = call

    def get(self, cid: CID, /) -> bytes:
        """Return the block of `cid`, or raise the gravest failure of the gateways."""
        check_provable(cid)
        state = ReadState(self.reference, Output(MemorySink()), self.call, cache=self.cache)
        fetched: list[bytes] = []

        def ask(gateway: Gateway, deadline: Deadline, *, is_last: bool) -> None:  # noqa: ARG001
            if len(self.gateways) > 1:  # one that sends a byte now and then must not block others
                deadline.tighten(self.session.config.timeouts.read)
            self._last = None  # one that fails has no precedence any more
            peer = GatewayPeer(self.session, gateway, state, deadline, verify=True)
            try:
                fetched.append(peer.find(cid))
            except RefusedError as refusal:
                raise self._without_blocks(gateway, refusal) from None
            self._last = gateway

        rounds = Rounds(self.session, self.gateways, state, ask)
        rounds.gateways.sort(key=lambda gateway: gateway != self._last)
        if not rounds.ask(rounds.gateways):
            rounds.ask_again()
        return fetched[0]

    def _without_blocks(
        self, gateway: Gateway, refusal: RefusedError
    ) -> UnprovenError | ProviderError:
        """Return the gateway's own error, or ours if it has sent something else than the block."""
        reason, reference = refusal.reason, str(self.reference)
        if reason is None:
            return UnprovenError(
                f"{short(reference)} cannot be listed: {gateway.base_url} does not serve blocks; "
                "add a gateway that does",
                cid=reference,
            )
        if not isinstance(reason, errors.NotFoundError):
            reason.add_note(
                f"{gateway.base_url} does not serve the blocks of {short(reference)}, without "
                "which directories cannot be listed; add a gateway that does"
            )
        return reason


@dataclass(eq=False, repr=False)
class GatewayReader(Reader):
    """Fills sinks with verified content from any of its gateways.

    Args:
        session: Sends the requests.
        gateways: The gateways, in order.
        config: With `verify`, which is for `read`: `open` and `entries` always verify.
        cache: Keeps the blocks of directories and of parts of files on disk.
    """

    is_remote: ClassVar[bool] = True

    _session: Session
    _gateways: PeerSet[Gateway]
    _config: ClientConfig
    _cache: DiskBlockCache | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self._is_race = self._config.hedge_after is not None and len(self._gateways) > 1

    def read(
        self,
        reference: Reference,
        sink: Sink,
        call: Call,
        *,
        progress: Progress | None = None,
        blocks: Blocks | None = None,
        verify: bool | None = None,
    ) -> str:
        """Fill `sink` with a file; return the media type that the gateway reports.

        If all gateways fail, raise the most serious failure, with the others as its notes.
        """
        if blocks is not None:
            return super().read(reference, sink, call, progress=progress, blocks=blocks)
        verify = self._config.verify if verify is None else verify
        begun = None
        if verify and not self._is_race:
            begun = self._read_small(reference, sink, call, progress)
        if isinstance(begun, str):
            return begun
        output = Output(sink, progress)
        state = ReadState(
            reference,
            output,
            call,
            max_unverified=self._config.max_unverified_bytes,
            cache=self._cache,
        )
        self._fill(state, verify=verify, begun=begun)
        sink.cid = state.file.cid
        return state.file.media_type

    def open(self, reference: Reference, call: Call) -> Ranges:
        """Return a file whose parts are read and verified on demand.

        A file that can only be verified as a whole is downloaded now: a single block, or a file
        whose blocks no gateway serves.
        """
        output = Output(MemorySink())
        state = ReadState(reference, output, call, stop=0, cache=self._cache)
        try:
            self._fill(state, verify=True)
        except UnprovenError:
            size = None
        else:
            size = state.file.size
        # Outside of the handler: an error from here on must not have that one as its context.
        if size is None:
            return self._open_whole(reference, call)
        read_part = partial(self._read_part, reference, state.file)
        return Ranges(size, read_part, type=state.file.media_type)

    def archive(self, reference: Reference, scope: ArchiveScope, call: Call) -> ArchiveFeed | None:
        """Return the blocks of the first archive that a gateway sends, or None.

        The deadline of `call` is for the heads of the replies. The archive has no deadline.
        """
        state = ReadState(reference, Output(MemorySink()), call)
        for gateway, deadline in call.turns(self._gateways.in_order(now())):
            note_failure = partial(self._note_failure, gateway)
            peer = GatewayPeer(self._session, gateway, state, deadline, verify=True)
            try:
                response = peer.open_or_refuse(gateway.archive(reference, scope=scope))
            except (NetworkError, ProviderError, UnprovenError) as error:
                note_failure(error)
                continue
            if Reply(response.status, response.headers).media_type == CAR_TYPE:
                peer.sent_until.move_to(None)
                return ArchiveFeed(
                    response,
                    self._session.config.timeouts.read,
                    host=gateway.peer,
                    is_alone=len(self._gateways) == 1,
                    on_failure=note_failure,
                )
            response.close()
        return None

    def _note_failure(self, gateway: Gateway, error: ClientError) -> None:
        self._gateways.note_failure(gateway, error, now())

    def blocks(self, reference: Reference, call: Call) -> GatewayBlocks:
        """Return the verified blocks below `reference`, each requested by its CID."""
        return GatewayBlocks(self._session, self._gateways, reference, call, self._cache)

    def check(self, call: Call) -> None:
        """Return if one of the gateways answers; raise the most serious failure otherwise."""
        blocks = GatewayBlocks(self._session, self._gateways, EMPTY_BLOCK, call)
        blocks.get(EMPTY_BLOCK.cid)

    def _read_small(
        self, reference: Reference, sink: Sink, call: Call, progress: Progress | None
    ) -> str | Begun | None:
        """Ask the first gateway for a raw block, and read it if it is small.

        This short path (send, read, hash, compare) makes the first request of a read, and handles
        the common case only. Return the media type that the gateway reports if all of the content
        is in `sink`, verified. In every other case (a redirect, an error, an encoding, a body that
        is larger or of unknown length) return what is begun: the attempt at this gateway continues
        with the unread reply, or ends with the error. So nothing is requested twice. Return None if
        nothing is begun, because it is not a raw block.

        It is not one of the strategies, because a `ReadState`, a round and an attempt cost too much
        for so little: without this path, the processor time of a `retrieve` of 17 bytes is 1.44
        times as long (median of 20 turns with 300 calls each, the blocking client and a node on the
        same machine).
        """
        cid = reference.cid
        if not is_one_block(cid) or cid.hash_code != SHA2_256 or reference.path or sink.saved_size:
            return None
        gateways = self._gateways.in_order(now())
        gateway = gateways[0]
        if self._session.trustless.get(gateway.base_url, 0.0) > now():
            return None
        deadline = call.share(len(gateways))
        try:
            outcome = self._read_small_block(gateway, reference, sink, call, deadline)
        except FAILURES as error:
            return Begun(gateway, deadline, without_frames(error))
        if isinstance(outcome, Sent):
            return Begun(gateway, deadline.copy(), outcome)
        self._session.succeeded()
        note_gateway(gateway.peer)
        if progress is not None:
            progress(sink.verified, sink.verified)
        return outcome

    def _read_small_block(
        self, gateway: Gateway, reference: Reference, sink: Sink, call: Call, deadline: Deadline
    ) -> Sent | str:
        response = self._session.send(gateway.content(reference), call, deadline=deadline)
        headers = response.headers
        is_plain = response.status == OK and "content-encoding" not in headers
        length = body_length(headers) if is_plain else None
        if length is None or length > min(SMALL_BLOCK, self._config.max_unverified_bytes):
            return Sent(response, deadline)
        try:
            sink.expect(length, is_claim=True)
            body = response.read(length)
            check_time(deadline, gateway.peer)
            if sha256(body).digest() != reference.cid.digest:
                raise wrong_bytes(reference)
            sink.write(body)
            sink.verified = length
        finally:
            response.close()
        return headers.get("content-type", "")

    def _read_part(
        self, reference: Reference, file: KnownFile, start: int, stop: int
    ) -> bytes | bytearray:
        """Return a part of a file that `open` has found, within a time limit of its own."""
        sink = MemorySink(stop - start)
        with self._session.call("open", str(reference)) as call:
            state = ReadState(reference, Output(sink), call, start, stop, cache=self._cache)
            state.file = replace(file)
            self._fill(state, verify=True)
        return sink.data

    def _open_whole(self, reference: Reference, call: Call) -> Ranges:
        """Download a file for `open`.

        Each part of it has the same time limit as a range that an open file reads.
        """
        sink = SpoolSink()
        fetched = 0

        def renew(done: int, _: int | None) -> None:
            nonlocal fetched
            if done >= fetched + LARGEST_RANGE:
                fetched = done
                call.renew()

        call.renew()
        with at_end(sink.discard):
            media_type = self.read(reference, sink, call, progress=renew, verify=True)
            run_blocking(sink.commit)
            blob = sink.blob(type="", name=None)
            read_part = partial(run_blocking, partial(_read_blob, blob))
            return Ranges(blob.size, read_part, type=media_type)

    def _fill(self, state: ReadState, *, verify: bool, begun: Begun | None = None) -> None:
        """Read everything that `state` wants, or raise the most serious failure."""
        if verify and state.file.cid is not None:
            # Do not request content that cannot be verified.
            check_provable(state.file.cid)
            require_codec(state.file.cid)
        attempt = partial(fill, self._session, state, verify=verify, begun=begun)
        rounds = Rounds(self._session, self._gateways, state, attempt)
        if begun is not None:  # its gateway is the first, even if it is avoided by now
            rounds.gateways.sort(key=lambda gateway: gateway != begun.gateway)
        output, delay = state.output, self._config.hedge_after
        may_race = self._is_race and not state.is_cached_part and not output.sink.saved_size
        if delay is not None and may_race:
            done = rounds.race(delay, verify=verify)
            # Gateways that refused the strategy of the race may support another.
            others = [gateway for gateway in rounds.gateways if gateway not in rounds.failures]
            done = done or rounds.ask(others)
        else:
            done = rounds.ask(rounds.gateways)
            if not done and output.sink.saved_size and not output.written:
                # No gateway has the blocks to verify the saved bytes: start without them.
                run_blocking(output.restart)
                done = rounds.ask(rounds.gateways)
        if not done:
            rounds.ask_again()


def _read_blob(blob: Blob, start: int, stop: int) -> bytes:
    with blob.open() as file:
        file.seek(start)
        return file.read(stop - start)


class LinkReader(Reader):
    """Reads files of a service that keeps no private directories.

    `sign` returns a reader of gateways with signed links to one file. Such a link gives the plain
    content only. So what is longer than one block is downloaded before a part of it can be read.
    """

    is_remote: ClassVar[bool] = True

    def __init__(self, sign: Sign) -> None:
        super().__init__()
        self._sign = sign

    def blocks(self, reference: Reference, call: Call) -> Blocks:  # noqa: ARG002
        """Raise UnsupportedError: a link gives no blocks, and there are no private directories."""
        raise errors.UnsupportedError(
            f"{short(reference)} cannot be listed: the private network has files only, and "
            "its links give no blocks; use download"
        )

    def read(self, reference: Reference, sink: Sink, call: Call, **options: Any) -> str:
        """Fill `sink` with a file; return the media type that the gateway reports."""
        reader = self._sign(reference, call)
        return reader.read(reference, sink, call, **options)

    def open(self, reference: Reference, call: Call) -> Ranges:
        """Return a file, downloaded as a whole, whose parts can be read."""
        return (self._sign(reference, call)).open(reference, call)

    def stat(self, reference: Reference, call: Call) -> Entry:
        """Return the size of a file, which is downloaded for it."""
        size = (self.open(reference, call)).size
        return stat_record(reference, reference.cid, RootInfo("file", size))


def read_gateways(
    session: Session, config: ClientConfig, gateways: Iterable[Gateway] | None = None
) -> GatewayReader:
    """Return a reader with the limits of `config`, of its gateways or of others."""
    if gateways is None:
        urls = gateway_urls(config)
        gateways = map(Gateway, urls, [config.gateway_token, *[None] * len(urls)])
    folder = cache_folder(config.cache_path) if config.cache_bytes else None
    cache = None if folder is None else DiskBlockCache(folder, config.cache_bytes)
    return GatewayReader(session, PeerSet(gateways, session.avoided), config, cache)


def gateway_urls(config: ClientConfig) -> tuple[str, ...]:
    """Return the addresses of the gateways of `config`; those of the service, if it has none."""
    return config.gateway_urls or row_of(SERVICE).gateways
