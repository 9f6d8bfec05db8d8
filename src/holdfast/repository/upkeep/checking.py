"""Checking a store: its databases, every block, and that no pin misses a block."""

import sqlite3
from collections.abc import Iterator
from typing import Final

from holdfast.content.blocks import check_block, inline_block
from holdfast.content.cid import CID
from holdfast.errors import ConfigError, VerificationError
from holdfast.repository.block_files import BlockFiles, linked_from
from holdfast.repository.database import Database
from holdfast.repository.rows import BadRowError, cid_of, key_of
from holdfast.repository.upkeep.database_faults import find_faults
from holdfast.repository.upkeep.garbage import BATCH, LIVE, Damage

SMALLEST_ID: Final = -(1 << 63)  # of a row in SQLite


def check(database: Database, files: BlockFiles) -> Iterator[Damage]:
    """Yield what is wrong with the databases, then damaged blocks, then missing blocks."""
    faults = list(find_faults(database))
    yield from (Damage("", fault) for fault in faults)
    try:
        yield from _damaged(database, files)
        yield from _missing(database)
    except VerificationError as error:
        if not faults:
            yield Damage("", str(error))


def _damaged(database: Database, files: BlockFiles) -> Iterator[Damage]:
    """Verify every block, while others may write to the store.

    An add or a collection of garbage may replace or remove a file after the reader's transaction
    began. So a block that seems damaged is checked again while nobody can write.
    """
    last = SMALLEST_ID
    while True:
        with database.reading() as connection:
            sql = "SELECT id, key FROM blocks WHERE id > ? AND NOT dying ORDER BY id LIMIT ?"
            rows = connection.execute(sql, (last, BATCH)).fetchall()
            suspects = [row for row in rows if _find_damage(connection, files, *row)]
        for row in suspects:
            with database.frozen() as connection:
                damage = _find_damage(connection, files, *row)
            if damage is not None:
                yield damage
        if not rows:
            break
        last = rows[-1][0]


def _missing(database: Database) -> Iterator[Damage]:
    """Yield the blocks that pins need and that the database does not list."""
    with database.reading() as connection:
        rows = connection.execute(
            f"{LIVE} SELECT key FROM live"  # noqa: S608 - ours
            " WHERE key NOT IN (SELECT key FROM blocks WHERE NOT dying)"
        ).fetchall()
        cids = [cid_of(key) for (key,) in rows]
    for cid in cids:
        if inline_block(cid) is None:
            yield Damage(str(cid), "a pin needs it, and it is missing")


def _find_damage(
    connection: sqlite3.Connection, files: BlockFiles, number: int, key: object
) -> Damage | None:
    """Return the damage of a block; None if it is sound, or no longer in the store."""
    sql = "SELECT 1 FROM blocks WHERE id = ? AND key IS ? AND NOT dying"
    if connection.execute(sql, (number, key)).fetchone() is None:
        return None
    try:
        cid = cid_of(key)
    except BadRowError as error:
        return Damage("", f"block {number} of the database: {error}")
    what = _what_is_wrong(connection, files, number, cid)
    return None if what is None else Damage(str(cid), what)


def _what_is_wrong(
    connection: sqlite3.Connection, files: BlockFiles, number: int, cid: CID
) -> str | None:
    try:
        data = files.read(connection, cid)
        if data is None:
            return "its file is gone"
        check_block(cid, data)
        children = {key_of(child) for child in linked_from(cid, data)}
    except VerificationError as error:
        return f"it is damaged: {error}"
    except (ConfigError, BadRowError) as error:
        return f"it cannot be read: {error}"
    except OSError as error:
        return f"its file cannot be read: {error.strerror}"
    rows = connection.execute("SELECT child FROM links WHERE parent = ?", (number,))
    same = {child for (child,) in rows} == children
    return None if same else "the database has other links for it than the block"
