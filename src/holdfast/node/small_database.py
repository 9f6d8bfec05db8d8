"""Small databases beside the store: what the APIs of a node know besides blocks and pins."""

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from holdfast.errors import ConfigError
from holdfast.repository.database.errors import read_only_error, typed_errors
from holdfast.repository.database.opening import connect


class SmallDatabase:
    """A database of its own in the folder of a store. Safe for several threads.

    Without its file no content is lost. The file is made by the first change. A subclass sets the
    three class attributes, and uses `using` and `changing`.
    """

    file: ClassVar[str]
    version: ClassVar[int] = 1
    tables: ClassVar[tuple[str, ...]]
    without: ClassVar[str]  # what is lost without the file, for an error message

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self._folder = folder
        self._read_only = read_only
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._empty: sqlite3.Connection | None = None

    @contextmanager
    def using(self, *, makes: bool = False) -> Iterator[sqlite3.Connection]:
        """Yield the database. Without one, yield an empty one in memory, unless `makes`."""
        with typed_errors(self._folder), self._lock:
            path = self._folder / self.file
            if self._connection is None and (makes or path.exists()):
                self._connection = self._open(path)
            if self._connection is not None:
                yield self._connection
                return
            self._empty = self._empty or self._make_empty()
            yield self._empty

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Yield the database in a transaction, which the block completes or undoes."""
        if self._read_only:
            raise read_only_error(self._folder)
        with self.using(makes=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            for connection in (self._connection, self._empty):
                if connection is not None:
                    connection.close()
            self._connection = self._empty = None

    def _open(self, path: Path) -> sqlite3.Connection:
        connection = connect(path, "ro" if self._read_only else "rwc")
        try:
            self._check(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection, path: Path) -> None:
        """Make the tables, or raise `ConfigError` if they are not ours."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if not version:
            connection.execute("BEGIN IMMEDIATE")
            if not _statements(connection):
                self._make_tables(connection)
                connection.execute(f"PRAGMA user_version = {self.version}")
            connection.execute("COMMIT")
        if _statements(connection) != set(self.tables):
            raise ConfigError(
                f"{path} was not made by this version of Holdfast: move it away, and {self.without}"
            )

    def _make_empty(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._make_tables(connection)
        for name in ("fold", "nanoseconds"):  # there is nothing to compare
            connection.create_function(name, 1, str)
        return connection

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        for sql in self.tables:
            connection.execute(sql)


def _statements(connection: sqlite3.Connection) -> set[str]:
    rows: Iterable[tuple[Any]] = connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
    )
    return {str(sql) for (sql,) in rows}
