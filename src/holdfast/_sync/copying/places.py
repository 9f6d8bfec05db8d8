# WARNING: this file is generated from src/holdfast/_async/copying/places.py
# by scripts/generate_sync.py. Change the original instead.
"""What is asked of a provider that content is copied from or to."""

from holdfast._sync.providers.base import BaseProvider
from holdfast.errors import ClientError
from holdfast.records import Pin, PinFilter


def find_pin(provider: BaseProvider, cid: str) -> Pin | None:
    """Return the pin of `cid` at `provider`; None if there is none, or it cannot be asked."""
    if not provider.supports("find_pins"):
        return None
    for pin in provider.find_pins(PinFilter(cid=cid), limit=1):
        return pin
    return None


def has_content(pin: Pin) -> bool:
    """Return whether a provider has the content of `pin`, perhaps not at all of its nodes yet."""
    return pin.state == "pinned" or "pinned" in (pin.peers or {}).values()


def addresses_of(provider: BaseProvider) -> list[str]:
    """Return the public addresses of `provider` on the network; none if it does not say them."""
    if not provider.supports("addresses"):
        return []
    try:
        return provider.addresses()
    except ClientError:  # they are hints, and a token may lack the permission to ask
        return []
