"""What is asked of a provider that content is copied from or to."""

from holdfast._async.providers.base import AsyncBaseProvider
from holdfast.errors import ClientError
from holdfast.records import Pin, PinFilter


async def find_pin(provider: AsyncBaseProvider, cid: str) -> Pin | None:
    """Return the pin of `cid` at `provider`; None if there is none, or it cannot be asked."""
    if not provider.supports("find_pins"):
        return None
    async for pin in provider.find_pins(PinFilter(cid=cid), limit=1):
        return pin
    return None


def has_content(pin: Pin) -> bool:
    """Return whether a provider has the content of `pin`, perhaps not at all of its nodes yet."""
    return pin.state == "pinned" or "pinned" in (pin.peers or {}).values()


async def addresses_of(provider: AsyncBaseProvider) -> list[str]:
    """Return the public addresses of `provider` on the network; none if it does not say them."""
    if not provider.supports("addresses"):
        return []
    try:
        return await provider.addresses()
    except ClientError:  # they are hints, and a token may lack the permission to ask
        return []
