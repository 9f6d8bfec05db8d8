"""The databases of a repository: who may read and write them, and when.

Write-ahead log with full synchronisation: what is committed survives the loss of power. Readers
do not wait. Writers of one process queue on a lock, which is quick; those of several on SQLite's.
"""

import errno
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.errors import ClientClosedError
from holdfast.forks import renew_after_fork
from holdfast.repository import schema
from holdfast.repository.identity import (
    COPY,
    DATABASE,
    UnsoundError,
    damaged,
    mark_of,
    mark_of_copy,
    read_id,
    why_apart,
    why_unsound,
)
from holdfast.repository.opening import attach_copy, connect, is_damage, is_full, open_databases

ATTEMPTS: Final = 5


class Database:
    """Connections to the databases in `folder`, which are made if no store is there.

    Attributes:
        fault: Why the store is unsound, as far as was seen when it was opened; else None.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._inherited: list[sqlite3.Connection] = []
        self._closed = False
        # One connection for all writers: what it has in its cache stays true.
        self._writer: sqlite3.Connection | None = None
        self._writer_files: list[tuple[int, int] | None] = []
        self._reader_file: tuple[int, int] | None = None
        self.fault: str | None = None
        try:
            self._open_writer()
        except UnsoundError as error:
            self.fault = str(error)
        renew_after_fork(self)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection with an unchanging view, for as long as the block lasts."""
        connection = self._reader()
        try:
            with _known_errors(self._folder):
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

    def _reader(self) -> sqlite3.Connection:
        path = self._folder / DATABASE
        with self._lock:
            self._check_open()
            file = _file_at(path)
            if file != self._reader_file:  # a repair has replaced it, or somebody removed it
                while self._idle:
                    self._idle.pop().close()
                self._reader_file = file
            if self._idle:
                return self._idle.pop()
        if file is None:
            raise damaged(self._folder, f"{DATABASE} is missing")
        with _known_errors(self._folder):
            connection = connect(path, "rw")
            if schema.version_of(connection) == schema.VERSION:
                return connection
            connection.close()
            raise UnsoundError(self.fault or f"{DATABASE} was replaced")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection that may write; all is committed at the end, or nothing."""
        with _known_errors(self._folder), self._locked() as connection:
            count = connection.total_changes
            _bring_into_step(connection)
            yield connection
            if connection.total_changes != count:
                schema.advance(connection)
            connection.execute("COMMIT")

    @contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        """The connection that may write; nothing of it stays without a ``COMMIT``."""
        with self._writing:
            self._check_open()
            connection = self._begin()
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _begin(self) -> sqlite3.Connection:
        """Begin to write, in the files that now have the names of the databases."""
        for _ in range(ATTEMPTS):
            if self._writer is None:
                self._open_writer()
            if self._writer is None:
                raise UnsoundError(self.fault or "it cannot be written")
            connection = self._writer
            connection.execute("BEGIN IMMEDIATE")
            if self._files() == self._writer_files:
                return connection
            # A repair has replaced them, or somebody removed them: what is written here is lost.
            connection.execute("ROLLBACK")
            connection.close()
            self._writer = None
        raise UnsoundError("its databases are replaced all the time")

    def _open_writer(self) -> None:
        opened = open_databases(self._folder)
        self.fault = opened.fault
        if opened.writable:
            self._writer, self._writer_files = opened.connection, self._files()
        else:
            opened.connection.close()

    def _files(self) -> list[tuple[int, int] | None]:
        return [_file_at(self._folder / name) for name in (DATABASE, COPY)]

    def find_fault(self) -> str | None:
        """Say why the files of the store do not belong together; None where they do."""
        try:
            with self._locked() as connection:
                marks = mark_of(connection), mark_of_copy(connection)
                return why_unsound(read_id(self._folder), *marks)
        except UnsoundError as error:
            return str(error)
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                return f"{DATABASE} or {COPY} cannot be read: {error}"
            raise

    def check_sound(self) -> None:
        """Raise `VerificationError` unless blocks may be deleted on the word of the database."""
        fault = self.find_fault()
        if fault is None:
            with self.reading() as connection:
                (text,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            fault = None if text == "ok" else f"{DATABASE}: {text}"
        if fault is not None:
            raise damaged(self._folder, fault)

    @contextmanager
    def comparing(self) -> Iterator[sqlite3.Connection]:
        """A connection with an unchanging view of both databases at one moment."""
        with _known_errors(self._folder):
            connection = connect(self._folder / DATABASE, "rw")
            try:
                attach_copy(connection, self._folder / COPY, "rw")
                with self._locked():
                    connection.execute("BEGIN")
                    mark_of(connection)
                    mark_of_copy(connection)
                yield connection
            finally:
                connection.close()

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


def _bring_into_step(connection: sqlite3.Connection) -> None:
    """Bring the second copy into step, if a crash left it one transaction behind."""
    main, copy = mark_of(connection), mark_of_copy(connection)
    fault = f"{COPY} is empty" if copy is None else why_apart(main, copy)
    if fault is not None:
        raise UnsoundError(fault)
    if copy is not None and copy.token != main.token:
        schema.run(connection, schema.RESYNC)


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another that gets its name later."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _known_errors(folder: Path) -> Iterator[None]:
    """Raise the system's error for a full disk, and ours for a damaged store."""
    try:
        yield
    except UnsoundError as error:
        raise damaged(folder, str(error)) from None
    except sqlite3.DatabaseError as error:
        if is_full(error):
            raise OSError(errno.ENOSPC, "the disk of the repository is full") from None
        if is_damage(error):
            raise damaged(folder, f"{DATABASE} cannot be read: {error}") from None
        raise
