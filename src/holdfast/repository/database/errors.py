"""The errors of the database: what SQLite and the system report, as errors of Holdfast."""

import errno
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.disk.disk_space import FULL
from holdfast.errors import ProviderError
from holdfast.repository.database.identity import UnsoundError, damaged

PROBE_SIZE: Final = 64 << 10
IN_USE: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
UNREADABLE: Final = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


@contextmanager
def typed_errors(folder: Path) -> Iterator[None]:
    """Replace the errors of SQLite for the store in `folder` by those that callers know."""
    try:
        yield
    except (UnsoundError, sqlite3.Error) as error:
        raise typed_error(error, folder) from None


def typed_error(error: Exception, folder: Path) -> Exception:
    """Return the error that callers know: it says what happened and what to do about it."""
    if isinstance(error, UnsoundError):
        return damaged(folder, str(error))
    code = code_of(error)
    if not isinstance(error, sqlite3.Error) or code == sqlite3.SQLITE_INTERRUPT:
        return error  # an interrupt is what the caller asked for
    if is_full(error) or (code in UNREADABLE and _finds_no_space(folder)):
        return full_disk(folder)
    if code == sqlite3.SQLITE_READONLY:
        return read_only_error(folder)
    if code not in IN_USE | UNREADABLE:
        return damaged(folder, f"its database cannot be used ({error})")
    what = (
        f"the store in {folder} is in use: another process has been writing to it for too long; "
        "try again when it is done"
        if code in IN_USE
        else f"the database of the store in {folder} cannot be read or written ({error}): check "
        "the disk and the permissions, then run `holdfast check`"
    )
    return ProviderError(what)


def code_of(error: Exception) -> int:
    """Return the primary result code of SQLite; 0 if Python itself raised the error."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def is_of_content(error: sqlite3.Error) -> bool:
    """Return whether the content of the database is at fault, not the disk or another process."""
    other = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT}
    return code_of(error) not in other | IN_USE | UNREADABLE


def is_full(error: Exception) -> bool:
    """Return whether the system or SQLite reports that the disk is full."""
    if isinstance(error, sqlite3.Error):
        return code_of(error) == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in FULL


def full_disk(folder: Path) -> OSError:
    """Return the error for a disk that has no space left for the store."""
    return OSError(
        errno.ENOSPC,
        "the disk of the store is full: free some space, or revoke what is not needed and run "
        "`holdfast gc`",
        str(folder),
    )


def read_only_error(folder: Path) -> OSError:
    """Return the error for a change to a store that can only be read."""
    return OSError(
        errno.EROFS,
        "the store is read-only here: make it writable, or use another with HOLDFAST_PATH",
        str(folder),
    )


def _finds_no_space(folder: Path) -> bool:
    """Return whether a small file cannot be written for lack of space.

    SQLite reports a full disk under several codes.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(os.urandom(PROBE_SIZE))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return is_full(error)
    return False
