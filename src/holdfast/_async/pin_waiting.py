"""Waiting for pins: for a list of them as it is sent, and for content that a provider fetches."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast._async.runtime import now, sleep
from holdfast.calls import Clock
from holdfast.errors import ProviderError
from holdfast.protocol import pin_api
from holdfast.records import OnPinProgress, Pin, PinProgress

if TYPE_CHECKING:
    from holdfast._async.providers.base import AsyncBaseProvider

FIRST_PAUSE: Final = 0.25  # seconds before the first look at the state of a new pin
LONGEST_PAUSE: Final = 10.0  # each pause is twice as long as the one before, up to this


class AsyncPinStream(AsyncIterator[Pin]):
    """The pins of one list, as the service sends them.

    The wait for each pin may take `total` seconds; what the caller does with a pin takes no time of
    the list. `read_all` has `total` seconds for the whole list.

    Args:
        find: Yields the pins. All its requests share the time of the clock that it is given.
        total: The time-out.
    """

    def __init__(
        self, find: Callable[[Clock], AsyncGenerator[Pin]], *, total: float | None
    ) -> None:
        self._clock = Clock(total)
        self._pins = find(self._clock)

    async def __anext__(self) -> Pin:
        self._clock.renew()
        return await anext(self._pins)

    async def read_all(self) -> list[Pin]:
        """Return all pins."""
        self._clock.renew()
        pins: list[Pin] = []
        async with aclosing(self):
            async for pin in self._pins:
                if len(pins) == pin_api.MAX_PINS:
                    raise ProviderError(
                        f"there are more than {pin_api.MAX_PINS:,} pins: use iter_pins"
                    )
                pins.append(pin)
        return pins

    async def aclose(self) -> None:
        """End the list."""
        await self._pins.aclose()


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


async def wait_for_pin(
    provider: "AsyncBaseProvider", pin: Pin, seconds: float, progress: OnPinProgress | None = None
) -> Pin:
    """Return `pin` when its content is pinned, or as it is after `seconds`."""
    pauses = AsyncPauses(FIRST_PAUSE, LONGEST_PAUSE, now() + seconds)
    while pin.state != "pinned" and await pauses.wait():
        pin = await provider.check_pin(pin)
        if progress is not None:
            progress(PinProgress(state=pin.state, peers=pin.peers))
    return pin
