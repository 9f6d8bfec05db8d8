"""A store that this user can read, but not write: on a read-only disk, or by its permissions.

SQLite reads a database with a write-ahead log only together with the log and its index, which it
makes where they are missing; here it cannot. Where there is no log, nobody has the database open,
and SQLite reads it as a file that does not change (``immutable=1``). That holds for the moment:
somebody else may be able to write, through another mount say. So each reading compares the file
before and after, and fails if it was changed meanwhile. Where there is a log, SQLite reads it.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.errors import ProviderError
from holdfast.repository.database.identity import COPY, DATABASE, FOLDER

EFFECTIVE: Final = os.access in os.supports_effective_ids
WRITTEN: Final = ("", DATABASE, COPY, FOLDER)


class State(NamedTuple):
    """What tells whether a database was changed since."""

    file: tuple[int, int, int, int] | None
    has_log: bool


def is_read_only(folder: Path) -> bool:
    """Whether there is a store in `folder` that this user cannot write to."""
    if not os.path.lexists(folder / DATABASE):
        return False
    for name in WRITTEN:
        path = folder / name
        if path.exists():
            wanted = os.W_OK | os.X_OK if path.is_dir() else os.W_OK
            if not os.access(path, wanted, effective_ids=EFFECTIVE):
                return True
    return False


def state_of(database: Path) -> State:
    """Return what `database` is now."""
    try:
        status = database.stat()
    except OSError:
        return State(None, has_log=False)
    file = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return State(file, _has_log(database))


def address_of(database: Path) -> str:
    """Return the address by which SQLite opens `database` without writing anything."""
    fixed = "" if _has_log(database) else "&immutable=1"
    return f"{database.absolute().as_uri()}?mode=ro{fixed}"


@contextmanager
def unchanged(database: Path) -> Iterator[None]:
    """Raise `ProviderError` if `database` is changed while the block reads it."""
    before = state_of(database)
    try:
        yield
    except sqlite3.Error:
        _compare(database, before)
        raise
    _compare(database, before)


def _compare(database: Path, before: State) -> None:
    if not before.has_log and state_of(database).file != before.file:
        raise ProviderError(
            f"the store in {database.parent} was changed while it was read: try again"
        ) from None


def _has_log(database: Path) -> bool:
    """Whether something may stand in a log that is not in the database yet."""
    log, index, journal = (Path(f"{database}{end}") for end in ("-wal", "-shm", "-journal"))
    return _size(log) > 0 or (log.exists() and index.exists()) or _size(journal) > 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
