"""The configuration of our clients: an address, and otherwise the defaults."""

from bench.clients import TOKEN, Settings
from holdfast import ClientConfig


def config_for(settings: Settings) -> ClientConfig:
    """Return the configuration for the server of the benchmarks."""
    return ClientConfig(
        provider="pinning",
        provider_token=TOKEN,
        pin_api_url=settings.url,
        gateway_url=f"{settings.url}/ipfs",
        cache_path=settings.folder / "cache",
        verify=settings.verify,
    )
