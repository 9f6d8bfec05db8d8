"""Pins: rows that say which content the store keeps, and under which name."""

import json
import sqlite3
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError
from holdfast.records import Pin, now_ms
from holdfast.repository.rows import BadRowError, insert_rows, natural, rows_of_keys

LATEST: Final = 253_402_300_799_999  # milliseconds: the end of the year 9999
_ENCODER: Final = json.JSONEncoder(allow_nan=False)  # `json.dumps` would make a new one each time
COLUMNS: Final = "uuid, cid, name, keyvalues, size, files, type, created, removed"


def add_pin(connection: sqlite3.Connection, cid: CID, **about: Any) -> tuple[Pin, bool]:
    """Pin `cid`; return the pin, and whether it existed. The caller has begun a transaction.

    `about` has the other fields of the pin. Without an `id` it gets a random one, and without
    `created` it is made now.
    """
    (added,) = add_pins(connection, [(cid, about)])
    return added


def add_pins(
    connection: sqlite3.Connection, wanted: Sequence[tuple[CID, Mapping[str, Any]]]
) -> list[tuple[Pin, bool]]:
    """Do the same as `add_pin` for several CIDs, of which some may be the same."""
    sql = f"SELECT key, {COLUMNS} FROM pins WHERE removed IS NULL AND key IN"  # noqa: S608
    keys = [cid.key for cid, _ in wanted]
    pins = {row[0]: pin_of(row[1:]) for row in rows_of_keys(connection, sql, keys)}
    added = []
    new = []
    for key, (cid, about) in zip(keys, wanted, strict=True):
        found = pins.get(key)
        if found is not None:
            # The CID as the caller gave it: both versions name the same content.
            added.append((replace(found, cid=str(cid)), True))
            continue
        pin = Pin(cid=str(cid), **{"id": str(uuid.uuid4()), "created": now_ms(), **about})
        pins[key] = pin
        new.append((key, *_row_of(pin)))
        added.append((pin, False))
    into = "pins (key, uuid, cid, name, keyvalues, size, files, type, created)"
    insert_rows(connection, into, new)
    return added


def _row_of(pin: Pin) -> tuple[object, ...]:
    keyvalues = _json(pin.keyvalues)
    return pin.id, pin.cid, pin.name, keyvalues, pin.size, pin.files, pin.type, pin.created


def remove_pin(connection: sqlite3.Connection, cid: CID) -> bool:
    """Unpin `cid`; return whether it was pinned. The caller has begun a transaction."""
    cursor = connection.execute(
        "UPDATE pins SET removed = ? WHERE key = ? AND removed IS NULL", (now_ms(), cid.key)
    )
    return cursor.rowcount > 0


def update_pin(
    connection: sqlite3.Connection,
    cid: CID,
    *,
    name: str | None = None,
    change: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    id: str | None = None,
    created: int | None = None,
) -> Pin | None:
    """Change the name of a pin, or its key-values by a function; return None without a pin.

    With `id` and `created` it becomes another pin of the same content, which is called `cid`.
    """
    pin = find_pin(connection, cid)
    if pin is None:
        return None
    keyvalues = pin.keyvalues if change is None else change(pin.keyvalues)
    connection.execute(
        "UPDATE pins SET name = coalesce(?, name), keyvalues = ?, uuid = coalesce(?, uuid),"
        " cid = ?, created = coalesce(?, created) WHERE key = ? AND removed IS NULL",
        (name, _json(keyvalues), id, pin.cid if id is None else str(cid), created, cid.key),
    )
    return find_pin(connection, cid)


def _json(keyvalues: Mapping[str, Any]) -> str:
    return _ENCODER.encode(dict(keyvalues))


def find_pin(connection: sqlite3.Connection, cid: CID) -> Pin | None:
    """Return the pin of `cid`; None if it is not pinned."""
    row = connection.execute(
        f"SELECT {COLUMNS} FROM pins WHERE key = ? AND removed IS NULL",  # noqa: S608
        (cid.key,),
    ).fetchone()
    return None if row is None else pin_of(row)


def pin_of(row: tuple[Any, ...]) -> Pin:
    """Return the pin of a row; raise `BadRowError` if Holdfast never writes such a row."""
    number, cid, name, keyvalues, size, files, media_type, created, removed = row
    if not all(isinstance(text, str) for text in (number, cid, name, media_type)):
        raise BadRowError("a text of a pin in it is of another type")
    try:
        CID.parse(cid)
    except InvalidCIDError:
        raise BadRowError("the CID of a pin in it is not a CID") from None
    return Pin(
        id=number,
        cid=cid,
        name=name,
        keyvalues=parse_keyvalues(keyvalues),
        size=natural(size),
        files=natural(files),
        type=media_type,
        created=parse_time(created),
        removed=None if removed is None else parse_time(removed),
    )


def parse_keyvalues(text: object) -> dict[str, Any]:
    """Return the key-values of a row; raise `BadRowError` if they are not a JSON object."""
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadRowError("the key-values of a pin in it are not a JSON object")
    return value


def parse_time(value: object) -> int:
    """Return a time of a row in milliseconds; raise `BadRowError` if it is not one."""
    if natural(value) > LATEST:
        raise BadRowError("a time in it is later than the year 9999")
    return natural(value)
