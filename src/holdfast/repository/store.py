"""The repository: add blocks, pin them, read them back verified, and keep the store sound."""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from holdfast.content.blocks import check_block, inline_block, missing_block
from holdfast.content.car import Block, write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import Profile
from holdfast.content.proof import joined
from holdfast.content.unixfs.directory_nodes import DirectoryEntry
from holdfast.content.unixfs.walks import DagWalk, DirectoryWalk, FileWalk, Item, PathWalk, Walk
from holdfast.disk.closing import on_error
from holdfast.disk.folders import Folder
from holdfast.disk.seen_cids import SpilledCIDs
from holdfast.errors import VerificationError
from holdfast.records import Pin
from holdfast.repository import pins as pin_table
from holdfast.repository.adding import Adding
from holdfast.repository.block_files import BlockFiles
from holdfast.repository.dags import ArchiveImport, check_dags, pin_dag
from holdfast.repository.database import Database, schema
from holdfast.repository.database.errors import read_only_error
from holdfast.repository.database.identity import mark_of
from holdfast.repository.database.opening import check_version, is_read_only
from holdfast.repository.owners import Owner
from holdfast.repository.pins import ALL_PINS, PinQuery, Stopped, Totals
from holdfast.repository.upkeep.checking import Damage, check
from holdfast.repository.upkeep.garbage import Collected, collect
from holdfast.repository.upkeep.repair import Repaired, repair
from holdfast.sources.importing import import_content
from holdfast.sources.sources import Progress, Uploadable, no_progress

READ_BYTES: Final = 1 << 20  # of blocks, read in one transaction
READ_BLOCKS: Final = 10_000  # the same, as a number
RECOVERED: Final = "recovered"


class Repository:
    """Blocks and pins in the folder at `path`, which is made if it is missing.

    Any number of threads and processes may have the same folder open. A folder that this user
    cannot write to can be read; every change to it is an `OSError`.

    Attributes:
        path: The folder.
        read_only: Whether it can only be read.

    Example:
        >>> import tempfile
        >>> from holdfast.content.profiles import UNIXFS_V1_2025
        >>> with Repository(tempfile.mkdtemp()) as repository:
        ...     pin, _ = repository.add(b"hello", UNIXFS_V1_2025, name="greeting")
        ...     b"".join(repository.read(CID.parse(pin.cid)))
        b'hello'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path).expanduser()
        self._root = root = self.path.absolute()  # the current folder may change
        Folder(root).make()
        check_version(root)
        self._owner = Owner(root)
        self.read_only: bool = is_read_only(root)
        with on_error(self._owner.close):
            if not self.read_only:
                self._owner.claim()
            self._files = BlockFiles(root, self._owner, read_only=self.read_only)
            self._database = Database(root, read_only=self.read_only)
            if self.read_only:
                self.totals()  # raises the error of a store that cannot be read at all

    @property
    def id(self) -> str:
        """The random id of the store."""
        with self._database.reading() as connection:
            return mark_of(connection).id

    def adding(self) -> Adding:
        """Return a new add: put blocks into it, then pin them."""
        if self.read_only:
            raise read_only_error(self.path)
        return Adding(self._database, self._files, self._owner)

    def add(self, content: Uploadable, profile: Profile, **fields: Any) -> tuple[Pin, bool]:
        """Import `content` and pin it; return the pin, and whether it existed."""
        with self.adding() as adding:
            part = import_content(content, profile, adding.put)
            return adding.pin(part.cid, size=part.dag_size, **fields)

    # Reading

    def has(self, cid: CID) -> bool:
        """Return whether the store has the block of `cid`."""
        with self._database.reading() as connection:
            return inline_block(cid) is not None or self._files.has(connection, cid)

    def block(self, cid: CID) -> bytes:
        """Return the block of `cid`, verified; `UnprovenError` where it is not here."""
        with self._database.reading() as connection:
            data = self._find(connection, cid)
        if data is None:
            raise missing_block(cid)
        check_block(cid, data)
        return data

    def read(self, cid: CID, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of the file at `cid`, or a range of them, verified piece by piece."""
        walk = FileWalk(cid, start, stop)
        while walk.need is not None:
            yield from joined(self.advance(walk))

    def advance(self, walk: Walk[Any, Item]) -> list[Item]:
        """Feed `walk` blocks, which it verifies, and return the items in them.

        All are read in one look at the database, `READ_BYTES` and one block more at the most, so a
        slow reader does not keep it open. Raise `UnprovenError` if the first block is not here.
        """
        items: list[Item] = []
        size = count = 0
        with self._database.reading() as connection:
            while (need := walk.need) is not None and size < READ_BYTES and count < READ_BLOCKS:
                block = self._find(connection, need)
                if block is None:
                    break
                items += walk.feed(block)
                size += len(block)
                count += 1
        if need is not None and not count:
            raise missing_block(need)
        return items

    def entries(self, cid: CID) -> Iterator[DirectoryEntry]:
        """Yield what is in the directory at `cid`."""
        walk = DirectoryWalk(cid)
        while walk.need is not None:
            yield from self.advance(walk)

    def resolve(self, cid: CID, path: Iterable[str]) -> CID:
        """Return the CID at the end of `path` below `cid`; `NotFoundError` where there is none."""
        walk = PathWalk(cid, list(path))
        while walk.need is not None:
            self.advance(walk)
        return walk.end()

    def _find(self, connection: sqlite3.Connection, cid: CID) -> bytes | None:
        inline = inline_block(cid)
        return inline if inline is not None else self._files.read(connection, cid)

    # Pins

    def pin(self, cid: CID, **fields: Any) -> tuple[Pin, bool]:
        """Pin a DAG that is in the store; return the pin, and whether it existed.

        Raise `UnprovenError` if a block is missing, and `MalformedError` if the sizes in a file
        contradict each other.
        """
        return self._pin_dags([cid], **fields)[0]

    def _pin_dags(
        self, roots: list[CID], count: int | None = None, **fields: Any
    ) -> list[tuple[Pin, bool]]:
        with self._database.reading() as connection:
            check_dags(connection, partial(self._find, connection), roots, count)
        with self._database.writing() as connection:
            find = partial(self._find, connection)
            return [pin_dag(connection, find, root, **fields) for root in roots]

    def unpin(self, cid: CID, *, sync: bool = True) -> bool:
        """Unpin `cid`; return whether it was pinned. Its blocks stay until garbage is collected.

        Without `sync`, it may be pinned again after a power failure.
        """
        return self._database.freeing(partial(pin_table.remove_pin, cid=cid), sync=sync)

    def update_pin(self, cid: CID, **changes: Any) -> Pin | None:
        """Change the name or the key-values of a pin; return None if `cid` is not pinned."""
        with self._database.writing() as connection:
            return pin_table.update_pin(connection, cid, **changes)

    def find_pin(self, cid: CID) -> Pin | None:
        """Return the pin of `cid`; None if it is not pinned."""
        with self._database.reading() as connection:
            return pin_table.find_pin(connection, cid)

    def pins(self, query: PinQuery = ALL_PINS, stopped: Stopped | None = None) -> list[Pin]:
        """Return the pins that `query` selects, in its order; without one, all, newest first."""
        with self._database.reading() as connection:
            return pin_table.list_pins(connection, query, stopped)

    def count_pins(self, query: PinQuery = ALL_PINS, stopped: Stopped | None = None) -> int:
        """Return how many pins `query` selects without its limit and offset."""
        with self._database.reading() as connection:
            return pin_table.count_pins(connection, query, stopped)

    def totals(self, stopped: Stopped | None = None) -> Totals:
        """Return the number of pins, and the bytes of their blocks."""
        with self._database.reading() as connection:
            return pin_table.total_pins(connection, stopped)

    def state(self) -> str:
        """Return a text that changes with every change to the store."""
        with self._database.reading() as connection:
            return schema.state_of(connection)

    # Archives

    def export_car(self, cid: CID) -> Iterator[bytes]:
        """Return the archive of everything under `cid`, depth first, each block once."""
        return write_car([cid], self._below(cid))

    def _below(self, root: CID) -> Iterator[Block]:
        with closing(SpilledCIDs()) as seen:
            walk = DagWalk(root, seen)
            while walk.need is not None:
                yield from self.advance(walk)

    def import_car(self, pieces: Iterable[bytes], *, name: str = "") -> list[Pin]:
        """Import an archive and pin its roots; return their pins. See `ArchiveImport`."""
        with self.importing() as archive:
            for piece in pieces:
                archive.update(piece)
            return [pin for pin, _ in archive.pin(name=name)]

    def import_blocks(self, pieces: Iterable[bytes]) -> list[CID]:
        """Import the blocks of an archive without a pin; return its roots.

        Blocks below a root may be missing. The next collection of garbage removes what no pin
        needs.
        """
        with self.importing() as archive:
            for piece in pieces:
                archive.update(piece)
            return archive.keep_blocks()

    def importing(self, root: CID | None = None) -> ArchiveImport:
        """Return the import of an archive that arrives in pieces, whose only root is `root`."""
        return ArchiveImport(self.adding(), self._pin_dags, root)

    # Upkeep

    def collect_garbage(
        self, progress: Progress | None = None, *, dry_run: bool = False
    ) -> Collected:
        """Remove the blocks that no pin and no current add needs; with `dry_run`, count them.

        Block files that are not in the database stay. `progress` receives the number of blocks that
        were looked at, and of all blocks.
        """
        files = self._database, self._files, self._owner
        return collect(*files, progress or no_progress, dry_run=dry_run)

    def check(self, progress: Progress | None = None) -> Iterator[Damage]:
        """Verify every block and follow every pin; yield what is damaged or missing.

        Damage to the store as a whole comes first, without a CID. `progress` is called as by
        `collect_garbage`.
        """
        return check(self._database, self._files, progress or no_progress)

    def repair(self, *, pin_roots: bool = False) -> Repaired:
        """Rebuild the database from the block files, and from what can still be read of it.

        Use it if `check` names a missing or damaged database, or files that are not in it. No other
        program may have the store open. All blocks are verified, and no block file is removed.
        `lost` names what could not be read. `roots` lists content that no pin keeps. With
        `pin_roots`, all of it that is whole is pinned under the name ``recovered``; without, the
        next collection of garbage removes it.

        Example:
            >>> import tempfile
            >>> with Repository(tempfile.mkdtemp()) as repository:
            ...     repository.repair().lost
            []
        """
        if self.read_only:
            raise read_only_error(self.path)
        self._database.close()
        try:
            repaired = repair(self._root, self._files, self._owner)
        finally:
            self._database = Database(self._root)
        for root in repaired.roots if pin_roots else ():
            if root.whole:
                with suppress(VerificationError):  # its codec may be unknown
                    self.pin(CID.parse(root.cid), name=RECOVERED)
        return repaired

    def foreign_files(self) -> Iterator[Path]:
        """Yield the files among the block files that are not the store's. None is ever removed."""
        return self._files.foreign_files()

    def close(self) -> None:
        """Close the files. Closing it again has no effect."""
        self._files.threads.close()
        self._database.close()
        self._owner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
