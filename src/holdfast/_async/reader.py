"""Reading content through gateways, none of which is trusted.

Gateway after gateway has a try at a reading, in rounds; each goes on where the one before broke
off, since what is proven stays proven.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from holdfast._async.attempt import AsyncAttempt, AsyncTransfer, RefusedError, Way
from holdfast._async.reading import MAX_CACHED, Reading
from holdfast._async.runtime import now, race
from holdfast._async.session import AsyncSession
from holdfast.content.blocks import BlockCache
from holdfast.content.cid import CID
from holdfast.content.proof import block_proof
from holdfast.content.reference import Reference
from holdfast.content.unixfs.walks import check_codec
from holdfast.errors import (
    ClientError,
    NetworkError,
    NotAFileError,
    ProviderError,
    SerializationError,
    UnprovenError,
    VerificationError,
)
from holdfast.events import Call
from holdfast.files.sinks import Sink
from holdfast.protocol.gateway import Gateway, Gateways
from holdfast.protocol.retrying import is_transient
from holdfast.provider import Progress

# What a gateway's words or bytes alone can bring about; another gateway may know better.
FROM_OUTSIDE = (VerificationError, NotAFileError, SerializationError)
FAILURES = (NetworkError, ProviderError, *FROM_OUTSIDE)


@dataclass(frozen=True, slots=True)
class Known:
    """What is proven of a file before any part of it is read."""

    reference: Reference
    cid: CID | None
    size: int
    blocks: BlockCache


class AsyncReader:
    """Fills sinks with the content of references, proven, from whichever gateway has it."""

    def __init__(
        self,
        session: AsyncSession,
        gateways: Gateways,
        *,
        verify: bool,
        hedge_after: float | None = None,
    ) -> None:
        self._session = session
        self._gateways = gateways
        self._verify = verify
        self._hedge_after = hedge_after

    async def read(
        self, reference: Reference, sink: Sink, call: Call, *, progress: Progress | None = None
    ) -> str:
        """Fill `sink`; return the media type that the gateway claims.

        When all gateways have failed, the gravest failure is raised and the others are its notes.
        """
        reading = Reading(reference, sink, call, progress)
        await self._fill(reading, verify=self._verify)
        return reading.media_type

    async def probe(self, reference: Reference, call: Call, sink: Sink) -> Known:
        """Read one byte of a file, and thereby learn its size.

        `UnprovenError` where it can only be proven whole.
        """
        reading = Reading(reference, sink, call, stop=1)
        await self._fill(reading, verify=True)
        return Known(reference, reading.cid, reading.size or 0, reading.blocks)

    async def read_part(self, known: Known, start: int, stop: int, call: Call, sink: Sink) -> None:
        """Fill `sink` with the bytes from `start` up to `stop` of what `probe` found."""
        reading = Reading(known.reference, sink, call, start=start, stop=stop, blocks=known.blocks)
        reading.cid = known.cid
        await self._fill(reading, verify=True)

    async def _fill(self, reading: Reading, *, verify: bool) -> None:
        if verify and reading.cid is not None:
            # What no gateway could ever give a proof for is not asked for.
            block_proof(reading.reference, reading.cid)
            check_codec(reading.cid)
        failures: dict[Gateway, ClientError] = {}
        left = self._gateways.in_order(now())
        if self._hedge_after is not None and len(left) > 1 and not reading.sink.kept:
            if await self._fill_hedged(reading, left, failures, verify=verify):
                return
            left = [each for each in left if _may_try(failures.get(each))]
        backoff = self._session.backoff()
        while left:
            before = reading.written
            if await self._round(reading, left, failures, verify=verify):
                return
            if reading.written > before:
                backoff.restart()
            left = [each for each in left if is_transient(failures[each])]
            if not left or not await self._session.wait(
                backoff, reading.call, **_facts(failures[left[-1]])
            ):
                break
        raise _gravest(failures)

    async def _round(
        self,
        reading: Reading,
        gateways: list[Gateway],
        failures: dict[Gateway, ClientError],
        *,
        verify: bool,
    ) -> bool:
        """Ask the gateways one after the other; whether one of them gave all."""
        for number, gateway in enumerate(gateways):
            share = _share(reading.call.deadline, len(gateways) - number)
            attempt = AsyncAttempt(self._session, gateway, reading, share)
            try:
                await attempt.fill(verify=verify)
            except FAILURES as error:
                failures[gateway] = error
            else:
                self._session.succeeded()
                return True
            await self._failed(attempt, failures[gateway])
        return False

    async def _fill_hedged(
        self,
        reading: Reading,
        gateways: list[Gateway],
        failures: dict[Gateway, ClientError],
        *,
        verify: bool,
    ) -> bool:
        """Let the gateways race to the first proven piece, the next one starting after a delay.

        The winner goes on alone. Whether it could give all.
        """
        way = Way.BLOCKS if verify else Way.PLAIN
        runners: list[Callable[[], Awaitable[AsyncTransfer]]] = []
        for gateway in gateways:
            # What a racer learns is its own, until it has won.
            own = replace(reading, blocks=BlockCache(MAX_CACHED))
            attempt = AsyncAttempt(self._session, gateway, own, reading.call.deadline, racing=True)
            runners.append(partial(attempt.begin, way))
        outcome = await race(runners, self._hedge_after or 0.0, AsyncTransfer.aclose)
        transfer, lost = outcome
        for place, error in lost.items():
            if not isinstance(error, FAILURES):
                raise error
            # One that refuses this way may know another: it gets its turn.
            if not isinstance(error, RefusedError):
                failures[gateways[place]] = error
                self._tell(gateways[place], error, reading.call)
        if transfer is None:
            return False
        winner = transfer.attempt
        reading.cid, reading.blocks = winner.reading.cid, winner.reading.blocks
        reading.media_type = winner.reading.media_type
        winner.reading = reading
        try:
            await winner.finish(transfer)
        except FAILURES as error:
            failures[winner.gateway] = error
        else:
            self._session.succeeded()
            return True
        await self._failed(winner, failures[winner.gateway])
        return False

    async def _failed(self, attempt: AsyncAttempt, error: ClientError) -> None:
        await attempt.set_back()
        self._tell(attempt.gateway, error, attempt.reading.call)

    def _tell(self, gateway: Gateway, error: ClientError, call: Call) -> None:
        """Tell of a gateway that failed; one that sent wrong bytes is avoided for a while."""
        wrong = isinstance(error, VerificationError) and not isinstance(error, UnprovenError)
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
            status=getattr(error, "status", None),
            elapsed=now() - call.started,
        )


def _facts(failure: ClientError) -> dict[str, Any]:
    """What `failure` tells whoever waits before the next round."""
    facts: dict[str, Any] = {"error": failure.name}
    if isinstance(failure, ProviderError):
        facts.update(status=failure.status, asked=failure.retry_after)
    return facts


def _may_try(failure: ClientError | None) -> bool:
    return failure is None or is_transient(failure)


def _share(deadline: float | None, parts: int) -> float | None:
    """A fair part of the time that is left: a gateway that hangs does not use up the others'."""
    return None if deadline is None else now() + (deadline - now()) / parts


def _gravest(failures: dict[Gateway, ClientError]) -> ClientError:
    """Wrong bytes before an HTTP error before no answer; of equals, the last."""
    ranks = (*FROM_OUTSIDE, ProviderError, ClientError)
    order = [
        next(rank for rank, kind in enumerate(ranks) if isinstance(error, kind))
        for error in failures.values()
    ]
    chosen = max(position for position, rank in enumerate(order) if rank == min(order))
    error = list(failures.values())[chosen]
    for position, (gateway, other) in enumerate(failures.items()):
        if position != chosen:
            error.add_note(f"{gateway.base_url}: {other.name}: {other.message}")
    return error
