"""Ours, async, with a Kubo."""

from bench.clients import Settings
from bench.clients.holdfast_async import Ours
from holdfast import AsyncClient


async def connect(settings: Settings) -> Ours:
    """Return the client; it needs a running event loop."""
    return Ours(await AsyncClient.init(provider="kubo", pin_api_url=settings.url))
