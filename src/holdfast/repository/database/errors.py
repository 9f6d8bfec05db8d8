"""Errors of SQLite as errors of Holdfast: the one place that knows them."""

import errno
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.errors import ProviderError
from holdfast.repository.database.identity import UnsoundError, damaged
from holdfast.repository.database.space import full_disk, is_full

PROBE: Final = 64 << 10
IN_USE: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
UNREADABLE: Final = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}


@contextmanager
def typed_errors(folder: Path) -> Iterator[None]:
    """Raise what callers know in place of an error of SQLite for the store in `folder`."""
    try:
        yield
    except UnsoundError as error:
        raise damaged(folder, str(error)) from None
    except sqlite3.Error as error:
        raise typed(error, folder) from None


def typed(error: sqlite3.Error, folder: Path) -> Exception:
    """Return the error that callers know: what happened, and what to do about it."""
    code = _code(error)
    if code == sqlite3.SQLITE_INTERRUPT:
        return error  # whoever asked for it knows
    if code == sqlite3.SQLITE_FULL or (code in UNREADABLE and _cannot_write(folder)):
        return full_disk(folder)
    if code == sqlite3.SQLITE_READONLY:
        return read_only_error(folder)
    if code in IN_USE:
        return ProviderError(
            f"the store in {folder} is in use: another process has been writing to it for too "
            "long; try again when it is done"
        )
    if code in UNREADABLE:
        return ProviderError(
            f"the database of the store in {folder} cannot be read or written ({error}): check the "
            "disk and the permissions, then run `holdfast check`"
        )
    return damaged(folder, f"its database cannot be used ({error})")


def is_of_content(error: sqlite3.Error) -> bool:
    """Whether SQLite complains of what is in the database, and not of the disk or of others."""
    other = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT}
    return _code(error) not in other | IN_USE | UNREADABLE


def read_only_error(folder: Path) -> OSError:
    """Return the error for a change to a store that can only be read."""
    return OSError(
        errno.EROFS,
        "the store is read-only here: make it writable, or use another with HOLDFAST_PATH",
        str(folder),
    )


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def _cannot_write(folder: Path) -> bool:
    """Whether a few bytes find no space: SQLite tells of that in several ways."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(os.urandom(PROBE))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return is_full(error)
    return False
