# WARNING: this file is generated from src/holdfast/_async/providers/listing.py
# by scripts/generate_sync.py. Change the original instead.
"""Lists of pins from a service that sends them one after the other."""

from abc import ABC

from holdfast.errors import ProviderError
from holdfast.protocol.pin_api import MAX_PINS
from holdfast.provider import Finding, Listing
from holdfast.records import Pin, PinFilter


class FoundPins(Listing, Finding, ABC):
    """Lists pins by finding all of them."""

    def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return what is pinned, in the order in which it is found."""
        found: list[Pin] = []
        for pin in self.find_pins(PinFilter(name=name), limit=limit):
            if len(found) == MAX_PINS:
                raise ProviderError(f"there are more than {MAX_PINS:,} pins: use iter_pins")
            found.append(pin)
        return found
