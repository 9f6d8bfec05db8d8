"""The id of a store, and whether its database belongs to its block files.

The database and the file ``holdfast.id`` hold the same random id. If the ids differ or one is
missing, the database may not list the blocks in the folder. Then nothing is written or deleted.
"""

import os
import re
import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.disk.atomic import PendingFile
from holdfast.disk.folders import Folder
from holdfast.errors import ConfigError, VerificationError
from holdfast.hints import advise
from holdfast.repository.rows import is_key

DATABASE: Final = "holdfast.sqlite3"
ID_FILE: Final = "holdfast.id"
FOLDER: Final = "blocks"
REMEDY: Final = "stop everything that uses the store, then run `holdfast repair`"
ID_SIZE: Final = 100  # bytes of its file that are read
ID: Final = re.compile("[0-9a-f]{32}")
MAX_CHANGES: Final = 1 << 53  # more transactions than any store has


class UnsoundError(Exception):
    """The files of a store do not belong together. Callers get the error of `damaged` instead."""


class Mark(NamedTuple):
    """What the database says of itself; see the table ``store``."""

    id: str
    changes: int


def damaged(folder: Path, why: str) -> VerificationError:
    """Return the error for a store that must be repaired before it can be used."""
    error = VerificationError(
        f"the store in {folder} is damaged: {' '.join(why.split())}; `holdfast repair` rebuilds it"
    )
    return advise(error, REMEDY)


def mark_of(connection: sqlite3.Connection) -> Mark:
    """Return the mark of the database."""
    try:
        row = connection.execute("SELECT id, changes, token FROM store").fetchone()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) is not None:
            raise
        raise UnsoundError(f"the id in {DATABASE} is not a text") from None  # Python raised it
    if row is None:
        raise UnsoundError(f"{DATABASE} has no id")
    store_id, changes, token = row
    kinds = type(store_id), type(changes), type(token)
    if kinds != (str, int, bytes) or not 0 <= changes < MAX_CHANGES:
        raise UnsoundError(f"the table with the id in {DATABASE} is damaged")
    return Mark(store_id, changes)


def read_id(folder: Path) -> str | None:
    """Return the id in the file of the folder; None without a file, "" if it holds no id."""
    try:
        data = Folder(folder).read(ID_FILE, ID_SIZE)
    except (OSError, ConfigError):  # a link, for example
        return ""
    text = None if data is None else data.decode("ascii", "replace").strip()
    return text if text is None or ID.fullmatch(text) else ""


def write_id(folder: Path, store_id: str) -> None:
    """Write the id into the file of the folder, durably and in one step."""
    with PendingFile(folder / ID_FILE) as pending:
        pending.write(store_id.encode() + b"\n")
        pending.commit()


def has_traces(folder: Path) -> bool:
    """Return whether `folder` holds any file of a store, apart from its database."""
    return os.path.lexists(folder / ID_FILE) or has_block_files(folder)


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


def why_unsound(folder: Path, mark: Mark) -> str | None:
    """Return why the database with `mark` may not be that of `folder`, or None."""
    folder_id = read_id(folder)
    if folder_id is None:
        return f"the file {ID_FILE} is missing"
    if not folder_id:
        return f"the file {ID_FILE} does not hold an id"
    return None if folder_id == mark.id else f"{ID_FILE} and {DATABASE} belong to two stores"
