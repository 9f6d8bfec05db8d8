"""Whether the files of a store belong together.

A random id stands in the database, in its second copy and in the file ``holdfast.id``. Where they
differ, or one is missing, the database may know nothing of the blocks that lie in the folder, and
nothing may be deleted on its word.
"""

import os
import re
import sqlite3
import stat
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.content.cid import CID
from holdfast.errors import VerificationError
from holdfast.files.atomic import PendingFile

DATABASE: Final = "holdfast.sqlite3"
COPY: Final = "holdfast.copy.sqlite3"
ID_FILE: Final = "holdfast.id"
FOLDER: Final = "blocks"
REMEDY: Final = "stop what uses the store, then run `holdfast repair`"
ID: Final = re.compile("[0-9a-f]{32}")
MAX_CHANGES: Final = 1 << 53  # more transactions than a store can ever see


class UnsoundError(Exception):
    """The files of a store do not belong together; the message says why. Callers get `damaged`."""


class Mark(NamedTuple):
    """What one of the two databases says about itself."""

    id: str
    token: bytes
    before: bytes | None
    changes: int
    established: int


def damaged(folder: Path, why: str) -> VerificationError:
    """The error for a store that has to be repaired first."""
    error = VerificationError(
        f"the store in {folder} is damaged: {' '.join(why.split())}; `holdfast repair` rebuilds it"
    )
    vars(error)["remedy"] = REMEDY  # what the command line shows below the message
    return error


def mark_of(connection: sqlite3.Connection) -> Mark:
    """Read the mark of the database."""
    return _mark(connection, "SELECT id, token, before, changes, established FROM store", DATABASE)


def mark_of_copy(connection: sqlite3.Connection) -> Mark | None:
    """Read the mark of the second copy that is attached; None where it has no tables yet."""
    if not connection.execute("SELECT count(*) FROM copy.sqlite_master").fetchone()[0]:
        return None
    return _mark(connection, "SELECT id, token, NULL, changes, 1 FROM copy.copied_store", COPY)


def _mark(connection: sqlite3.Connection, sql: str, name: str) -> Mark:
    try:
        row = connection.execute(sql).fetchone()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) is not None:
            raise
        raise UnsoundError(f"the id in {name} is not a text") from None  # Python's own complaint
    if row is None:
        raise UnsoundError(f"{name} has no id")
    mark = Mark(*row)
    kinds = [str, bytes, bytes if mark.before is not None else type(None), int, int]
    if [type(value) for value in mark] != kinds or not 0 <= mark.changes < MAX_CHANGES:
        raise UnsoundError(f"the table with the id in {name} is damaged")
    return mark


def read_id(folder: Path) -> str | None:
    """Read the id that the folder has; None where there is none, "" where it is not an id."""
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
    """Give the folder its id, durably and in one step."""
    with PendingFile(folder / ID_FILE) as pending:
        pending.write(store_id.encode() + b"\n")
        pending.commit()


def has_traces(folder: Path) -> bool:
    """Return whether a store is or was in `folder`, its database aside."""
    return (
        os.path.lexists(folder / ID_FILE)
        or os.path.lexists(folder / COPY)
        or has_block_files(folder)
    )


def is_store(folder: Path) -> bool:
    """Return whether there is a store in `folder`, sound or not."""
    return (folder / DATABASE).is_file() or has_traces(folder)


def has_block_files(folder: Path) -> bool:
    """Return whether there is a file that has the name of a block."""
    blocks = folder / FOLDER
    return blocks.is_dir() and any(
        _is_key(file.name)
        for sub in blocks.iterdir()
        if sub.name != "tmp" and sub.is_dir() and not sub.is_symlink()
        for file in sub.iterdir()
    )


def _is_key(name: str) -> bool:
    try:
        return bytes(CID.from_bytes(bytes.fromhex(name))).hex() == name
    except ValueError:
        return False


def why_unsound(found: str | None, main: Mark, copy: Mark | None) -> str | None:
    """Compare the id of the folder and the marks of both databases; say what does not fit."""
    if found is None:
        return f"the file {ID_FILE} is missing"
    if not found:
        return f"the file {ID_FILE} does not hold an id"
    if found != main.id:
        return f"{ID_FILE} and {DATABASE} belong to two stores"
    return f"{COPY} is missing" if copy is None else why_apart(main, copy)


def why_apart(main: Mark, copy: Mark) -> str | None:
    """Compare the two databases, which must be of one store and one time; say what differs."""
    if copy.id != main.id:
        return f"{DATABASE} and {COPY} belong to two stores"
    if copy.token not in {main.token, main.before}:
        older = DATABASE if main.changes < copy.changes else COPY
        return f"{older} is an older version of itself"
    return None
