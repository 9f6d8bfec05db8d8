"""The SQLite file of a repository: its tables, its version, and who may write when.

Write-ahead log with full synchronisation: what is committed survives the loss of power. Readers
do not wait. Writers of one process queue on a lock, which is quick; those of several on SQLite's.
"""

import errno
import sqlite3
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.errors import ClientClosedError, ConfigError
from holdfast.forks import renew_after_fork

SCHEMA_VERSION: Final = 1
BUSY_SECONDS: Final = 60.0
CACHE_KIB: Final = 8 << 10

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
    uuid      TEXT NOT NULL,
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
CREATE INDEX pins_by_key ON pins (key);
CREATE INDEX pins_by_date ON pins (created DESC, id DESC);
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
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._inherited: list[sqlite3.Connection] = []
        self._closed = False
        try:
            # One connection for all writers: what it has in its cache stays true.
            self._writer: sqlite3.Connection | None = self._connect(_prepare)
        except sqlite3.Error as error:
            raise ConfigError(f"path {path.parent} holds no sound repository: {error}") from None
        renew_after_fork(self)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection with an unchanging view, for as long as the block lasts."""
        with self._lock:
            self._check_open()
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        try:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")
        finally:
            with self._lock:
                if self._closed:
                    connection.close()
                else:
                    self._idle.append(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection that may write; all is committed at the end, or nothing."""
        with self._writing, _full_disk_as_oserror():
            self._check_open()
            if self._writer is None:
                self._writer = self._connect()
            connection = self._writer
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _connect(
        self, prepare: Callable[[sqlite3.Connection, Path], None] | None = None
    ) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.create_function("fold", 1, _fold, deterministic=True)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            if prepare is not None:
                prepare(connection, self._path)
        except BaseException:
            connection.close()
            raise
        return connection

    def after_fork(self) -> None:
        """Begin with connections of our own, and locks that nobody holds.

        SQLite forbids to use a parent's connections, and to close them too: they are kept aside.
        """
        self._inherited += [*self._idle, *([] if self._writer is None else [self._writer])]
        self._idle, self._writer = [], None
        self._lock, self._writing = threading.Lock(), threading.Lock()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError("The repository is closed; open it again.")

    def close(self) -> None:
        """Close every connection that is not in use; those are closed after it. Twice is once."""
        with self._writing, self._lock:
            if not self._closed:
                self._closed = True
                if self._writer is not None:
                    self._writer.close()
            while self._idle:
                self._idle.pop().close()


def _fold(text: str) -> str:
    """`text` for comparing: in whichever case and composition its letters were written."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


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
