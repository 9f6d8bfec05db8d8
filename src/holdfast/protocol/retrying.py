"""Decide when a failed request is sent again, and when the next request may be sent."""

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Final, NamedTuple

from holdfast.config import Retries
from holdfast.errors import NetworkError, ProviderError, RequestTimeoutError
from holdfast.protocol.http import RETRIED, Reply
from holdfast.protocol.status_errors import retry_after

MINUTE: Final = 60.0


class Retry(NamedTuple):
    """Why there is another attempt: an error or a status, and the wait that the peer asks for."""

    error: str | None = None
    status: int | None = None
    asked: float | None = None


def retry_reason(outcome: object, statuses: Container[int | None] = RETRIED) -> Retry | None:
    """Return why another attempt may succeed after this `outcome`; None if it will not.

    A broken connection may be made again. A reply, or the error of one, must have one of the
    `statuses`.

    Example:
        >>> retry_reason(Reply(429, {"retry-after": "5"}))
        Retry(error=None, status=429, asked=5.0)
        >>> retry_reason(NetworkError("the certificate is wrong", transient=False))
    """
    if isinstance(outcome, Reply):
        is_final = outcome.status not in statuses
        return None if is_final else Retry(status=outcome.status, asked=retry_after(outcome))
    if isinstance(outcome, NetworkError):
        return Retry(outcome.name) if outcome.transient else None
    if isinstance(outcome, ProviderError) and outcome.status in statuses:
        return Retry(outcome.name, outcome.status, outcome.retry_after)
    return None


def is_transient(error: Exception) -> bool:
    """Return whether the same request may succeed when it is sent again."""
    return retry_reason(error) is not None


def is_unconnected(outcome: object) -> bool:
    """Return whether no connection could be made, as while a service restarts.

    A connection that is not accepted in time is not meant: the time-outs decide about that.
    """
    return (
        isinstance(outcome, NetworkError)
        and outcome.transient
        and not outcome.sent
        and not isinstance(outcome, RequestTimeoutError)
    )


class RetryBudget:
    """The retries that all calls of a client may still make together. Each success adds one again.

    There is no lock: two threads may be counted as one, which does no harm.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._left = size

    def take(self) -> bool:
        """Count one more retry and return True, or return False if none is left."""
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def give_back(self) -> None:
        """Give one retry back, after a request that succeeded."""
        if self._left < self._size:
            self._left += 1


@dataclass(eq=False, repr=False)
class Backoff:
    """The waits between the attempts of one call.

    `uniform` returns a random number between two others: `random.uniform`.

    Example:
        >>> backoff = Backoff(Retries(attempts=3, base=1), RetryBudget(10), lambda low, high: high)
        >>> backoff.next_delay(), backoff.next_delay(), backoff.next_delay()
        (1.0, 2.0, None)
    """

    retries: Retries
    budget: RetryBudget
    uniform: Callable[[float, float], float]
    failures: int = 0

    def next_delay(
        self, asked: float | None = None, left: float | None = None, waited: float = 0.0
    ) -> float | None:
        """Return the seconds until the next attempt, or None if there must be no other.

        Args:
            asked: The wait that the peer asks for, or None.
            left: The time that the call still has. A wait that the peer asks for does not count.
            waited: How long the call has waited so far because peers asked for it.
        """
        self.failures += 1
        if self.failures >= self.retries.attempts:
            return None
        if asked is None:
            delay = used = self._jitter()
        elif waited + asked <= self.retries.max_retry_after:
            delay, used = asked, 0.0
        else:
            return None
        if (left is not None and used >= left) or not self.budget.take():
            return None
        return delay

    def _jitter(self) -> float:
        """Return a random wait, so that clients that failed together do not retry together."""
        most = min(self.retries.cap, self.retries.base * 2.0 ** min(self.failures - 1, 60))
        return self.uniform(0.0, most)

    def restart(self) -> None:
        """Count the attempts from the start again, after progress."""
        self.failures = 0


class RateLimiter:
    """Spaces requests evenly, so that no minute holds more than `per_minute` of them.

    Example:
        >>> limiter = RateLimiter(120)
        >>> limiter.reserve(now=10.0), limiter.reserve(now=10.0), limiter.reserve(now=20.0)
        (0.0, 0.5, 0.0)
    """

    def __init__(self, per_minute: float) -> None:
        self._interval = MINUTE / per_minute
        self._next = float("-inf")

    def reserve(self, now: float) -> float:
        """Reserve the next turn and return the seconds from `now` until then."""
        turn = max(now, self._next)
        self._next = turn + self._interval
        return turn - now

    def give_back(self) -> None:
        """Give the last turn back unused."""
        self._next -= self._interval
