"""Removing blocks: collect garbage, or discard the blocks of an add that failed."""

import sqlite3
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from holdfast.repository.block_files import BlockFiles, age
from holdfast.repository.database import Database
from holdfast.repository.database.errors import is_full
from holdfast.repository.leases import end_dead_leases, end_lease
from holdfast.repository.owners import Owner
from holdfast.repository.rows import cid_of, natural

Result = TypeVar("Result")

BATCH: Final = 200  # blocks removed in one transaction, so that adds do not wait for long
SMALL_BATCH: Final = 20  # the same on a full disk: the logs of both databases fit into the reserve
ALL: Final = -1
ORPHAN_SECONDS: Final = 24 * 3600.0  # files without a row are removed when they are older

# The keys of all blocks that a pin needs.
LIVE: Final = """
WITH RECURSIVE live(key) AS (
    SELECT key FROM pins WHERE removed IS NULL
    UNION
    SELECT links.child FROM live
    JOIN blocks ON blocks.key = live.key JOIN links ON links.parent = blocks.id
)
"""


class Collected(NamedTuple):
    """How many blocks a collection of garbage removed, and their bytes."""

    blocks: int
    size: int


class Damage(NamedTuple):
    """What is wrong with a block; with the store as a whole if `cid` is empty."""

    cid: str
    what: str


def collect(database: Database, files: BlockFiles, owner: Owner) -> Collected:
    """Mark the blocks that nothing needs, then remove them, a few at a time.

    A marked block counts as missing: an add that needs it in the meantime inserts it again. Raise
    `VerificationError` if the database is damaged or may belong to other blocks.
    """
    database.check_sound()
    database.freeing(lambda connection: end_dead_leases(connection, owner))
    count = size = 0
    more = True
    while more:
        more = _with_smaller_batches(lambda limit: _mark(database, limit), ALL)
        batch = SMALL_BATCH if database.is_short_of_space() else BATCH
        while removed := remove_marked(database, files, batch):
            count += len(removed)
            size += sum(removed)
        if more:
            database.shrink()  # makes space to mark more
    _remove_orphans(database, files)
    owner.remove_dead()
    database.shrink()
    return Collected(count, size)


def _with_smaller_batches(change: Callable[[int], Result], limit: int) -> Result:
    """Call `change` for at most `limit` blocks; if the disk is full, for fewer."""
    while True:
        try:
            return change(limit)
        except OSError as error:
            if not is_full(error) or limit == 1:
                raise
        limit = BATCH if limit == ALL else max(1, limit // 4)


def _mark(database: Database, limit: int) -> bool:
    """Mark at most `limit` blocks that nothing needs; return whether there may be more."""
    # UPDATE must be the first word, or Python does not count the rows.
    sql = (
        f"UPDATE blocks SET dying = 1 WHERE id IN ({LIVE} SELECT id FROM blocks WHERE NOT dying"  # noqa: S608
        " AND key NOT IN live AND id NOT IN (SELECT block FROM leases) LIMIT ?)"
    )
    count = database.freeing(lambda connection: connection.execute(sql, (limit,)).rowcount)
    return count == limit


def remove_marked(database: Database, files: BlockFiles, limit: int) -> list[int]:
    """Remove at most `limit` marked blocks; return the sizes of those that were removed."""
    # By key: on a full disk an attempt that failed may have had an effect.
    removed: dict[object, int] = {}

    def remove(connection: sqlite3.Connection, limit: int) -> None:
        sql = "SELECT id, key, size FROM blocks WHERE dying LIMIT ?"
        for number, key, size in connection.execute(sql, (limit,)).fetchall():
            removed[key] = natural(size)
            files.remove(key)
            connection.execute("DELETE FROM links WHERE parent = ?", (number,))
            connection.execute("DELETE FROM blocks WHERE id = ?", (number,))

    _with_smaller_batches(
        lambda limit: database.freeing(lambda connection: remove(connection, limit)), limit
    )
    return list(removed.values())


def _remove_orphans(database: Database, files: BlockFiles) -> None:
    """Remove block files that have no row, because a process ended in the middle of an add.

    An add renames a file and inserts its row in one transaction, so a file without a row belongs to
    no current add. Young files stay: a user may have just put back a file that was lost.
    """
    with database.reading() as connection:
        known = {
            bytes(cid_of(key)).hex() for (key,) in connection.execute("SELECT key FROM blocks")
        }
    files.remove_leftovers()
    for path in files.all_files():
        if path.name not in known and age(path) > ORPHAN_SECONDS:
            with database.frozen() as connection:
                key = bytes.fromhex(path.name)
                sql = "SELECT 1 FROM blocks WHERE key = ?"
                if connection.execute(sql, (key,)).fetchone() is None:
                    files.remove(key)


def discard(database: Database, files: BlockFiles, lease: int, last_id: int) -> None:
    """End `lease` and remove those of its blocks whose id is larger than `last_id`.

    Blocks that a pin or another lease needs stay. If the process ends before all are removed, a
    collection of garbage removes the others.
    """
    with database.writing() as connection:
        connection.execute(
            f"{LIVE} UPDATE blocks SET dying = 1"  # noqa: S608
            " WHERE id > ? AND id IN (SELECT block FROM leases WHERE adding = ?)"
            " AND id NOT IN (SELECT block FROM leases WHERE adding <> ?) AND key NOT IN live",
            (last_id, lease, lease),
        )
        end_lease(connection, lease)
    while remove_marked(database, files, BATCH):
        pass
