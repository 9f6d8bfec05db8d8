"""Reading a database that may be damaged, or may belong to another store."""

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.repository.database import schema
from holdfast.repository.database.errors import is_damage
from holdfast.repository.database.identity import COPY, DATABASE, MAX_CHANGES
from holdfast.repository.database.opening import check_regular, connect
from holdfast.repository.database.trust import check_table, is_version_1

# The tables with small blocks and pins in each of the two files.
TABLES: Final = {DATABASE: ("blocks", "pins"), COPY: ("copied_blocks", "copied_pins")}
MARKS: Final = {
    DATABASE: ("store", "SELECT id, changes FROM store"),
    COPY: ("copied_store", "SELECT id, changes FROM copied_store"),
}
SCHEMAS: Final = {DATABASE: "main", COPY: "copy"}


class Row(NamedTuple):
    """A row of the table `blocks` or `pins`. Its values are not checked."""

    table: str
    values: tuple[Any, ...]


class OldDatabase:
    """One of the two databases before a repair. It is open until `close`.

    Attributes:
        id: The id of its store; None if it has none.
        changes: How many transactions it had.
        damage: What is wrong with it; None if all of it could be read.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.path: Path = folder / name
        self.name = name
        self.id: str | None = None
        self.changes: int = -1
        self.damage: str | None = None
        self._connection: sqlite3.Connection | None = None
        check_regular(self.path)
        try:
            self._connection = connect(self.path, "rw")
            # Nobody may write while it is read.
            self._connection.execute("BEGIN IMMEDIATE")
            if is_version_1(self._connection, "main"):
                return
            table, sql = MARKS[name]
            check_table(self._connection, table, SCHEMAS[name])
            store_id, changes = self._connection.execute(sql).fetchone() or (None, None)
            self.id = store_id if isinstance(store_id, str) else None
            if isinstance(changes, int) and 0 <= changes < MAX_CHANGES:
                self.changes = changes
        except sqlite3.Error as error:
            self.damage = str(error) if os.path.lexists(self.path) else "it is missing"

    def rows(self) -> Iterator[Row]:
        """Yield the small blocks and the pins that can be read."""
        if self._connection is None:
            return
        blocks, pins = TABLES[self.name]
        for table, found, columns in (
            ("blocks", blocks, "id, key, data"),
            ("pins", pins, schema.PIN_COLUMNS),
        ):
            for values in self._rows(self._connection, found, columns):
                yield Row(table, values)

    def _rows(
        self, connection: sqlite3.Connection, table: str, columns: str
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows from the first to a damaged page, then from the last back to it.

        Each row is a query of its own: a cursor reads ahead, and would lose rows before the damage.
        """
        first = last = None
        try:
            check_table(connection, table, SCHEMAS[self.name])
            while (number := _next(connection, table, "min(id)", "id > ?", first)) is not None:
                first = number
                yield from self._row(connection, table, columns, number)
            return
        except sqlite3.Error as error:
            self.damage = str(error)
        with contextlib.suppress(sqlite3.Error):
            check_table(connection, table, SCHEMAS[self.name])
            while (number := _next(connection, table, "max(id)", "id < ?", last)) is not None:
                if first is not None and number <= first:
                    return
                last = number
                yield from self._row(connection, table, columns, number)

    def _row(
        self, connection: sqlite3.Connection, table: str, columns: str, number: int
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the row, unless a value in it is too long or is not valid text."""
        sql = f"SELECT {columns} FROM {table} WHERE id = ?"  # noqa: S608 - ours
        try:
            row = connection.execute(sql, (number,)).fetchone()
        except sqlite3.Error as error:
            if is_damage(error):
                raise
            self.damage = str(error)
        else:
            if row is not None:
                yield row

    def close(self) -> None:
        """Move the write-ahead log into the file, and close it."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def replace(self, new: Path, *, keep: bool) -> Path | None:
        """Replace the file by `new`; with `keep`, rename the old file and return its new path.

        The write-ahead log of the old file must go first, or SQLite would apply it to the new file.
        """
        log = Path(f"{self.path}-wal")
        aside = None
        if keep or (log.exists() and log.stat().st_size):
            aside = self._put_aside()
        else:
            for suffix in ("-shm", "-wal"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        new.replace(self.path)
        return aside

    def _put_aside(self) -> Path | None:
        aside = self.path.with_name(f"{self.name}.aside-{secrets.token_hex(4)}")
        for suffix in ("-shm", "-wal", ""):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
        return aside if aside.exists() else None


def _next(
    connection: sqlite3.Connection, table: str, end: str, beyond: str, number: int | None
) -> int | None:
    """Return the id of the next row beyond the row `number`, or of the first one."""
    where, values = ("1", ()) if number is None else (beyond, (number,))
    sql = f"SELECT {end} FROM {table} WHERE {where}"  # noqa: S608 - ours
    (found,) = connection.execute(sql, values).fetchone()
    return found  # type: ignore[no-any-return]
