"""The order in which gateways or the peers of a cluster are asked: those that failed come last."""

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

from holdfast import errors
from holdfast.protocol.retrying import is_transient

AVOIDED_FOR: Final = 300.0  # seconds for which a peer that has failed is asked last

P = TypeVar("P")


class PeerSet(Generic[P]):
    """Peers that serve the same, in the order in which they are asked.

    `Call.turns` shares the time among those that are asked one after the other; `races.race` asks
    several at the same time.

    Args:
        peers: The peers in the configured order. The text of each is its address.
        avoided: The time until which the peer at an address is asked last. Clients that share
            connections share it, so they know the same of the peers.

    Example:
        >>> peers = PeerSet(["http://one", "http://two"], {})
        >>> peers.avoid("http://one", now=0.0)
        >>> peers.in_order(now=1.0), peers.in_order(now=301.0)
        (['http://two', 'http://one'], ['http://one', 'http://two'])
    """

    def __init__(self, peers: Iterable[P], avoided: dict[str, float]) -> None:
        self._peers = tuple(peers)
        self._avoided_until = avoided

    def __len__(self) -> int:
        return len(self._peers)

    def in_order(self, now: float, skip: int = 0) -> list[P]:
        """Return the peers in the configured order, then those to avoid.

        Of these, the one that failed last comes last. So one that never answers cannot delay every
        call while another one fails now and then. The first `skip` of those that work come after
        the others that do.
        """
        if not self._avoided_until and not skip:
            return [*self._peers]

        def avoided_until(peer: P) -> float:
            until = self._avoided_until.get(str(peer), 0.0)
            return until if until > now else 0.0

        peers = sorted(self._peers, key=avoided_until)
        working = sum(not avoided_until(peer) for peer in peers)
        first = skip % working if working else 0
        return [*peers[first:working], *peers[:first], *peers[working:]]

    def avoid(self, peer: P, now: float) -> None:
        """Ask `peer` last for some time."""
        self._avoided_until[str(peer)] = now + AVOIDED_FOR

    def note_failure(self, peer: P, error: errors.ClientError, now: float) -> None:
        """Ask `peer` last for some time if `error` shows that it does not work.

        It does not work if it gives no answer, is too slow, answers with a status that is retried,
        or sends wrong bytes. A peer that lacks the content, or cannot prove it, works.
        """
        if isinstance(error, errors.NetworkError) or is_transient(error) or is_wrong_content(error):
            self.avoid(peer, now)


def is_wrong_content(error: errors.ClientError) -> bool:
    """Return whether a peer sent something else than the CID names.

    Content that it cannot prove, or that is verified and malformed, is not its fault.
    """
    is_not_its_fault = isinstance(error, errors.UnprovenError | errors.MalformedError)
    return isinstance(error, errors.VerificationError) and not is_not_its_fault
