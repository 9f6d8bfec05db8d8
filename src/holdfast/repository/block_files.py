"""Blocks on disk: small ones in the database, larger ones as files of their own.

A file is written and synchronised under a temporary name. It gets its own name inside of the
transaction that enters it into the database, and loses it inside of the one that removes it, so
that an add and a collection never cross. No symbolic link below the store's folder is followed, and
only regular files with names of the forms that are made here are removed: what else lies there is
somebody else's.
"""

import os
import re
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.content import dag_pb
from holdfast.content.blocks import MAX_BLOCK
from holdfast.content.cid import CID, DAG_PB
from holdfast.files.folders import Folder
from holdfast.repository.database.identity import FOLDER
from holdfast.repository.owners import Owner

FILE_SIZE: Final = 16 << 10  # measured: below it SQLite is faster, above it files are
STALE_SECONDS: Final = 24 * 3600.0
YOUNG_SECONDS: Final = 600.0
TEMPORARY: Final = "tmp"
# The owner, or the process where version 1 of the tables left it, and something random.
TEMPORARY_NAME: Final = re.compile("([0-9a-f]{32}|[0-9]{1,10})-[0-9a-f]{16}")
KEY_NAME: Final = re.compile("(?:[0-9a-f]{2}){4,120}")


class BadRowError(sqlite3.DataError, ValueError):
    """A row of the database holds what no store writes: it is damaged, or was made by somebody."""


def key_of(cid: CID) -> bytes:
    """What a block is known by: its CID, whatever version and text it was given in."""
    return bytes(cid if cid.version == 1 else CID(1, cid.codec, cid.hash_code, cid.digest))


def cid_of(key: object) -> CID:
    """Return the CID of a key from the database; `BadRowError` where it is none.

    Anybody may have written the row: only the one spelling that `key_of` makes is taken.
    """
    if isinstance(key, bytes):
        try:
            cid = CID.from_bytes(key)
        except ValueError:
            pass
        else:
            if cid.version == 1 and bytes(cid) == key:
                return cid
    raise BadRowError("a key in it is no CID")


def natural(value: object) -> int:
    """Return a size, a count or a time from the database; `BadRowError` where it is none."""
    if type(value) is int and 0 <= value < 1 << 53:
        return value
    raise BadRowError("a number in it is out of range or of another type")


class Written(NamedTuple):
    """A block that is safe on disk, but not yet entered into the database."""

    key: bytes
    size: int
    data: bytes | None
    temporary: str | None  # the name of its file in the temporary folder
    children: list[bytes]


class BlockFiles:
    """The files of the larger blocks, in the store's folder `root`."""

    def __init__(self, root: Path, owner: Owner, *, read_only: bool = False) -> None:
        self._folder = Folder(root, FOLDER)
        self._owner = owner
        self._temporary = self._folder.below(TEMPORARY)
        if not read_only:
            self._temporary.make()
            self.remove_leftovers()
        elif self._folder.exists():
            self._temporary.exists()  # a link in its place is refused here too

    def path(self, key: bytes) -> Path:
        """Where the file of a block stands: 256 folders share them out by their hash."""
        folder, name = _place(key)
        return self._folder.path / folder / name

    def write(self, cid: CID, data: bytes) -> Written:
        """Make a block safe, so that `enter` has nothing left to do but to name it."""
        children = [key_of(child) for child in linked_from(cid, data)]
        if len(data) < FILE_SIZE:
            return Written(key_of(cid), len(data), data, None, children)
        temporary = f"{self._owner.name}-{secrets.token_hex(8)}"
        try:
            with self._temporary.create(temporary) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            # On a full disk it would hold the very space that is missing.
            self._temporary.remove(temporary)
            raise
        return Written(key_of(cid), len(data), None, temporary, children)

    def enter(self, connection: sqlite3.Connection, blocks: Iterable[Written]) -> list[int]:
        """Name the files and enter the blocks; their ids. Inside of a writing transaction."""
        ids = []
        changed = {}
        for block in blocks:
            if block.temporary is not None:
                folder, name = _place(block.key)
                target = self._folder.below(folder)
                # A file that is there may be damaged; this one is known to be right.
                if not self._is_same(block.temporary, target, name):
                    self._name(block.temporary, target, name)
                    changed[folder] = target
            ids.append(self._insert(connection, block))
        for target in changed.values():
            target.sync()
        return ids

    def _name(self, temporary: str, folder: Folder, name: str) -> None:
        try:
            self._temporary.move(temporary, folder, name)
        except FileNotFoundError:
            folder.make()
            self._temporary.move(temporary, folder, name)

    def _is_same(self, temporary: str, folder: Folder, name: str) -> bool:
        there = folder.read(name, MAX_BLOCK + 1)
        return there is not None and there == self._temporary.read(temporary, MAX_BLOCK + 1)

    @staticmethod
    def _insert(connection: sqlite3.Connection, block: Written) -> int:
        found = connection.execute(
            "SELECT id FROM blocks WHERE key = ? AND NOT dying AND data IS ?",
            (block.key, block.data),
        ).fetchone()
        if found is not None:
            return int(found[0])
        (number,) = connection.execute(
            "INSERT INTO blocks (key, size, data) VALUES (?, ?, ?)"
            " ON CONFLICT (key) DO UPDATE SET dying = 0, data = excluded.data RETURNING id",
            (block.key, block.size, block.data),
        ).fetchone()
        connection.executemany(
            "INSERT OR IGNORE INTO links VALUES (?, ?)",
            ((number, child) for child in block.children),
        )
        return int(number)

    def discard(self, blocks: Iterable[Written]) -> None:
        """Remove temporary files that were not needed after all."""
        for block in blocks:
            if block.temporary is not None:
                self._temporary.remove(block.temporary)

    def read(self, connection: sqlite3.Connection, cid: CID) -> bytes | None:
        """A block as it stands on disk, unchecked; None where it is not here."""
        row = connection.execute(
            "SELECT data FROM blocks WHERE key = ? AND NOT dying", (key_of(cid),)
        ).fetchone()
        if row is None:
            return None
        if row[0] is None:
            return self.read_file(key_of(cid))
        if not isinstance(row[0], bytes):
            raise BadRowError("the bytes of a block in it are of another type")
        return row[0]

    def read_file(self, key: bytes) -> bytes | None:
        """Read the file of a block, unchecked, whether it is entered or not; None without one."""
        folder, name = _place(key)
        return self._folder.below(folder).read(name, MAX_BLOCK + 1)

    def has(self, connection: sqlite3.Connection, cid: CID) -> bool:
        """Whether a block is here, without reading it."""
        row = connection.execute(
            "SELECT data IS NULL FROM blocks WHERE key = ? AND NOT dying", (key_of(cid),)
        ).fetchone()
        if row is None or not row[0]:
            return row is not None
        folder, name = _place(key_of(cid))
        return self._folder.below(folder).is_file(name)

    def remove(self, key: object) -> None:
        """Remove a block's file, if it has one. Inside of the transaction that deletes its row."""
        folder, name = _place(bytes(cid_of(key)))
        self._folder.below(folder).remove(name)

    def all_files(self) -> Iterator[Path]:
        """The files of all blocks, entered or not. What is not named as a block is left out."""
        for name in self._folder.entries().folders:
            if name != TEMPORARY:
                folder = self._folder.below(name)
                for file in folder.entries().files:
                    if _is_block_name(name, file):
                        yield folder.path / file

    def strangers(self) -> Iterator[Path]:
        """What lies among the block files and has another name or is no file: it is left alone."""
        if not self._folder.exists():
            return
        files, folders, others = self._folder.entries()
        yield from (self._folder.path / name for name in (*files, *others))
        for name in folders:
            folder = self._folder.below(name)
            files, inner, others = folder.entries()
            for each in files:
                is_ours = TEMPORARY_NAME.fullmatch if name == TEMPORARY else None
                if not (is_ours(each) if is_ours else _is_block_name(name, each)):
                    yield folder.path / each
            yield from (folder.path / each for each in (*inner, *others))

    def remove_leftovers(self) -> None:
        """Remove what a process that died has left in the temporary folder."""
        for name in self._temporary.entries().files:
            match = TEMPORARY_NAME.fullmatch(name)
            # The lock decides. Where it says nothing, between virtual machines say, a file that is
            # in use is young in most cases; if not, its add fails and nothing is lost.
            is_dead = match is not None and not self._owner.is_alive(match[1])
            if is_dead and age(self._temporary.path / name) > YOUNG_SECONDS:
                self._temporary.remove(name)


def _place(key: bytes) -> tuple[str, str]:
    """Return the folder and the name of a block's file."""
    name = key.hex()
    return name[-3:-1], name


def _is_block_name(folder: str, name: str) -> bool:
    """Whether `name` in `folder` is what a block's file is called: its key, in its own folder."""
    if not KEY_NAME.fullmatch(name):
        return False
    key = bytes.fromhex(name)
    try:
        cid_of(key)
    except BadRowError:
        return False
    return _place(key) == (folder, name)


def linked_from(cid: CID, data: bytes) -> list[CID]:
    """What a block links to; `MalformedError` where its links cannot be read."""
    return [link.cid for link in dag_pb.decode(data).links] if cid.codec == DAG_PB else []


def age(path: Path) -> float:
    """Return how many seconds ago a file was written, as far as the clock is right."""
    try:
        return time.time() - path.lstat().st_mtime
    except FileNotFoundError:
        return 0.0
