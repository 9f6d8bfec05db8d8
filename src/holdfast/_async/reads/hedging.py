"""Hedging: the gateways race to the first verified bytes, and only the winner continues.

The next gateway starts when `hedge_after` has passed or one has failed. Each works on a fork of the
state. The state adopts the fork of the winner, and the winner alone writes.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from holdfast._async.reads.attempt import BODY, PLAIN, drop_unverified
from holdfast._async.reads.peer import AsyncGatewayPeer
from holdfast._async.reads.rounds import FAILURES, AsyncRounds, without_frames
from holdfast._async.reads.state import ReadState
from holdfast._async.reads.strategies import AsyncTransfer
from holdfast._async.runtime import race
from holdfast._async.session import AsyncSession
from holdfast.errors import ClientError, UnprovenError
from holdfast.protocol.gateway import Gateway


class AsyncRunner(NamedTuple):
    """A gateway in a race, and the content that it has begun to send."""

    peer: AsyncGatewayPeer
    transfer: AsyncTransfer

    async def aclose(self) -> None:
        """Close the reply that it has begun to send."""
        await self.transfer.aclose()


async def run_race(
    session: AsyncSession, rounds: AsyncRounds, state: ReadState, *, verify: bool, delay: float
) -> bool:
    """Let the gateways race; return whether the winner completed the read.

    A gateway that refuses is not counted as failed: it may support another strategy.
    """
    runners: list[Callable[[], Awaitable[AsyncRunner]]] = []
    for gateway in rounds.gateways:
        deadline = state.call.deadline
        peer = AsyncGatewayPeer(
            session, gateway, state.fork(), deadline, verify=verify, is_racing=True
        )
        runners.append(partial(_start, peer))
    outcome = await race(runners, delay, AsyncRunner.aclose)
    winner, lost = outcome
    for place, error in lost.items():
        if not isinstance(error, FAILURES):
            if winner is not None:
                await winner.aclose()
            raise error
        _note(rounds, rounds.gateways[place], error)
    if winner is None:
        return False
    state.adopt(winner.peer.state)
    failure: ClientError | None = None
    try:
        await winner.transfer.finish()
    except FAILURES as error:
        failure = error
    if failure is None:
        session.succeeded()
        return True
    await drop_unverified(state)
    _note(rounds, winner.peer.gateway, failure)
    return False


async def _start(peer: AsyncGatewayPeer) -> AsyncRunner:
    return AsyncRunner(peer, await (BODY if peer.verify else PLAIN).begin(peer))


def _note(rounds: AsyncRounds, gateway: Gateway, error: ClientError) -> None:
    if not isinstance(error, UnprovenError):
        rounds.failures[gateway] = without_frames(error)
        rounds.report(gateway, error)
