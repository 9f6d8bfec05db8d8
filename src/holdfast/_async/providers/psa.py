"""The provider for services with the IPFS Pinning Services API, which pin existing content only."""

from collections.abc import Sequence

from holdfast._async.providers.http import AsyncServiceProvider
from holdfast._async.session import AsyncSession
from holdfast.config import ClientConfig
from holdfast.config.client_config import missing_token, provider_options
from holdfast.errors import ConfigError
from holdfast.protocol.psa import MAX_ORIGINS, PSAAPI
from holdfast.records import Pin, PinInfo


class AsyncPSAProvider(AsyncServiceProvider):
    """Pins content by its CID at a service with the IPFS Pinning Services API.

    `pin_api_url` is the address of that API, such as ``https://api.pinata.cloud/psa``. It has no
    default, because `provider_token` is sent there. A token of the form ``user:password`` is sent
    as basic authorization.

    The service fetches the content from the IPFS network, so it must be on a node there. It cannot
    take new content: `store` and `upload` raise UnsupportedError. Content is read through
    `gateway_url`, by default a public gateway, and verified.

    `provider_options` may have ``origins``: up to 20 multiaddrs of nodes that have the content,
    such as ``/dns/node.example.com/tcp/4001/p2p/12D3KooW…``. Services connect to them first.

    A service keeps each request for a CID. `pin` uses the one there is, and `delete` removes all of
    them. `update_pin` puts a new request in the place of the old one, so `Pin.id` changes.

    Example:
        >>> from holdfast import ClientConfig
        >>> config = ClientConfig(
        ...     provider="psa", provider_token="token", pin_api_url="https://psa.example.com"
        ... )
        >>> AsyncPSAProvider(config).url("bafkqaaa")
        'https://ipfs.io/ipfs/bafkqaaa'
    """

    _api: PSAAPI

    def __init__(self, config: ClientConfig, *, session: AsyncSession | None = None) -> None:
        if config.provider_token is None:
            raise missing_token(config)
        origins = read_origins(config)
        super().__init__(config, session=session)
        self._api = PSAAPI(config.api_url, config.provider_token, origins)

    async def pin(self, cid: str, info: PinInfo) -> Pin:
        """Ask the service to fetch and pin `cid`, unless it was asked already."""
        return await self.pin_from(cid, info, ())

    async def pin_from(self, cid: str, info: PinInfo, origins: Sequence[str]) -> Pin:
        """Pin `cid`. `origins` are nodes that have it, besides those of the configuration."""
        async with self.call("pin", cid) as call:
            return await self.run(self._api.pin(cid, info, origins), call)

    async def check_pin(self, pin: Pin) -> Pin:
        """Return a pin by `pin` as it is now; raise ProviderError if the service has failed."""
        async with self.call("pin", pin.cid) as call:
            return await self.run(self._api.check_pin(pin), call)


def read_origins(config: ClientConfig) -> tuple[str, ...]:
    """Return the option ``origins``; raise ConfigError for another one, or another form."""
    origins = provider_options(config, "origins").get("origins", ())
    is_list = isinstance(origins, list | tuple) and len(origins) <= MAX_ORIGINS
    if not is_list or not all(isinstance(text, str) and text[:1] == "/" for text in origins):
        raise ConfigError(
            f"provider_options: origins must be a list of up to {MAX_ORIGINS} multiaddrs, such as "
            "/dns/node.example.com/tcp/4001/p2p/12D3KooW…"
        )
    return tuple(dict.fromkeys(origins))
