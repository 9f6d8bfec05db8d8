# WARNING: this file is generated from src/holdfast/_async/reads/reader.py
# by scripts/generate_sync.py. Change the original instead.
"""Read content through gateways, none of which is trusted.

Gateway after gateway has a try at a reading, in rounds; each goes on where the one before broke
off, since what is proven stays proven.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from holdfast._sync.reads.attempt import Attempt, Strategy
from holdfast._sync.reads.state import ReadState
from holdfast._sync.reads.transfer import Transfer
from holdfast._sync.runtime import now, race, run_blocking
from holdfast._sync.session import Session
from holdfast.calls import Call
from holdfast.content.blocks import BlockCache, check_provable
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.content.unixfs.file_nodes import check_codec
from holdfast.errors import (
    ClientError,
    MalformedError,
    NetworkError,
    NotAFileError,
    ProviderError,
    SerializationError,
    UnprovenError,
    VerificationError,
)
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress
from holdfast.protocol.gateway import Gateway, Gateways
from holdfast.protocol.retrying import Backoff, is_transient

# What a gateway's words, bytes or silence can bring about; another gateway may know better.
FAILURES = (NetworkError, ProviderError, VerificationError, NotAFileError, SerializationError)
AT_ONCE = float("-inf")  # the moment from which a gateway that asks for no wait may be asked again


@dataclass(frozen=True, slots=True)
class Known:
    """What is proven of a file before any part of it is read."""

    reference: Reference
    cid: CID | None
    size: int
    blocks: BlockCache


class Reader:
    """Fills sinks with the content of references, proven, from whichever gateway has it."""

    def __init__(
        self,
        session: Session,
        gateways: Gateways,
        *,
        verify: bool,
        max_unverified: int,
        hedge_after: float | None = None,
    ) -> None:
        self._session = session
        self._gateways = gateways
        self._verify = verify
        self._hedge_after = hedge_after
        self._max_unverified = max_unverified

    def read(
        self,
        reference: Reference,
        sink: Sink,
        call: Call,
        *,
        progress: Progress | None = None,
        verify: bool | None = None,
    ) -> str:
        """Fill `sink`; return the media type that the gateway claims.

        When all gateways have failed, the gravest failure is raised and the others are its notes.
        """
        reading = ReadState(reference, sink, call, progress, max_unverified=self._max_unverified)
        self._fill(reading, verify=self._verify if verify is None else verify)
        return reading.media_type

    def probe(self, reference: Reference, call: Call, sink: Sink) -> Known:
        """The size of a file, and the blocks that its parts can be proven with.

        `UnprovenError` where it can only be proven whole.
        """
        reading = ReadState(reference, sink, call, stop=0)
        self._fill(reading, verify=True)
        if reading.size is None:
            raise UnprovenError(f"{reference} can only be proven whole", cid=str(reference))
        return Known(reference, reading.cid, reading.size, reading.blocks)

    def read_part(self, known: Known, start: int, stop: int, call: Call, sink: Sink) -> None:
        """Fill `sink` with the bytes from `start` up to `stop` of what `probe` found."""
        reading = ReadState(
            known.reference, sink, call, start=start, stop=stop, blocks=known.blocks
        )
        reading.cid = known.cid
        self._fill(reading, verify=True)

    def _fill(self, reading: ReadState, *, verify: bool) -> None:
        if verify and reading.cid is not None:
            # What no gateway could ever give a proof for is not asked for.
            check_provable(reading.cid)
            check_codec(reading.cid)
        gateways = self._gateways.in_order(now())
        failures: dict[Gateway, ClientError] = {}
        if self._hedge_after is not None and len(gateways) > 1 and not reading.sink.kept:
            done = self._race(reading, gateways, failures, verify=verify)
            # Those that refuse this way of proving may know another.
            others = [each for each in gateways if each not in failures]
            done = done or (bool(others) and self._round(reading, others, failures, verify))
        else:
            done = self._round(reading, gateways, failures, verify)
            if not done and reading.sink.kept and not reading.written:
                # Nobody has the blocks to prove what was kept: without it, then.
                run_blocking(reading.restart)
                done = self._round(reading, gateways, failures, verify)
        backoff = self._session.backoff()
        resting: dict[ClientError, float] = {}
        while not done:
            before = reading.furthest
            ready = self._wait(reading, gateways, failures, backoff, resting)
            if not ready:
                raise _gravest(failures)
            done = self._round(reading, ready, failures, verify)
            if reading.furthest > before:
                backoff.restart()

    def _wait(
        self,
        reading: ReadState,
        gateways: list[Gateway],
        failures: dict[Gateway, ClientError],
        backoff: Backoff,
        resting: dict[ClientError, float],
    ) -> list[Gateway]:
        """Wait, and return the gateways that may be asked again then, if any.

        A gateway that asks for a wait with ``Retry-After`` holds up no other. Only where all that
        are left ask for one is waited for the soonest. `resting` holds, for each failure, until
        when its gateway is to be left alone.
        """
        left = [each for each in gateways if is_transient(failures[each])]
        if not left:
            return []
        until = {each: _resting_until(failures[each], resting) for each in left}
        soonest = min(until.values())
        last = [failures[each] for each in left if until[each] == soonest][-1]
        waited = self._session.wait(
            backoff,
            reading.call,
            asked=None if soonest == AT_ONCE else max(0.0, soonest - now()),
            error=last.name,
            status=_status(last),
        )
        return [each for each in left if until[each] <= max(soonest, now())] if waited else []

    def _round(
        self,
        reading: ReadState,
        gateways: list[Gateway],
        failures: dict[Gateway, ClientError],
        verify: bool,  # noqa: FBT001 - as it is passed on
    ) -> bool:
        """Ask the gateways one after the other; whether one of them gave all."""
        for number, gateway in enumerate(gateways):
            left = len(gateways) - number
            share = reading.call.share(left)
            attempt = Attempt(self._session, gateway, reading, share, verify=verify)
            try:
                attempt.fill(may_restart=left == 1)
            except FAILURES as error:
                failures[gateway] = _without_frames(error)
            else:
                self._session.succeeded()
                return True
            self._failed(attempt, failures[gateway])
        return False

    def _race(
        self,
        reading: ReadState,
        gateways: list[Gateway],
        failures: dict[Gateway, ClientError],
        *,
        verify: bool,
    ) -> bool:
        """Let the gateways race to the first proven piece, the next one starting after a delay.

        The winner goes on alone. Whether it could give all.
        """
        strategy = Strategy.BODY if verify else Strategy.PLAIN
        runners: list[Callable[[], Transfer]] = []
        attempts: list[Attempt] = []
        for gateway in gateways:
            # What a racer learns is its own, until it has won.
            own = replace(reading, blocks=reading.blocks.copy())
            deadline = reading.call.deadline
            attempt = Attempt(self._session, gateway, own, deadline, verify=verify, racing=True)
            runners.append(partial(attempt.begin, strategy))
            attempts.append(attempt)
        outcome = race(runners, self._hedge_after or 0.0, Transfer.close)
        transfer, lost = outcome
        for place, error in lost.items():
            if not isinstance(error, FAILURES):
                if transfer is not None:
                    transfer.close()
                raise error
            self._note(gateways[place], error, failures, reading.call)
        if transfer is None:
            return False
        winner = next(each for each in attempts if each.leads(transfer))
        winner.take_over(reading)
        failure: ClientError | None = None
        try:
            transfer.finish()
        except FAILURES as error:
            failure = error
        if failure is None:
            self._session.succeeded()
            return True
        winner.set_back()
        self._note(winner.gateway, failure, failures, reading.call)
        return False

    def _note(
        self,
        gateway: Gateway,
        error: ClientError,
        failures: dict[Gateway, ClientError],
        call: Call,
    ) -> None:
        """Take note of a failure in a race; a refusal is none: other ways are tried after it."""
        if not isinstance(error, UnprovenError):
            failures[gateway] = _without_frames(error)
            self._tell(gateway, error, call)

    def _failed(self, attempt: Attempt, error: ClientError) -> None:
        attempt.set_back()
        self._tell(attempt.gateway, error, attempt.reading.call)

    def _tell(self, gateway: Gateway, error: ClientError, call: Call) -> None:
        """Tell of a gateway that failed; one that sent wrong bytes is avoided for a while."""
        wrong = _is_wrong(error)
        if wrong:
            self._gateways.avoid(gateway, now())
        call.tell(
            "gateway",
            "%s: %s: %s",
            gateway.base_url,
            error.name,
            error.message,
            level=logging.WARNING if wrong else logging.INFO,
            peer=gateway.peer,
            error=error.name,
            status=_status(error),
            elapsed=now() - call.started,
        )


def _without_frames(error: ClientError) -> ClientError:
    """Return `error` without the frames that it came through.

    They hold bytes that are not verified, and a gateway may echo its token among them.
    """
    chain: list[BaseException | None] = [error]
    while chain:
        if (each := chain.pop()) is not None and each.__traceback__ is not None:
            each.__traceback__ = None
            chain += [each.__cause__, each.__context__]
    return error


def _status(error: ClientError) -> int | None:
    return error.status if isinstance(error, ProviderError) else None


def _resting_until(error: ClientError, resting: dict[ClientError, float]) -> float:
    """Return until when the gateway of this failure is to be left alone, and remember it."""
    if not isinstance(error, ProviderError) or error.retry_after is None:
        return AT_ONCE
    return resting.setdefault(error, now() + error.retry_after)


def _is_wrong(error: ClientError) -> bool:
    """Whether a gateway sent something else than the CID names.

    What it could not prove, or what is proven to be broken, is not its fault.
    """
    return isinstance(error, VerificationError) and not isinstance(
        error, UnprovenError | MalformedError
    )


def _gravest(failures: dict[Gateway, ClientError]) -> ClientError:
    """The failure that tells most; of equals, the last.

    Wrong bytes before what is proven broken, before what could not be proven, before an HTTP error,
    before no answer.
    """
    kinds = (MalformedError, NotAFileError, SerializationError, UnprovenError, ProviderError)

    def rank(error: ClientError) -> int:
        if _is_wrong(error):
            return -1
        return next((place for place, kind in enumerate(kinds) if isinstance(error, kind)), 9)

    least = min(map(rank, failures.values()))
    chosen = [gateway for gateway, error in failures.items() if rank(error) == least][-1]
    for gateway, other in failures.items():
        if gateway != chosen:
            failures[chosen].add_note(f"{gateway.base_url}: {other.name}: {other.message}")
    return failures[chosen]
