"""Checking every block of a store, beside others that write to it."""

import sqlite3
from collections.abc import Iterator
from typing import Final

from holdfast.content.blocks import check_block, inline_block
from holdfast.content.cid import CID
from holdfast.errors import ConfigError, VerificationError
from holdfast.repository.block_files import BadRowError, BlockFiles, cid_of, key_of, linked_from
from holdfast.repository.database import Database
from holdfast.repository.upkeep.garbage import BATCH, LIVE, Damage

FIRST: Final = -(1 << 63)  # below every number that a row can have


def check(database: Database, files: BlockFiles) -> Iterator[Damage]:
    """Hash every block, then look for blocks that pins need and that are not here.

    A collection or an add may be at work meanwhile, and remove or replace a file behind the view
    that a reader has of the database. So what seems damaged is looked at again while nobody writes.
    """
    last = FIRST
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
    yield from _missing(database)


def _missing(database: Database) -> Iterator[Damage]:
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
    """Return what is wrong with a block; None where it is as it should be, or is no longer here."""
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
