"""A table in a database that nobody else sees, for what may not fit into memory."""

import errno
from collections.abc import Callable, Iterable
from typing import Any


class TemporaryDatabase:
    """A new SQLite database with one `table`, written as its definition. Close it at the end.

    It has no name: SQLite keeps a few MiB in memory, and the rest in a temporary file that it
    removes at the end. Threads use it one after the other.

    Example:
        >>> database = TemporaryDatabase("words (word TEXT PRIMARY KEY)")
        >>> database.insert("INSERT OR IGNORE INTO words VALUES (?)", [("one",), ("one",)])
        >>> database.find("SELECT count(*) FROM words")
        (1,)
        >>> database.close()
    """

    def __init__(self, table: str) -> None:
        import sqlite3  # noqa: PLC0415 - few programs need it, and it takes time

        self._error = sqlite3.Error
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        settings = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF"
        self._do(self._connection.executescript, f"{settings}; CREATE TABLE {table}; BEGIN")

    def insert(self, sql: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run an INSERT for each of `rows`."""
        self._do(self._connection.executemany, sql, rows)

    def find(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        """Return the first row that is found, or None."""
        return self._do(self._connection.execute, sql, values).fetchone()

    def close(self) -> None:
        """Remove the database."""
        self._connection.close()

    def _do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._error as error:
            reason = f"a temporary file cannot be used ({error}): set TMPDIR to a folder with space"
            raise OSError(errno.EIO, reason) from None
