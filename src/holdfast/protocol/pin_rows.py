"""Rows of lists of pins, whichever service sends them: ids, times, and which pins are wanted."""

from datetime import UTC, datetime
from typing import Any, Final

from holdfast.content.cid import CID
from holdfast.records import Pin, PinFilter

MAX_PAGE: Final = 16 << 20  # bytes of one page of pins, with all metadata
OTHER: Final = "other "  # begins the cursor of a list under the other version of its CID


def fits(pin: Pin, wanted: PinFilter) -> bool:
    """Return whether `pin` is wanted, whatever its name."""
    return (
        (wanted.cid is None or CID.parse(pin.cid) == CID.parse(wanted.cid))
        and (not wanted.keyvalues or wanted.fits(pin.keyvalues))
        and (wanted.since is None or wanted.since <= (pin.created or 0))
        and (wanted.until is None or (pin.created or 0) <= wanted.until)
    )


def other_version(text: str | None) -> str | None:
    """Return the CID with the other version number; None if it exists in one version only.

    Example:
        >>> other_version("QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH")
        'bafybeif7ztnhq65lumvvtr4ekcwd2ifwgm3awq4zfr3srh462rwyinlb4y'
        >>> other_version("bafkqaaa")
    """
    other = None if text is None else CID.parse(text).in_other_version()
    return None if other is None else str(other)


def read_id(value: Any) -> str:
    """Return the id of a row as text; raise TypeError if it has none."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise TypeError("a pin has an id")
    return str(value)


def read_file(row: dict[str, Any], cid: str, about: dict[str, Any], created: str) -> Pin:
    """Return the pin of a file; raise a built-in error if the members of `row` are not its.

    `about` has its name and key-values.
    """
    CID.parse(cid)
    return Pin(
        id=read_id(row["id"]),
        cid=cid,
        name=str(about.get("name") or ""),
        keyvalues=dict(about.get("keyvalues") or {}),
        size=int(row["size"]),
        files=int(row.get("number_of_files") or 1),
        type=str(row.get("mime_type") or ""),
        created=read_time(created),
    )


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
