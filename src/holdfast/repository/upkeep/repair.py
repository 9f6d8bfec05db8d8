"""Rebuilding the database of a store from its block files and from what the old one still has.

The new database is built beside the old one and replaces it at the end. Until then nothing is
changed, so a repair that was killed can be run again. Block files are never changed.
"""

import contextlib
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
from holdfast.disk.closing import on_error
from holdfast.disk.folders import Folder, no_regular_file
from holdfast.errors import ClientError, ProviderError, VerificationError
from holdfast.repository.block_files import FILE_SIZE, BlockFiles, WrittenBlock
from holdfast.repository.database import identity, schema
from holdfast.repository.database.errors import typed_errors
from holdfast.repository.database.identity import DATABASE, UnsoundError, read_id
from holdfast.repository.database.opening import check_regular, connect, has_log, read_header
from holdfast.repository.database.trust import SUFFIXES, check_table
from holdfast.repository.owners import Owner
from holdfast.repository.pins import pin_of
from holdfast.repository.rows import LARGEST_ID, SMALLEST_ID, BadRowError, cid_of, insert_rows
from holdfast.repository.upkeep.checking import Damage

# Reading a database that may be damaged, or may belong to another store.

MAX_MISSES: Final = 10_000  # ids that cannot be read, beyond the number of those that can


class OldDatabase:
    """The database before a repair. It is open until `close`.

    Attributes:
        mark: Its id, and how many transactions it had; None if that cannot be read.
        damage: What is wrong with it; None if all of it could be read.
    """

    def __init__(self, folder: Path) -> None:
        self.path: Path = folder / DATABASE
        self.mark: identity.Mark | None = None
        self.damage: str | None = None
        self._connection: sqlite3.Connection | None = None
        self._size = _restore_size(self.path)
        try:
            self._connection = connect(self.path, "rw")
            # Nobody may write while it is read.
            self._connection.execute("BEGIN IMMEDIATE")
            check_table(self._connection, "store")
            self.mark = identity.mark_of(self._connection)
            (text,) = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
            self.damage = None if text == "ok" else " ".join(text.split())
        except (sqlite3.Error, UnsoundError) as error:
            self.damage = str(error) if os.path.lexists(self.path) else "it is missing"

    def rows(self, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of `table` that can be read. Their values are not checked.

        Each row is a query of its own: a cursor reads ahead, and would lose rows before a damaged
        page.
        """
        if self._connection is None:
            return
        try:
            check_table(self._connection, table)
        except sqlite3.Error as error:
            self.damage = str(error)
            return
        sql = f"SELECT {columns} FROM {table} WHERE id = ?"  # noqa: S608 - ours
        for number in self._ids(self._connection, table):
            try:
                row = self._connection.execute(sql, (number,)).fetchone()
            except sqlite3.Error as error:  # a damaged page, or a value that is too long
                self.damage = str(error)
            else:
                if row is not None:
                    yield row

    def _ids(self, connection: sqlite3.Connection, table: str) -> Iterator[int]:
        """Yield the ids of rows, upwards. On a damaged page try one id after the other.

        After too many in vain, yield the other ids downwards from the last one.
        """
        count = 0
        first, last = SMALLEST_ID, LARGEST_ID
        for upwards, end, sign in ((True, "min(id)", ">="), (False, "max(id)", "<=")):
            sql = f"SELECT {end} FROM {table} WHERE id {sign} ?"  # noqa: S608 - ours
            misses = 0
            while misses < MAX_MISSES + count and first <= last:
                number: int | None = None
                try:
                    (number,) = connection.execute(sql, (first if upwards else last,)).fetchone()
                    if number is None or (not upwards and number < first):
                        return
                except sqlite3.Error as error:
                    self.damage = str(error)
                if number is not None and first <= number <= last:
                    yield number
                    count += 1
                else:  # a page that is damaged, or whose rows are not in order
                    number = max(first, 0) if upwards else last
                    misses += 1
                first, last = (number + 1, last) if upwards else (first, number - 1)

    def keys(self, sql: str) -> list[Any]:
        """Return the keys that a query finds; raise `sqlite3.Error` if a page is damaged."""
        if self._connection is None:
            raise sqlite3.DatabaseError(self.damage)
        return [key for (key,) in self._connection.execute(sql)]

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
        if self._size is not None:
            os.truncate(self.path, self._size)
            self._size = None

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
        aside = self.path.with_name(f"{DATABASE}.aside-{secrets.token_hex(4)}")
        for suffix in ("-shm", "-wal", ""):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
        return aside if aside.exists() else None


def _restore_size(path: Path) -> int | None:
    """Append zeros to a database that was cut, because SQLite reads nothing of it otherwise.

    Return the size that it had, or None if it was not cut.
    """
    header = b"" if has_log(path) else read_header(path)
    page_size, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    if not header or path.stat().st_size >= page_size * pages:
        return None
    size = path.stat().st_size
    os.truncate(path, page_size * pages)
    return size


# Building the new database.

NEW_DATABASE: Final = "holdfast.repair.sqlite3"
# The keys of the blocks and pins that the old database had, by indexes: other pages than the rows.
OLD_BLOCKS: Final = "SELECT key FROM blocks INDEXED BY sqlite_autoindex_blocks_1"
OLD_PINS: Final = "SELECT key FROM pins INDEXED BY pins_by_key WHERE removed IS NULL"

SMALL: Final = f"pins, and blocks of less than {FILE_SIZE >> 10} KiB"

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
    """Rebuild the database in `folder`. Raise `ProviderError` if anybody else has it open."""
    with owner.alone() as is_alone, typed_errors(folder):
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
    """The new database while it is built. Without `replace` it is removed at the end."""

    def __init__(self, folder: Path, files: BlockFiles) -> None:
        self._folder = folder
        self._files = files
        self.notes: list[str] = []
        self._bad: dict[bytes, str] = {}
        self._lost: list[Damage] = []
        self._use_finished()
        self._remove_new()
        # Raise the error of a file that cannot be used before anything is locked.
        for name in (NEW_DATABASE, DATABASE):
            check_regular(folder / name)
        status = Folder(folder).status(identity.ID_FILE)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise no_regular_file(folder / identity.ID_FILE)
        self._folder_id = read_id(folder)
        self._old = OldDatabase(folder)
        old_id = None if self._old.mark is None else self._old.mark.id
        ids = [text for text in (self._folder_id, old_id) if text and identity.ID.fullmatch(text)]
        self._has_two_ids = len({*ids}) > 1
        self._id = (ids or [secrets.token_hex(16)])[0]
        with on_error(self._old.close):
            self._connection = connect(folder / NEW_DATABASE, "rwc")

    def run(self) -> Repaired:
        """Build the database, and return what is in it."""
        connection = self._connection
        connection.execute("PRAGMA journal_mode = OFF")  # a build that was killed starts again
        connection.execute("BEGIN")
        schema.create(connection, self._id)
        schema.count_changes(connection)
        connection.execute("CREATE TEMP TABLE missing (key BLOB PRIMARY KEY)")
        for _, key, data in self._old.rows("blocks", "id, key, data"):
            if isinstance(key, bytes) and isinstance(data, bytes):
                self._insert(key, data, is_file=False)
        for values in self._old.rows("pins", schema.PIN_COLUMNS):
            self._take_pin(values)
        for key in self._files.all_keys():
            self._take_file(key)
        repaired = self._report()
        changes = 1 if self._old.mark is None else self._old.mark.changes + 1
        connection.execute("UPDATE store SET changes = ?", (changes,))
        connection.execute("COMMIT")
        return repaired

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
        if not self._has("blocks", key):
            row = WrittenBlock(key, len(data), None if is_file else data, None, children)
            self._files.insert(self._connection, [row])

    def _take_pin(self, values: tuple[Any, ...]) -> None:
        _, uuid, cid, key, *others, removed = values
        if not _is_sound_pin(key, (uuid, cid, *others, removed)):
            self._lost.append(Damage("", f"a pin whose entry is damaged: {cid!r:.100}"))
            return
        if removed is None and self._has("pins", key, "AND removed IS NULL"):
            return
        insert_rows(self._connection, f"pins ({schema.PIN_COLUMNS})", [(None, *values[1:])])

    def _report(self) -> Repaired:
        execute = self._connection.execute
        absent = "SELECT DISTINCT child FROM links WHERE child NOT IN (SELECT key FROM blocks)"
        self._connection.executemany(
            "INSERT INTO missing VALUES (?)",
            ((key,) for (key,) in execute(absent).fetchall() if inline_block(cid_of(key)) is None),
        )
        execute("CREATE INDEX links_by_child ON links (child)")
        rows = execute(INCOMPLETE + ROOTS)
        roots = [Root(str(cid_of(key)), not incomplete) for key, incomplete in rows]
        execute("DROP INDEX links_by_child")
        self._lost += self._lost_blocks()
        (blocks,) = execute("SELECT count(*) FROM blocks").fetchone()
        (pins,) = execute("SELECT count(*) FROM pins WHERE removed IS NULL").fetchone()
        return Repaired(blocks, pins, roots, self._lost, [])

    def _lost_blocks(self) -> Iterator[Damage]:
        execute = self._connection.execute
        needed = f"{LIVE} SELECT key FROM live WHERE key NOT IN (SELECT key FROM blocks)"  # noqa: S608
        for (key,) in execute(needed).fetchall():
            if inline_block(cid_of(key)) is None:
                what = self._bad.pop(key, "it is missing")
                yield Damage(str(cid_of(key)), f"a pin needs it: {what}")
        for key, what in self._bad.items():
            if not self._has("blocks", key):
                yield Damage(str(cid_of(key)), what)
        if self._old.damage is not None:
            yield from self._lost_rows()
        if self._has_two_ids:
            yield Damage("", f"{SMALL}: {DATABASE} was not the database of this store, by its id")

    def _lost_rows(self) -> Iterator[Damage]:
        """Yield the blocks and pins that the old database had, as far as its indexes name them."""
        yield Damage("", f"{SMALL}: the database could not be read completely")
        with contextlib.suppress(sqlite3.Error):
            for key in self._old.keys(OLD_BLOCKS):
                if _is_key(key) and key not in self._bad and not self._has("blocks", key):
                    yield Damage(str(cid_of(key)), "its row in the database could not be read")
            for key in self._old.keys(OLD_PINS):
                if _is_key(key) and not self._has("pins", key):
                    yield Damage(str(cid_of(key)), "its pin in the database could not be read")

    def _has(self, table: str, key: bytes, condition: str = "") -> bool:
        sql = f"SELECT 1 FROM {table} WHERE key = ? {condition}"  # noqa: S608 - ours
        return self._connection.execute(sql, (key,)).fetchone() is not None

    def replace(self) -> None:
        """Replace the old database by the new one in one step."""
        self._connection.close()
        old = self._old
        old.close()
        is_damaged = old.damage is not None
        aside = old.replace(self._folder / NEW_DATABASE, keep=is_damaged or self._has_two_ids)
        if is_damaged:
            self.notes.append(f"{DATABASE} was damaged: {old.damage}")
        if aside is not None:
            self.notes.append(f"the old {DATABASE} is now called {aside.name}")
        sync_folder(self._folder)
        if self._folder_id != self._id:
            identity.write_id(self._folder, self._id)
            self.notes.append("the id of the store was written again")

    def _use_finished(self) -> None:
        """Use the database of a repair that was killed just after it had put the old one aside."""
        names = (f"{DATABASE}{suffix}" for suffix in SUFFIXES)
        status = Folder(self._folder).status(NEW_DATABASE)
        if status is None or any(os.path.lexists(self._folder / name) for name in names):
            return
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            (self._folder / NEW_DATABASE).rename(self._folder / DATABASE)
            self.notes.append("an earlier repair was interrupted: its database is used")

    def _remove_new(self) -> None:
        for suffix in SUFFIXES:
            Folder(self._folder).remove(f"{NEW_DATABASE}{suffix}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._old.close()
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        self._remove_new()


def _is_sound_pin(key: object, columns: tuple[Any, ...]) -> bool:
    """Return whether Holdfast could have written a row of pins."""
    try:
        return CID.parse(pin_of(columns).cid).key == key
    except BadRowError:
        return False


def _is_key(key: object) -> bool:
    try:
        return bytes(cid_of(key)) == key
    except BadRowError:
        return False
