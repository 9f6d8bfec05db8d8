"""Removing blocks: collect garbage, or discard the blocks of an add that failed."""

import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from holdfast.errors import ProviderError
from holdfast.repository.block_files import BlockFiles, age
from holdfast.repository.database import Database
from holdfast.repository.database.errors import is_full
from holdfast.repository.owners import Owner
from holdfast.repository.rows import SMALLEST_ID, cid_of, natural, placeholders
from holdfast.repository.upkeep.live_blocks import LiveBlocks, find_live
from holdfast.sources.sources import Progress

# Leases: an add leases its blocks, so that no collection of garbage removes them.
#
# A lease is valid while the owner of its add is alive; see `holdfast.repository.owners`. The
# caller of each function has begun a transaction.


def extend_lease(
    connection: sqlite3.Connection, lease: int | None, owner: Owner, blocks: list[int]
) -> int:
    """Add blocks, by their ids, to a lease, or to a new one; return the number of the lease."""
    check_lease(connection, lease)
    if lease is None:
        # Random: a counter could start again, for example after a repair.
        lease = secrets.randbits(63)
        connection.execute("INSERT INTO adds VALUES (?, ?)", (lease, owner.name))
    connection.executemany(
        "INSERT OR IGNORE INTO leases VALUES (?, ?)", ((lease, block) for block in blocks)
    )
    return lease


def check_lease(connection: sqlite3.Connection, lease: int | None) -> None:
    """Raise `ProviderError` if there was a lease, and it has ended."""
    sql = "SELECT 1 FROM adds WHERE id = ?"
    if lease is not None and connection.execute(sql, (lease,)).fetchone() is None:
        raise ProviderError(
            "the upload was given up: a collection of garbage took its process for dead; "
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


MARKED: Final = 400  # blocks marked in one transaction, so that adds do not wait for long
BATCH: Final = 200  # the same for blocks that are removed
PAUSE: Final = 0.5  # after each transaction, as a part of its time
SMALL_BATCH: Final = 20  # both on a full disk: the logs of the databases fit into the reserve
ORPHAN_SECONDS: Final = 24 * 3600.0  # files without a row are removed when they are older

Change: TypeAlias = Callable[[list[int], sqlite3.Connection], None]
"""Changes the blocks with these ids in a transaction."""


class Collected(NamedTuple):
    """How many blocks a collection of garbage removed, and their bytes."""

    blocks: int
    size: int


class Damage(NamedTuple):
    """What is wrong with a block; with the store as a whole if `cid` is empty."""

    cid: str
    what: str


def collect(
    database: Database, files: BlockFiles, owner: Owner, progress: Progress | None = None
) -> Collected:
    """Find the blocks that pins need, then remove the others, a few at a time.

    Others may write meanwhile: each transaction that marks blocks looks for new pins first. A block
    is marked in one transaction and removed in a later one. A marked block counts as missing, so an
    add that needs it in between inserts it again. Raise `VerificationError` if the database is
    damaged or may belong to other blocks.
    """
    database.check_sound()
    database.freeing(lambda connection: end_dead_leases(connection, owner))
    count = size = handled = 0
    last = SMALLEST_ID
    with find_live(database, progress) as live:
        while numbers := live.candidates(last, _step(database, MARKED)):
            removed = _remove(database, files, live, numbers)
            count += len(removed)
            size += sum(removed)
            last = numbers[-1]
            handled += len(numbers)
            if progress is not None:
                progress(min(live.found + handled, live.total), live.total)
            if database.is_short_of_space():
                database.shrink()
    _remove_orphans(database, files)
    owner.remove_dead()
    database.shrink()
    if progress is not None:
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
) -> list[int]:
    """Remove the blocks with these ids that no pin and no lease but `lease` needs.

    Return the sizes of those that were removed.
    """
    # By id: on a full disk an attempt that failed may have had an effect.
    marked: dict[int, None] = {}
    removed: dict[int, int] = {}

    def mark(some: list[int], connection: sqlite3.Connection) -> None:
        live.update(connection)
        unused = live.without_live(some)
        leased = _leased(connection, unused, lease)
        marked.update(dict.fromkeys(number for number in unused if number not in leased))
        sql = "UPDATE blocks SET dying = 1 WHERE id = ? AND NOT dying"
        connection.executemany(sql, ((number,) for number in some if number in marked))

    def remove(some: list[int], connection: sqlite3.Connection) -> None:
        for number in some:
            sql = "SELECT key, size, data IS NULL FROM blocks WHERE id = ? AND dying"
            for key, size, is_file in connection.execute(sql, (number,)).fetchall():
                removed[number] = natural(size)
                files.remove(key) if is_file else cid_of(key)
                connection.execute("DELETE FROM links WHERE parent = ?", (number,))
                connection.execute("DELETE FROM blocks WHERE id = ?", (number,))

    _in_parts(database, mark, numbers, len(numbers))
    _in_parts(database, remove, list(marked), _step(database, BATCH))
    return list(removed.values())


def _leased(connection: sqlite3.Connection, numbers: list[int], lease: int | None) -> set[int]:
    """Return those of the blocks that another lease than `lease` has."""
    sql = (
        "SELECT leases.block FROM adds CROSS JOIN leases ON leases.adding = adds.id"  # noqa: S608
        f" WHERE adds.id IS NOT ? AND leases.block IN ({placeholders(numbers)})"
    )
    return {number for (number,) in connection.execute(sql, (lease, *numbers))}


def _in_parts(
    database: Database,
    change: Change,
    numbers: list[int],
    size: int,
) -> None:
    """Call `change` with `size` blocks in each transaction; if the disk is full, with fewer.

    After each there is a pause. SQLite lets a process that waits look for the lock only now and
    then, so without pauses it might not get it until all is done.
    """
    at = 0
    while at < len(numbers):
        start = time.monotonic()
        try:
            database.freeing(partial(change, numbers[at : at + size]))
            at += size
            # Not `time.sleep`, which fails in a process whose clock is changed by libfaketime.
            threading.Event().wait(PAUSE * (time.monotonic() - start))
        except OSError as error:
            if not is_full(error) or size == 1:
                raise
            size = max(1, size // 4)


def _remove_orphans(database: Database, files: BlockFiles) -> None:
    """Remove block files that have no row, because a process ended in the middle of an add.

    An add renames a file and inserts its row in one transaction, so a file without a row belongs to
    no current add. Young files stay: a user may have just put back a file that was lost.
    """
    files.remove_leftovers()
    paths = files.all_files()
    sql = "SELECT 1 FROM blocks WHERE key = ?"
    while some := list(islice(paths, BATCH)):
        with database.reading() as connection:
            keys = [(path, bytes.fromhex(path.name)) for path in some]
            unknown = [each for each in keys if not connection.execute(sql, each[1:]).fetchone()]
        for path, key in unknown:
            if age(path) > ORPHAN_SECONDS:
                with database.frozen() as connection:
                    if connection.execute(sql, (key,)).fetchone() is None:
                        files.remove(key)


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
