# WARNING: this file is generated from src/holdfast/_async/pin_stream.py
# by scripts/generate_sync.py. Change the original instead.
"""A list of pins that a service sends, and the time that it may take."""

from collections.abc import Callable, Generator, Iterator
from typing import Self

from holdfast.calls import Clock
from holdfast.errors import ProviderError
from holdfast.protocol import pin_api
from holdfast.records import Pin


class PinStream(Iterator[Pin]):
    """The pins of one list, as the service sends them.

    The wait for each pin may take `total` seconds; what the caller does with a pin takes no time of
    the list. `read_all` has `total` seconds for the whole list.

    Args:
        find: Yields the pins. All its requests share the time of the clock that it is given.
        total: The time-out.
    """

    def __init__(self, find: Callable[[Clock], Generator[Pin]], *, total: float | None) -> None:
        self._clock = Clock(total)
        self._pins = find(self._clock)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Pin:
        self._clock.renew()
        return next(self._pins)

    def read_all(self) -> list[Pin]:
        """Return all pins."""
        self._clock.renew()
        pins: list[Pin] = []
        try:
            for pin in self._pins:
                if len(pins) == pin_api.MAX_PINS:
                    raise ProviderError(
                        f"there are more than {pin_api.MAX_PINS:,} pins: use iter_pins"
                    )
                pins.append(pin)
        finally:
            self.close()
        return pins

    def close(self) -> None:
        """End the list."""
        self._pins.close()
