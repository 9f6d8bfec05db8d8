"""Pins: rows that say which content the store keeps, and under which name; how they are found."""

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError
from holdfast.records import LATEST, Pin, now_ms
from holdfast.repository.database import schema
from holdfast.repository.rows import (
    BadRowError,
    cid_text,
    insert_rows,
    natural,
    placeholders,
    rows_of_keys,
    text,
)

_ENCODER: Final = json.JSONEncoder(allow_nan=False)  # `json.dumps` would make a new one each time
COLUMNS: Final = "uuid, cid, name, keyvalues, size, files, type, created, removed"


def add_pin(connection: sqlite3.Connection, cid: CID, **fields: Any) -> tuple[Pin, bool]:
    """Pin `cid`; return the pin, and whether it existed. The caller has begun a transaction.

    `fields` are the other fields of the pin. Without an `id` it gets a random one, and without
    `created_ms` it is made now.
    """
    (added,) = add_pins(connection, [(cid, fields)])
    return added


def add_pins(
    connection: sqlite3.Connection, pins: Sequence[tuple[CID, Mapping[str, Any]]]
) -> list[tuple[Pin, bool]]:
    """Do the same as `add_pin` for several CIDs, of which some may be the same."""
    sql = f"SELECT key, {COLUMNS} FROM pins WHERE removed IS NULL AND key IN"  # noqa: S608
    keys = [cid.key for cid, _ in pins]
    existing = {row[0]: pin_of(row[1:]) for row in rows_of_keys(connection, sql, keys)}
    added = []
    new = []
    for key, (cid, fields) in zip(keys, pins, strict=True):
        if key in existing:
            # The CID as the caller gave it: both versions name the same content.
            added.append((replace(existing[key], cid=str(cid)), True))
            continue
        pin = Pin(cid=str(cid), **{"id": str(uuid.uuid4()), "created_ms": now_ms(), **fields})
        existing[key] = pin
        keyvalues = _json(pin.keyvalues)
        row = pin.id, pin.cid, pin.name, keyvalues, pin.size, pin.files, pin.type, pin.created_ms
        new.append((key, *row))
        added.append((pin, False))
    into = "pins (key, uuid, cid, name, keyvalues, size, files, type, created)"
    insert_rows(connection, into, new)
    return added


def remove_pin(connection: sqlite3.Connection, cid: CID) -> bool:
    """Unpin `cid`; return whether it was pinned. The caller has begun a transaction."""
    sql = "UPDATE pins SET removed = ? WHERE key = ? AND removed IS NULL"
    return connection.execute(sql, (now_ms(), cid.key)).rowcount > 0


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
    sql = f"SELECT {COLUMNS} FROM pins WHERE key = ? AND removed IS NULL"  # noqa: S608
    row = connection.execute(sql, (cid.key,)).fetchone()
    return None if row is None else pin_of(row)


def pin_of(row: tuple[Any, ...]) -> Pin:
    """Return the pin of a row; raise `BadRowError` if Holdfast never writes such a row."""
    number, cid, name, keyvalues, size, files, media_type, created, removed = row
    return Pin(
        id=text(number),
        cid=cid_text(cid),
        name=text(name),
        keyvalues=parse_keyvalues(keyvalues),
        size=natural(size),
        files=natural(files),
        type=text(media_type),
        created_ms=parse_time(created),
        removed_ms=None if removed is None else parse_time(removed),
    )


def parse_keyvalues(json_text: object) -> dict[str, Any]:
    """Return the key-values of a row; raise `BadRowError` if they are not a JSON object."""
    try:
        value = json.loads(text(json_text))
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


# Finding pins: which pins a caller asks for, in which order, and how many there are.

# The orders of pins, as SQLite spells them.
SORTS: Final[Mapping[str, tuple[str, ...]]] = {
    "created": ("created",),
    "moment": ("created", "nanoseconds(uuid)"),
    "name": ("name COLLATE NOCASE",),
    "size": ("size",),
    "type": ("type COLLATE NOCASE",),
}
# How a name can be compared with a text.
NAME_MATCHES: Final[Mapping[str, str]] = {
    "exact": "name = ?",
    "iexact": "fold(name) = fold(?)",
    "partial": "instr(name, ?) > 0",
    "ipartial": "instr(fold(name), fold(?)) > 0",
}
# What `contains` searches: the name, the CID and two lines for each key-value: k=v and k: v.
SEARCHED: Final = (
    "name || char(10) || cid || coalesce((SELECT group_concat(char(10) || k || '=' || v || "
    "char(10) || k || ': ' || v, '') FROM (SELECT key AS k, "
    "iif(type IN ('true', 'false'), type, value) AS v FROM json_each(keyvalues))), '')"
)
PAGE: Final = 1000  # pins in one of `pin_pages`
STEPS: Final = 50  # of SQLite's virtual machine between two calls of `Stopped`: a few rows

Moment: TypeAlias = tuple[int, int]
"""When a pin was made: milliseconds, and nanoseconds of the last one."""

Stopped: TypeAlias = Callable[[], bool]
"""Returns whether a query must end early. It is called often, in the thread of the query."""


class QueryStoppedError(Exception):
    """A query ended early because its `Stopped` returned True."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinQuery:
    """Which pins to return, and in which order. A field that is None selects all pins.

    `contains` searches the name, the CID and the key-values; `sort` is one of `SORTS`. `type` is
    the beginning of the media type. `ids` and `other_ids` are JSON arrays of the ids that are
    wanted or not wanted.
    `after` is the time and the id of the pin after which the result begins, in the order of time.
    `name_match` is one of `NAME_MATCHES` and a text. The pins were made before the moment `earlier`
    and after the moment `later`: milliseconds and `holdfast.repository.rows.nanoseconds`.
    """

    pinned: bool | None = True
    id: str | None = None
    ids: str | None = None
    other_ids: str | None = None
    type: str | None = None
    after: tuple[int, str] | None = None
    cid: str | None = None
    cids: tuple[str, ...] | None = None
    cid_contains: str | None = None
    name_contains: str | None = None
    name_match: tuple[str, str] | None = None
    earlier: Moment | None = None
    later: Moment | None = None
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
        """Return the conditions that SQLite checks, and their values."""
        conditions: list[str] = []
        values: list[Any] = []
        match, name = self.name_match or ("exact", None)
        if self.pinned is not None:
            conditions.append("removed IS NULL" if self.pinned else "removed IS NOT NULL")
        for condition, value in (
            ("uuid = ?", self.id),
            ("uuid IN (SELECT value FROM json_each(?))", self.ids),
            ("uuid NOT IN (SELECT value FROM json_each(?))", self.other_ids),
            ("instr(fold(type), fold(?)) = 1", self.type),
            ("key = ?", None if self.cid is None else _key_of_text(self.cid)),
            ("instr(cid, ?) > 0", self.cid_contains),
            ("instr(fold(name), fold(?)) > 0", self.name_contains),
            (NAME_MATCHES[match], name),
            (f"instr(fold({SEARCHED}), fold(?)) > 0", self.contains),
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
        if self.cids is not None:
            conditions.append(f"key IN ({placeholders(self.cids)})")
            values += map(_key_of_text, self.cids)
        for sign, moment in (("<", self.earlier), (">", self.later)):
            if moment is not None:
                is_other = f"(created {sign} ? OR nanoseconds(uuid) {sign} ?)"
                conditions.append(f"created {sign}= ? AND {is_other}")
                values += (moment[0], *moment)
        if self.after is not None:
            sign = "<" if self.descending else ">"
            last = "(SELECT max(id) FROM pins AS last WHERE last.created = ? AND last.uuid = ?)"
            conditions.append(f"(created, id) {sign} (?, {last})")
            values += (self.after[0], *self.after)
        return " AND ".join(conditions) or "1", values

    def order(self) -> str:
        """Return the order for SQLite. Pins that are equal in it are sorted as they were pinned."""
        direction = "DESC" if self.descending else "ASC"
        return ", ".join(f"{column} {direction}" for column in (*SORTS[self.sort], "id"))


ALL_PINS: Final = PinQuery()


@contextmanager
def _ended_by(connection: sqlite3.Connection, stopped: Stopped | None) -> Iterator[None]:
    """Raise `QueryStoppedError` when `stopped` returns True during a query of the block."""
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
    """Return the pins that `query` selects, in its order.

    SQLite sorts the ids of pins instead of whole rows.
    """
    where, values = query.where()
    chosen = f"FROM pins WHERE {where} ORDER BY {query.order()} LIMIT ? OFFSET ?"
    with _ended_by(connection, stopped):
        if query.matches is None:
            limit = -1 if query.limit is None else query.limit
            rows = connection.execute(f"SELECT id {chosen}", (*values, limit, query.offset))
            ids = [number for (number,) in rows]
        else:
            rows = connection.execute(f"SELECT id, keyvalues {chosen}", (*values, -1, 0))
            matching = (row[0] for row in rows if query.matches(parse_keyvalues(row[1])))
            end = None if query.limit is None else query.offset + query.limit
            ids = list(islice(matching, query.offset, end))
    sql = f"SELECT id, {COLUMNS} FROM pins WHERE id IN"  # noqa: S608
    pin_rows = {row[0]: row[1:] for row in rows_of_keys(connection, sql, ids)}
    return [pin_of(pin_rows[number]) for number in ids if number in pin_rows]


def pin_pages(find: Callable[[PinQuery], list[Pin]], query: PinQuery) -> Iterator[list[Pin]]:
    """Yield what `find` returns for `query`, in pages from the newest to the oldest pin.

    The next page begins at the time of the last pin, so pins that are made or removed meanwhile do
    not move it. Of the pins of that time, those that were yielded are left out. `query` has the
    default order, and no offset.
    """
    left, latest, yielded = query.limit, query.created_to, set[str]()
    while left is None or left > 0:
        count = PAGE if left is None else min(PAGE, left)
        asked = count + len(yielded)
        pins = find(replace(query, created_to=latest, limit=asked))
        page = [pin for pin in pins if pin.id not in yielded][:count]
        if page:
            yield page
        if len(pins) < asked or not page:
            return
        left = None if left is None else left - len(page)
        if page[-1].created_ms != latest:
            latest, yielded = page[-1].created_ms, set()
        yielded.update(pin.id for pin in page if pin.created_ms == latest)


def count_pins(
    connection: sqlite3.Connection, query: PinQuery, stopped: Stopped | None = None
) -> int:
    """Return how many pins `query` selects without its limit and offset."""
    where, values = query.where()
    with _ended_by(connection, stopped):
        if query.matches is None:
            if not values:
                pinned, unpinned, _ = schema.counts(connection)
                counts = {True: pinned, False: unpinned, None: pinned + unpinned}
                return natural(counts[query.pinned])
            sql = f"SELECT count(*) FROM pins WHERE {where}"  # noqa: S608 - conditions of ours
            return int(connection.execute(sql, values).fetchone()[0])
        sql = f"SELECT keyvalues FROM pins WHERE {where}"  # noqa: S608 - conditions of ours
        rows: Iterable[tuple[str]] = connection.execute(sql, values)
        return sum(query.matches(parse_keyvalues(keyvalues)) for (keyvalues,) in rows)


class Totals(NamedTuple):
    """The number of pins, and the bytes of their blocks."""

    pins: int
    size: int


def total_pins(connection: sqlite3.Connection, stopped: Stopped | None = None) -> Totals:
    """Return how much is pinned."""
    with _ended_by(connection, stopped):
        pinned, _, size = schema.counts(connection)
    return Totals(natural(pinned), natural(size))


def _key_of_text(cid: str) -> bytes:
    """Return the key of a CID in any of its forms; for other texts, a key that no block has."""
    try:
        return CID.parse(cid).key
    except InvalidCIDError:
        return b""
