"""A store that this user can read but not write: on a read-only disk, or by its permissions.

To read a database with a write-ahead log, SQLite needs the log and its index, and makes them if
they are missing. In a read-only store it cannot make them. If they exist, SQLite reads them. If
there is no log, nobody has the database open, and SQLite can read it as a file that does not change
(``immutable=1``). Another user may still write to it later, for example through another mount. So
each reading compares the file before and after, and fails if it changed.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.errors import ProviderError
from holdfast.repository.database.identity import COPY, DATABASE, FOLDER

HAS_EFFECTIVE_IDS: Final = os.access in os.supports_effective_ids
WRITTEN_PATHS: Final = ("", DATABASE, COPY, FOLDER)


class DatabaseState(NamedTuple):
    """A database file at one moment. It changed if its state did."""

    file: tuple[int, int, int, int] | None
    has_log: bool


def is_read_only(folder: Path) -> bool:
    """Return whether there is a store in `folder` that this user cannot write to."""
    if not os.path.lexists(folder / DATABASE):
        return False
    for name in WRITTEN_PATHS:
        path = folder / name
        if path.exists():
            wanted = os.W_OK | os.X_OK if path.is_dir() else os.W_OK
            if not os.access(path, wanted, effective_ids=HAS_EFFECTIVE_IDS):
                return True
    return False


def state_of(database: Path) -> DatabaseState:
    """Return the state of `database` now."""
    try:
        status = database.stat()
    except OSError:
        return DatabaseState(None, has_log=False)
    file = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return DatabaseState(file, _has_log(database))


def read_only_uri(database: Path) -> str:
    """Return the URI with which SQLite opens `database` and writes nothing."""
    immutable = "" if _has_log(database) else "&immutable=1"
    return f"{database.absolute().as_uri()}?mode=ro{immutable}"


@contextmanager
def unchanged(database: Path) -> Iterator[None]:
    """Raise `ProviderError` if `database` changes while the block runs."""
    before = state_of(database)
    try:
        yield
    except sqlite3.Error:
        _compare(database, before)
        raise
    _compare(database, before)


def _compare(database: Path, before: DatabaseState) -> None:
    if not before.has_log and state_of(database).file != before.file:
        raise ProviderError(
            f"the store in {database.parent} was changed while it was read: try again"
        ) from None


def _has_log(database: Path) -> bool:
    """Return whether a log may hold changes that are not in the database yet."""
    log, index, journal = (Path(f"{database}{end}") for end in ("-wal", "-shm", "-journal"))
    return _size(log) > 0 or (log.exists() and index.exists()) or _size(journal) > 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
