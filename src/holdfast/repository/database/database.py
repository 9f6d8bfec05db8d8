"""Reading and writing the databases of a store.

Both use a write-ahead log with full synchronisation, so what is committed survives a power failure.
Readers never wait for writers.
"""

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from holdfast.disk.disk_space import free_bytes
from holdfast.disk.folders import Folder
from holdfast.errors import ClientError, ConfigError, VerificationError
from holdfast.forks import ForkAware
from holdfast.repository.database import schema
from holdfast.repository.database.errors import (
    closed_error,
    full_disk,
    is_full,
    is_of_content,
    read_only_error,
    typed,
    typed_error,
    typed_errors,
)
from holdfast.repository.database.group_commit import Change, GroupCommit
from holdfast.repository.database.identity import (
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
from holdfast.repository.database.opening import (
    BUSY_SECONDS,
    Opened,
    attach_copy,
    connect,
    file_id,
    open_databases,
    state_of,
    unchanged,
)
from holdfast.repository.database.trust import check_tables

# Space on the disk, and a reserve that lets a user free space on a full disk.
#
# To delete something, SQLite writes to its log first, and to open a database it makes two small
# files. On a full disk neither works. So a store has a file of `RESERVE` bytes without meaning.
# Calls that free space empty this file before they begin, and fill it again at their end. Other
# calls that write stop while some space is free, so that the logs can always be moved into the
# databases.

RESERVE: Final = 2 << 20
LEFT_FREE: Final = 1 << 20  # by every call that does not free space
FREE_FOR_RESERVE: Final = 2 * RESERVE  # a reserve is made only where this much is free
STEP: Final = 128 << 10
NAME: Final = "holdfast.reserve"


class Space:
    """The free space on the disk of the store at `root`, and its reserve."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = Folder(root)

    def is_short(self, size: int = 0) -> bool:
        """Return whether writing `size` bytes could use the space that must stay free."""
        return free_bytes(self._root) < LEFT_FREE + size

    def check(self, size: int = 0) -> None:
        """Raise the `OSError` of a full disk if `is_short`."""
        if self.is_short(size):
            raise full_disk(self._root)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Empty the reserve while the block runs."""
        with suppress(OSError, ConfigError), self._opened() as descriptor:
            os.ftruncate(descriptor, 0)
        try:
            yield
        finally:
            self._grow()

    def fill(self) -> None:
        """Make the reserve, or the missing part of it, where enough space is free."""
        with suppress(OSError, ConfigError):
            status = self._folder.status(NAME)
            is_whole = status is not None and status.st_size >= RESERVE
            if not is_whole and free_bytes(self._root) >= FREE_FOR_RESERVE:
                self._grow(os.O_CREAT)

    def _grow(self, flags: int = 0) -> None:
        """Grow the reserve in steps, until it is whole or the disk is full."""
        with suppress(OSError, ConfigError), self._opened(flags) as descriptor:
            size = os.fstat(descriptor).st_size
            while size < RESERVE:
                try:
                    _allocate(descriptor, size)
                except OSError:
                    os.ftruncate(descriptor, size)
                    return
                size += STEP

    @contextmanager
    def _opened(self, flags: int = 0) -> Iterator[int]:
        descriptor = self._folder.open(NAME, os.O_RDWR | flags, 0o600)
        try:
            status = os.fstat(descriptor)
            if status.st_nlink > 1 or status.st_size > RESERVE:
                raise ConfigError(f"{self._root / NAME} was not made by Holdfast")
            yield descriptor
        finally:
            os.close(descriptor)


def _allocate(descriptor: int, start: int) -> None:
    """Grow the file by one step that takes real space on the disk."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, start, STEP)
        except OSError as error:
            if is_full(error):
                raise
        else:
            return
    os.lseek(descriptor, start, os.SEEK_SET)
    written = os.write(descriptor, os.urandom(STEP))  # a file system may store zeros as nothing
    if written < STEP:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)


# Connections that read the database. Those that are idle are used again.


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


# The one connection of a process that writes to both databases of a store.

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


Result = TypeVar("Result")


class Database:
    """The databases in `folder`, which are made if there is no store yet.

    Any number of threads and processes may use them. With `read_only` nothing is made or written,
    and every attempt to write is an `OSError`.
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self._folder = folder
        self._read_only = read_only
        self._space = Space(folder)
        self._writer = Writer(folder, self._space, read_only=read_only)
        self._readers = ReaderPool(folder, read_only=read_only)
        self._group = GroupCommit(self._commit_group)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Yield a connection in a transaction, so that all it reads is of one moment."""
        return self._readers.reading(self._writer.fault)

    def surveying(self, *, on_disk: bool) -> AbstractContextManager[sqlite3.Connection]:
        """Yield a connection of its own with large temporary tables, in a file or in memory.

        The caller begins and ends the transactions.
        """
        return self._readers.surveying(self._writer.fault, on_disk=on_disk)

    @contextmanager
    def writing(self, size: int = 0) -> Iterator[sqlite3.Connection]:
        """Yield the connection that may write; commit all changes at the end, or none.

        `size` is how many bytes of blocks go into the databases. If the disk has too little free
        space for them, the `OSError` of a full disk is raised before anything is written.
        """
        if not self._read_only:
            # Twice for the log and the database, and all of it again for the second copy.
            self._space.check(4 * size)
        with self._writer.changing() as connection:
            yield connection

    def commit(self, *changes: Change[Any]) -> None:
        """Commit `changes` in a transaction that changes of other threads may share.

        Return when each is durable or has failed; its `result` returns its value or raises its
        error. A change that fails does not fail the others.
        """
        self._group.run(changes)

    def _commit_group(self, changes: Sequence[Change[Any]]) -> None:
        # As for `writing`. Changes that fit only one by one are committed one by one.
        if self._space.is_short(4 * sum(change.size for change in changes)):
            if len(changes) == 1:
                raise full_disk(self._folder)
            for change in changes:
                try:
                    self._commit_group([change])
                except Exception as error:  # noqa: BLE001 - whoever waits for it raises it
                    change.error = error
            return
        self._writer.commit(changes)

    def freeing(self, change: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run `change` in a transaction that frees space, which works on a full disk too.

        `change` may run twice. SQLite commits the two databases one after the other, so on a full
        disk a first run that failed may have had an effect.
        """
        if not self._space.is_short():
            try:
                with self._writer.changing() as connection:
                    return change(connection)
            except OSError as error:
                if not is_full(error):
                    raise
        with self._space.released():
            try:
                with self._writer.changing() as connection:
                    return change(connection)
            finally:
                self._writer.checkpoint()

    @contextmanager
    def frozen(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection to read while nobody else can write."""
        if self._read_only or self._writer.fault is not None:
            with self.reading() as connection:
                yield connection
            return
        with typed_errors(self._folder), self._writer.locked() as connection:
            yield connection

    @contextmanager
    def comparing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that reads both databases as they are at one moment."""
        mode = "ro" if self._read_only else "rw"
        with typed_errors(self._folder), self._readers.unchanged():
            connection = connect(self._folder / DATABASE, mode)
            try:
                if (self._folder / COPY).exists() or not self._read_only:
                    attach_copy(connection, self._folder / COPY, mode)
                else:
                    connection.execute("ATTACH DATABASE ':memory:' AS copy")
                with nullcontext() if self._read_only else self._writer.locked():
                    connection.execute("BEGIN")
                    mark_of(connection)
                    mark_of_copy(connection)
                yield connection
            finally:
                connection.close()

    def is_short_of_space(self, size: int = 0) -> bool:
        """Return whether only calls that free space can write, or could after `size` bytes."""
        return self._space.is_short(size)

    def shrink(self) -> None:
        """Give pages that the databases no longer use back to the disk, some at a time."""
        self._writer.shrink()

    def has_copy(self) -> bool:
        """Return whether there should be a second copy: not if a version 1 is only read."""
        if not self._read_only:
            return True
        with self.reading() as connection:
            return schema.version_of(connection) > 1

    def find_fault(self) -> str | None:
        """Return why the files of the store do not belong together; None if they do."""
        try:
            if not self.has_copy():
                return None
            with self.comparing() if self._read_only else self._writer.locked() as connection:
                marks = mark_of(connection), mark_of_copy(connection)
                return why_unsound(read_id(self._folder), *marks)
        except (UnsoundError, VerificationError) as error:
            return str(error)
        except sqlite3.Error as error:
            if is_of_content(error):
                return f"{DATABASE} or {COPY} cannot be read: {error}"
            raise typed(error, self._folder) from None

    def check_sound(self) -> None:
        """Raise `VerificationError` if the database is not known to be that of these blocks.

        Nothing may be deleted then.
        """
        fault = self.find_fault()
        if fault is None:
            with self.reading() as connection:
                (text,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            fault = None if text == "ok" else f"{DATABASE}: {text}"
        if fault is not None:
            raise damaged(self._folder, fault)

    def close(self) -> None:
        """Close all connections; one that is in use, when its user is done."""
        self._writer.close()
        self._readers.close()
