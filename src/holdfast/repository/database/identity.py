"""The id of a store, and whether its files belong together.

The database, its second copy and the file ``holdfast.id`` hold the same random id. If the ids
differ or one is missing, the database may not list the blocks in the folder. Then nothing may be
deleted because the database does not list it.
"""

import os
import re
import sqlite3
import stat
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.disk.atomic import PendingFile
from holdfast.errors import VerificationError
from holdfast.hints import advise
from holdfast.repository.rows import is_key

DATABASE: Final = "holdfast.sqlite3"
COPY: Final = "holdfast.copy.sqlite3"
ID_FILE: Final = "holdfast.id"
FOLDER: Final = "blocks"
REMEDY: Final = "stop what uses the store, then run `holdfast repair`"
ID: Final = re.compile("[0-9a-f]{32}")
MAX_CHANGES: Final = 1 << 53  # more transactions than any store has


class UnsoundError(Exception):
    """The files of a store do not belong together. Callers get the error of `damaged` instead."""


class Mark(NamedTuple):
    """The row in which each of the two databases says what it is; see the table ``store``."""

    id: str
    token: bytes
    before: bytes | None
    changes: int
    established: int


def damaged(folder: Path, why: str) -> VerificationError:
    """Return the error for a store that must be repaired before it can be used."""
    error = VerificationError(
        f"the store in {folder} is damaged: {' '.join(why.split())}; `holdfast repair` rebuilds it"
    )
    return advise(error, REMEDY)


def mark_of(connection: sqlite3.Connection) -> Mark:
    """Return the mark of the database."""
    return _mark(connection, "SELECT id, token, before, changes, established FROM store", DATABASE)


def mark_of_copy(connection: sqlite3.Connection) -> Mark | None:
    """Return the mark of the attached second copy; None if it has no tables yet."""
    if not connection.execute("SELECT count(*) FROM copy.sqlite_master").fetchone()[0]:
        return None
    return _mark(connection, "SELECT id, token, NULL, changes, 1 FROM copy.copied_store", COPY)


def _mark(connection: sqlite3.Connection, sql: str, name: str) -> Mark:
    try:
        row = connection.execute(sql).fetchone()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) is not None:
            raise
        raise UnsoundError(f"the id in {name} is not a text") from None  # Python raised it
    if row is None:
        raise UnsoundError(f"{name} has no id")
    mark = Mark(*row)
    kinds = [str, bytes, bytes if mark.before is not None else type(None), int, int]
    if [type(value) for value in mark] != kinds or not 0 <= mark.changes < MAX_CHANGES:
        raise UnsoundError(f"the table with the id in {name} is damaged")
    return mark


def read_id(folder: Path) -> str | None:
    """Return the id in the file of the folder; None without a file, "" if it holds no id."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(folder / ID_FILE, flags)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        text = os.read(descriptor, 100).decode("ascii", "replace").strip() if regular else ""
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return text if ID.fullmatch(text) else ""


def write_id(folder: Path, store_id: str) -> None:
    """Write the id into the file of the folder, durably and in one step."""
    with PendingFile(folder / ID_FILE) as pending:
        pending.write(store_id.encode() + b"\n")
        pending.commit()


def has_traces(folder: Path) -> bool:
    """Return whether `folder` holds any file of a store, apart from its database."""
    return (
        os.path.lexists(folder / ID_FILE)
        or os.path.lexists(folder / COPY)
        or has_block_files(folder)
    )


def is_store(folder: Path) -> bool:
    """Return whether there is a store in `folder`, even a damaged one."""
    return (folder / DATABASE).is_file() or has_traces(folder)


def has_block_files(folder: Path) -> bool:
    """Return whether `folder` holds a file with the name of a block."""
    blocks = folder / FOLDER
    return blocks.is_dir() and any(
        is_key(file.name)
        for sub in blocks.iterdir()
        if sub.name != "tmp" and sub.is_dir() and not sub.is_symlink()
        for file in sub.iterdir()
    )


def why_unsound(found: str | None, main: Mark, copy: Mark | None) -> str | None:
    """Return why the id of the folder and the two databases do not belong together, or None."""
    if found is None:
        return f"the file {ID_FILE} is missing"
    if not found:
        return f"the file {ID_FILE} does not hold an id"
    if found != main.id:
        return f"{ID_FILE} and {DATABASE} belong to two stores"
    return f"{COPY} is missing" if copy is None else why_apart(main, copy)


def why_apart(main: Mark, copy: Mark) -> str | None:
    """Return why the databases are not of the same store and the same time, or None."""
    if copy.id != main.id:
        return f"{DATABASE} and {COPY} belong to two stores"
    if copy.token not in {main.token, main.before}:
        older = DATABASE if main.changes < copy.changes else COPY
        return f"{older} is out of date"
    return None
