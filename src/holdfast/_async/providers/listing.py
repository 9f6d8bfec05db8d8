"""Lists of pins from a service that sends them one after the other."""

from abc import ABC

from holdfast.errors import ProviderError
from holdfast.protocol.pin_api import MAX_PINS
from holdfast.provider import AsyncFinding, AsyncListing
from holdfast.records import Pin, PinFilter


class AsyncFoundPins(AsyncListing, AsyncFinding, ABC):
    """Lists pins by finding all of them."""

    async def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return what is pinned, in the order in which it is found."""
        found: list[Pin] = []
        async for pin in self.find_pins(PinFilter(name=name), limit=limit):
            if len(found) == MAX_PINS:
                raise ProviderError(f"there are more than {MAX_PINS:,} pins: use iter_pins")
            found.append(pin)
        return found
