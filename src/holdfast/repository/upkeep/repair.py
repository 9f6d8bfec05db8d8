"""Rebuilding the databases of a store from its block files and from the old databases.

The new databases are built beside the old ones and replace them at the end. Until then nothing is
changed, so a repair that was killed can be run again. Block files are never changed.
"""

import contextlib
import errno
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from holdfast.content.blocks import check_block, inline_block
from holdfast.content.cid import CID
from holdfast.content.codecs import links_of
from holdfast.disk.atomic import sync_folder
from holdfast.disk.folders import Folder, no_regular_file
from holdfast.errors import ClientError, ProviderError, VerificationError
from holdfast.repository.block_files import FILE_SIZE, BlockFiles, WrittenBlock
from holdfast.repository.database import schema
from holdfast.repository.database.errors import is_damage, is_full
from holdfast.repository.database.identity import (
    COPY,
    DATABASE,
    ID,
    ID_FILE,
    MAX_CHANGES,
    read_id,
    write_id,
)
from holdfast.repository.database.opening import attach_copy, check_regular, connect
from holdfast.repository.database.trust import check_table, is_version_1
from holdfast.repository.owners import Owner, alone
from holdfast.repository.pins import pin_of
from holdfast.repository.rows import BadRowError, cid_of, placeholders
from holdfast.repository.upkeep.garbage import Damage

# Reading a database that may be damaged, or may belong to another store.

# The tables with small blocks and pins in each of the two files.
TABLES: Final = {DATABASE: ("blocks", "pins"), COPY: ("copied_blocks", "copied_pins")}
MARKS: Final = {
    DATABASE: ("store", "SELECT id, changes FROM store"),
    COPY: ("copied_store", "SELECT id, changes FROM copied_store"),
}
SCHEMAS: Final = {DATABASE: "main", COPY: "copy"}


class Row(NamedTuple):
    """A row of the table `blocks` or `pins`. Its values are not checked."""

    table: str
    values: tuple[Any, ...]


class OldDatabase:
    """One of the two databases before a repair. It is open until `close`.

    Attributes:
        id: The id of its store; None if it has none.
        changes: How many transactions it had.
        damage: What is wrong with it; None if all of it could be read.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.path: Path = folder / name
        self.name = name
        self.id: str | None = None
        self.changes: int = -1
        self.damage: str | None = None
        self._connection: sqlite3.Connection | None = None
        check_regular(self.path)
        try:
            self._connection = connect(self.path, "rw")
            # Nobody may write while it is read.
            self._connection.execute("BEGIN IMMEDIATE")
            if is_version_1(self._connection, "main"):
                return
            table, sql = MARKS[name]
            check_table(self._connection, table, SCHEMAS[name])
            store_id, changes = self._connection.execute(sql).fetchone() or (None, None)
            self.id = store_id if isinstance(store_id, str) else None
            if isinstance(changes, int) and 0 <= changes < MAX_CHANGES:
                self.changes = changes
        except sqlite3.Error as error:
            self.damage = str(error) if os.path.lexists(self.path) else "it is missing"

    def rows(self) -> Iterator[Row]:
        """Yield the small blocks and the pins that can be read."""
        if self._connection is None:
            return
        blocks, pins = TABLES[self.name]
        for table, found, columns in (
            ("blocks", blocks, "id, key, data"),
            ("pins", pins, schema.PIN_COLUMNS),
        ):
            for values in self._rows(self._connection, found, columns):
                yield Row(table, values)

    def _rows(
        self, connection: sqlite3.Connection, table: str, columns: str
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows from the first to a damaged page, then from the last back to it.

        Each row is a query of its own: a cursor reads ahead, and would lose rows before the damage.
        """
        first = last = None
        try:
            check_table(connection, table, SCHEMAS[self.name])
            while (number := _next(connection, table, "min(id)", "id > ?", first)) is not None:
                first = number
                yield from self._row(connection, table, columns, number)
            return
        except sqlite3.Error as error:
            self.damage = str(error)
        with contextlib.suppress(sqlite3.Error):
            check_table(connection, table, SCHEMAS[self.name])
            while (number := _next(connection, table, "max(id)", "id < ?", last)) is not None:
                if first is not None and number <= first:
                    return
                last = number
                yield from self._row(connection, table, columns, number)

    def _row(
        self, connection: sqlite3.Connection, table: str, columns: str, number: int
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the row, unless a value in it is too long or is not valid text."""
        sql = f"SELECT {columns} FROM {table} WHERE id = ?"  # noqa: S608 - ours
        try:
            row = connection.execute(sql, (number,)).fetchone()
        except sqlite3.Error as error:
            if is_damage(error):
                raise
            self.damage = str(error)
        else:
            if row is not None:
                yield row

    def close(self) -> None:
        """Move the write-ahead log into the file, and close it."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def replace(self, new: Path, *, keep: bool) -> Path | None:
        """Replace the file by `new`; with `keep`, rename the old file and return its new path.

        The write-ahead log of the old file must go first, or SQLite would apply it to the new file.
        """
        log = Path(f"{self.path}-wal")
        aside = None
        if keep or (log.exists() and log.stat().st_size):
            aside = self._put_aside()
        else:
            for suffix in ("-shm", "-wal"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        new.replace(self.path)
        return aside

    def _put_aside(self) -> Path | None:
        aside = self.path.with_name(f"{self.name}.aside-{secrets.token_hex(4)}")
        for suffix in ("-shm", "-wal", ""):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
        return aside if aside.exists() else None


def _next(
    connection: sqlite3.Connection, table: str, end: str, beyond: str, number: int | None
) -> int | None:
    """Return the id of the next row beyond the row `number`, or of the first one."""
    where, values = ("1", ()) if number is None else (beyond, (number,))
    sql = f"SELECT {end} FROM {table} WHERE {where}"  # noqa: S608 - ours
    (found,) = connection.execute(sql, values).fetchone()
    return found  # type: ignore[no-any-return]


NEW_DATABASE: Final = "holdfast.repair.sqlite3"
NEW_COPY: Final = "holdfast.repair.copy.sqlite3"

# The keys of all blocks that a pin needs.
LIVE: Final = """
WITH RECURSIVE live(key) AS (
    SELECT key FROM pins WHERE removed IS NULL
    UNION
    SELECT links.child FROM live
    JOIN blocks ON blocks.key = live.key JOIN links ON links.parent = blocks.id
)
"""
# The missing blocks, and all blocks above them.
INCOMPLETE: Final = """
WITH RECURSIVE incomplete(key) AS (
    SELECT key FROM missing
    UNION
    SELECT blocks.key FROM incomplete
    JOIN links ON links.child = incomplete.key JOIN blocks ON blocks.id = links.parent
)
"""
ROOTS: Final = """
SELECT key, key IN incomplete FROM blocks
WHERE key NOT IN (SELECT child FROM links)
AND key NOT IN (SELECT key FROM pins WHERE removed IS NULL) ORDER BY id
"""


class Root(NamedTuple):
    """A block without a pin or a parent; `whole` if no block below it is missing."""

    cid: str
    whole: bool


class Repaired(NamedTuple):
    """The content of a store after a repair.

    The next collection of garbage removes the `roots`, unless they are pinned. `lost` is what could
    not be restored. `notes` say what happened to the old files.
    """

    blocks: int
    pins: int
    roots: list[Root]
    lost: list[Damage]
    notes: list[str]


def repair(folder: Path, files: BlockFiles, owner: Owner) -> Repaired:
    """Rebuild the databases in `folder`. Raise `ProviderError` if anybody else has it open."""
    with alone(owner) as is_alone, _full_disk_as_oserror():
        if not is_alone:
            raise ProviderError(
                f"the store in {folder} is in use: stop the node and other programs that have it "
                "open, and run the repair again"
            )
        with _Rebuild(folder, files) as rebuild:
            repaired = rebuild.run()
            rebuild.replace()
            return repaired._replace(notes=rebuild.notes)


class _Rebuild:
    """The new databases while they are built. Without `replace` they are removed at the end."""

    def __init__(self, folder: Path, files: BlockFiles) -> None:
        self._folder = folder
        self._files = files
        self.notes: list[str] = []
        self._bad: dict[bytes, str] = {}
        self._lost: list[Damage] = []
        self._remove_new()
        # Raise the error of a file that cannot be used before anything is locked.
        for name in (NEW_DATABASE, NEW_COPY, DATABASE, COPY):
            check_regular(folder / name)
        status = Folder(folder).status(ID_FILE)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise no_regular_file(folder / ID_FILE)
        self._found_id = read_id(folder)
        self._old = [OldDatabase(folder, DATABASE), OldDatabase(folder, COPY)]
        self._used = self._choose()
        ids = [self._found_id, *(old.id for old in self._used)]
        self._id = next((each for each in ids if each and ID.fullmatch(each)), None)
        self._id = self._id or secrets.token_hex(16)
        try:
            self._connection = connect(folder / NEW_DATABASE, "rwc")
        except BaseException:
            self._close_old()
            raise

    def _choose(self) -> list[OldDatabase]:
        """Return the old databases of this store, the newer first."""
        main, copy = self._old
        used = [main, copy]
        if None not in {main.id, copy.id} and main.id != copy.id:
            # The id of the folder decides. If it is neither of the two, both are used.
            used = [old for old in used if old.id == self._found_id] or used
        return sorted(used, key=lambda old: -old.changes)

    def run(self) -> Repaired:
        """Build both databases, and return what is in them."""
        connection = self._connection
        attach_copy(connection, self._folder / NEW_COPY, "rwc")
        for name in ("main", "copy"):  # no log: a build that was killed starts again
            connection.execute(f"PRAGMA {name}.journal_mode = OFF")
        connection.execute("BEGIN")
        schema.create(connection, self._id)
        connection.execute("CREATE TEMP TABLE uuids (uuid TEXT PRIMARY KEY)")
        connection.execute("CREATE TEMP TABLE missing (key BLOB PRIMARY KEY)")
        for old in self._used:
            for table, values in old.rows():
                self._take_block(*values[1:]) if table == "blocks" else self._take_pin(values)
        for path in self._files.all_files():
            self._take_file(bytes.fromhex(path.name))
        repaired = self._report()
        changes = max(old.changes for old in self._old) + 1
        connection.execute("UPDATE store SET established = 1, changes = ?", (changes,))
        schema.count(connection)
        schema.fill_copy(connection)
        connection.execute("COMMIT")
        return repaired

    def _take_block(self, key: Any, data: Any) -> None:
        if isinstance(key, bytes) and isinstance(data, bytes):
            self._insert(key, data, is_file=False)

    def _take_file(self, key: bytes) -> None:
        try:
            data = self._files.read_file(key)
        except OSError as error:
            self._bad[key] = f"its file cannot be read: {error.strerror}"
            return
        if data is not None:
            self._insert(key, data, is_file=True)

    def _insert(self, key: bytes, data: bytes, *, is_file: bool) -> None:
        """Insert the row of a block, if it can be verified and has none yet."""
        try:
            cid = cid_of(key)
            check_block(cid, data)
            children = [link.cid.key for link in links_of(cid, data)]
        except VerificationError as error:
            self._bad[key] = f"it is damaged: {error}"
            return
        except (ClientError, BadRowError):
            return  # not the key of a block
        known = self._connection.execute("SELECT 1 FROM blocks WHERE key = ?", (key,)).fetchone()
        if known is None:
            row = WrittenBlock(key, len(data), None if is_file else data, None, children)
            self._files.insert(self._connection, [row])

    def _take_pin(self, values: tuple[Any, ...]) -> None:
        _, uuid, cid, key, *others, removed = values
        if not _is_sound_pin(key, (uuid, cid, *others, removed)):
            self._lost.append(Damage("", f"a pin whose entry is damaged: {cid!r:.100}"))
            return
        execute = self._connection.execute
        again = not execute("INSERT OR IGNORE INTO uuids VALUES (?)", (uuid,)).rowcount
        pinned = "SELECT 1 FROM pins WHERE key = ? AND removed IS NULL"
        if again or (removed is None and execute(pinned, (key,)).fetchone() is not None):
            return
        sql = f"INSERT INTO pins ({schema.PIN_COLUMNS}) VALUES ({placeholders(values)})"  # noqa: S608
        execute(sql, (None, *values[1:]))

    def _report(self) -> Repaired:
        execute = self._connection.execute
        absent = "SELECT DISTINCT child FROM links WHERE child NOT IN (SELECT key FROM blocks)"
        self._connection.executemany(
            "INSERT INTO missing VALUES (?)",
            ((key,) for (key,) in execute(absent).fetchall() if not _is_inline(key)),
        )
        execute("CREATE INDEX links_by_child ON links (child)")
        roots = [
            Root(str(cid_of(key)), not incomplete)
            for key, incomplete in execute(INCOMPLETE + ROOTS)
        ]
        execute("DROP INDEX links_by_child")
        self._lost += self._lost_blocks()
        (blocks,) = execute("SELECT count(*) FROM blocks").fetchone()
        (pins,) = execute("SELECT count(*) FROM pins WHERE removed IS NULL").fetchone()
        return Repaired(blocks, pins, roots, self._lost, [])

    def _lost_blocks(self) -> Iterator[Damage]:
        if all(old.damage is not None for old in self._used):
            yield Damage(
                "",
                f"pins, and blocks of less than {FILE_SIZE >> 10} KiB: "
                "neither database could be read completely",
            )
        execute = self._connection.execute
        needed = f"{LIVE} SELECT key FROM live WHERE key NOT IN (SELECT key FROM blocks)"  # noqa: S608
        for (key,) in execute(needed).fetchall():
            if not _is_inline(key):
                what = self._bad.pop(key, "it is missing")
                yield Damage(str(cid_of(key)), f"a pin needs it: {what}")
        for key, what in self._bad.items():
            sql = "SELECT 1 FROM blocks WHERE key = ?"
            if execute(sql, (key,)).fetchone() is None:
                yield Damage(str(cid_of(key)), what)

    def replace(self) -> None:
        """Replace the old databases by the new ones, each in one step."""
        self._connection.close()
        for old, name in zip(self._old, (NEW_DATABASE, NEW_COPY), strict=True):
            old.close()
            is_foreign = old not in self._used
            aside = old.replace(self._folder / name, keep=is_foreign or old.damage is not None)
            if old.damage is not None:
                self.notes.append(f"{old.name} was damaged: {old.damage}")
            if aside is not None:
                whose = f"{old.name} of another store" if is_foreign else f"the old {old.name}"
                self.notes.append(f"{whose} is now called {aside.name}")
        sync_folder(self._folder)
        if self._found_id != self._id:
            write_id(self._folder, self._id or "")
            self.notes.append("the id of the store was written again")

    def _remove_new(self) -> None:
        for name in (NEW_DATABASE, NEW_COPY):
            for suffix in ("", "-wal", "-shm", "-journal"):
                Folder(self._folder).remove(f"{name}{suffix}")

    def __enter__(self) -> Self:
        return self

    def _close_old(self) -> None:
        for old in self._old:
            old.close()

    def __exit__(self, *_: object) -> None:
        self._close_old()
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        self._remove_new()


def _is_sound_pin(key: object, columns: tuple[Any, ...]) -> bool:
    """Return whether Holdfast could have written a row of pins."""
    try:
        return CID.parse(pin_of(columns).cid).key == key
    except BadRowError:
        return False


def _is_inline(key: bytes) -> bool:
    return inline_block(cid_of(key)) is not None


@contextlib.contextmanager
def _full_disk_as_oserror() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if is_full(error):
            message = "the disk of the repository is full: nothing was changed"
            raise OSError(errno.ENOSPC, message) from None
        raise
