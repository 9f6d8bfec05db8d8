"""The databases of a repository: who may read and write them, and when.

Write-ahead log with full synchronisation: what is committed survives the loss of power. Readers
do not wait. Writers of one process queue on a lock, which is quick; those of several on SQLite's.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final, TypeVar

from holdfast.errors import ClientClosedError, ClientError, VerificationError
from holdfast.forks import ForkAware
from holdfast.repository import schema
from holdfast.repository.database_errors import is_of_content, read_only_error, typed, typed_errors
from holdfast.repository.database_files import check_tables
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
from holdfast.repository.opening import (
    BUSY_SECONDS,
    Opened,
    attach_copy,
    connect,
    open_databases,
)
from holdfast.repository.read_only import state_of, unchanged
from holdfast.repository.space import Space, is_full

Result = TypeVar("Result")

LEAST_PAGES: Final = 256  # of 4 KiB that nothing uses: fewer are left for the next blocks
SHRUNK_PAGES: Final = 2000  # given back under one lock
TIGHT_PAGES: Final = 100  # … on a full disk: the log of it fits into the reserve
SETTLE_MS: Final = 200  # how long to wait for readers

ATTEMPTS: Final = 5
FORK_SECONDS: Final = 10.0


class Database(ForkAware):
    """Connections to the databases in `folder`, which are made if no store is there.

    With `read_only` nothing is made or written, and every attempt to write is an `OSError`.

    Attributes:
        fault: Why the store is unsound, as far as was seen when it was opened; else None.
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self._folder = folder
        self._read_only = read_only
        self._space = Space(folder)
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._inherited: list[sqlite3.Connection] = []
        self._closed = False
        self._paused = False
        # One connection for all writers: what it has in its cache stays true.
        self._writer: sqlite3.Connection | None = None
        self._writer_files: list[tuple[int, int] | None] = []
        self._reader_file: object = None
        self.fault: str | None = None
        if not read_only:
            try:
                self._open_writer()
            except UnsoundError as error:
                self.fault = str(error)
        self.watch_forks()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection with an unchanging view, for as long as the block lasts."""
        connection = self._reader()
        try:
            with typed_errors(self._folder), self._unchanged():
                connection.execute("BEGIN")
                try:
                    yield connection
                finally:
                    if connection.in_transaction:  # some errors of SQLite end it
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
            file = self._file(path)
            if file != self._reader_file:  # a repair has replaced it, or somebody removed it
                while self._idle:
                    self._idle.pop().close()
                self._reader_file = file
            if self._idle:
                return self._idle.pop()
        if file is None:
            raise damaged(self._folder, f"{DATABASE} is missing")
        with typed_errors(self._folder):
            connection = connect(path, self._mode)
            try:
                self._check_version(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def _check_version(self, connection: sqlite3.Connection) -> None:
        version = schema.version_of(connection)
        # What is read is the same in version 1, and a read-only store cannot be migrated.
        if version == schema.VERSION or (self._read_only and version == 1):
            check_tables(connection, "main")
        else:
            raise UnsoundError(self.fault or f"{DATABASE} is of another version, or was replaced")

    @property
    def _mode(self) -> str:
        return "ro" if self._read_only else "rw"

    def _file(self, path: Path) -> object:
        """Return what tells whether connections to `path` are still good; None where it is gone."""
        if self._read_only:
            state = state_of(path)
            return state if state.file else None
        return _file_at(path)

    def _unchanged(self) -> AbstractContextManager[None]:
        return unchanged(self._folder / DATABASE) if self._read_only else nullcontext()

    @contextmanager
    def writing(self, size: int = 0) -> Iterator[sqlite3.Connection]:
        """The connection that may write; all is committed at the end, or nothing.

        `size` is how many bytes go into the databases, if they are many. The `OSError` of a full
        disk is raised before the last of the space is used.
        """
        # Twice for the log and the database, and all of it again for the second copy.
        if not self._read_only:
            self._space.check(4 * size)
        with self._changing() as connection:
            yield connection

    def freeing(self, change: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run `change` in a writing transaction that frees space, also on a full disk.

        `change` may run twice: SQLite commits the two databases one after the other, so where the
        disk is full its first run may have had an effect.
        """
        if not self._space.is_short():
            try:
                with self._changing() as connection:
                    return change(connection)
            except OSError as error:
                if not is_full(error):
                    raise
        with self._space.released():
            try:
                with self._changing() as connection:
                    return change(connection)
            finally:
                self._settle()

    def is_short_of_space(self) -> bool:
        """Whether only calls that free space can write."""
        return self._space.is_short()

    def shrink(self) -> None:
        """Give the disk what the databases do not use any more, a few pages at a time."""
        pages = TIGHT_PAGES if self._space.is_short() else SHRUNK_PAGES
        with suppress(OSError, ClientError):  # what was to be removed is removed
            while any(self._shrink(name, pages) for name in ("main", "copy")):
                self._settle()

    def _shrink(self, name: str, pages: int) -> bool:
        """Give back some pages; whether there may be more. Stores of before 0.2 cannot do it."""
        released = self._space.released() if self._space.is_short() else nullcontext()
        with typed_errors(self._folder), self._writing, released:
            connection = self._writer
            if connection is None:
                return False
            (before,) = connection.execute(f"PRAGMA {name}.freelist_count").fetchone()
            if before < LEAST_PAGES:
                return False
            connection.execute(f"PRAGMA {name}.incremental_vacuum({pages})").fetchall()
            (after,) = connection.execute(f"PRAGMA {name}.freelist_count").fetchone()
            return bool(after < before)

    def _settle(self) -> None:
        """Bring the logs into the databases, so that they take no space: as far as readers let."""
        with self._writing, suppress(sqlite3.Error):
            if self._writer is not None:
                self._writer.execute(f"PRAGMA busy_timeout = {SETTLE_MS}")
                try:
                    for name in ("main", "copy"):
                        self._writer.execute(f"PRAGMA {name}.wal_checkpoint(TRUNCATE)").fetchall()
                finally:
                    self._writer.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")

    @contextmanager
    def frozen(self) -> Iterator[sqlite3.Connection]:
        """A connection to read, for as long as nobody else writes."""
        if self._read_only or self.fault is not None:
            with self.reading() as connection:
                yield connection
            return
        with typed_errors(self._folder), self._locked() as connection:
            yield connection

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with typed_errors(self._folder), self._locked() as connection:
            _bring_into_step(connection)
            count = connection.total_changes
            yield connection
            if connection.total_changes != count:
                schema.advance(connection)
            connection.execute("COMMIT")

    @contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        """The connection that may write; nothing of it stays without a ``COMMIT``."""
        with self._writing:
            self._check_open()
            if self._read_only:
                raise read_only_error(self._folder)
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
        opened = self._open()
        self._space.fill()
        self.fault = opened.fault
        if opened.writable:
            self._writer, self._writer_files = opened.connection, self._files()
        else:
            opened.connection.close()

    def _open(self) -> Opened:
        """Open the databases; on a full disk, with the space that is kept in reserve."""
        if not self._space.is_short():
            try:
                return open_databases(self._folder)
            except OSError as error:
                if not is_full(error):
                    raise
        with self._space.released():
            return open_databases(self._folder)

    def _files(self) -> list[tuple[int, int] | None]:
        return [_file_at(self._folder / name) for name in (DATABASE, COPY)]

    def has_copy(self) -> bool:
        """Whether there is to be a second copy: not for version 1, which can only be read."""
        if not self._read_only:
            return True
        with self.reading() as connection:
            return schema.version_of(connection) > 1

    def find_fault(self) -> str | None:
        """Say why the files of the store do not belong together; None where they do."""
        try:
            if not self.has_copy():
                return None
            with self.comparing() if self._read_only else self._locked() as connection:
                marks = mark_of(connection), mark_of_copy(connection)
                return why_unsound(read_id(self._folder), *marks)
        except (UnsoundError, VerificationError) as error:
            return str(error)
        except sqlite3.Error as error:
            if is_of_content(error):
                return f"{DATABASE} or {COPY} cannot be read: {error}"
            raise typed(error, self._folder) from None

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
        with typed_errors(self._folder), self._unchanged():
            connection = connect(self._folder / DATABASE, self._mode)
            try:
                if (self._folder / COPY).exists() or not self._read_only:
                    attach_copy(connection, self._folder / COPY, self._mode)
                else:
                    connection.execute("ATTACH DATABASE ':memory:' AS copy")
                with nullcontext() if self._read_only else self._locked():
                    connection.execute("BEGIN")
                    mark_of(connection)
                    mark_of_copy(connection)
                yield connection
            finally:
                connection.close()

    def before_fork(self) -> None:
        """Wait for the transaction under way, and let no other begin.

        SQLite remembers in memory which locks a process has on a file. A child would inherit the
        lock of a transaction that it cannot end, and never write. A fork inside of a transaction
        waits in vain, so not for ever.
        """
        self._paused = self._writing.acquire(timeout=FORK_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Let transactions begin again."""
        if self._paused:
            self._paused = False
            self._writing.release()

    def after_fork_in_child(self) -> None:
        """Begin with connections of our own, and locks that nobody holds.

        SQLite forbids to use a parent's connections, and to close them too: they are kept aside.
        """
        self._inherited += [*self._idle, *([] if self._writer is None else [self._writer])]
        self._idle, self._writer, self._paused = [], None, False
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
    """Bring the second copy into step, if a crash or a full disk left it one transaction behind.

    That is a transaction of its own, which writes to the copy alone: if it fails as well, the copy
    is still only one behind.
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


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another that gets its name later."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
