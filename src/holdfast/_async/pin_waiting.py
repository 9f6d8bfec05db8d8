"""Waiting for something that a provider takes its time for, such as content that it fetches."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast._async.runtime import now, sleep
from holdfast.records import Pin

if TYPE_CHECKING:
    from holdfast._async.providers.base import AsyncBaseProvider

FIRST_PAUSE: Final = 0.25  # seconds before the first look at the state of a new pin
LONGEST_PAUSE: Final = 10.0  # each pause is twice as long as the one before, up to this


@dataclass
class AsyncPauses:
    """The pauses between looks at something, each twice as long as the one before.

    Attributes:
        next: The next pause, in seconds.
        longest: The longest pause, in seconds.
        until: When they end, on the monotonic clock.
    """

    next: float
    longest: float
    until: float

    async def wait(self) -> bool:
        """Wait, and return True; return False at once if no time is left."""
        left = self.until - now()
        if left > 0:
            await sleep(min(self.next, left))
            self.next = min(2 * self.next, self.longest)
        return left > 0


async def wait_for_pin(provider: "AsyncBaseProvider", pin: Pin, seconds: float) -> Pin:
    """Return `pin` when its content is pinned, or as it is after `seconds`."""
    pauses = AsyncPauses(FIRST_PAUSE, LONGEST_PAUSE, now() + seconds)
    while pin.state != "pinned" and await pauses.wait():
        pin = await provider.check_pin(pin)
    return pin
