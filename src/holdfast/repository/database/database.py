"""Reading and writing the databases of a store.

Both use a write-ahead log with full synchronisation, so what is committed survives a power failure.
Readers never wait for writers.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import VerificationError
from holdfast.repository.database import schema
from holdfast.repository.database.errors import (
    full_disk,
    is_full,
    is_of_content,
    typed,
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
    why_unsound,
)
from holdfast.repository.database.opening import attach_copy, connect
from holdfast.repository.database.readers import ReaderPool
from holdfast.repository.database.space import Space
from holdfast.repository.database.writer import Writer

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
