"""The CIDs that a walk over a large DAG has visited: in memory while they are few, then on disk."""

from typing import Final

from holdfast.content.cid import CID
from holdfast.files.temporary_database import TemporaryDatabase

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
        """Remove what is on disk. A second time does nothing."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _spill(self) -> None:
        if self._database is None:
            self._database = TemporaryDatabase("seen (key BLOB PRIMARY KEY) WITHOUT ROWID")
        rows = sorted((cid.key,) for cid in self._recent)
        self._database.insert("INSERT OR IGNORE INTO seen VALUES (?)", rows)
        self._recent.clear()
