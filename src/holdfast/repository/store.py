"""The repository: blocks come in by `adding`, are kept by pins, and read back proven."""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from holdfast.content.blocks import check_block, inline_block, missing_block
from holdfast.content.car import CarReader, write_car
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.media_types import named_type
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.walks import (
    DirectoryWalk,
    Entry,
    FileWalk,
    PathWalk,
    file_node,
    kind_of,
    not_unixfs,
)
from holdfast.files.importing import import_content
from holdfast.files.sources import Uploadable
from holdfast.repository.adding import Adding
from holdfast.repository.blocks import BlockFiles, cid_of, key_of, linked_from
from holdfast.repository.database import Database
from holdfast.repository.garbage import Collected, Damage, check, collect
from holdfast.repository.pins import (
    Pin,
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

DATABASE: Final = "holdfast.sqlite3"
FOLDER: Final = "blocks"

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

    Any number of threads and processes may have the same folder open.

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
        self.path.mkdir(parents=True, exist_ok=True)
        self._database = Database(self.path / DATABASE)
        self._files = BlockFiles(self.path / FOLDER)

    def adding(self) -> Adding:
        """An add: put blocks into it, then pin. What is not pinned at the end may be collected."""
        return Adding(self._database, self._files)

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
        """The block of `cid`, proven; `UnprovenError` where it is not here."""
        data = self._unchecked(cid)
        check_block(cid, data)
        return data

    def read(self, cid: CID, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The bytes of the file at `cid`, or a range of them, proven piece by piece."""
        walk = FileWalk(cid, start, stop)
        while walk.need is not None:
            yield from walk.feed(self._unchecked(walk.need))

    def file_size(self, cid: CID) -> int:
        """The bytes of the file at `cid`, as its root declares them; `read` holds it to that."""
        return file_node(cid, self.block(cid)).size

    def entries(self, cid: CID) -> Iterator[Entry]:
        """What is in the directory at `cid`."""
        walk = DirectoryWalk(cid)
        while walk.need is not None:
            yield from walk.feed(self._unchecked(walk.need))

    def resolve(self, cid: CID, path: Iterable[str]) -> CID:
        """The CID at the end of `path` below `cid`; `NotFoundError` where there is none."""
        walk = PathWalk(cid, list(path))
        while walk.need is not None:
            walk.feed(self._unchecked(walk.need))
        return walk.found or cid

    def _unchecked(self, cid: CID) -> bytes:
        """A block for a walk, which proves it itself."""
        with self._database.reading() as connection:
            data = self._find(connection, cid)
        if data is None:
            raise missing_block(cid)
        return data

    def _find(self, connection: sqlite3.Connection, cid: CID) -> bytes | None:
        inline = inline_block(cid)
        return inline if inline is not None else self._files.read(connection, cid)

    # Pins

    def pin(self, cid: CID, **about: Any) -> tuple[Pin, bool]:
        """Pin what is here already, with all that it links to; else `UnprovenError`."""
        with self._database.writing() as connection:
            return self._pin(connection, cid, about)

    def _pin(
        self, connection: sqlite3.Connection, cid: CID, about: dict[str, Any]
    ) -> tuple[Pin, bool]:
        sizes = connection.execute(REACHABLE, (key_of(cid),)).fetchall()
        for key, size in sizes:
            each = cid_of(key)
            if each.codec not in {RAW, DAG_PB}:
                raise not_unixfs(each)  # what it links to is not known, and would be collected
            if size is None and inline_block(each) is None:
                raise missing_block(each)
        about = {"type": self._type(connection, cid, about.get("name", "")), **about}
        return add_pin(connection, cid, size=sum(size or 0 for _, size in sizes), **about)

    def _type(self, connection: sqlite3.Connection, cid: CID, name: str) -> str:
        block = self._find(connection, cid)
        is_directory = block is not None and kind_of(cid, block) in {Kind.DIRECTORY, Kind.SHARD}
        return "directory" if is_directory else named_type(name) or ""

    def unpin(self, cid: CID) -> bool:
        """Let go of `cid`; whether it was pinned. Its blocks stay until they are collected."""
        with self._database.writing() as connection:
            return remove_pin(connection, cid)

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
        """The archive of everything under `cid`, depth first, each block once."""
        return write_car([cid], self._depth_first(cid))

    def _depth_first(self, root: CID) -> Iterator[tuple[CID, bytes]]:
        seen = set()
        pending = [root]
        while pending:
            cid = pending.pop()
            if cid in seen or inline_block(cid) is not None:
                continue
            seen.add(cid)
            data = self.block(cid)
            yield cid, data
            pending += reversed(linked_from(cid, data))

    def import_car(self, pieces: Iterable[bytes], *, name: str = "") -> list[Pin]:
        """Take in an archive and pin its roots; `UnprovenError` where a block is missing."""
        reader = CarReader()
        with self.adding() as adding:
            for piece in pieces:
                for cid, data in reader.update(piece):
                    adding.put(cid, data)
            reader.finish()
            adding.flush()
            with self._database.writing() as connection:
                return [self._pin(connection, root, {"name": name})[0] for root in reader.roots]

    # Upkeep

    def collect_garbage(self) -> Collected:
        """Remove the blocks that no pin reaches and no add under way needs."""
        return collect(self._database, self._files)

    def check(self) -> Iterator[Damage]:
        """Hash every block and follow every pin; name what is damaged or missing."""
        return check(self._database, self._files)

    def close(self) -> None:
        """Close the files. A second time does nothing."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
