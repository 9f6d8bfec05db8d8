"""Rebuilding the databases of a store from its block files and from the old databases.

The new databases are built beside the old ones and replace them at the end. Until then nothing is
changed, so a repair that was killed can be run again. Block files are never changed.
"""

import contextlib
import errno
import secrets
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from holdfast.content.blocks import check_block, inline_block
from holdfast.content.cid import CID
from holdfast.content.codecs import links_of
from holdfast.errors import ClientError, ProviderError, VerificationError
from holdfast.files.atomic import sync_folder
from holdfast.files.folders import Folder
from holdfast.files.open_folders import no_regular_file
from holdfast.repository.block_files import FILE_SIZE, BlockFiles, WrittenBlock
from holdfast.repository.database import schema
from holdfast.repository.database.errors import is_full
from holdfast.repository.database.identity import COPY, DATABASE, ID, ID_FILE, read_id, write_id
from holdfast.repository.database.opening import attach_copy, check_regular, connect
from holdfast.repository.owners import Owner, alone
from holdfast.repository.pins import pin_of
from holdfast.repository.rows import BadRowError, cid_of, placeholders
from holdfast.repository.upkeep.garbage import Damage
from holdfast.repository.upkeep.salvage import OldDatabase

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
