"""What the APIs of a node know besides blocks and pins: small databases beside the store."""

import sqlite3
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from holdfast.errors import ConfigError
from holdfast.records import now_ms
from holdfast.repository.database.errors import read_only_error, typed_errors
from holdfast.repository.database.opening import connect
from holdfast.repository.pins import parse_time
from holdfast.repository.rows import cid_text, natural, text


class SmallDatabase:
    """A database of its own in the folder of a store. Safe for several threads.

    Without its file no content is lost. The file is made by the first change. A subclass sets the
    three class attributes, and uses `using` and `changing`.
    """

    file: ClassVar[str]
    version: ClassVar[int] = 1
    tables: ClassVar[tuple[str, ...]]
    without: ClassVar[str]  # what is lost without the file, for an error message

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self._folder = folder
        self._read_only = read_only
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._empty: sqlite3.Connection | None = None

    @contextmanager
    def using(self, *, makes: bool = False) -> Iterator[sqlite3.Connection]:
        """Yield the database. Without one, yield an empty one in memory, unless `makes`."""
        with typed_errors(self._folder), self._lock:
            path = self._folder / self.file
            if self._connection is None and (makes or path.exists()):
                self._connection = self._open(path)
            if self._connection is not None:
                yield self._connection
                return
            self._empty = self._empty or self._make_empty()
            yield self._empty

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Yield the database in a transaction, which the block completes or undoes."""
        if self._read_only:
            raise read_only_error(self._folder)
        with self.using(makes=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            for connection in (self._connection, self._empty):
                if connection is not None:
                    connection.close()
            self._connection = self._empty = None

    def _open(self, path: Path) -> sqlite3.Connection:
        connection = connect(path, "ro" if self._read_only else "rwc")
        try:
            self._check(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection, path: Path) -> None:
        """Make the tables, or raise `ConfigError` if they are not ours."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if not version:
            connection.execute("BEGIN IMMEDIATE")
            if not _statements(connection):
                self._make_tables(connection)
                connection.execute(f"PRAGMA user_version = {self.version}")
            connection.execute("COMMIT")
        if _statements(connection) != set(self.tables):
            raise ConfigError(
                f"{path} was not made by this version of Holdfast: move it away, and {self.without}"
            )

    def _make_empty(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._make_tables(connection)
        for name in ("fold", "nanoseconds"):  # there is nothing to compare
            connection.create_function(name, 1, str)
        return connection

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        for sql in self.tables:
            connection.execute(sql)


def _statements(connection: sqlite3.Connection) -> set[str]:
    rows: Iterable[tuple[Any]] = connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
    )
    return {str(sql) for (sql,) in rows}


# Groups of files, and when files expire: what the v3 API knows of a pin besides the pin itself.
#
# It is a small database of its own in the folder of the store. Without it no content is lost: files
# are then in no group and do not expire.

DATABASE: Final = "holdfast.files.sqlite3"
AT_ONCE: Final = 500  # every SQLite takes at least 999 parameters
TABLES: Final = (
    "CREATE TABLE files (uuid TEXT PRIMARY KEY, cid TEXT NOT NULL, group_id TEXT, expires INTEGER)",
    "CREATE INDEX files_by_group ON files (group_id) WHERE group_id IS NOT NULL",
    "CREATE INDEX files_by_expiry ON files (expires) WHERE expires IS NOT NULL",
    (
        "CREATE TABLE groups (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE,"
        " name TEXT NOT NULL, is_public INTEGER NOT NULL, created INTEGER NOT NULL)"
    ),
)


class Details(NamedTuple):
    """The group of a file, and when it expires, in seconds; None for neither."""

    group_id: str | None = None
    expires: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of files. `number` counts groups in the order in which they were made."""

    number: int
    id: str
    name: str
    is_public: bool
    created: int


class FileDetails(SmallDatabase):
    """The details of the files of a store."""

    file = DATABASE
    tables: ClassVar[tuple[str, ...]] = TABLES
    without = "files are in no group"

    # Files

    def of(self, ids: Sequence[str]) -> dict[str, Details]:
        """Return the details of files by their ids; files without any are left out."""
        found: dict[str, Details] = {}
        with self.using() as connection:
            for at in range(0, len(ids), AT_ONCE):
                some = ids[at : at + AT_ONCE]
                marks = ",".join("?" * len(some))
                sql = f"SELECT uuid, group_id, expires FROM files WHERE uuid IN ({marks})"  # noqa: S608
                for id_, group, expires in connection.execute(sql, some):
                    found[text(id_)] = Details(
                        None if group is None else text(group),
                        None if expires is None else natural(expires),
                    )
        return found

    def put(self, id: str, cid: str, details: Details) -> None:
        """Set the details of a file; `Details()` removes them."""
        if details == Details() and not self.of([id]):
            return
        with self.changing() as connection:
            connection.execute("DELETE FROM files WHERE uuid = ?", (id,))
            if details != Details():
                row = (id, cid, *details)
                connection.execute("INSERT INTO files VALUES (?, ?, ?, ?)", row)

    def ids_in_group(self, group: str | None) -> list[str]:
        """Return the ids of the files in a group; with None, of those in any group."""
        sql = "SELECT uuid FROM files WHERE group_id IS NOT NULL AND (?1 IS NULL OR group_id = ?1)"
        with self.using() as connection:
            return [text(id_) for (id_,) in connection.execute(sql, (group,))]

    def expired(self, now: int) -> list[tuple[str, str]]:
        """Return the id and the CID of some files that have expired."""
        sql = "SELECT uuid, cid FROM files WHERE expires <= ? ORDER BY expires LIMIT ?"
        with self.using() as connection:
            rows = connection.execute(sql, (now, AT_ONCE))
            return [(text(id_), cid_text(cid)) for id_, cid in rows]

    # Groups

    def add_group(self, name: str, *, is_public: bool) -> Group:
        """Make a group."""
        row = (str(uuid.uuid4()), name, is_public, now_ms())
        sql = "INSERT INTO groups (uuid, name, is_public, created) VALUES (?, ?, ?, ?)"
        with self.changing() as connection:
            number = connection.execute(sql, row).lastrowid
        return _group((number, *row))

    def group(self, id: str) -> Group | None:
        """Return a group; None if there is none with this id."""
        groups = self.groups("uuid = ?", id, limit=1)
        return groups[0] if groups else None

    def groups(self, where: str, *values: Any, limit: int) -> list[Group]:
        """Return the groups for which `where` holds, the newest first."""
        sql = (
            "SELECT id, uuid, name, is_public, created FROM groups"  # noqa: S608 - ours
            f" WHERE {where} ORDER BY id DESC LIMIT ?"
        )
        with self.using() as connection:
            return [_group(row) for row in connection.execute(sql, (*values, limit))]

    def update_group(self, id: str, name: str | None, is_public: bool | None) -> Group | None:  # noqa: FBT001
        """Change what is not None of a group; return None if there is none with this id."""
        sql = (
            "UPDATE groups SET name = coalesce(?, name), is_public = coalesce(?, is_public)"
            " WHERE uuid = ?"
        )
        with self.changing() as connection:
            connection.execute(sql, (name, is_public, id))
        return self.group(id)

    def remove_group(self, id: str) -> bool:
        """Remove a group; return whether it was there. Its files stay, in no group."""
        with self.changing() as connection:
            connection.execute("UPDATE files SET group_id = NULL WHERE group_id = ?", (id,))
            connection.execute("DELETE FROM files WHERE group_id IS NULL AND expires IS NULL")
            return connection.execute("DELETE FROM groups WHERE uuid = ?", (id,)).rowcount > 0


def _group(row: tuple[Any, ...]) -> Group:
    number, id_, name, is_public, created = row
    return Group(
        number=natural(number),
        id=text(id_),
        name=text(name),
        is_public=bool(is_public),
        created=parse_time(created),
    )
