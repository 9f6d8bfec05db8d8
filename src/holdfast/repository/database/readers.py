"""Connections that read the database. Those that are idle are used again."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from holdfast.forks import ForkAware
from holdfast.repository.database import schema
from holdfast.repository.database.errors import closed_error, typed_errors
from holdfast.repository.database.identity import DATABASE, UnsoundError, damaged
from holdfast.repository.database.opening import connect, file_id
from holdfast.repository.database.read_only import state_of, unchanged
from holdfast.repository.database.trust import check_tables


class ReaderPool(ForkAware):
    """Connections to the database in `folder`, each with one reader at a time.

    With `read_only`, a database that another user changes during a reading is an error.
    """

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self._folder = folder
        self._path = folder / DATABASE
        self._read_only = read_only
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._inherited: list[sqlite3.Connection] = []
        self._file: object = None  # the file that the idle connections have open
        self._closed = False
        self.watch_forks()

    @contextmanager
    def reading(self, fault: str | None) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction, so that all it reads is of one moment.

        `fault` is what is known to be wrong with the store. It explains a database that cannot be
        used.
        """
        with typed_errors(self._folder):
            connection = self._take(fault)
            try:
                with self.unchanged():
                    connection.execute("BEGIN")
                    try:
                        yield connection
                    finally:
                        if connection.in_transaction:  # some errors of SQLite end it
                            connection.execute("ROLLBACK")
            finally:
                self._give_back(connection)

    @contextmanager
    def surveying(self, fault: str | None, *, on_disk: bool) -> Iterator[sqlite3.Connection]:
        """Yield a connection of its own, whose temporary tables may be large.

        They are in a temporary file with `on_disk`, else in memory. The caller begins and ends the
        transactions.
        """
        with typed_errors(self._folder), self.unchanged():
            connection = self._connect(fault)
            try:
                connection.execute(f"PRAGMA temp_store = {'FILE' if on_disk else 'MEMORY'}")
                connection.execute("PRAGMA temp.journal_mode = OFF")
                yield connection
            finally:
                connection.close()

    def unchanged(self) -> AbstractContextManager[None]:
        """Raise an error if a read-only database is changed while the block runs."""
        return unchanged(self._path) if self._read_only else nullcontext()

    def _take(self, fault: str | None) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise closed_error()
            file = self._current_file()
            if file != self._file:  # a repair replaced it, or somebody removed it
                self._close_idle()
                self._file = file
            if self._idle:
                return self._idle.pop()
        if file is None:
            raise damaged(self._folder, f"{DATABASE} is missing")
        return self._connect(fault)

    def _connect(self, fault: str | None) -> sqlite3.Connection:
        connection = connect(self._path, "ro" if self._read_only else "rw")
        try:
            self._check_version(connection, fault)
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if self._closed:
                connection.close()
            else:
                self._idle.append(connection)

    def _check_version(self, connection: sqlite3.Connection, fault: str | None) -> None:
        version = schema.version_of(connection)
        # Older versions are read in the same way, and a read-only store cannot be migrated.
        if version != schema.VERSION and not (self._read_only and version in {1, 2}):
            raise UnsoundError(fault or f"{DATABASE} is of another version, or was replaced")
        check_tables(connection, "main")

    def _current_file(self) -> object:
        """Return a value that changes when open connections are out of date; None without a file.

        A read-only database is opened as one that never changes, so its content counts too.
        """
        if not self._read_only:
            return file_id(self._path)
        state = state_of(self._path)
        return state if state.file else None

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def after_fork_in_child(self) -> None:
        """Start again with no connection in a forked child.

        SQLite forbids a child to use or to close the connections of its parent, so they are only
        held.
        """
        self._inherited += self._idle
        self._idle = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the idle connections now, and each of the others when its reader is done."""
        with self._lock:
            self._closed = True
            self._close_idle()
