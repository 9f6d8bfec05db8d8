"""Which blocks pins need. They are listed in a temporary table, so memory does not grow with them.

The table is a queue as well: the blocks of pins come first, and while the links of one block after
the other are followed, the blocks that they name are appended, each once.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any, Final, TypeAlias

from holdfast.content.blocks import inline_block
from holdfast.errors import ProviderError
from holdfast.repository.database import Database, schema
from holdfast.repository.database.identity import UnsoundError, mark_of
from holdfast.repository.rows import BadRowError, cid_of, natural, placeholders
from holdfast.sources.sources import Progress

AT_ONCE: Final = 500  # rows in one step; every SQLite takes at least 999 parameters
BYTES_PER_BLOCK: Final = 100  # more than the temporary tables need
PRINT_BYTES: Final = 8

# `n` is the place in the queue. SQLite may use the id of a removed block again, so some bytes of
# the key tell two blocks with the same id apart.
TABLES: Final = (
    "CREATE TEMP TABLE live (n INTEGER PRIMARY KEY, id INTEGER, print INTEGER, UNIQUE (id, print))",
    "CREATE TEMP TABLE absent (n INTEGER PRIMARY KEY, key BLOB UNIQUE)",
)

Needed: TypeAlias = tuple[Any, Any, Any]
"""The key of a block that something needs, and its id and `dying`: None if it is missing."""


class LiveBlocks:
    """The blocks that pins need, in temporary tables of `connection`.

    `update` reads the store from a connection in a transaction. After the first, which takes long,
    another one only adds what new pins need, so it can be part of each short transaction that
    removes blocks. The blocks of pins that are removed in between stay in the table.

    Attributes:
        found: How many blocks are in the table, and their links were followed.
        total: How many blocks the store had.
    """

    def __init__(self, connection: sqlite3.Connection, total: int) -> None:
        self._connection = connection
        self._last_pin = -1
        self._changes = 0  # the number of transactions that the store had
        self.found: int = 0
        self.total = total
        for sql in TABLES:
            connection.execute(sql)

    def update(self, source: sqlite3.Connection, progress: Progress | None = None) -> None:
        """Add the blocks of new pins, and blocks that were missing before, and all below them.

        Raise `UnsoundError` if somebody replaced the database by an older one.
        """
        self._check_order(source)
        self._add_found(source)
        self._add_pins(source)
        sql = (
            "SELECT links.child, blocks.id, blocks.dying FROM links"
            " LEFT JOIN blocks ON blocks.key = links.child WHERE links.parent IN ({})"
        )
        while rows := self._rows("SELECT n, id FROM live WHERE n > ?", self.found):
            numbers = [number for _, number in rows]
            self._add(source.execute(sql.format(placeholders(numbers)), numbers))
            self.found = rows[-1][0]
            if progress is not None:
                progress(min(self.found, self.total), self.total)

    def _check_order(self, source: sqlite3.Connection) -> None:
        if schema.version_of(source) > 1:
            changes = mark_of(source).changes
            if changes < self._changes:
                raise UnsoundError("its database was replaced by an older one")
            self._changes = changes

    def _add_pins(self, source: sqlite3.Connection) -> None:
        """Add the blocks of new pins. No row of a pin is ever deleted, so their ids increase."""
        first, last = source.execute(
            "SELECT (SELECT min(id) FROM pins), (SELECT max(id) FROM pins)"
        ).fetchone()
        if last is None:
            return
        natural(first)
        natural(last)  # above the largest id SQLite would choose the next at random
        rows = source.execute(
            "SELECT pins.key, blocks.id, blocks.dying FROM pins"
            " LEFT JOIN blocks ON blocks.key = pins.key"
            " WHERE pins.id > ? AND removed IS NULL ORDER BY pins.id",
            (self._last_pin,),
        )
        self._add(rows)
        self._last_pin = last

    def _add_found(self, source: sqlite3.Connection) -> None:
        """Add the blocks that were missing before and are here now."""
        last = 0
        while rows := self._rows("SELECT n, key FROM absent WHERE n > ?", last):
            keys = [key for _, key in rows]
            sql = f"SELECT key, id, dying FROM blocks WHERE key IN ({placeholders(keys)})"  # noqa: S608
            self._add(source.execute(sql, keys))
            last = rows[-1][0]

    def _add(self, needed: Iterable[Needed]) -> None:
        """Append blocks that are not in the table yet; note those that are missing."""
        needed = iter(needed)
        while rows := list(islice(needed, AT_ONCE)):
            self._connection.executemany(
                "INSERT OR IGNORE INTO live (id, print) VALUES (?, ?)",
                [(number, _print(key)) for key, number, _ in rows if number is not None],
            )
            absent = [key for key, number, dying in rows if number is None or dying]
            self._connection.executemany(
                "INSERT OR IGNORE INTO absent (key) VALUES (?)",
                [(key,) for key in absent if inline_block(cid_of(key)) is None],
            )

    def _rows(self, sql: str, last: int) -> list[tuple[int, Any]]:
        return self._connection.execute(f"{sql} ORDER BY n LIMIT {AT_ONCE}", (last,)).fetchall()

    def candidates(self, last: int, limit: int) -> list[int]:
        """Return the next ids after `last` of blocks that are not in the table."""
        rows = self._connection.execute(
            "SELECT id FROM blocks WHERE id > ?"
            " AND NOT EXISTS (SELECT 1 FROM live WHERE live.id = blocks.id) ORDER BY id LIMIT ?",
            (last, limit),
        )
        return [number for (number,) in rows]

    def without_live(self, numbers: list[int]) -> list[int]:
        """Return those of the ids of blocks that are not in the table."""
        sql = f"SELECT id FROM live WHERE id IN ({placeholders(numbers)})"  # noqa: S608
        live = {number for (number,) in self._connection.execute(sql, numbers)}
        return [number for number in numbers if number not in live]

    def missing(self) -> Iterator[bytes]:
        """Yield the keys of the blocks that pins need and that are missing."""
        for (key,) in self._connection.execute("SELECT key FROM absent ORDER BY n"):
            yield key


@contextmanager
def find_live(database: Database, progress: Progress | None = None) -> Iterator[LiveBlocks]:
    """Yield the blocks that the pins of this moment need. Others may write meanwhile.

    The tables are in a temporary file, or in memory if there is no space for a file.
    """
    with database.reading() as connection:
        (total,) = connection.execute("SELECT count(*) FROM blocks").fetchone()
    on_disk = not database.is_short_of_space(BYTES_PER_BLOCK * total)
    with ExitStack() as stack:
        try:
            live = stack.enter_context(_find_live(database, total, progress, on_disk=on_disk))
        except (OSError, ProviderError):  # the folder for temporary files may be on another disk
            if not on_disk:
                raise
            live = stack.enter_context(_find_live(database, total, progress, on_disk=False))
        yield live


@contextmanager
def _find_live(
    database: Database, total: int, progress: Progress | None, *, on_disk: bool
) -> Iterator[LiveBlocks]:
    with database.surveying(on_disk=on_disk) as connection:
        live = LiveBlocks(connection, total)
        connection.execute("BEGIN")
        live.update(connection, progress)
        connection.execute("COMMIT")
        yield live


def _print(key: object) -> int:
    if not isinstance(key, bytes):
        raise BadRowError("a key in it is not a CID")
    return int.from_bytes(key[-PRINT_BYTES:], "big", signed=True)
