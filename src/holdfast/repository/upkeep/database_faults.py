"""Checking the two databases of a store, and whether its files belong together."""

from collections.abc import Iterator
from typing import Final

from holdfast.content.blocks import check_block
from holdfast.errors import ClientError, VerificationError
from holdfast.repository.database import Database, schema
from holdfast.repository.database.identity import COPY, DATABASE, mark_of, mark_of_copy
from holdfast.repository.rows import BadRowError, cid_of, is_sound_raw
from holdfast.repository.upkeep.check_progress import LOOKS, CheckProgress

REPORTED: Final = 1000  # blocks between two reports of progress

# How many small blocks and pins are only in the database, and how many are only in the copy.
COMPARE: Final = f"""
SELECT (SELECT count(*) FROM blocks WHERE data IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM copied_blocks WHERE copied_blocks.id = blocks.id
    AND copied_blocks.key = blocks.key))
  + (SELECT count(*) FROM pins WHERE NOT EXISTS (
    SELECT 1 FROM copied_pins WHERE {schema.SAME_PIN})),
  (SELECT count(*) FROM copied_blocks WHERE NOT EXISTS (
    SELECT 1 FROM blocks WHERE blocks.id = copied_blocks.id
    AND blocks.key = copied_blocks.key AND blocks.data IS NOT NULL))
  + (SELECT count(*) FROM copied_pins WHERE NOT EXISTS (
    SELECT 1 FROM pins WHERE {schema.SAME_PIN}))
"""  # noqa: S608 - ours


def find_faults(database: Database, steps: CheckProgress) -> Iterator[str]:
    """Yield what is wrong with the id of the store, its database and the second copy."""
    fault = database.find_fault()
    if fault is not None:
        yield fault
    try:
        with database.reading() as connection:
            rows = connection.execute("PRAGMA main.quick_check(3)").fetchall()
            (blocks,) = connection.execute("SELECT count(*) FROM blocks").fetchone()
            steps.total = LOOKS * blocks
            if schema.counts(connection) != connection.execute(schema.COUNT).fetchone():
                rows.append(("its number of pins, or their size, is wrong",))
    except VerificationError as error:
        if fault is None:
            yield str(error)
        return
    yield from (f"{DATABASE}: {text}" for (text,) in rows if text != "ok")
    if fault is None and database.has_copy():
        try:
            yield from _find_faults_of_copy(database, steps)
        except VerificationError as error:
            yield f"{COPY}: {error}"


def _find_faults_of_copy(database: Database, steps: CheckProgress) -> Iterator[str]:
    damaged = 0
    with database.comparing() as connection:
        rows = connection.execute("PRAGMA copy.quick_check(3)").fetchall()
        yield from (f"{COPY}: {text}" for (text,) in rows if text != "ok")
        if rows != [("ok",)]:
            return
        absent, extra = connection.execute(COMPARE).fetchone()
        copy = mark_of_copy(connection)
        # After a crash the copy may be one transaction behind. The next write updates it.
        if copy is not None and copy.token == mark_of(connection).token:
            if absent:
                yield f"{COPY}: {absent} blocks or pins are not in it"
            if extra:
                yield f"{COPY}: {extra} blocks or pins in it are not in {DATABASE}"
        blocks = connection.execute("SELECT key, data FROM copied_blocks")
        for count, (key, data) in enumerate(blocks, 1):
            try:
                if not is_sound_raw(key, data):
                    check_block(cid_of(key), data)
            except (ClientError, BadRowError):
                damaged += 1
            if not count % REPORTED:
                steps.advance(REPORTED)
    if damaged:
        yield f"{COPY}: {damaged} blocks in it are damaged"
