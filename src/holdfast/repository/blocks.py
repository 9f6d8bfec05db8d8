"""Blocks on disk: small ones in the database, larger ones as files of their own.

A file is written and synchronised under a temporary name. It gets its own name inside of the
transaction that enters it into the database, and loses it inside of the one that removes it, so
that an add and a collection never cross.
"""

import filecmp
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.atomic import sync_folder
from holdfast.content import dag_pb
from holdfast.content.cid import CID, DAG_PB
from holdfast.repository.owners import Owner

FILE_SIZE: Final = 16 << 10  # measured: below it SQLite is faster, above it files are
STALE_SECONDS: Final = 24 * 3600.0
YOUNG_SECONDS: Final = 600.0
# The owner, or the process where version 1 of the tables left it, and something random.
TEMPORARY_NAME: Final = re.compile("([0-9a-f]{32}|[0-9]{1,10})-[0-9a-f]{16}")


def key_of(cid: CID) -> bytes:
    """What a block is known by: its CID, whatever version and text it was given in."""
    return bytes(cid if cid.version == 1 else CID(1, cid.codec, cid.hash_code, cid.digest))


def cid_of(key: bytes) -> CID:
    """The CID of a key."""
    return CID.from_bytes(key)


class Written(NamedTuple):
    """A block that is safe on disk, but not yet entered into the database."""

    key: bytes
    size: int
    data: bytes | None
    temporary: Path | None
    children: list[bytes]


class BlockFiles:
    """The folder of the larger blocks."""

    def __init__(self, folder: Path, owner: Owner) -> None:
        self._folder = folder
        self._owner = owner
        self._temporary = folder / "tmp"
        self._temporary.mkdir(parents=True, exist_ok=True)
        self.remove_leftovers()

    def path(self, key: bytes) -> Path:
        """Where the file of a block stands: a thousand folders share them out by their hash."""
        name = key.hex()
        return self._folder / name[-3:-1] / name

    def write(self, cid: CID, data: bytes) -> Written:
        """Make a block safe, so that `enter` has nothing left to do but to name it."""
        children = [key_of(child) for child in linked_from(cid, data)]
        if len(data) < FILE_SIZE:
            return Written(key_of(cid), len(data), data, None, children)
        temporary = self._temporary / f"{self._owner.name}-{secrets.token_hex(8)}"
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            # On a full disk it would hold the very space that is missing.
            temporary.unlink(missing_ok=True)
            raise
        return Written(key_of(cid), len(data), None, temporary, children)

    def enter(self, connection: sqlite3.Connection, blocks: Iterable[Written]) -> list[int]:
        """Name the files and enter the blocks; their ids. Inside of a writing transaction."""
        ids = []
        folders = set()
        for block in blocks:
            if block.temporary is not None:
                target = self.path(block.key)
                # A file that is there may be damaged; this one is known to be right.
                if not (target.exists() and filecmp.cmp(block.temporary, target, shallow=False)):
                    target.parent.mkdir(exist_ok=True)
                    block.temporary.replace(target)
                    folders.add(target.parent)
            ids.append(self._insert(connection, block))
        for folder in folders:
            sync_folder(folder)
        return ids

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
                block.temporary.unlink(missing_ok=True)

    def read(self, connection: sqlite3.Connection, cid: CID) -> bytes | None:
        """A block as it stands on disk, unchecked; None where it is not here."""
        row = connection.execute(
            "SELECT data FROM blocks WHERE key = ? AND NOT dying", (key_of(cid),)
        ).fetchone()
        if row is None:
            return None
        if row[0] is not None:
            return bytes(row[0])
        return self.read_file(key_of(cid))

    def read_file(self, key: bytes) -> bytes | None:
        """Read the file of a block, unchecked, whether it is entered or not; None without one."""
        try:
            return self.path(key).read_bytes()
        except FileNotFoundError:
            return None

    def has(self, connection: sqlite3.Connection, cid: CID) -> bool:
        """Whether a block is here, without reading it."""
        row = connection.execute(
            "SELECT data IS NULL FROM blocks WHERE key = ? AND NOT dying", (key_of(cid),)
        ).fetchone()
        return row is not None and (not row[0] or self.path(key_of(cid)).exists())

    def remove(self, key: bytes) -> None:
        """Remove a block's file, if it has one. Inside of the transaction that deletes its row."""
        self.path(key).unlink(missing_ok=True)

    def all_files(self) -> Iterator[Path]:
        """The files of all blocks, entered or not."""
        for folder in self._folder.iterdir():
            if folder != self._temporary and folder.is_dir():
                yield from folder.iterdir()

    def remove_leftovers(self) -> None:
        """Remove what a process that died has left in the temporary folder."""
        for path in self._temporary.iterdir():
            name = TEMPORARY_NAME.fullmatch(path.name)
            # The lock decides. Where it says nothing, between virtual machines say, a file that is
            # in use is young in most cases; if not, its add fails and nothing is lost.
            if name and not self._owner.is_alive(name[1]) and age(path) > YOUNG_SECONDS:
                path.unlink(missing_ok=True)


def linked_from(cid: CID, data: bytes) -> list[CID]:
    """What a block links to; `MalformedError` where its links cannot be read."""
    return [link.cid for link in dag_pb.decode(data).links] if cid.codec == DAG_PB else []


def age(path: Path) -> float:
    """Return how many seconds ago a file was written, as far as the clock is right."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
