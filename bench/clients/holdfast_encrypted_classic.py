"""Ours, async, encrypted for a classic recipient."""

from bench.clients import Settings
from bench.clients.holdfast_encrypted import CLASSIC_KEY, Encrypted
from bench.clients.holdfast_encrypted import connect as connect_with


async def connect(settings: Settings) -> Encrypted:
    """Return the client; it needs a running event loop."""
    return await connect_with(settings, CLASSIC_KEY)
