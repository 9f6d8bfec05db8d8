# WARNING: this file is generated from src/holdfast/_async/reads/rounds.py
# by scripts/generate_sync.py. Change the original instead.
"""Rounds over gateways: the order in which they are asked, when again, and which error is raised.

Each gateway has one attempt in a round, and continues where the one before it ended. Gateways whose
failure may be temporary are asked again in the next round, after a wait.
"""

import logging
from typing import Protocol

from holdfast._sync.reads.attempt import drop_unverified
from holdfast._sync.reads.state import ReadState
from holdfast._sync.runtime import now
from holdfast._sync.session import Session
from holdfast.calls import Deadline
from holdfast.errors import (
    ClientError,
    MalformedError,
    NetworkError,
    NotAFileError,
    ProviderError,
    SerializationError,
    TooLargeError,
    UnprovenError,
    VerificationError,
)
from holdfast.protocol.gateway import Gateway, Gateways
from holdfast.protocol.peer_set import is_wrong_content
from holdfast.protocol.retrying import Backoff, is_transient

# Errors that one gateway can cause. Another gateway may do better.
FAILURES = (
    NetworkError,
    ProviderError,
    VerificationError,
    NotAFileError,
    SerializationError,
    TooLargeError,
)
AT_ONCE = float("-inf")  # the time for a gateway that may be asked again without a wait


class Attempt(Protocol):
    """One attempt at one gateway. It raises one of FAILURES if another gateway may help."""

    def __call__(self, gateway: Gateway, deadline: Deadline, *, is_last: bool) -> None:
        """Ask `gateway`; `is_last` says that no other gateway is asked in this round."""


class Rounds:
    """Asks gateways for one read.

    Attributes:
        gateways: The gateways in the order in which they are asked.
        failures: The last failure of each gateway that has failed.
    """

    def __init__(
        self, session: Session, gateways: Gateways, state: ReadState, attempt: Attempt
    ) -> None:
        self._session = session
        self._all = gateways
        self._state = state
        self._attempt = attempt
        self._resting: dict[ClientError, float] = {}
        self.gateways = gateways.in_order(now())
        self.failures: dict[Gateway, ClientError] = {}

    def ask(self, gateways: list[Gateway]) -> bool:
        """Ask `gateways` one after the other; return whether one of them completed the read."""
        for number, gateway in enumerate(gateways):
            left = len(gateways) - number
            try:
                self._attempt(gateway, self._state.call.share(left), is_last=left == 1)
            except FAILURES as error:
                self.failures[gateway] = without_frames(error)
                if isinstance(error, TooLargeError) and self._state.found.size is not None:
                    raise  # the size is verified: no gateway can help
            else:
                self._session.succeeded()
                return True
            drop_unverified(self._state)
            self.report(gateway, self.failures[gateway])
        return False

    def ask_again(self) -> None:
        """Ask the gateways whose failure may be temporary, until one has completed the read.

        If no gateway may be asked again, raise the most serious failure, with the others as notes.
        """
        backoff = self._session.backoff()
        while True:
            before = self._state.output.furthest
            ready = self._wait(backoff)
            if not ready:
                raise _gravest(self.failures)
            if self.ask(ready):
                return
            if self._state.output.furthest > before:
                backoff.restart()

    def _wait(self, backoff: Backoff) -> list[Gateway]:
        """Wait, and return the gateways that may be asked again then, if any.

        A gateway that asks for a wait with ``Retry-After`` does not delay the others. If all
        remaining gateways ask for one, the shortest wait is used.
        """
        left = [each for each in self.gateways if is_transient(self.failures[each])]
        if not left:
            return []
        until = {each: self._resting_until(self.failures[each]) for each in left}
        soonest = min(until.values())
        last = [self.failures[each] for each in left if until[each] == soonest][-1]
        waited = self._session.wait(
            backoff,
            self._state.call,
            asked=None if soonest == AT_ONCE else max(0.0, soonest - now()),
            error=last.name,
            status=_status_of(last),
        )
        return [each for each in left if until[each] <= max(soonest, now())] if waited else []

    def _resting_until(self, error: ClientError) -> float:
        """Return until when the gateway of this failure must not be asked, and remember it."""
        if not isinstance(error, ProviderError) or error.retry_after is None:
            return AT_ONCE
        return self._resting.setdefault(error, now() + error.retry_after)

    def report(self, gateway: Gateway, error: ClientError) -> None:
        """Emit the event of a gateway that failed; avoid it for a while if it does not work."""
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
            status=_status_of(error),
            elapsed=now() - call.started,
        )


def without_frames(error: ClientError) -> ClientError:
    """Return `error` without its traceback.

    The frames hold bytes that are not verified, and a gateway may echo its token among them.
    """
    chain: list[BaseException | None] = [error]
    while chain:
        if (each := chain.pop()) is not None and each.__traceback__ is not None:
            each.__traceback__ = None
            chain += [each.__cause__, each.__context__]
    return error


def _status_of(error: ClientError) -> int | None:
    """Return the HTTP status that `error` tells of, if any."""
    return error.status if isinstance(error, ProviderError) else None


def _gravest(failures: dict[Gateway, ClientError]) -> ClientError:
    """Return the failure that tells most, with the others as its notes; of equals, the last.

    The order is: wrong content, malformed content, too large content, content that could not
    be verified, an HTTP error, no answer.
    """
    kinds = (
        MalformedError,
        NotAFileError,
        SerializationError,
        TooLargeError,
        UnprovenError,
        ProviderError,
    )

    def rank(error: ClientError) -> int:
        if is_wrong_content(error):
            return -1
        return next((place for place, kind in enumerate(kinds) if isinstance(error, kind)), 9)

    least = min(map(rank, failures.values()))
    chosen = [gateway for gateway, error in failures.items() if rank(error) == least][-1]
    for gateway, other in failures.items():
        if gateway != chosen:
            failures[chosen].add_note(f"{gateway.base_url}: {other.name}: {other.message}")
    return failures[chosen]
