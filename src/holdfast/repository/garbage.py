"""Upkeep: collecting blocks that nothing needs, and checking those that are kept."""

import re
import sqlite3
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.content.blocks import check_block, inline_block
from holdfast.errors import VerificationError
from holdfast.repository.blocks import STALE_SECONDS, BlockFiles, age, cid_of
from holdfast.repository.database import Database
from holdfast.repository.owners import Owner

BATCH: Final = 200  # blocks removed under one lock, so that adds need not wait for long

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
    with database.writing() as connection:
        _end_dead_adds(connection, owner)
        connection.execute(
            f"{LIVE} UPDATE blocks SET dying = 1"  # noqa: S608 - ours
            " WHERE key NOT IN live AND id NOT IN (SELECT block FROM leases)"
        )
    count = size = 0
    while removed := remove_some(database, files):
        count += len(removed)
        size += sum(removed)
    _remove_orphans(database, files)
    owner.remove_dead()
    return Collected(count, size)


def _end_dead_adds(connection: sqlite3.Connection, owner: Owner) -> None:
    """Drop the leases of adds whose process has ended."""
    for (name,) in connection.execute("SELECT DISTINCT owner FROM adds").fetchall():
        if not owner.is_alive(name):
            connection.execute("DELETE FROM adds WHERE owner = ?", (name,))
    connection.execute("DELETE FROM leases WHERE adding NOT IN (SELECT id FROM adds)")


def remove_some(database: Database, files: BlockFiles) -> list[int]:
    """Remove a few of the blocks that are marked; return their sizes."""
    with database.writing() as connection:
        rows = connection.execute(
            "SELECT id, key, size FROM blocks WHERE dying LIMIT ?", (BATCH,)
        ).fetchall()
        for number, key, _ in rows:
            files.remove(key)
            connection.execute("DELETE FROM links WHERE parent = ?", (number,))
            connection.execute("DELETE FROM blocks WHERE id = ?", (number,))
    return [size for _, _, size in rows]


def _remove_orphans(database: Database, files: BlockFiles) -> None:
    """Remove files that an add named, but died before it could enter.

    Adds name and enter a file in one transaction, so one without a row belongs to no add that is
    under way. The day is there for people who put a file back.
    """
    with database.reading() as connection:
        known = {bytes(key).hex() for (key,) in connection.execute("SELECT key FROM blocks")}
    files.remove_leftovers()
    for path in files.all_files():
        # What is not named by a key is not ours.
        is_key = re.fullmatch("(?:[0-9a-f]{2})+", path.name)
        if path.name not in known and is_key and age(path) > STALE_SECONDS:
            with database.writing() as connection:
                key = bytes.fromhex(path.name)
                sql = "SELECT 1 FROM blocks WHERE key = ?"
                if connection.execute(sql, (key,)).fetchone() is None:
                    path.unlink(missing_ok=True)


def check(database: Database, files: BlockFiles) -> Iterator[Damage]:
    """Hash every block, then look for blocks that pins need and that are not here."""
    last = 0
    while True:
        with database.reading() as connection:
            sql = "SELECT id, key FROM blocks WHERE id > ? AND NOT dying ORDER BY id LIMIT ?"
            rows = connection.execute(sql, (last, BATCH)).fetchall()
            for number, key in rows:
                last = number
                cid = cid_of(key)
                data = files.read(connection, cid)
                if data is None:
                    yield Damage(str(cid), "its file is gone")
                    continue
                try:
                    check_block(cid, data)
                except VerificationError as error:
                    yield Damage(str(cid), f"it is damaged: {error}")
        if not rows:
            break
    with database.reading() as connection:
        missing = connection.execute(
            f"{LIVE} SELECT key FROM live"  # noqa: S608 - ours
            " WHERE key NOT IN (SELECT key FROM blocks WHERE NOT dying)"
        ).fetchall()
    for (key,) in missing:
        if inline_block(cid_of(key)) is None:
            yield Damage(str(cid_of(key)), "a pin needs it, and it is missing")
