"""The provider for public content: it reads through gateways, without an account."""

from holdfast._async.providers.http import AsyncHTTPProvider
from holdfast._async.reads.gateway_reader import AsyncGatewayReader
from holdfast.calls import Call
from holdfast.errors import UnsupportedError
from holdfast.registry import writing_providers


class AsyncGatewayProvider(AsyncHTTPProvider):
    """Reads what is public on IPFS through the gateways of `gateway_url`, and verifies all of it.

    It needs no account, and takes no `provider_token`. It cannot store, pin or list: that is an
    UnsupportedError. The gateways are tried in their order; one that hangs or lies is avoided for a
    while. By default they are ``https://trustless-gateway.link/ipfs`` and ``https://ipfs.io/ipfs``.

    Example:
        >>> from holdfast import ClientConfig
        >>> provider = AsyncGatewayProvider(ClientConfig(provider="gateway"))
        >>> provider.url("bafkqaaa"), provider.supports("put_json")
        ('https://trustless-gateway.link/ipfs/bafkqaaa', False)
    """

    takes = ()
    _reader: AsyncGatewayReader

    async def unpin(self, _cid: str, _call: Call, /) -> None:
        """Raise UnsupportedError: nothing is pinned at a gateway."""
        raise self.refusal("unpin")

    async def check_credentials(self, call: Call, /) -> None:
        """Return if one of the gateways answers; raise the most serious failure otherwise."""
        await self._reader.check(call)

    def refusal(self, operation: str) -> UnsupportedError:  # noqa: ARG002 - one error for all
        """Return the error for everything that writes, or asks for what is pinned."""
        names = ", ".join(writing_providers())
        return UnsupportedError(f"{self.title} only reads; to store or pin, use one of {names}")
