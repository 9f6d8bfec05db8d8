"""Pins: what is to be kept, under which name, and how it is found again."""

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, TypeAlias

from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError
from holdfast.records import Pin, now_ms
from holdfast.repository.block_files import BadRowError, key_of, natural

# What pins can be sorted by, and how SQLite does it.
SORTS: Final = {
    "created": "created",
    "name": "name COLLATE NOCASE",
    "size": "size",
    "type": "type COLLATE NOCASE",
}
LATEST: Final = 253_402_300_799_999  # milliseconds: the end of the year 9999
COLUMNS: Final = "uuid, cid, name, keyvalues, size, files, type, created, removed"
FETCHED_AT_ONCE: Final = 500  # rows by their ids: SQLite takes 999 parameters at the least
STEPS: Final = 50  # of SQLite's machine, between two questions whether to stop: a few rows

Stopped: TypeAlias = Callable[[], bool]
"""Says whether a query is to end early. It is called often, from the thread that runs the query."""


class QueryStoppedError(Exception):
    """A query that ended early, since its `Stopped` said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinQuery:
    """Which pins are asked for, and in which order. A field that is None asks nothing.

    `contains` looks at the name and at the CID; `sort` is one of `SORTS`.
    """

    held: bool | None = True
    cid: str | None = None
    cid_contains: str | None = None
    name_contains: str | None = None
    contains: str | None = None
    created_from: int | None = None
    created_to: int | None = None
    removed_from: int | None = None
    removed_to: int | None = None
    size_min: int | None = None
    size_max: int | None = None
    matches: Callable[[Mapping[str, Any]], bool] | None = None
    sort: str = "created"
    descending: bool = True
    limit: int | None = None
    offset: int = 0

    def where(self) -> tuple[str, list[Any]]:
        """The conditions that SQLite checks."""
        conditions: list[str] = []
        values: list[Any] = []
        if self.held is not None:
            conditions.append("removed IS NULL" if self.held else "removed IS NOT NULL")
        for condition, value in (
            ("key = ?", None if self.cid is None else _key_of_text(self.cid)),
            ("instr(cid, ?) > 0", self.cid_contains),
            ("instr(fold(name), fold(?)) > 0", self.name_contains),
            ("instr(fold(name || char(10) || cid), fold(?)) > 0", self.contains),
            ("created >= ?", self.created_from),
            ("created <= ?", self.created_to),
            ("removed >= ?", self.removed_from),
            ("removed <= ?", self.removed_to),
            ("size >= ?", self.size_min),
            ("size <= ?", self.size_max),
        ):
            if value is not None:
                conditions.append(condition)
                values.append(value)
        return " AND ".join(conditions) or "1", values

    def order(self) -> str:
        """The order that SQLite brings them into; those that are alike, as they were pinned."""
        direction = "DESC" if self.descending else "ASC"
        return f"{SORTS[self.sort]} {direction}, id {direction}"


def add_pin(connection: sqlite3.Connection, cid: CID, **about: Any) -> tuple[Pin, bool]:
    """Pin `cid`; the pin, and whether it was there before. Inside of a writing transaction."""
    found = find_pin(connection, cid)
    if found is not None:
        # In the version that was asked for now: both name the same content.
        return replace(found, cid=str(cid)), True
    pin = Pin(id=str(uuid.uuid4()), cid=str(cid), created=now_ms(), **about)
    connection.execute(
        "INSERT INTO pins (uuid, cid, key, name, keyvalues, size, files, type, created)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            pin.id,
            pin.cid,
            key_of(cid),
            pin.name,
            _notes(pin.keyvalues),
            pin.size,
            pin.files,
            pin.type,
            pin.created,
        ),
    )
    return pin, False


def remove_pin(connection: sqlite3.Connection, cid: CID) -> bool:
    """Unpin `cid`; whether it was pinned. Inside of a writing transaction."""
    cursor = connection.execute(
        "UPDATE pins SET removed = ? WHERE key = ? AND removed IS NULL", (now_ms(), key_of(cid))
    )
    return cursor.rowcount > 0


def update_pin(
    connection: sqlite3.Connection,
    cid: CID,
    *,
    name: str | None = None,
    change: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> Pin | None:
    """Change the name, or by a function the notes, of a pin; None where `cid` is not pinned."""
    pin = find_pin(connection, cid)
    if pin is None:
        return None
    notes = pin.keyvalues if change is None else change(pin.keyvalues)
    connection.execute(
        "UPDATE pins SET name = coalesce(?, name), keyvalues = ? WHERE key = ? AND removed IS NULL",
        (name, _notes(notes), key_of(cid)),
    )
    return find_pin(connection, cid)


def _notes(keyvalues: Mapping[str, Any]) -> str:
    return json.dumps(dict(keyvalues), allow_nan=False)


def find_pin(connection: sqlite3.Connection, cid: CID) -> Pin | None:
    """The pin that keeps `cid`, if there is one."""
    row = connection.execute(
        f"SELECT {COLUMNS} FROM pins WHERE key = ? AND removed IS NULL",  # noqa: S608
        (key_of(cid),),
    ).fetchone()
    return None if row is None else pin_of(row)


@contextmanager
def _until(connection: sqlite3.Connection, stopped: Stopped | None) -> Iterator[None]:
    """Run queries on `connection` until `stopped` says so; then raise `QueryStoppedError`."""
    if stopped is None:
        yield
        return
    if stopped():
        raise QueryStoppedError
    connection.set_progress_handler(stopped, STEPS)
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname == "SQLITE_INTERRUPT":
            raise QueryStoppedError from None
        raise
    finally:
        connection.set_progress_handler(None, 0)


def list_pins(
    connection: sqlite3.Connection, query: PinQuery, stopped: Stopped | None = None
) -> list[Pin]:
    """Return the pins that `query` asks for, in its order."""
    ids = list_pin_ids(connection, query, stopped)
    batches = (ids[at : at + FETCHED_AT_ONCE] for at in range(0, len(ids), FETCHED_AT_ONCE))
    return [pin for batch in batches for pin in pins_by_id(connection, batch)]


def list_pin_ids(
    connection: sqlite3.Connection, query: PinQuery, stopped: Stopped | None = None
) -> list[int]:
    """Return the numbers of the pins that `query` asks for, in its order.

    SQLite sorts numbers instead of whole rows, and a caller can hold many of them.
    """
    where, values = query.where()
    chosen = f"FROM pins WHERE {where} ORDER BY {query.order()} LIMIT ? OFFSET ?"
    with _until(connection, stopped):
        if query.matches is None:
            limit = -1 if query.limit is None else query.limit
            sql = f"SELECT id {chosen}"
            rows = connection.execute(sql, (*values, limit, query.offset))
            return [number for (number,) in rows]
        sql = f"SELECT id, keyvalues {chosen}"
        rows = connection.execute(sql, (*values, -1, 0))
        matching = (number for number, text in rows if query.matches(_parsed(text)))
        end = None if query.limit is None else query.offset + query.limit
        return list(islice(matching, query.offset, end))


def pins_by_id(connection: sqlite3.Connection, ids: Sequence[int]) -> list[Pin]:
    """Return the pins with these numbers, of which there are at most `FETCHED_AT_ONCE`."""
    marks = ",".join("?" * len(ids))
    sql = f"SELECT id, {COLUMNS} FROM pins WHERE id IN ({marks})"  # noqa: S608 - marks of ours
    found = {row[0]: row[1:] for row in connection.execute(sql, ids)}
    return [pin_of(found[number]) for number in ids if number in found]


def count_pins(
    connection: sqlite3.Connection, query: PinQuery, stopped: Stopped | None = None
) -> int:
    """Return how many pins `query` asks for, whatever its limit and offset."""
    where, values = query.where()
    with _until(connection, stopped):
        if query.matches is None:
            sql = f"SELECT count(*) FROM pins WHERE {where}"  # noqa: S608 - conditions of ours
            return int(connection.execute(sql, values).fetchone()[0])
        sql = f"SELECT keyvalues FROM pins WHERE {where}"  # noqa: S608 - conditions of ours
        rows: Iterable[tuple[str]] = connection.execute(sql, values)
        return sum(query.matches(_parsed(text)) for (text,) in rows)


def total_pins(connection: sqlite3.Connection, stopped: Stopped | None = None) -> tuple[int, int]:
    """Return how many pins are held, and the bytes of their blocks."""
    sql = "SELECT count(*), coalesce(sum(size), 0) FROM pins WHERE removed IS NULL"
    with _until(connection, stopped):
        pins, size = connection.execute(sql).fetchone()
    return natural(pins), natural(size)


def _key_of_text(text: str) -> bytes:
    """The key of a CID in any of its forms; of no block, where it is no CID."""
    try:
        return key_of(CID.parse(text))
    except InvalidCIDError:
        return b""


def pin_of(row: tuple[Any, ...]) -> Pin:
    """Return the pin of a row; `BadRowError` where the row is nothing that a store writes."""
    number, cid, name, keyvalues, size, files, media_type, created, removed = row
    if not all(isinstance(text, str) for text in (number, cid, name, media_type)):
        raise BadRowError("a text of a pin in it is of another type")
    try:
        CID.parse(cid)
    except InvalidCIDError:
        raise BadRowError("the CID of a pin in it is none") from None
    return Pin(
        id=number,
        cid=cid,
        name=name,
        keyvalues=_parsed(keyvalues),
        size=natural(size),
        files=natural(files),
        type=media_type,
        created=_time(created),
        removed=None if removed is None else _time(removed),
    )


def _parsed(text: object) -> dict[str, Any]:
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadRowError("the key-values of a pin in it are no JSON object")
    return value


def _time(value: object) -> int:
    if natural(value) > LATEST:
        raise BadRowError("a time in it is none")
    return natural(value)
