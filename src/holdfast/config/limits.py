"""How long a client waits, and how often it tries again: frozen values of the configuration."""

from dataclasses import dataclass

from holdfast.config import checks


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long to wait, in seconds; None is for ever.

    Attributes:
        connect: For a connection, TLS included.
        read: Without progress: until the head of a reply is whole, and between bytes of its body.
        write: For a piece of an upload to be taken.
        total: For a whole call, all its attempts and the waits between them; not the wait for a
            turn under `rate_limit`. `upload` and `download` have none: there, stalled progress
            ends it. An open file has it for each range that it fetches.

    Example:
        >>> Timeouts(read=5)
        Timeouts(connect=10, read=5, write=60, total=60)
    """

    connect: float | None = 10
    read: float | None = 60
    write: float | None = 60
    total: float | None = 60

    def __post_init__(self) -> None:
        for name in ("connect", "read", "write", "total"):
            value = getattr(self, name)
            if value is not None:
                checks.positive(f"timeouts.{name}", value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often, and after what waits, a failed request is sent again.

    Sent again are requests that met a broken connection, a time-out, or one of the statuses 408,
    425, 429, 500, 502, 503 and 504; an upload only where its source can be read again from its
    start. The wait is a random one up to `base`, then up to twice as much, and so on. Where a peer
    asks for a wait with ``Retry-After``, that one is kept instead. It does not count against
    `Timeouts.total`, but all such waits of one call together are at most `max_retry_after`: a
    longer one is the error of its status at once, with ``retry_after`` set.

    Attributes:
        attempts: How often a request is sent at the most; 1 is never again. A download that has
            proven more bytes since the last attempt counts anew.
        base: The first wait at the most, in seconds.
        cap: The longest wait of our own choice, in seconds.
        budget: How many repeats all calls of a client may make that no success makes up for: when
            a service is down for good, a busy client soon stops knocking four times at each call.

        max_retry_after: How many seconds one call waits in all because peers ask for it; 0 is
            never.

    Example:
        >>> Retries(attempts=1)
        Retries(attempts=1, base=0.25, cap=20, budget=100, max_retry_after=120)
    """

    attempts: int = 4
    base: float = 0.25
    cap: float = 20
    budget: int = 100
    max_retry_after: float = 120

    def __post_init__(self) -> None:
        checks.whole("retries.attempts", self.attempts)
        checks.positive("retries.base", self.base)
        checks.positive("retries.cap", self.cap)
        checks.whole("retries.budget", self.budget)
        checks.not_negative("retries.max_retry_after", self.max_retry_after)
