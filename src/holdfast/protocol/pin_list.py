"""The list of pins of the spec's service: the filters that it takes, its pages, and its rows."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.protocol import json_text
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.pin_api import PAGE_LIMIT
from holdfast.protocol.status_errors import failure
from holdfast.records import Pin, PinFilter

if TYPE_CHECKING:
    from holdfast.protocol.pinning import PinningAPI

MAX_PAGE: Final = 16 << 20  # bytes of one page of pins, with all metadata
OTHER: Final = "other "  # begins the cursor of a list under the other version of its CID


@dataclass(frozen=True, slots=True)
class PinList:
    """The pins that are `wanted`, in pages by offset: the cursor is the offset, as text.

    The service knows a pin by the text of its CID. If it has none under the text that was given, it
    is asked for the other version of the CID, which names the same content.
    """

    api: "PinningAPI"
    wanted: PinFilter

    @property
    def token(self) -> Secret:
        """The credential, to be removed from error messages."""
        return self.api.token

    def request(self, count: int, cursor: str | None) -> Request:
        """Return the request for `count` pins from `cursor` on."""
        query = {"status": "pinned", "includeCount": "false", "pageLimit": str(count)}
        query["pageOffset"] = (cursor or "0").removeprefix(OTHER)
        query |= _filters(self.wanted)
        if cursor is not None and cursor.startswith(OTHER):
            query["cid"] = other_version(self.wanted.cid) or ""
        return self.api.request("GET", f"/data/pinList?{urlencode(query)}", max_reply=MAX_PAGE)

    def read(self, reply: Reply, count: int, cursor: str | None) -> tuple[list[Pin], str | None]:
        """Return the pins of a page, and the cursor of the next unless fewer came than `count`.

        The next page begins with the last pin of this one, which shows whether it has moved.
        """
        value = self.api.read_json(reply)
        rows = value.get("rows") if isinstance(value, dict) else None
        try:
            pins = [_read_pin(row) for row in rows]  # type: ignore[union-attr]
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise failure(
                "the provider's reply is not a list of pins (rows)", reply, secret=self.token
            ) from None
        if not pins and cursor is None and other_version(self.wanted.cid) is not None:
            return pins, f"{OTHER}0"
        if len(pins) < count:
            return pins, None
        return pins, _moved(cursor or "0", len(pins) - 1)

    def before(self, cursor: str) -> str | None:
        """Return the cursor of `PAGE_LIMIT` pins that end at `cursor`; None at the start."""
        before = _moved(cursor, 1 - PAGE_LIMIT)
        return None if before == cursor else before

    def matches(self, pin: Pin) -> bool:
        """Return whether `pin` is wanted: services differ in how exact their filters are."""
        return fits(pin, self.wanted)


def fits(pin: Pin, wanted: PinFilter) -> bool:
    """Return whether `pin` is wanted, whatever its name."""
    return (
        (wanted.cid is None or CID.parse(pin.cid) == CID.parse(wanted.cid))
        and (not wanted.keyvalues or wanted.fits(pin.keyvalues))
        and (wanted.since is None or wanted.since <= (pin.created or 0))
        and (wanted.until is None or (pin.created or 0) <= wanted.until)
    )


def _moved(cursor: str, count: int) -> str:
    """Return a cursor that is `count` pins later, or earlier, but not before the start."""
    kind = OTHER if cursor.startswith(OTHER) else ""
    return f"{kind}{max(0, int(cursor.removeprefix(kind)) + count)}"


def other_version(text: str | None) -> str | None:
    """Return the CID with the other version number; None if it exists in one version only.

    Example:
        >>> other_version("QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH")
        'bafybeif7ztnhq65lumvvtr4ekcwd2ifwgm3awq4zfr3srh462rwyinlb4y'
        >>> other_version("bafkqaaa")
    """
    other = None if text is None else CID.parse(text).in_other_version()
    return None if other is None else str(other)


def _filters(wanted: PinFilter) -> dict[str, str]:
    """Return the service's parameters for the pins that are `wanted`."""
    query: dict[str, str] = {}
    if wanted.name:
        query["metadata[name]"] = wanted.name
    if wanted.cid is not None:
        query["cid"] = wanted.cid
    if wanted.keyvalues:
        conditions = {key: {"value": value, "op": "eq"} for key, value in wanted.keyvalues.items()}
        query["metadata[keyvalues]"] = json_text.to_text(conditions)
    if wanted.since is not None:
        query["pinStart"] = iso_time(wanted.since)
    if wanted.until is not None:
        query["pinEnd"] = iso_time(wanted.until)
    return query


def _read_pin(row: dict[str, Any]) -> Pin:
    """Return the pin of a row of `pinList`; raise a built-in error for anything else."""
    about = row.get("metadata") or {}
    CID.parse(row["ipfs_pin_hash"])
    return Pin(
        id=read_id(row["id"]),
        cid=row["ipfs_pin_hash"],
        name=str(about.get("name") or ""),
        keyvalues=dict(about.get("keyvalues") or {}),
        size=int(row["size"]),
        files=int(row.get("number_of_files") or 1),
        type=str(row.get("mime_type") or ""),
        created=read_time(row["date_pinned"]),
    )


def read_id(value: Any) -> str:
    """Return the id of a row as text; raise TypeError if it has none."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise TypeError("a pin has an id")
    return str(value)


def read_time(text: str) -> int:
    """Return a time of the service in milliseconds; raise a built-in error for another text."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def iso_time(milliseconds: int) -> str:
    """Return a time as the service writes it."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
