"""When a failed request is sent again, and when a request may be sent at all: pure decisions."""

import random
from typing import Final

from holdfast.config import Retries
from holdfast.errors import ClientError, NetworkError, ProviderError

RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
MINUTE: Final = 60.0


def is_transient(error: ClientError) -> bool:
    """Whether the same request may succeed when it is sent again."""
    if isinstance(error, NetworkError):
        return error.transient
    return isinstance(error, ProviderError) and error.status in RETRIED


class RetryBudget:
    """Repeats that are left to all calls of a client together. A success gives one back.

    Threads may lose a count to each other here; that does no harm.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._left = size

    def take(self) -> bool:
        """Whether one more repeat may be made; if so, it is counted."""
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def give_back(self) -> None:
        """A request succeeded."""
        self._left = min(self._size, self._left + 1)


class Backoff:
    """The waits between the attempts of one call.

    Example:
        >>> backoff = Backoff(Retries(attempts=3, base=1), RetryBudget(10))
        >>> 0 <= backoff.next_delay() <= 1, 0 <= backoff.next_delay() <= 2
        (True, True)
        >>> backoff.next_delay() is None
        True
    """

    def __init__(self, retries: Retries, budget: RetryBudget) -> None:
        self._retries = retries
        self._budget = budget
        self._failures = 0

    def next_delay(
        self, asked: float | None = None, left: float | None = None, waited: float = 0.0
    ) -> float | None:
        """Return the seconds until the next attempt, or None where there is to be none.

        Args:
            asked: The wait that the peer asks for, if it does.
            left: The time that the call still has. A wait that was asked for does not use it up.
            waited: How long the call has waited so far because it was asked to.
        """
        self._failures += 1
        if self._failures >= self._retries.attempts:
            return None
        if asked is None:
            delay = used = self._jitter()
        elif waited + asked <= self._retries.max_retry_after:
            delay, used = asked, 0.0
        else:
            return None
        if (left is not None and used >= left) or not self._budget.take():
            return None
        return delay

    def _jitter(self) -> float:
        """Full jitter: callers that failed together do not come back together."""
        most = min(self._retries.cap, self._retries.base * 2.0 ** min(self._failures - 1, 60))
        return random.uniform(0, most)  # noqa: S311 - no secret depends on it

    def restart(self) -> None:
        """Progress was made: count anew."""
        self._failures = 0


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
        """Take the next turn; how many seconds from `now` it is."""
        turn = max(now, self._next)
        self._next = turn + self._interval
        return turn - now

    def give_back(self) -> None:
        """The turn that was taken last is not used."""
        self._next -= self._interval
