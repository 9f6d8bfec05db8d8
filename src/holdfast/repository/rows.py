"""Values in the rows of the database: keys of blocks, sizes, counts and times.

Anybody may have written a database, so each value is checked when it is read.
"""

import sqlite3
import zlib
from collections.abc import Sequence, Sized
from typing import Any, Final

from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError

SMALLEST_ID: Final = -(1 << 63)  # of a row in SQLite
LARGEST_ID: Final = (1 << 63) - 1
STATEMENT_ROWS: Final = 100  # that one statement inserts or finds, with fewer than 1,000 values


class BadRowError(sqlite3.DataError, ValueError):
    """A row of the database holds a value that Holdfast never writes."""


def cid_of(key: object) -> CID:
    """Return the CID of a key from the database; raise `BadRowError` if it is not a key."""
    if isinstance(key, bytes):
        try:
            cid = CID.from_bytes(key)
        except ValueError:
            pass
        else:
            if cid.version == 1 and bytes(cid) == key:
                return cid
    raise BadRowError("a key in it is not a CID")


def is_key(name: str) -> bool:
    """Return whether `name` is a key in hexadecimal digits."""
    try:
        return cid_of(bytes.fromhex(name)).key.hex() == name
    except ValueError:
        return False


def nanoseconds(id: object) -> int:
    """Return a number below a million for the id of a pin, as the last digits of its time.

    Several pins may be made in one millisecond. With these digits their times differ.
    """
    return zlib.crc32(str(id).encode(errors="replace")) % 1_000_000


def text(value: object) -> str:
    """Return a text from the database; raise `BadRowError` for other values."""
    if isinstance(value, str):
        return value
    raise BadRowError("a text in it is of another type")


def cid_text(value: object) -> str:
    """Return a CID as text from the database; raise `BadRowError` for other values."""
    try:
        CID.parse(text(value))
    except InvalidCIDError:
        raise BadRowError("a CID in it is not valid") from None
    return text(value)


def natural(value: object) -> int:
    """Return a size, a count or a time from the database; raise `BadRowError` for other values."""
    if type(value) is int and 0 <= value < 1 << 53:
        return value
    raise BadRowError("a number in it is out of range or of another type")


def placeholders(values: Sized) -> str:
    """Return the placeholders of `values` in a statement: ``?, ?, ?`` for three."""
    return ", ".join("?" * len(values))


def insert_rows(
    connection: sqlite3.Connection, into: str, rows: Sequence[Sequence[Any]], *, otherwise: str = ""
) -> None:
    """Insert `rows` by few statements; `otherwise` says what to do about those that are there.

    Python lets other threads run during a statement, and then this one waits for its turn.
    """
    for start in range(0, len(rows), STATEMENT_ROWS):
        group = rows[start : start + STATEMENT_ROWS]
        marks = f"({placeholders(group[0])})"
        connection.execute(
            f"INSERT INTO {into} VALUES {', '.join([marks] * len(group))} {otherwise}",  # noqa: S608
            [value for row in group for value in row],
        )


def rows_of_keys(
    connection: sqlite3.Connection, sql: str, keys: Sequence[bytes | int | str]
) -> list[tuple[Any, ...]]:
    """Return the rows that `sql` finds, which ends with a condition such as ``key IN``."""
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(keys), STATEMENT_ROWS):
        group = keys[start : start + STATEMENT_ROWS]
        rows += connection.execute(f"{sql} ({placeholders(group)})", group)
    return rows
