# WARNING: this file is generated from src/holdfast/_async/reads/rounds.py
# by scripts/generate_sync.py. Change the original instead.
"""Rounds over gateways: the order in which they are asked, when again, and which error is raised.

Each gateway has one attempt in a round, and continues where the one before it ended. Gateways whose
failure may be temporary are asked again in the next round, after a wait. With `hedge_after`, they
race before the first round.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from holdfast._sync.reads.peer import GatewayPeer
from holdfast._sync.reads.state import ReadState
from holdfast._sync.reads.strategies import BODY, PLAIN, drop_unverified
from holdfast._sync.runtime import now, race
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
from holdfast.protocol.retrying import Retry, retry_reason

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
        peers = [
            GatewayPeer(
                self._session,
                each,
                state.fork(),
                state.call.deadline,
                verify=verify,
                is_racing=True,
            )
            for each in self.gateways
        ]
        winner, lost = race(peers, strategy.begin, delay, lambda each: each.close())
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
            if isinstance(error, TooLargeError) and self._state.found.size is not None:
                raise  # the size is verified: no gateway can help
        else:
            self._session.succeeded()
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
            is_done = self.ask([each for each, ready in waiting.items() if ready <= time])
            if output.furthest > before:
                backoff.restart()
            return is_done

        def reason(is_done: object) -> Retry | None:
            nonlocal waiting
            failed = [] if is_done else self.gateways
            reasons = {each: why for each in failed if (why := retry_reason(self.failures[each]))}
            waiting = {each: self._rests_until(each, why.asked) for each, why in reasons.items()}
            if not waiting:
                return None
            soonest = min(waiting.values())
            last = [reasons[each] for each, ready in waiting.items() if ready == soonest][-1]
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
