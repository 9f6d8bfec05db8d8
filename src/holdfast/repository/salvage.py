"""Reading what can be read of a database that may be damaged, or another store's."""

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.repository import schema
from holdfast.repository.identity import COPY, DATABASE
from holdfast.repository.opening import check_regular, connect

# What holds small blocks and pins in each of the two files.
TABLES: Final = {DATABASE: ("blocks", "pins"), COPY: ("copied_blocks", "copied_pins")}
MARKS: Final = {
    DATABASE: "SELECT id, changes FROM store",
    COPY: "SELECT id, changes FROM copied_store",
}


class Row(NamedTuple):
    """A row of the table `blocks` or `pins`, as it was found."""

    table: str
    values: tuple[Any, ...]


class Source:
    """One of the two databases, open for as long as nothing is put into its place.

    Attributes:
        id: The id of the store that it belongs to; None where it says nothing.
        changes: How many transactions it has seen.
        damage: What is wrong with it; None where it could be read to its end.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        self.name = name
        self.id: str | None = None
        self.changes = -1
        self.damage: str | None = None
        self._connection: sqlite3.Connection | None = None
        check_regular(self.path)
        try:
            self._connection = connect(self.path, "rw")
            # Nobody writes while it is read and replaced.
            self._connection.execute("BEGIN IMMEDIATE")
            if self._is_version_1():
                return
            row = self._connection.execute(MARKS[name]).fetchone()
            if row is not None and isinstance(row[0], str) and isinstance(row[1], int):
                self.id, self.changes = row
        except sqlite3.Error as error:
            there = os.path.lexists(self.path)
            self.damage = str(error) if there else "it is missing"

    def _is_version_1(self) -> bool:
        return self._connection is not None and schema.version_of(self._connection) == 1

    def rows(self) -> Iterator[Row]:
        """Yield small blocks and pins, from both ends where something between is damaged."""
        if self._connection is None:
            return
        blocks, pins = TABLES[self.name]
        for table, found, columns in (
            ("blocks", blocks, "id, key, data"),
            ("pins", pins, schema.PIN_COLUMNS),
        ):
            for values in self._rows(found, columns):
                yield Row(table, values)

    def _rows(self, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
        seen = None
        for order in ("ASC", "DESC"):
            sql = f"SELECT {columns} FROM {table} ORDER BY id {order}"  # noqa: S608 - ours
            try:
                for row in self._execute(sql):
                    if order == "DESC" and seen is not None and row[0] <= seen:
                        return
                    seen = row[0] if order == "ASC" else seen
                    yield row
                return
            except sqlite3.Error as error:
                self.damage = str(error)

    def _execute(self, sql: str) -> Iterator[tuple[Any, ...]]:
        if self._connection is not None:
            yield from self._connection.execute(sql)

    def close(self) -> None:
        """Bring what is in the write-ahead log into the file, and let go of it."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def replace(self, new: Path, *, keep: bool) -> Path | None:
        """Put `new` into the place of the file; return the other name that this got, if `keep`.

        The write-ahead log of the old file must go first: SQLite would play it into the new one.
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
