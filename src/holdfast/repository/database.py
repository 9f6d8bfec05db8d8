"""The SQLite file of a repository: its tables, its version, and who may write when.

Write-ahead log with full synchronisation: what is committed survives the loss of power. Readers
do not wait. Writers of one process queue on a lock, which is quick; those of several on SQLite's.
"""

import errno
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from holdfast.errors import ConfigError

SCHEMA_VERSION: Final = 1
BUSY_SECONDS: Final = 60.0

TABLES: Final = """
CREATE TABLE blocks (
    id     INTEGER PRIMARY KEY,
    key    BLOB NOT NULL UNIQUE,     -- the CID in its version 1 bytes
    size   INTEGER NOT NULL,
    data   BLOB,                     -- a small block; a larger one is a file of its own
    dying  INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE links (
    parent INTEGER NOT NULL,         -- blocks.id
    child  BLOB NOT NULL,            -- blocks.key, of a block that may not be here
    PRIMARY KEY (parent, child)
) WITHOUT ROWID;
CREATE TABLE pins (
    id        INTEGER PRIMARY KEY,
    uuid      TEXT NOT NULL UNIQUE,
    cid       TEXT NOT NULL,         -- as it was given or made
    key       BLOB NOT NULL,
    name      TEXT NOT NULL,
    keyvalues TEXT NOT NULL,         -- a JSON object
    size      INTEGER NOT NULL,      -- of all its blocks
    files     INTEGER NOT NULL,
    type      TEXT NOT NULL,         -- its media type
    created   INTEGER NOT NULL,      -- milliseconds
    removed   INTEGER                -- milliseconds, when it was unpinned
);
CREATE UNIQUE INDEX pins_held ON pins (key) WHERE removed IS NULL;
CREATE INDEX pins_by_date ON pins (created DESC, id DESC);
CREATE INDEX pins_by_name ON pins (name);
CREATE INDEX pins_by_cid ON pins (cid);
CREATE TABLE adds (
    id       INTEGER PRIMARY KEY,
    touched  INTEGER NOT NULL        -- milliseconds: when it last wrote a block
);
CREATE TABLE leases (
    adding INTEGER NOT NULL,         -- adds.id
    block  INTEGER NOT NULL,         -- blocks.id
    PRIMARY KEY (adding, block)
) WITHOUT ROWID;
"""


class Database:
    """Connections to the SQLite file at `path`, which is made if it is not there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._all: list[sqlite3.Connection] = []
        self._closed = False
        with self._writing, self._connection() as connection:
            _prepare(connection, path)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection with an unchanging view, for as long as the block lasts."""
        with self._connection() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection that alone may write; all is committed at the end, or nothing."""
        with self._writing, self._connection() as connection, _full_disk_as_oserror():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = self._connect()
        try:
            yield connection
        finally:
            self._idle.put(connection)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        with self._lock:
            if self._closed:
                connection.close()
                raise ValueError("the repository is closed")
            self._all.append(connection)
        return connection

    def close(self) -> None:
        """Close every connection. A second time does nothing."""
        with self._writing, self._lock:
            self._closed = True
            while self._all:
                self._all.pop().close()


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables, or see that they are of a version that we know."""
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        for statement in TABLES.split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")
    if version > SCHEMA_VERSION:
        raise ConfigError(
            f"path {path.parent} was written by a newer version of Holdfast "
            f"(schema {version}, this one knows {SCHEMA_VERSION}): upgrade, or use another path"
        )


@contextmanager
def _full_disk_as_oserror() -> Iterator[None]:
    """SQLite has an error of its own for a full disk; callers know the system's."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise OSError(errno.ENOSPC, "the disk of the repository is full") from None
        raise
