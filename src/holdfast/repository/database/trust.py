"""Checks before a database is trusted: of its files, and of its tables.

Somebody else may have made the folder. SQLite opens any file with the name of a database or of its
logs, follows symbolic links, and waits for ever on a pipe. A database may hold triggers and views,
which run as part of our own statements.
"""

import functools
import os
import re
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from holdfast.disk.folders import check_owner, no_regular_file
from holdfast.errors import ConfigError
from holdfast.repository.database import schema

SUFFIXES: Final = ("", "-wal", "-shm", "-journal")
MAX_VALUE: Final = 16 << 20  # bytes in a row; a block in the database has less than 16 KiB
# The last bytes of a rollback journal that names a "super-journal". After a rollback SQLite deletes
# the file of that name, wherever it is. A store never makes such a journal.
SUPER_JOURNAL: Final = bytes.fromhex("d9d505f920a163d7")

Schema = dict[tuple[str, str], str]
Create = Callable[[sqlite3.Connection], object]


def check_files(database: Path) -> None:
    """Raise `ConfigError` unless the database and its logs are files that SQLite may open.

    Each must be missing, or a regular file of this user without a second name (hard link).
    """
    for suffix in SUFFIXES:
        name = f"{database}{suffix}"
        try:
            status = os.lstat(name)
        except FileNotFoundError:
            continue
        path = Path(name)
        if not stat.S_ISREG(status.st_mode):
            raise no_regular_file(path)
        check_owner(status, path)
        if status.st_nlink > 1:
            raise ConfigError(
                f"{path} is a hard link: writing to it would change the file under its other name "
                "too; put a copy of it in its place"
            )
    _check_journal(Path(f"{database}-journal"))


def _check_journal(path: Path) -> None:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - len(SUPER_JOURNAL)))
            end = file.read()
    except FileNotFoundError:
        return
    if end == SUPER_JOURNAL:
        raise ConfigError(
            f"{path} was not made by Holdfast, and SQLite would delete the file that it names: "
            "remove it"
        )


def harden(connection: sqlite3.Connection) -> None:
    """Make SQLite distrust the content of the database."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    defensive = getattr(sqlite3, "SQLITE_DBCONFIG_DEFENSIVE", None)  # from Python 3.12 on
    if defensive is not None:
        connection.setconfig(defensive, True)  # type: ignore[attr-defined, unused-ignore]  # noqa: FBT003


def check_kinds(connection: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` if there is anything but plain tables and indexes."""
    for (kind, name), sql in _schema(connection).items():
        if kind not in {"table", "index"} or sql.startswith("create virtual"):
            raise sqlite3.DatabaseError(f"the {kind} {name!r:.80} in it was not made by Holdfast")


def check_tables(connection: sqlite3.Connection, create: Create = schema.create) -> None:
    """Raise `sqlite3.DatabaseError` unless the database has exactly the tables of `create`."""
    actual, expected = _schema(connection), _expected_schema(create)
    for key in (*actual, *expected):
        _compare(actual, expected, key)


def check_table(connection: sqlite3.Connection, table: str) -> None:
    """Raise `sqlite3.DatabaseError` unless `table` is as we make it."""
    _compare(_schema(connection), _expected_schema(schema.create), ("table", table))


def _compare(actual: Schema, expected: Schema, key: tuple[str, str]) -> None:
    if actual.get(key) != expected.get(key):
        kind, name = key
        how = "is missing in it" if key not in actual else "in it was not made by Holdfast"
        raise sqlite3.DatabaseError(f"the {kind} {name!r:.80} {how}")


def _schema(connection: sqlite3.Connection) -> Schema:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return {(str(kind), str(name)): _plain(sql) for kind, name, sql in rows}


@functools.cache
def _expected_schema(create: Create) -> Schema:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create(connection)
        return _schema(connection)


@functools.lru_cache(maxsize=100)
def _plain(sql: object) -> str:
    """Return a statement in lower case, without comments and superfluous white space.

    In a statement with quotes, ``--`` may be part of a name. It is cut all the same: our own
    statements have no quotes, so such a statement never equals one of them.
    """
    text = str(sql)
    if not text.isascii():  # Python knows more spaces and capitals than SQLite
        return text
    text = re.sub(r"--[^\n]*", " ", text)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r" ?([(),;]) ?", r"\1", text).strip("; ").lower()
