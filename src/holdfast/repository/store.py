"""The repository: blocks come in by `adding`, are kept by pins, and read back proven."""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from holdfast.content.blocks import check_block, inline_block, missing_block
from holdfast.content.car import Block, CarReader, write_car
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.media_types import named_type
from holdfast.content.profiles import Profile
from holdfast.content.proof import joined
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.directory_nodes import DirectoryEntry
from holdfast.content.unixfs.file_nodes import file_node, kind_of, not_unixfs
from holdfast.content.unixfs.walks import DagWalk, DirectoryWalk, FileWalk, Item, PathWalk, Walk
from holdfast.errors import ClientError, MalformedError, VerificationError
from holdfast.files.folders import Folder
from holdfast.files.importing import import_content
from holdfast.files.sources import Uploadable
from holdfast.records import Pin
from holdfast.repository.adding import Adding
from holdfast.repository.blocks import BlockFiles, cid_of, key_of, natural
from holdfast.repository.checking import check
from holdfast.repository.database import Database
from holdfast.repository.database_errors import read_only_error
from holdfast.repository.file_sizes import check_file_sizes
from holdfast.repository.garbage import Collected, Damage, collect
from holdfast.repository.owners import OWNERS, Owner
from holdfast.repository.pins import (
    PinQuery,
    Stopped,
    add_pin,
    count_pins,
    find_pin,
    list_pins,
    remove_pin,
    total_pins,
    update_pin,
)
from holdfast.repository.read_only import is_read_only
from holdfast.repository.repair import Repaired, repair
from holdfast.repository.soundness import find_faults

READ_BYTES: Final = 1 << 20  # what is read from blocks in one look at the database …
READ_BLOCKS: Final = 10_000  # … and from how many of them at the most

MAX_REPEATED: Final = 1_000_000  # how often blocks of an archive are visited again for more roots

RECOVERED: Final = "recovered"

# Every block under a pin or a CID, its own included; with what is not here as NULL.
REACHABLE: Final = """
WITH RECURSIVE reachable(key) AS (
    VALUES (?)
    UNION
    SELECT links.child FROM reachable
    JOIN blocks ON blocks.key = reachable.key JOIN links ON links.parent = blocks.id
)
SELECT reachable.key, blocks.size FROM reachable
LEFT JOIN blocks ON blocks.key = reachable.key AND NOT blocks.dying
"""


class Totals(NamedTuple):
    """What is pinned, in all."""

    pins: int
    size: int


class Repository:
    """Blocks and pins in the folder at `path`, which is made if it is not there.

    Any number of threads and processes may have the same folder open. One that this user cannot
    write to can be read; whatever would change it is an `OSError`.

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
        self.path = Path(path).expanduser()
        self._root = root = self.path.absolute()  # the current folder may change
        Folder(root).make()
        self._owner = Owner(root / OWNERS)
        self.read_only = is_read_only(root)
        try:
            if not self.read_only:
                self._owner.claim()
            self._files = BlockFiles(root, self._owner, read_only=self.read_only)
            self._database = Database(root, read_only=self.read_only)
            if self.read_only:
                self.totals()  # one that cannot be read at all is told of here
        except BaseException:
            self._owner.close()
            raise

    def adding(self) -> Adding:
        """An add: put blocks into it, then pin. What is not pinned at the end may be collected."""
        if self.read_only:
            raise read_only_error(self.path)
        return Adding(self._database, self._files, self._owner)

    def add(self, content: Uploadable, profile: Profile, **about: Any) -> tuple[Pin, bool]:
        """Import `content` and pin it; the pin, and whether it was there before."""
        with self.adding() as adding:
            part = import_content(content, profile, adding.put)
            return adding.pin(part.cid, size=part.dag_size, **about)

    # Reading

    def has(self, cid: CID) -> bool:
        """Whether the block of `cid` is here."""
        if inline_block(cid) is not None:
            return True
        with self._database.reading() as connection:
            return self._files.has(connection, cid)

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

    def advance(self, walk: Walk[Item]) -> list[Item]:
        """Feed `walk` blocks, which it verifies, and return the items in them.

        All blocks are read in one look at the database: `READ_BYTES`, and one block more at the
        most. So a slow reader does not keep the database open. Raise `UnprovenError` if the first
        block is not here.
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

    def file_size(self, cid: CID) -> int:
        """Return the bytes of the file at `cid`, as its root declares; `read` gives as many."""
        return file_node(cid, self.block(cid)).size

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

    def pin(self, cid: CID, **about: Any) -> tuple[Pin, bool]:
        """Pin what is here already, with all that it links to.

        Raise `UnprovenError` where a block is missing, and `MalformedError` where the sizes in a
        file contradict each other.
        """
        self._check_dags([cid])
        with self._database.writing() as connection:
            return self._pin(connection, cid, about)

    def _check_dags(self, roots: list[CID], known: int | None = None) -> None:
        """Raise an error if one of `roots` is not pinned and cannot be: see `pin`.

        Each root is walked on its own, so a block that several share is visited several times.
        With `known`, the number of blocks, that may happen `MAX_REPEATED` times.
        """
        sizes: dict[bytes, int | None] = {}
        visits = 0
        with self._database.reading() as connection:
            for root in roots:
                if find_pin(connection, root) is not None:
                    continue
                reached = dict(connection.execute(REACHABLE, (key_of(root),)))
                visits += len(reached)
                if known is not None and len(roots) > 1 and visits > known + MAX_REPEATED:
                    raise MalformedError(
                        f"CAR: its {len(roots)} roots share too many blocks to count them for each "
                        "(the limit is a million times): import them in several archives"
                    )
                sizes.update(reached)
            check_file_sizes(sizes, partial(self._find, connection))

    def _reachable(self, connection: sqlite3.Connection, cid: CID) -> dict[bytes, int | None]:
        """Return the sizes of all blocks under `cid` by their keys; raise if one is missing."""
        sizes = dict(connection.execute(REACHABLE, (key_of(cid),)))
        for key, size in sizes.items():
            each = cid_of(key)
            if each.codec not in {RAW, DAG_PB}:
                raise not_unixfs(each)  # what it links to is not known, and would be collected
            if size is None and inline_block(each) is None:
                raise missing_block(each)
        return sizes

    def _pin(
        self, connection: sqlite3.Connection, cid: CID, about: dict[str, Any]
    ) -> tuple[Pin, bool]:
        sizes = self._reachable(connection, cid)
        about = {"type": self._type(connection, cid, about.get("name", "")), **about}
        total = sum(natural(size) for size in sizes.values() if size is not None)
        return add_pin(connection, cid, size=total, **about)

    def _type(self, connection: sqlite3.Connection, cid: CID, name: str) -> str:
        block = self._find(connection, cid)
        is_directory = block is not None and kind_of(cid, block) in {Kind.DIRECTORY, Kind.SHARD}
        return "directory" if is_directory else named_type(name) or ""

    def unpin(self, cid: CID) -> bool:
        """Let go of `cid`; whether it was pinned. Its blocks stay until they are collected."""
        was_pinned = []  # `freeing` may run this twice, and the second run finds it done
        self._database.freeing(lambda each: was_pinned.append(remove_pin(each, cid)))
        return any(was_pinned)

    def update_pin(self, cid: CID, **changes: Any) -> Pin | None:
        """Give a pin another name or other notes; None where `cid` is not pinned."""
        with self._database.writing() as connection:
            return update_pin(connection, cid, **changes)

    def find_pin(self, cid: CID) -> Pin | None:
        """The pin that keeps `cid`, if there is one."""
        with self._database.reading() as connection:
            return find_pin(connection, cid)

    def pins(
        self,
        query: PinQuery = PinQuery(),  # noqa: B008 - frozen
        stopped: Stopped | None = None,
    ) -> list[Pin]:
        """Return the pins that `query` asks for, in its order: without one, newest first."""
        with self._database.reading() as connection:
            return list_pins(connection, query, stopped)

    def count_pins(
        self,
        query: PinQuery = PinQuery(),  # noqa: B008 - frozen
        stopped: Stopped | None = None,
    ) -> int:
        """Return how many pins `query` asks for, whatever its limit and offset."""
        with self._database.reading() as connection:
            return count_pins(connection, query, stopped)

    def totals(self, stopped: Stopped | None = None) -> Totals:
        """Return how much is pinned."""
        with self._database.reading() as connection:
            return Totals(*total_pins(connection, stopped))

    # Archives

    def export_car(self, cid: CID) -> Iterator[bytes]:
        """Return the archive of everything under `cid`, depth first, each block once."""
        return write_car([cid], self._below(cid))

    def _below(self, root: CID) -> Iterator[Block]:
        walk = DagWalk(root)
        while walk.need is not None:
            yield from self.advance(walk)

    def import_car(self, pieces: Iterable[bytes], *, name: str = "") -> list[Pin]:
        """Take in an archive and pin its roots; return their pins.

        Blocks under a hash function that is not supported are left out. Raise `UnprovenError` where
        a root needs a block that is not there, and `MalformedError` where the archive is not sound
        or the sizes in a file contradict each other. Then none of its blocks stays in the store.
        """
        with self.adding() as adding:
            try:
                return self._import_car(adding, pieces, name)
            except BaseException:
                # Where even that fails, on a full disk say, a collection of garbage removes them.
                with suppress(OSError, sqlite3.Error, ClientError):
                    adding.discard()
                raise

    def _import_car(self, adding: Adding, pieces: Iterable[bytes], name: str) -> list[Pin]:
        reader = CarReader()
        count = 0
        for piece in pieces:
            for cid, data in reader.update(piece):
                adding.put(cid, data)
                count += 1
        reader.finish()
        adding.flush()
        roots = list(dict.fromkeys(reader.roots))
        if not roots:
            raise MalformedError("CAR: the archive names no root, so there is nothing to pin")
        self._check_dags(roots, count)
        with self._database.writing() as connection:
            return [self._pin(connection, root, {"name": name})[0] for root in roots]

    # Upkeep

    def collect_garbage(self) -> Collected:
        """Remove the blocks that no pin reaches and no add under way needs."""
        return collect(self._database, self._files, self._owner)

    def check(self) -> Iterator[Damage]:
        """Hash every block and follow every pin; name what is damaged or missing.

        What is wrong with the store as a whole comes first, without a CID.
        """
        faults = list(find_faults(self._database))
        yield from (Damage("", fault) for fault in faults)
        try:
            yield from check(self._database, self._files)
        except VerificationError as error:
            if not faults:
                yield Damage("", str(error))

    def repair(self, *, pin_roots: bool = False) -> Repaired:
        """Rebuild the database from the block files, each verified, and from its second copy.

        For a store whose `check` names a lost or damaged database. No other program may have the
        store open. No block file is removed. What no pin keeps any more is in `roots`: with
        `pin_roots` each that is whole is pinned under the name ``recovered``; without, the next
        collection of garbage removes it.

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
        if pin_roots:
            for root in repaired.roots:
                if root.whole:
                    with suppress(VerificationError):  # of a codec that cannot be walked
                        self.pin(CID.parse(root.cid), name=RECOVERED)
        return repaired

    def foreign_files(self) -> Iterator[Path]:
        """What lies among the block files and is not the store's; it is never removed."""
        return self._files.strangers()

    def close(self) -> None:
        """Close the files. A second time does nothing."""
        self._database.close()
        self._owner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
