"""The one connection of a process that writes to both databases of a store."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final

from holdfast.errors import ClientError
from holdfast.forks import ForkAware
from holdfast.repository.database import schema
from holdfast.repository.database.errors import (
    closed_error,
    is_full,
    read_only_error,
    typed_error,
    typed_errors,
)
from holdfast.repository.database.group_commit import Change
from holdfast.repository.database.identity import (
    COPY,
    DATABASE,
    UnsoundError,
    mark_of,
    mark_of_copy,
    why_apart,
)
from holdfast.repository.database.opening import BUSY_SECONDS, Opened, file_id, open_databases
from holdfast.repository.database.space import Space

SHRINK_FROM: Final = 256  # unused pages of 4 KiB: fewer stay for the next blocks
SHRINK_PAGES: Final = 2000  # given back to the disk in one transaction
SHRINK_PAGES_FULL: Final = 100  # the same on a full disk: its log fits into the reserve
CHECKPOINT_MS: Final = 200  # how long a checkpoint waits for readers

ATTEMPTS: Final = 5
FORK_SECONDS: Final = 10.0


class Writer(ForkAware):
    """Writes to the databases in `folder`, which are made if there is no store yet.

    There is one connection for all threads, so that its cache stays valid. Threads wait for each
    other on a lock of Python, which is fast, and processes on the lock of SQLite.

    With `read_only` nothing is made, and every attempt to write is an `OSError`.

    Attributes:
        fault: Why the store is unsound, as far as opening it showed; else None.
    """

    def __init__(self, folder: Path, space: Space, *, read_only: bool) -> None:
        self._folder = folder
        self._space = space
        self._read_only = read_only
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inherited: list[sqlite3.Connection] = []
        self._files: list[tuple[int, int] | None] = []  # which files the connection has open
        self._closed = False
        self._paused = False
        self.fault: str | None = None
        if not read_only:
            try:
                self._open()
            except UnsoundError as error:
                self.fault = str(error)
        self.watch_forks()

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a transaction, which is committed at the end of the block."""
        with typed_errors(self._folder), self.locked() as connection:
            _bring_into_step(connection)
            count = connection.total_changes
            yield connection
            if connection.total_changes != count:
                schema.advance(connection)
            connection.execute("COMMIT")

    def commit(self, changes: Sequence[Change[Any]]) -> None:
        """Commit `changes` in one transaction; set the error of each that fails by itself."""
        with self.changing() as connection:
            if len(changes) == 1:
                changes[0].run(connection)
                return
            for change in changes:
                connection.execute("SAVEPOINT change")
                try:
                    change.run(connection)
                except Exception as error:
                    if not connection.in_transaction:  # SQLite has rolled back all of them
                        raise
                    connection.execute("ROLLBACK TO change")
                    change.error = typed_error(error, self._folder)
                connection.execute("RELEASE change")

    @contextmanager
    def locked(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection while nobody else can write; roll back what is not committed."""
        with self._lock:
            if self._closed:
                raise closed_error()
            if self._read_only:
                raise read_only_error(self._folder)
            connection = self._begin()
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _begin(self) -> sqlite3.Connection:
        """Begin a transaction in the files that have the names of the databases now."""
        for _ in range(ATTEMPTS):
            if self._connection is None:
                self._open()
            if self._connection is None:
                raise UnsoundError(self.fault or "it cannot be written")
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            if self._current_files() == self._files:
                return connection
            # A repair replaced the files, or somebody removed them: what is written here is lost.
            connection.execute("ROLLBACK")
            connection.close()
            self._connection = None
        raise UnsoundError("its databases are replaced all the time")

    def _open(self) -> None:
        opened = self._open_databases()
        self._space.fill()
        self.fault = opened.fault
        if opened.writable:
            self._connection, self._files = opened.connection, self._current_files()
        else:
            opened.connection.close()

    def _open_databases(self) -> Opened:
        """Open the databases; on a full disk, use the reserve for it."""
        if not self._space.is_short():
            try:
                return open_databases(self._folder)
            except OSError as error:
                if not is_full(error):
                    raise
        with self._space.released():
            return open_databases(self._folder)

    def _current_files(self) -> list[tuple[int, int] | None]:
        return [file_id(self._folder / name) for name in (DATABASE, COPY)]

    def shrink(self) -> None:
        """Give pages that the databases no longer use back to the disk, some at a time."""
        pages = SHRINK_PAGES_FULL if self._space.is_short() else SHRINK_PAGES
        with suppress(OSError, ClientError):  # it saves space, and nothing depends on it
            while any(self._shrink(name, pages) for name in ("main", "copy")):
                self.checkpoint()

    def _shrink(self, name: str, pages: int) -> bool:
        """Give back at most `pages`; return whether there may be more.

        A store that was made before 0.2 cannot do it.
        """
        released = self._space.released() if self._space.is_short() else nullcontext()
        with typed_errors(self._folder), self._lock, released:
            connection = self._connection
            if connection is None:
                return False
            (before,) = connection.execute(f"PRAGMA {name}.freelist_count").fetchone()
            if before < SHRINK_FROM:
                return False
            connection.execute(f"PRAGMA {name}.incremental_vacuum({pages})").fetchall()
            (after,) = connection.execute(f"PRAGMA {name}.freelist_count").fetchone()
            return bool(after < before)

    def checkpoint(self) -> None:
        """Move the logs into the databases, so that they take no space, as far as readers allow."""
        with self._lock, suppress(sqlite3.Error):
            if self._connection is not None:
                self._connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_MS}")
                try:
                    for name in ("main", "copy"):
                        sql = f"PRAGMA {name}.wal_checkpoint(TRUNCATE)"
                        self._connection.execute(sql).fetchall()
                finally:
                    self._connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")

    def before_fork(self) -> None:
        """Wait for the current transaction, and let no other begin.

        SQLite remembers in memory which locks a process holds on a file. A child would inherit the
        lock of a transaction that it cannot end, and could never write. The wait has a limit: a
        transaction of the thread that forks does not end while it waits.
        """
        self._paused = self._lock.acquire(timeout=FORK_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Let transactions begin again."""
        if self._paused:
            self._paused = False
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Start again without a connection in a forked child.

        SQLite forbids a child to use or to close the connection of its parent, so it is only held.
        """
        self._inherited += [] if self._connection is None else [self._connection]
        self._connection, self._paused = None, False
        self._lock = threading.Lock()

    def close(self) -> None:
        """Wait for the current transaction, then close the connection."""
        with self._lock:
            if not self._closed and self._connection is not None:
                self._connection.close()
            self._closed = True


def _bring_into_step(connection: sqlite3.Connection) -> None:
    """Update the second copy if a crash or a full disk left it one transaction behind.

    The update is a transaction of its own, which writes to the copy alone. If it fails too, the
    copy is still only one transaction behind.
    """
    for _ in range(ATTEMPTS):
        main, copy = mark_of(connection), mark_of_copy(connection)
        fault = f"{COPY} is empty" if copy is None else why_apart(main, copy)
        if fault is not None:
            raise UnsoundError(fault)
        if copy is None or copy.token == main.token:
            return
        schema.run(connection, schema.RESYNC)
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
    raise UnsoundError(f"{COPY} falls behind all the time")
