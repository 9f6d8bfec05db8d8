# WARNING: this file is generated from src/holdfast/_async/client/pins.py
# by scripts/generate_sync.py. Change the original instead.
"""The methods of a client for pins: what the provider keeps, and under which names."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast import arguments
from holdfast._sync.client.base import ClientBase
from holdfast._sync.pin_stream import PinStream
from holdfast._sync.pin_waiting import wait_for_pin
from holdfast.content.reference import Reference
from holdfast.records import Pin, PinFilter

if TYPE_CHECKING:
    from holdfast._sync.providers.base import BaseProvider


class PinCalls(ClientBase):
    """Makes, finds, changes and removes pins."""

    def pin(
        self,
        cid: str,
        *,
        name: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
        wait: float = 0.0,
    ) -> Pin:
        """Pin content that exists already; return the pin, whose `state` says how far it is.

        Raise ProviderError if the provider cannot pin it. The embedded store pins only what it has.

        Args:
            cid: The CID to pin, with everything below it.
            name: The name of the pin.
            keyvalues: Metadata of your own for the pin, by which `pins` can find it.
            wait: The seconds to wait until the content is pinned. After them, the pin is returned
                with the state ``queued`` or ``pinning``, and the provider goes on.

        Example:
            >>> record = client.upload(b"hello")
            >>> pin = client.pin(record.cid, name="report", wait=30)
            >>> pin.state
            'pinned'
        """
        self._check_open()
        info = arguments.pin_info(name, keyvalues)
        arguments.check_wait(wait)
        provider = self._provider.require("pin")
        pin = provider.pin(Reference.parse_cid(cid), info)
        return wait_for_pin(provider, pin, wait)

    def update(
        self,
        cid: str,
        *,
        name: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
    ) -> Pin:
        """Change the name or the key-values of a pin; raise NotFoundError if it is not pinned.

        Args:
            cid: The CID of the pin.
            name: The new name; None keeps the old one.
            keyvalues: Key-values to add or replace. The value None removes a key, and keys that
                are left out stay.

        Example:
            >>> record = client.store([1, 2], keyvalues={"draft": True, "year": 2026})
            >>> pin = client.update(record.cid, name="final", keyvalues={"draft": None})
            >>> pin.name, pin.keyvalues
            ('final', {'year': 2026})
        """
        self._check_open()
        name, changed = arguments.pin_changes(name, keyvalues)
        provider = self._provider.require("update_pin")
        return provider.update_pin(Reference.parse_cid(cid), name=name, keyvalues=changed)

    def revoke(self, cid: str) -> bool:
        """Unpin `cid` and return True; raise NotFoundError if it is not pinned.

        Copies on other nodes and in caches may remain.

        Example:
            >>> record = client.store({"hello": "world"})
            >>> client.revoke(record.cid)
            True
        """
        self._check_open()
        self._provider.delete(Reference.parse_cid(cid))
        return True

    def pins(
        self,
        *,
        name: str | None = None,
        cid: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        limit: int | None = None,
    ) -> list[Pin]:
        """Return your pins at the provider, newest first, as a list.

        The arguments are those of `iter_pins`, which does not hold all of them at a time.

        Example:
            >>> record = client.store([1, 2], name="report-2026")
            >>> [pin.name for pin in client.pins(name="report", limit=10)]
            ['report-2026']
        """
        self._check_open()
        wanted = arguments.pin_filter(
            name=name, cid=cid, keyvalues=keyvalues, since=since, until=until
        )
        arguments.check_limit(limit)
        if _is_by_name(wanted):
            provider = self._provider.require("list_pins")
            return provider.list_pins(name=wanted.name, limit=limit)
        pins = self._find(wanted, limit)
        if isinstance(pins, PinStream):
            return pins.read_all()
        return [pin for pin in pins]

    def iter_pins(
        self,
        *,
        name: str | None = None,
        cid: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        limit: int | None = None,
    ) -> Iterator[Pin]:
        """Yield your pins at the provider, newest first; pages are fetched as they are needed.

        Args:
            name: Only pins whose name contains this text. Whether upper and lower case differ
                depends on the provider: they do at `kubo` and `cluster`.
            cid: Only pins of this CID.
            keyvalues: Only pins that have all of these key-values. A number equals its text.
            since: Only pins made at this time or later: a datetime with a time zone, or
                milliseconds since 1970.
            until: Only pins made at this time or earlier.
            limit: The largest number of pins; None for all.

        Example:
            >>> from datetime import UTC, datetime, timedelta
            >>> record = client.store([1, 2], name="May", keyvalues={"kind": "report"})
            >>> week = datetime.now(UTC) - timedelta(days=7)
            >>> for pin in client.iter_pins(keyvalues={"kind": "report"}, since=week):
            ...     print(pin.name)
            May
        """
        self._check_open()
        wanted = arguments.pin_filter(
            name=name, cid=cid, keyvalues=keyvalues, since=since, until=until
        )
        arguments.check_limit(limit)
        return self._find(wanted, limit)

    def _find(self, wanted: PinFilter, limit: int | None) -> Iterator[Pin]:
        if self._provider.supports("find_pins"):
            return self._provider.find_pins(wanted, limit=limit)
        provider = self._provider.require("list_pins" if _is_by_name(wanted) else "find_pins")
        return _listed(provider, wanted.name, limit)


def _listed(provider: "BaseProvider", name: str | None, limit: int | None) -> Iterator[Pin]:
    """Yield the pins of a provider that can only list them at once."""
    for pin in provider.list_pins(name=name, limit=limit):
        yield pin


def _is_by_name(wanted: PinFilter) -> bool:
    """Return whether pins are wanted by their name at the most, which every list can do."""
    return wanted == PinFilter(name=wanted.name)
