"""Collecting the blocks that nothing needs."""

import sqlite3
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from holdfast.repository.block_files import (
    STALE_SECONDS,
    BlockFiles,
    age,
    cid_of,
    natural,
)
from holdfast.repository.database import Database
from holdfast.repository.database.space import is_full
from holdfast.repository.owners import Owner

Result = TypeVar("Result")

BATCH: Final = 200  # blocks removed under one lock, so that adds need not wait for long
SMALL_BATCH: Final = 20  # … on a full disk: the logs of both databases fit into the reserve
ALL: Final = -1

LIVE: Final = """
WITH RECURSIVE live(key) AS (
    SELECT key FROM pins WHERE removed IS NULL
    UNION
    SELECT links.child FROM live
    JOIN blocks ON blocks.key = live.key JOIN links ON links.parent = blocks.id
)
"""


class Collected(NamedTuple):
    """What a collection removed."""

    blocks: int
    size: int


class Damage(NamedTuple):
    """A block that is not as it should be."""

    cid: str
    what: str


def collect(database: Database, files: BlockFiles, owner: Owner) -> Collected:
    """Mark what nothing needs, then remove it, a few blocks at a time.

    A marked block counts as absent: an add that needs it in the meantime enters it anew.
    `VerificationError` where the database may not be the one that knows the blocks.
    """
    database.check_sound()
    database.freeing(lambda connection: _end_dead_adds(connection, owner))
    count = size = 0
    more = True
    while more:
        more = _on_full_disk_fewer(lambda limit: _mark(database, limit), ALL)
        batch = SMALL_BATCH if database.is_short_of_space() else BATCH
        while removed := remove_marked(database, files, batch):
            count += len(removed)
            size += sum(removed)
        if more:
            database.shrink()  # so that more can be marked at once
    _remove_orphans(database, files)
    owner.remove_dead()
    database.shrink()
    return Collected(count, size)


def _on_full_disk_fewer(change: Callable[[int], Result], limit: int) -> Result:
    """Call `change` for at most `limit` blocks, and for fewer where their log finds no space."""
    while True:
        try:
            return change(limit)
        except OSError as error:
            if not is_full(error) or limit == 1:
                raise
        limit = BATCH if limit == ALL else max(1, limit // 4)


def _mark(database: Database, limit: int) -> bool:
    """Mark at most `limit` blocks that nothing needs; return whether there may be more."""
    # UPDATE is the first word: else Python counts no rows.
    sql = (
        f"UPDATE blocks SET dying = 1 WHERE id IN ({LIVE} SELECT id FROM blocks WHERE NOT dying"  # noqa: S608
        " AND key NOT IN live AND id NOT IN (SELECT block FROM leases) LIMIT ?)"
    )
    count = database.freeing(lambda connection: connection.execute(sql, (limit,)).rowcount)
    return count == limit


def _end_dead_adds(connection: sqlite3.Connection, owner: Owner) -> None:
    """Drop the leases of adds whose process has ended."""
    for (name,) in connection.execute("SELECT DISTINCT owner FROM adds").fetchall():
        if not (isinstance(name, str) and owner.is_alive(name)):
            connection.execute("DELETE FROM adds WHERE owner = ?", (name,))
    connection.execute("DELETE FROM leases WHERE adding NOT IN (SELECT id FROM adds)")


def remove_marked(database: Database, files: BlockFiles, limit: int) -> list[int]:
    """Remove at most `limit` blocks that are marked; return the sizes of those that are gone."""
    gone: dict[object, int] = {}  # by key: on a full disk an attempt that fails may have an effect

    def remove(connection: sqlite3.Connection, limit: int) -> None:
        sql = "SELECT id, key, size FROM blocks WHERE dying LIMIT ?"
        for number, key, size in connection.execute(sql, (limit,)).fetchall():
            gone[key] = natural(size)
            files.remove(key)
            connection.execute("DELETE FROM links WHERE parent = ?", (number,))
            connection.execute("DELETE FROM blocks WHERE id = ?", (number,))

    _on_full_disk_fewer(
        lambda limit: database.freeing(lambda connection: remove(connection, limit)), limit
    )
    return list(gone.values())


def _remove_orphans(database: Database, files: BlockFiles) -> None:
    """Remove files that an add named, but died before it could enter.

    Adds name and enter a file in one transaction, so one without a row belongs to no add that is
    under way. The day is there for people who put a file back.
    """
    with database.reading() as connection:
        known = {
            bytes(cid_of(key)).hex() for (key,) in connection.execute("SELECT key FROM blocks")
        }
    files.remove_leftovers()
    for path in files.all_files():
        if path.name not in known and age(path) > STALE_SECONDS:
            with database.frozen() as connection:
                key = bytes.fromhex(path.name)
                sql = "SELECT 1 FROM blocks WHERE key = ?"
                if connection.execute(sql, (key,)).fetchone() is None:
                    files.remove(key)
