"""The CIDs that a walk over a large DAG has visited: in memory while they are few, then on disk."""

import errno
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from holdfast.content.cid import CID

# A table in a database that nobody else sees, for what may not fit into memory.


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

    def rows(self, sql: str) -> Iterator[Any]:
        """Yield all rows that are found."""
        cursor = self._do(self._connection.execute, sql)
        return iter(lambda: self._do(cursor.fetchone), None)

    def close(self) -> None:
        """Remove the database."""
        self._connection.close()

    def _do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._error as error:
            reason = f"a temporary file cannot be used ({error}): set TMPDIR to a folder with space"
            raise OSError(errno.EIO, reason) from None


IN_MEMORY: Final = 100_000  # CIDs, some 20 MiB


class SpilledCIDs:
    """A set of CIDs that can be larger than memory. Close it at the end.

    Example:
        >>> seen = SpilledCIDs()
        >>> seen.add(CID.of_raw(b"x"))
        >>> CID.of_raw(b"x") in seen, CID.of_raw(b"y") in seen
        (True, False)
        >>> seen.close()
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._recent: set[CID] = set()
        self._database: TemporaryDatabase | None = None

    def add(self, cid: CID) -> None:
        """Add a CID."""
        self._recent.add(cid)
        if len(self._recent) >= self._in_memory:
            self._spill()

    def __contains__(self, cid: object) -> bool:
        if cid in self._recent:
            return True
        if self._database is None or not isinstance(cid, CID):
            return False
        return self._database.find("SELECT 1 FROM seen WHERE key = ?", (cid.key,)) is not None

    def close(self) -> None:
        """Remove what is on disk. A second call has no effect."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _spill(self) -> None:
        if self._database is None:
            self._database = TemporaryDatabase("seen (key BLOB PRIMARY KEY) WITHOUT ROWID")
        rows = sorted((cid.key,) for cid in self._recent)
        self._database.insert("INSERT OR IGNORE INTO seen VALUES (?)", rows)
        self._recent.clear()
