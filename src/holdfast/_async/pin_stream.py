"""A list of pins that a service sends, and the time that it may take."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Self

from holdfast.calls import Clock
from holdfast.errors import ProviderError
from holdfast.protocol import pin_api
from holdfast.records import Pin


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

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Pin:
        self._clock.renew()
        return await anext(self._pins)

    async def read_all(self) -> list[Pin]:
        """Return all pins."""
        self._clock.renew()
        pins: list[Pin] = []
        try:
            async for pin in self._pins:
                if len(pins) == pin_api.MAX_PINS:
                    raise ProviderError(
                        f"there are more than {pin_api.MAX_PINS:,} pins: use iter_pins"
                    )
                pins.append(pin)
        finally:
            await self.aclose()
        return pins

    async def aclose(self) -> None:
        """End the list."""
        await self._pins.aclose()
