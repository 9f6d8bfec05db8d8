# WARNING: this file is generated from src/holdfast/_async/client/pins.py
# by scripts/generate_sync.py. Change the original instead.
"""The methods of a client for pins: what the provider keeps, and under which names."""

from holdfast import arguments
from holdfast._sync.client.base import ClientBase
from holdfast.content.reference import Reference
from holdfast.provider import Listing, ask
from holdfast.records import Pin


class PinCalls(ClientBase):
    """Lists and removes pins."""

    def revoke(self, cid: str) -> bool:
        """Unpin `cid` and return True; raise ProviderError if it is not pinned.

        Copies on other nodes and in caches may remain.

        Example:
            >>> def example(client: Client, cid: str) -> bool:
            ...     return client.revoke(cid)
        """
        self._check_open()
        self._provider.delete(Reference.parse_cid(cid))
        return True

    def pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return your pins at the provider, newest first.

        Args:
            name: Return only pins whose name contains this text.
            limit: The largest number of pins to return; None for all.

        Example:
            >>> def example(client: Client) -> list[str]:
            ...     return [pin.cid for pin in client.pins(name="report", limit=10)]
        """
        self._check_open()
        name = arguments.name_filter(name)
        arguments.check_limit(limit)
        return ask(self._provider, Listing).list_pins(name=name, limit=limit)
