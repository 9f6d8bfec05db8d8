# WARNING: this file is generated from src/holdfast/_async/reads/hedging.py
# by scripts/generate_sync.py. Change the original instead.
"""Hedging: the gateways race to the first verified bytes, and only the winner continues.

The next gateway starts when `hedge_after` has passed or one has failed. Each works on a fork of the
state. The state adopts the fork of the winner, and the winner alone writes.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from holdfast._sync.reads.attempt import BODY, PLAIN, drop_unverified
from holdfast._sync.reads.peer import GatewayPeer
from holdfast._sync.reads.rounds import FAILURES, Rounds, without_frames
from holdfast._sync.reads.state import ReadState
from holdfast._sync.reads.strategies import Transfer
from holdfast._sync.runtime import race
from holdfast._sync.session import Session
from holdfast.errors import ClientError, UnprovenError
from holdfast.protocol.gateway import Gateway


class Runner(NamedTuple):
    """A gateway in a race, and the content that it has begun to send."""

    peer: GatewayPeer
    transfer: Transfer

    def close(self) -> None:
        """Close the reply that it has begun to send."""
        self.transfer.close()


def run_race(
    session: Session, rounds: Rounds, state: ReadState, *, verify: bool, delay: float
) -> bool:
    """Let the gateways race; return whether the winner completed the read.

    A gateway that refuses is not counted as failed: it may support another strategy.
    """
    runners: list[Callable[[], Runner]] = []
    for gateway in rounds.gateways:
        deadline = state.call.deadline
        peer = GatewayPeer(session, gateway, state.fork(), deadline, verify=verify, is_racing=True)
        runners.append(partial(_start, peer))
    outcome = race(runners, delay, Runner.close)
    winner, lost = outcome
    for place, error in lost.items():
        if not isinstance(error, FAILURES):
            if winner is not None:
                winner.close()
            raise error
        _note(rounds, rounds.gateways[place], error)
    if winner is None:
        return False
    state.adopt(winner.peer.state)
    failure: ClientError | None = None
    try:
        winner.transfer.finish()
    except FAILURES as error:
        failure = error
    if failure is None:
        session.succeeded()
        return True
    drop_unverified(state)
    _note(rounds, winner.peer.gateway, failure)
    return False


def _start(peer: GatewayPeer) -> Runner:
    return Runner(peer, (BODY if peer.verify else PLAIN).begin(peer))


def _note(rounds: Rounds, gateway: Gateway, error: ClientError) -> None:
    if not isinstance(error, UnprovenError):
        rounds.failures[gateway] = without_frames(error)
        rounds.report(gateway, error)
