"""The methods of a client for pins: what the provider keeps, and under which names."""

from holdfast import arguments
from holdfast._async.client.base import AsyncClientBase
from holdfast.content.reference import Reference
from holdfast.provider import AsyncListing, ask
from holdfast.records import Pin


class AsyncPinCalls(AsyncClientBase):
    """Lists and removes pins."""

    async def revoke(self, cid: str) -> bool:
        """Unpin `cid` and return True; raise ProviderError if it is not pinned.

        Copies on other nodes and in caches may remain.

        Example:
            >>> async def example(client: AsyncClient, cid: str) -> bool:
            ...     return await client.revoke(cid)
        """
        self._check_open()
        await self._provider.delete(Reference.parse_cid(cid))
        return True

    async def pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return your pins at the provider, newest first.

        Args:
            name: Return only pins whose name contains this text.
            limit: The largest number of pins to return; None for all.

        Example:
            >>> async def example(client: AsyncClient) -> list[str]:
            ...     return [pin.cid for pin in await client.pins(name="report", limit=10)]
        """
        self._check_open()
        name = arguments.name_filter(name)
        arguments.check_limit(limit)
        return await ask(self._provider, AsyncListing).list_pins(name=name, limit=limit)
