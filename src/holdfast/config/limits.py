"""Frozen values of the configuration: how long a client waits, and how often it tries again."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from holdfast.config import checks
from holdfast.errors import ConfigError

Limits = TypeVar("Limits", "Timeouts", "Retries")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long to wait, in seconds. None waits without limit.

    Attributes:
        connect: For a connection to open, including TLS.
        read: Without progress: until all headers of a reply have arrived, and between bytes of its
            body.
        write: For the peer to accept a piece of an upload.
        total: For a whole call with all its attempts and the waits between them, but without the
            wait for a turn under `rate_limit`. `upload` and `download` have no total: they end
            when they make no progress. An open file has it for each range that it fetches, and
            `iter_pins` for each wait for the next pin.

    Example:
        >>> Timeouts(read=5)
        Timeouts(connect=10, read=5, write=60, total=60)
    """

    connect: float | None = 10
    read: float | None = 60
    write: float | None = 60
    total: float | None = 60

    def __post_init__(self) -> None:
        for limit in fields(self):
            checks.seconds(f"timeouts.{limit.name}", getattr(self, limit.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a failed request is sent again, and after what waits.

    A request is sent again after a broken connection, a time-out, or one of the statuses 408, 425,
    429, 500, 502, 503 and 504; an upload only if its source can be read again from the start. The
    first wait is random, up to `base`; the next is up to twice as long, and so on. If a peer asks
    for a wait with ``Retry-After``, the client waits that long instead. Such waits do not count
    against `Timeouts.total`, but all of them in one call together are at most `max_retry_after`. If
    a peer asks for more, the call fails at once with the error of its status, ``retry_after`` set.

    Attributes:
        attempts: How often a request is sent at most; 1 never sends it again. A download that has
            verified more bytes since the last attempt starts counting again.
        base: The longest first wait, in seconds.
        cap: The longest wait that the client chooses itself, in seconds.
        budget: How many repeats all calls of a client may make together; each success gives one
            back. So a busy client soon stops repeating requests to a service that is down.
        max_retry_after: How many seconds one call waits in all because peers ask for it; 0 never
            waits.

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


def timeouts(name: str, value: Any) -> Timeouts:
    """Check a `Timeouts`, or make one from a mapping."""
    return _made(Timeouts, name, value)


def retries(name: str, value: Any) -> Retries:
    """Check a `Retries`, or make one from a mapping."""
    return _made(Retries, name, value)


def _made(kind: type[Limits], name: str, value: Any) -> Limits:
    if isinstance(value, kind):
        return value
    names = [limit.name for limit in fields(kind)]
    if not isinstance(value, Mapping) or not set(value) <= set(names):
        example = {names[0]: 3}
        raise ConfigError(f"{name} must be a mapping with {', '.join(names)}; such as {example}")
    return kind(**value)
