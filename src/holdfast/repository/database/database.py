"""Reading and writing the database of a store.

It uses a write-ahead log with full synchronisation, so what is committed survives a power failure.
Readers never wait for writers.
"""

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from holdfast.disk.closing import closed_at_end, on_error
from holdfast.disk.disk_space import free_bytes
from holdfast.disk.folders import Folder
from holdfast.errors import ClientClosedError, ClientError, ConfigError, VerificationError
from holdfast.forks import ForkAware
from holdfast.repository.database import errors, identity, opening, schema
from holdfast.repository.database.group_commit import Change, GroupCommit
from holdfast.repository.database.identity import DATABASE, UnsoundError
from holdfast.repository.database.trust import check_tables

Result = TypeVar("Result")

# Space on the disk, and a reserve that lets a user free space on a full disk.
#
# To delete something, SQLite writes to its log first, and to open a database it makes two small
# files. On a full disk neither works. So a store has a file of `RESERVE` bytes without meaning.
# Calls that free space empty this file before they begin, and fill it again at their end. Other
# calls that write stop while some space is free, so that the log can always be moved into the
# database.

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

    @contextmanager
    def released(self) -> Iterator[None]:
        """Empty the reserve while the block runs."""
        with suppress(OSError, ConfigError), self._opened() as descriptor:
            os.ftruncate(descriptor, 0)
        try:
            yield
        finally:
            self._grow()

    def run(
        self, function: Callable[[], Result], afterwards: Callable[[], None] = lambda: None
    ) -> Result:
        """Run `function`; on a full disk with the space of the reserve, then also `afterwards`."""
        if not self.is_short():
            try:
                return function()
            except OSError as error:
                if not errors.is_full(error):
                    raise
        with self.released():
            try:
                return function()
            finally:
                afterwards()

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
        with closed_at_end(self._folder.open(NAME, os.O_RDWR | flags, 0o600)) as descriptor:
            status = os.fstat(descriptor)
            if status.st_nlink > 1 or status.st_size > RESERVE:
                raise ConfigError(f"{self._root / NAME} was not made by Holdfast")
            yield descriptor


def _allocate(descriptor: int, start: int) -> None:
    """Grow the file by one step that takes real space on the disk."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, start, STEP)
        except OSError as error:
            if errors.is_full(error):
                raise
        else:
            return
    os.lseek(descriptor, start, os.SEEK_SET)
    written = os.write(descriptor, os.urandom(STEP))  # a file system may store zeros as nothing
    if written < STEP:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)


SHRINK_FROM: Final = 256  # unused pages of 4 KiB: fewer stay for the next blocks
SHRINK_PAGES: Final = 2000  # given back to the disk in one transaction
SHRINK_PAGES_FULL: Final = 100  # the same on a full disk: its log fits into the reserve
CHECKPOINT_MS: Final = 200  # how long a checkpoint waits for readers

ATTEMPTS: Final = 5
FORK_SECONDS: Final = 10.0


class Database(ForkAware):
    """The database in `folder`, which is made if there is no store yet.

    Any number of threads and processes may use it. One connection writes for all threads, so that
    its cache stays valid. Threads wait for each other on a lock of Python, which is fast, and
    processes on the lock of SQLite.

    With `read_only` nothing is made or written, and every attempt to write is an `OSError`.
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self._folder = folder
        self._path = folder / DATABASE
        self._read_only = read_only
        self._space = Space(folder)
        self._group = GroupCommit(self._commit_group)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None  # the one that writes
        self._files: list[tuple[int, ...] | None] = []  # those that were there when it was opened
        self._idle_lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []  # for the next readers
        self._idle_file: object = None  # the file that they have open
        self._inherited: list[sqlite3.Connection] = []
        self._closed = False
        self._paused = False
        self._fault: str | None = None  # why the store cannot be written, as opening it showed
        if not read_only:
            self._open()
        self.watch_forks()

    # Reading

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction, so that all it reads is of one moment."""
        with errors.typed_errors(self._folder):
            connection = self._take_idle()
            try:
                with self._unchanged():
                    connection.execute("BEGIN")
                    try:
                        yield connection
                    finally:
                        if connection.in_transaction:  # some errors of SQLite end it
                            connection.execute("ROLLBACK")
            finally:
                with self._idle_lock:
                    connection.close() if self._closed else self._idle.append(connection)

    @contextmanager
    def surveying(self, *, on_disk: bool) -> Iterator[sqlite3.Connection]:
        """Yield a connection of its own, whose temporary tables may be large.

        They are in a temporary file with `on_disk`, else in memory. The caller begins and ends the
        transactions.
        """
        with (
            errors.typed_errors(self._folder),
            self._unchanged(),
            closing(self._connect()) as connection,
        ):
            connection.execute(f"PRAGMA temp_store = {'FILE' if on_disk else 'MEMORY'}")
            connection.execute("PRAGMA temp.journal_mode = OFF")
            yield connection

    def _unchanged(self) -> AbstractContextManager[None]:
        """Raise an error if another user changes a read-only database while the block runs."""
        return opening.unchanged(self._path) if self._read_only else nullcontext()

    def _take_idle(self) -> sqlite3.Connection:
        with self._idle_lock:
            if self._closed:
                raise ClientClosedError
            # A read-only database is opened as one that never changes, so its content counts too.
            file = opening.file_state(self._path, content=self._read_only)
            file = (*file, opening.has_log(self._path)) if file and self._read_only else file
            if file != self._idle_file:  # a repair replaced it, or somebody removed it
                self._close_idle()
                self._idle_file = file
            if self._idle:
                return self._idle.pop()
        if file is None:
            raise identity.damaged(self._folder, f"{DATABASE} is missing")
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = opening.connect(self._path, "ro" if self._read_only else "rw")
        with on_error(connection.close):
            check_tables(connection)
        return connection

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def frozen(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection to read while nobody else can write."""
        if self._read_only or self._fault is not None:
            with self.reading() as connection:
                yield connection
            return
        with errors.typed_errors(self._folder), self.locked() as connection:
            yield connection

    # Writing

    @contextmanager
    def writing(self, size: int = 0) -> Iterator[sqlite3.Connection]:
        """Yield the connection that may write; commit all changes at the end, or none.

        `size` is how many bytes of blocks go into the database. If the disk has too little free
        space for them, the `OSError` of a full disk is raised before anything is written.
        """
        if not self._read_only and self._space.is_short(2 * size):  # for log and database
            raise errors.full_disk(self._folder)
        with self._changing() as connection:
            yield connection

    def commit(self, *changes: Change[Any]) -> None:
        """Commit `changes` in a transaction that changes of other threads may share.

        Return when each is durable or has failed; its `result` returns its value or raises its
        error. A change that fails does not fail the others.
        """
        self._group.run(changes)

    def freeing(
        self, change: Callable[[sqlite3.Connection], Result], *, sync: bool = True
    ) -> Result:
        """Run `change` in a transaction that frees space, which works on a full disk too.

        `change` may run twice. Then the first transaction was rolled back. Without `sync`, a power
        failure may undo it, until the next change that is synchronised.
        """

        def run() -> Result:
            with self._changing(sync=sync) as connection:
                return change(connection)

        return self._space.run(run, self._checkpoint)

    @contextmanager
    def _changing(self, *, sync: bool = True) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a transaction, which is committed at the end of the block."""
        with errors.typed_errors(self._folder), self.locked(sync=sync) as connection:
            count = connection.total_changes
            yield connection
            if connection.total_changes != count:
                schema.advance(connection)
            connection.execute("COMMIT")

    def _commit_group(self, changes: Sequence[Change[Any]]) -> None:
        # As for `writing`. Changes that fit only one by one are committed one by one.
        if self._space.is_short(2 * sum(change.size for change in changes)):
            if len(changes) == 1:
                raise errors.full_disk(self._folder)
            for change in changes:
                try:
                    self._commit_group([change])
                except Exception as error:  # noqa: BLE001 - whoever waits for it raises it
                    change.error = error
            return
        with self._changing() as connection:
            if len(changes) == 1:
                changes[0].run(connection)
                return
            for change in changes:
                self._run_in_group(change, connection)

    def _run_in_group(self, change: Change[Any], connection: sqlite3.Connection) -> None:
        """Run one of several changes; set its error if it fails by itself."""
        connection.execute("SAVEPOINT change")
        try:
            change.run(connection)
        except Exception as error:
            if not connection.in_transaction:  # SQLite has rolled back all of them
                raise
            connection.execute("ROLLBACK TO change")
            change.error = errors.typed_error(error, self._folder)
        connection.execute("RELEASE change")

    @contextmanager
    def locked(self, *, sync: bool = True) -> Iterator[sqlite3.Connection]:
        """Yield the connection while nobody else can write; roll back what is not committed.

        Its errors are those of SQLite, and `UnsoundError`.
        """
        with self._lock:
            if self._closed:
                raise ClientClosedError
            if self._read_only:
                raise errors.read_only_error(self._folder)
            connection = self._begin("FULL" if sync else "NORMAL")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _begin(self, synchronous: str) -> sqlite3.Connection:
        """Begin a transaction in the file that has the name of the database now."""
        for _ in range(ATTEMPTS):
            if self._connection is None:
                self._open()
            if self._connection is None:
                raise UnsoundError(self._fault)
            connection = self._connection
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            connection.execute("BEGIN IMMEDIATE")
            if self._current_files() == self._files:
                return connection
            # A repair replaced the files, or somebody removed them: what is written here is lost.
            connection.execute("ROLLBACK")
            connection.close()
            self._connection = None
        raise UnsoundError("its files are replaced all the time")

    def _open(self) -> None:
        """Open the connection that writes, or set the fault."""
        try:
            self._connection = self._space.run(partial(opening.open_database, self._folder))
            self._fault = None
        except UnsoundError as error:
            self._fault = str(error)
        self._files = self._current_files()
        self._space.fill()

    def _current_files(self) -> list[tuple[int, ...] | None]:
        return [opening.file_state(self._folder / name) for name in (DATABASE, identity.ID_FILE)]

    # Space

    def is_short_of_space(self, size: int = 0) -> bool:
        """Return whether only calls that free space can write, or could after `size` bytes."""
        return self._space.is_short(size)

    def shrink(self) -> None:
        """Give pages that the database no longer uses back to the disk, some at a time."""
        pages = SHRINK_PAGES_FULL if self._space.is_short() else SHRINK_PAGES
        with suppress(OSError, ClientError):  # it saves space, and nothing depends on it
            while self._shrink(pages):
                self._checkpoint()

    def _shrink(self, pages: int) -> bool:
        """Give back at most `pages`; return whether there may be more."""
        released = self._space.released() if self._space.is_short() else nullcontext()
        with errors.typed_errors(self._folder), self._lock, released:
            connection = self._connection
            if connection is None:
                return False
            (before,) = connection.execute("PRAGMA freelist_count").fetchone()
            if before < SHRINK_FROM:
                return False
            connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
            (after,) = connection.execute("PRAGMA freelist_count").fetchone()
            return bool(after < before)

    def _checkpoint(self) -> None:
        """Move the log into the database, so that it takes no space, as far as readers allow."""
        with self._lock, suppress(sqlite3.Error):
            if self._connection is not None:
                self._connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_MS}")
                try:
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                finally:
                    self._connection.execute(
                        f"PRAGMA busy_timeout = {opening.BUSY_SECONDS * 1000:.0f}"
                    )

    # Whether it is sound

    def find_fault(self) -> str | None:
        """Return why the database may not be that of these blocks; None if it is."""
        try:
            with self.reading() if self._read_only else self.locked() as connection:
                return identity.why_unsound(self._folder, identity.mark_of(connection))
        except (UnsoundError, VerificationError) as error:
            return str(error)
        except sqlite3.Error as error:
            if errors.is_of_content(error):
                return f"{DATABASE} cannot be read: {error}"
            raise errors.typed_error(error, self._folder) from None

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
            raise identity.damaged(self._folder, fault)

    # Forks, and the end

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
        """Start again with no connection in a forked child.

        SQLite forbids a child to use or to close the connections of its parent, so they are only
        held.
        """
        self._inherited += self._idle
        self._inherited += [] if self._connection is None else [self._connection]
        self._idle, self._connection, self._paused = [], None, False
        self._lock, self._idle_lock = threading.Lock(), threading.Lock()

    def close(self) -> None:
        """Close all connections; one that is in use, when its user is done."""
        with self._lock, self._idle_lock:
            if not self._closed and self._connection is not None:
                self._connection.close()
            self._closed = True
            self._close_idle()
