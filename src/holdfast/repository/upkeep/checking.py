"""Checking a store: its database, every block, and that no pin misses a block."""

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from holdfast.content.blocks import check_block
from holdfast.content.cid import CID
from holdfast.content.codecs import links_of
from holdfast.errors import ClientError, ConfigError, VerificationError
from holdfast.repository.block_files import BlockFiles
from holdfast.repository.database import Database, schema
from holdfast.repository.database.identity import DATABASE
from holdfast.repository.rows import SMALLEST_ID, BadRowError, cid_of
from holdfast.repository.upkeep.garbage import BATCH, find_live
from holdfast.sources.sources import Progress, no_progress

UNLISTED: Final = "its file is not in the database; `holdfast repair` adds it"


Report: TypeAlias = Callable[[int], None]
"""Is called with the number of blocks that were verified."""


class Damage(NamedTuple):
    """What is wrong with a block; with the store as a whole if `cid` is empty."""

    cid: str
    what: str


def check(
    database: Database, files: BlockFiles, progress: Progress = no_progress
) -> Iterator[Damage]:
    """Yield what is wrong with the database, then with blocks, then which blocks are missing.

    Each block is looked at twice, by itself and below the pins: two halves of the progress.
    """
    faults = list(_find_faults(database))
    yield from (Damage("", fault) for fault in faults)
    try:
        with database.reading() as connection:
            (total,) = connection.execute("SELECT count(*) FROM blocks").fetchone()

        def report(done: int, _: int | None = None, *, before: int = 0) -> None:
            progress((before + min(done, total)) // 2, total)

        yield from _damaged(database, files, report)
        yield from _unlisted(database, files)
        with find_live(database, partial(report, before=total)) as live:
            missing = [cid_of(key) for key in live.missing()]
        yield from (Damage(str(cid), "a pin needs it, and it is missing") for cid in missing)
    except VerificationError as error:
        if not faults:
            yield Damage("", str(error))
    else:
        report(total, before=total)


def _find_faults(database: Database) -> Iterator[str]:
    """Yield what is wrong with the id of the store and its database."""
    fault = database.find_fault()
    if fault is not None:
        yield fault
    try:
        with database.reading() as connection:
            rows = connection.execute("PRAGMA quick_check(3)").fetchall()
            if schema.counts(connection) != connection.execute(schema.COUNT).fetchone():
                rows.append(("its number of pins, or their size, is wrong",))
    except VerificationError as error:
        if fault is None:
            yield str(error)
        return
    yield from (f"{DATABASE}: {text}" for (text,) in rows if text != "ok")


def _damaged(database: Database, files: BlockFiles, report: Report) -> Iterator[Damage]:
    """Verify every block, while others may write to the store.

    An add or a collection of garbage may replace or remove a file after the reader's transaction
    began. So a block that seems damaged is checked again while nobody can write.
    """
    last, done = SMALLEST_ID, 0
    while True:
        with database.reading() as connection:
            numbers, suspects = _verify_some(connection, files, last)
        for suspect in suspects:
            sql = "SELECT id, key, data FROM blocks WHERE id = ? AND key IS ? AND NOT dying"
            with database.frozen() as connection:
                row = connection.execute(sql, suspect).fetchone()
                damage = None if row is None else _find_damage(connection, files, *row)
            if damage is not None:
                yield damage
        if not numbers:
            break
        last = numbers[-1]
        done += len(numbers)
        report(done)


def _unlisted(database: Database, files: BlockFiles) -> Iterator[Damage]:
    """Yield the block files that have no row.

    Either the database is older than they are, or a process was killed in the middle of an add. An
    add renames a file and inserts its row while nobody else can write.
    """
    keys = files.all_keys()
    sql = "SELECT 1 FROM blocks WHERE key = ?"
    while some := list(islice(keys, BATCH)):
        with database.reading() as connection:
            suspects = [key for key in some if not connection.execute(sql, (key,)).fetchone()]
        for key in suspects:
            with database.frozen() as connection:
                is_listed = connection.execute(sql, (key,)).fetchone() is not None
                what = None if is_listed else _judge_unlisted(files, cid_of(key))
            if what is not None:
                yield Damage(str(cid_of(key)), what)


def _judge_unlisted(files: BlockFiles, cid: CID) -> str | None:
    try:
        data = files.read_file(bytes(cid))
        if data is None:
            return None  # a collection has just removed it
        check_block(cid, data)
    except OSError as error:
        return f"its file is not in the database, and cannot be read: {error.strerror}"
    except ClientError as error:
        what = f"its file is not in the database, and is damaged: {error}"
        is_of_no_use = isinstance(error, VerificationError) and cid.is_provable
        return f"{what}; it is of no use, remove {files.path(bytes(cid))}" if is_of_no_use else what
    return UNLISTED


def _verify_some(
    connection: sqlite3.Connection, files: BlockFiles, last: int
) -> tuple[list[int], list[tuple[int, object]]]:
    """Return the ids of the next blocks after `last`, and those that seem to be damaged.

    The blocks are read one after the other, because somebody may have written large ones.
    """
    sql = "SELECT id, key, data FROM blocks WHERE id > ? AND NOT dying ORDER BY id LIMIT ?"
    numbers, suspects = [], []
    for number, key, data in connection.execute(sql, (last, BATCH)):
        numbers.append(number)
        if _find_damage(connection, files, number, key, data) is not None:
            suspects.append((number, key))
    return numbers, suspects


def _find_damage(
    connection: sqlite3.Connection, files: BlockFiles, number: int, key: object, data: object
) -> Damage | None:
    """Return the damage of a block with this row; None if it is sound."""
    try:
        cid = cid_of(key)
    except BadRowError as error:
        return Damage("", f"block {number} of the database: {error}")
    what = _what_is_wrong(connection, files, number, cid, data)
    return None if what is None else Damage(str(cid), what)


def _what_is_wrong(
    connection: sqlite3.Connection, files: BlockFiles, number: int, cid: CID, data: object
) -> str | None:
    try:
        block = files.block_of(cid.key, data)
        if block is None:
            return "its file is gone"
        check_block(cid, block)
        children = {link.cid.key for link in links_of(cid, block)}
    except VerificationError as error:
        return f"it is damaged: {error}"
    except (ConfigError, BadRowError) as error:
        return f"it cannot be read: {error}"
    except OSError as error:
        return f"its file cannot be read: {error.strerror}"
    rows = connection.execute("SELECT child FROM links WHERE parent = ?", (number,))
    same = {child for (child,) in rows} == children
    return None if same else "its links in the database differ from those in the block"
