"""The CIDs that a walk over a large DAG has visited: in memory while they are few, then on disk."""

from typing import TYPE_CHECKING, Final

from holdfast.content.cid import CID

if TYPE_CHECKING:
    import sqlite3

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
        self._database: sqlite3.Connection | None = None

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
        found = self._database.execute("SELECT 1 FROM seen WHERE key = ?", (_key(cid),))
        return found.fetchone() is not None

    def close(self) -> None:
        """Remove what is on disk. A second time does nothing."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _spill(self) -> None:
        if self._database is None:
            import sqlite3  # noqa: PLC0415 - few programs need it, and it takes time

            # Without a name, SQLite keeps a few MiB in memory and the rest in a file that it
            # removes at the end. Threads use it one after the other.
            self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._database.executescript(
                "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
                "CREATE TABLE seen (key BLOB PRIMARY KEY) WITHOUT ROWID; BEGIN;"
            )
        rows = sorted((_key(cid),) for cid in self._recent)
        self._database.executemany("INSERT OR IGNORE INTO seen VALUES (?)", rows)
        self._recent.clear()


def _key(cid: CID) -> bytes:
    """Return a key that is the same for equal CIDs: the version does not count."""
    return cid.codec.to_bytes(8, "big") + cid.hash_code.to_bytes(8, "big") + cid.digest
