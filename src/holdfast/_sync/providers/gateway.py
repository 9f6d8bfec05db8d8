# WARNING: this file is generated from src/holdfast/_async/providers/gateway.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for public content: it reads through gateways, without an account."""

from holdfast._sync.providers.http import HTTPProvider
from holdfast._sync.providers.reading import ReadingProvider
from holdfast._sync.reads.gateway_reader import GatewayReader
from holdfast.calls import Call


class GatewayProvider(ReadingProvider, HTTPProvider):
    """Reads what is public on IPFS through the gateways of `gateway_url`, and verifies all of it.

    It needs no account, and takes no `provider_token`. It cannot store, pin or list: that is an
    UnsupportedError. The gateways are tried in their order; one that hangs or lies is avoided for a
    while. By default they are ``https://trustless-gateway.link/ipfs`` and ``https://ipfs.io/ipfs``.

    Example:
        >>> from holdfast import ClientConfig
        >>> provider = GatewayProvider(ClientConfig(provider="gateway"))
        >>> provider.url("bafkqaaa"), provider.supports("put_json")
        ('https://trustless-gateway.link/ipfs/bafkqaaa', False)
    """

    _reader: GatewayReader

    def check_credentials(self, call: Call, /) -> None:
        """Return if one of the gateways answers; raise the most serious failure otherwise."""
        self._reader.check(call)
