"""Removing blocks: collect garbage, or discard the blocks of an add that failed."""

import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from holdfast.content.blocks import inline_block
from holdfast.errors import ProviderError
from holdfast.repository.block_files import BlockFiles
from holdfast.repository.database import Database
from holdfast.repository.database.errors import is_full
from holdfast.repository.database.identity import UnsoundError, mark_of
from holdfast.repository.owners import Owner
from holdfast.repository.rows import SMALLEST_ID, BadRowError, cid_of, natural, placeholders
from holdfast.sources.sources import Progress, no_progress

# Leases: an add leases its blocks, so that no collection of garbage removes them.
#
# A lease is valid while the owner of its add is alive; see `holdfast.repository.owners`. The
# caller of each function has begun a transaction.


def extend_lease(
    connection: sqlite3.Connection, lease: int | None, owner: Owner, blocks: list[int]
) -> int:
    """Add blocks, by their ids, to a lease, or to a new one; return the number of the lease."""
    if lease is None:
        # Random: a counter could start again, for example after a repair.
        lease = secrets.randbits(63)
        connection.execute("INSERT INTO adds VALUES (?, ?)", (lease, owner.name))
    sql = "INSERT OR IGNORE INTO leases VALUES (?, ?)"
    connection.executemany(sql, ((lease, block) for block in blocks))
    return lease


def check_lease(connection: sqlite3.Connection, lease: int | None) -> None:
    """Raise `ProviderError` if there was a lease, and it has ended."""
    sql = "SELECT 1 FROM adds WHERE id = ?"
    if lease is not None and connection.execute(sql, (lease,)).fetchone() is None:
        raise ProviderError(
            "the upload was dropped: a garbage collection thought that its process was dead; "
            "upload again"
        )


def end_lease(connection: sqlite3.Connection, lease: int | None) -> None:
    """End a lease, if there is one. A collection of garbage may then remove its blocks."""
    connection.execute("DELETE FROM leases WHERE adding = ?", (lease,))
    connection.execute("DELETE FROM adds WHERE id = ?", (lease,))


def end_dead_leases(connection: sqlite3.Connection, owner: Owner) -> None:
    """End the leases of all owners that are dead."""
    for (name,) in connection.execute("SELECT DISTINCT owner FROM adds").fetchall():
        if not (isinstance(name, str) and owner.is_alive(name)):
            connection.execute("DELETE FROM adds WHERE owner = ?", (name,))
    connection.execute("DELETE FROM leases WHERE adding NOT IN (SELECT id FROM adds)")


# Which blocks pins need. They are listed in a temporary table, so memory does not grow with them.
#
# The table is a queue as well: the blocks of pins come first. While the links of one block after
# the other are followed, the blocks that they name are appended, each once.

AT_ONCE: Final = 500  # rows in one step; every SQLite takes at least 999 parameters
BYTES_PER_BLOCK: Final = 100  # more than the temporary tables need
PRINT_BYTES: Final = 8

# `n` is the place in the queue. SQLite may use the id of a removed block again, so some bytes of
# the key tell two blocks with the same id apart.
TABLES: Final = (
    "CREATE TEMP TABLE live (n INTEGER PRIMARY KEY, id INTEGER, print INTEGER, UNIQUE (id, print))",
    "CREATE TEMP TABLE absent (n INTEGER PRIMARY KEY, key BLOB UNIQUE)",
)

Needed: TypeAlias = tuple[Any, Any, Any]
"""The key of a block that something needs, and its id and `dying`: None if it is missing."""


class LiveBlocks:
    """The blocks that pins need, in temporary tables of `connection`.

    `update` reads the store from a connection in a transaction. After the first, which takes long,
    another one only adds what new pins need, so it can be part of each short transaction that
    removes blocks. The blocks of pins that are removed in between stay in the table.

    Attributes:
        followed: How many blocks are in the table, and their links were followed.
        total: How many blocks the store had.
    """

    def __init__(self, connection: sqlite3.Connection, total: int) -> None:
        self._connection = connection
        self._last_pin = -1
        self._changes = 0  # the number of transactions that the store had
        self.followed: int = 0
        self.total = total
        for sql in TABLES:
            connection.execute(sql)

    def update(self, source: sqlite3.Connection, progress: Progress = no_progress) -> None:
        """Add the blocks of new pins, and blocks that were missing before, and all below them.

        Raise `UnsoundError` if somebody replaced the database by an older one.
        """
        changes = mark_of(source).changes
        if changes < self._changes:
            raise UnsoundError("its database was replaced by an older one")
        self._changes = changes
        self._add_found(source)
        self._add_pins(source)
        sql = (
            "SELECT links.child, blocks.id, blocks.dying FROM links"
            " LEFT JOIN blocks ON blocks.key = links.child WHERE links.parent IN ({})"
        )
        while rows := self._rows("SELECT n, id FROM live WHERE n > ?", self.followed):
            numbers = [number for _, number in rows]
            self._add(source.execute(sql.format(placeholders(numbers)), numbers))
            self.followed = rows[-1][0]
            progress(min(self.followed, self.total), self.total)

    def _add_pins(self, source: sqlite3.Connection) -> None:
        """Add the blocks of new pins. No row of a pin is ever deleted, so their ids increase."""
        sql = "SELECT (SELECT min(id) FROM pins), (SELECT max(id) FROM pins)"
        first, last = source.execute(sql).fetchone()
        if last is None:
            return
        natural(first)
        natural(last)  # above the largest id SQLite would choose the next at random
        rows = source.execute(
            "SELECT pins.key, blocks.id, blocks.dying FROM pins"
            " LEFT JOIN blocks ON blocks.key = pins.key"
            " WHERE pins.id > ? AND removed IS NULL ORDER BY pins.id",
            (self._last_pin,),
        )
        self._add(rows)
        self._last_pin = last

    def _add_found(self, source: sqlite3.Connection) -> None:
        """Add the blocks that were missing before and are here now."""
        last = 0
        while rows := self._rows("SELECT n, key FROM absent WHERE n > ?", last):
            keys = [key for _, key in rows]
            sql = f"SELECT key, id, dying FROM blocks WHERE key IN ({placeholders(keys)})"  # noqa: S608
            self._add(source.execute(sql, keys))
            last = rows[-1][0]

    def _add(self, needed: Iterable[Needed]) -> None:
        """Append blocks that are not in the table yet; note those that are missing."""
        needed = iter(needed)
        while rows := list(islice(needed, AT_ONCE)):
            self._connection.executemany(
                "INSERT OR IGNORE INTO live (id, print) VALUES (?, ?)",
                [(number, _print(key)) for key, number, _ in rows if number is not None],
            )
            absent = [key for key, number, dying in rows if number is None or dying]
            self._connection.executemany(
                "INSERT OR IGNORE INTO absent (key) VALUES (?)",
                [(key,) for key in absent if inline_block(cid_of(key)) is None],
            )

    def _rows(self, sql: str, last: int) -> list[tuple[int, Any]]:
        return self._connection.execute(f"{sql} ORDER BY n LIMIT {AT_ONCE}", (last,)).fetchall()

    def candidates(self, last: int, limit: int) -> list[int]:
        """Return the next ids after `last` of blocks that are not in the table."""
        rows = self._connection.execute(
            "SELECT id FROM blocks WHERE id > ?"
            " AND NOT EXISTS (SELECT 1 FROM live WHERE live.id = blocks.id) ORDER BY id LIMIT ?",
            (last, limit),
        )
        return [number for (number,) in rows]

    def without_live(self, numbers: list[int]) -> list[int]:
        """Return those of the ids of blocks that are not in the table."""
        sql = f"SELECT id FROM live WHERE id IN ({placeholders(numbers)})"  # noqa: S608
        live = {number for (number,) in self._connection.execute(sql, numbers)}
        return [number for number in numbers if number not in live]

    def missing(self) -> Iterator[bytes]:
        """Yield the keys of the blocks that pins need and that are missing."""
        for (key,) in self._connection.execute("SELECT key FROM absent ORDER BY n"):
            yield key


@contextmanager
def find_live(database: Database, progress: Progress = no_progress) -> Iterator[LiveBlocks]:
    """Yield the blocks that the pins of this moment need. Others may write meanwhile.

    The tables are in a temporary file, or in memory if there is no space for a file.
    """
    with database.reading() as connection:
        (total,) = connection.execute("SELECT count(*) FROM blocks").fetchone()
    on_disk = not database.is_short_of_space(BYTES_PER_BLOCK * total)
    with ExitStack() as stack:
        try:
            live = stack.enter_context(_find_live(database, total, progress, on_disk=on_disk))
        except (OSError, ProviderError):  # the folder for temporary files may be on another disk
            if not on_disk:
                raise
            live = stack.enter_context(_find_live(database, total, progress, on_disk=False))
        yield live


@contextmanager
def _find_live(
    database: Database, total: int, progress: Progress, *, on_disk: bool
) -> Iterator[LiveBlocks]:
    with database.surveying(on_disk=on_disk) as connection:
        live = LiveBlocks(connection, total)
        connection.execute("BEGIN")
        live.update(connection, progress)
        connection.execute("COMMIT")
        yield live


def _print(key: object) -> int:
    if not isinstance(key, bytes):
        raise BadRowError("a key in it is not a CID")
    return int.from_bytes(key[-PRINT_BYTES:], "big", signed=True)


# Collecting garbage.

MARKED: Final = 400  # blocks marked in one transaction, so that adds do not wait for long
BATCH: Final = 200  # the same for blocks that are removed
PAUSE: Final = 0.5  # after each transaction, as a part of its time
SMALL_BATCH: Final = 20  # both on a full disk: the log of the database fits into the reserve

Change: TypeAlias = Callable[[list[int], sqlite3.Connection], list[int]]
"""Changes the blocks with these ids in a transaction; returns their ids or sizes."""


class Collected(NamedTuple):
    """How many blocks a collection of garbage removed, and their bytes."""

    blocks: int
    size: int


def collect(
    database: Database,
    files: BlockFiles,
    owner: Owner,
    progress: Progress = no_progress,
    *,
    dry_run: bool = False,
) -> Collected:
    """Find the blocks that pins need, then remove the others, a few at a time.

    With `dry_run`, only count them.

    Others may write meanwhile: each transaction that marks blocks looks for new pins first. A block
    is marked in one transaction and removed in a later one. A marked block counts as missing, so an
    add that needs it in between inserts it again. Raise `VerificationError` if the database is
    damaged or may belong to other blocks.

    A block file without a row stays: the database may be older than the file.
    """
    database.check_sound()
    database.freeing(lambda connection: end_dead_leases(connection, owner))
    count = size = handled = 0
    last = SMALLEST_ID
    with find_live(database, progress) as live:
        while numbers := live.candidates(last, _step(database, MARKED)):
            removed = _remove(database, files, live, numbers, dry_run=dry_run)
            count += len(removed)
            size += sum(removed)
            last = numbers[-1]
            handled += len(numbers)
            progress(min(live.followed + handled, live.total), live.total)
            if database.is_short_of_space() and not dry_run:
                database.shrink()
    if not dry_run:
        files.remove_leftovers()
        owner.remove_dead()
        database.shrink()
    progress(live.total, live.total)
    return Collected(count, size)


def _step(database: Database, usual: int) -> int:
    return SMALL_BATCH if database.is_short_of_space() else usual


def _remove(
    database: Database,
    files: BlockFiles,
    live: LiveBlocks,
    numbers: list[int],
    lease: int | None = None,
    *,
    dry_run: bool = False,
) -> list[int]:
    """Remove the blocks with these ids that no pin and no lease but `lease` needs.

    Return the sizes of those that were removed, or that would be without `dry_run`.
    """

    def mark(some: list[int], connection: sqlite3.Connection) -> list[int]:
        live.update(connection)
        unused = live.without_live(some)
        leased = _leased(connection, unused, lease)
        marked = [number for number in unused if number not in leased]
        if dry_run:
            sql = "SELECT size FROM blocks WHERE id = ?"
            sizes = (connection.execute(sql, (number,)).fetchone() for number in marked)
            return [natural(*size) for size in sizes if size is not None]
        sql = "UPDATE blocks SET dying = 1 WHERE id = ? AND NOT dying"
        connection.executemany(sql, ((number,) for number in marked))
        return marked

    def remove(some: list[int], connection: sqlite3.Connection) -> list[int]:
        sizes = []
        for number in some:
            sql = "SELECT key, size, data IS NULL FROM blocks WHERE id = ? AND dying"
            for key, size, is_file in connection.execute(sql, (number,)).fetchall():
                sizes.append(natural(size))
                files.remove(key) if is_file else cid_of(key)
                connection.execute("DELETE FROM links WHERE parent = ?", (number,))
                connection.execute("DELETE FROM blocks WHERE id = ?", (number,))
        return sizes

    marked = _in_parts(database, mark, numbers, len(numbers))
    return marked if dry_run else _in_parts(database, remove, marked, _step(database, BATCH))


def _leased(connection: sqlite3.Connection, numbers: list[int], lease: int | None) -> set[int]:
    """Return those of the blocks that another lease than `lease` has."""
    sql = (
        "SELECT leases.block FROM adds CROSS JOIN leases ON leases.adding = adds.id"  # noqa: S608
        f" WHERE adds.id IS NOT ? AND leases.block IN ({placeholders(numbers)})"
    )
    return {number for (number,) in connection.execute(sql, (lease, *numbers))}


def _in_parts(database: Database, change: Change, numbers: list[int], size: int) -> list[int]:
    """Call `change` with `size` blocks in each transaction; if the disk is full, with fewer.

    Return what all calls returned. After each there is a pause. SQLite lets a process that waits
    look for the lock only now and then, so without pauses it might not get it until all is done.
    """
    results: list[int] = []
    at = 0
    while at < len(numbers):
        start = time.monotonic()
        try:
            results += database.freeing(partial(change, numbers[at : at + size]))
            at += size
            # Not `time.sleep`, which fails in a process whose clock is changed by libfaketime.
            threading.Event().wait(PAUSE * (time.monotonic() - start))
        except OSError as error:
            if not is_full(error) or size == 1:
                raise
            size = max(1, size // 4)
    return results


def discard(database: Database, files: BlockFiles, lease: int, last_id: int) -> None:
    """Remove the blocks of `lease` whose id is larger than `last_id`, and end it.

    Blocks that a pin or another lease needs stay. If the process ends before all are removed, a
    collection of garbage removes the others.
    """
    sql = "SELECT block FROM leases WHERE adding = ? AND block > ? ORDER BY block LIMIT ?"
    with find_live(database) as live:
        while True:
            with database.reading() as connection:
                rows = connection.execute(sql, (lease, last_id, MARKED)).fetchall()
            if not rows:
                break
            numbers = [number for (number,) in rows]
            _remove(database, files, live, numbers, lease)
            last_id = numbers[-1]
    database.freeing(lambda connection: end_lease(connection, lease))
