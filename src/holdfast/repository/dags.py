"""Pinning a DAG that is in the store or arrives as an archive: check that it is whole, pin it."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Self, TypeAlias

from holdfast.content.blocks import inline_block, malformed, missing_block
from holdfast.content.car import CarReader, check_only_root
from holdfast.content.cid import CID
from holdfast.content.codecs import is_node, is_one_block, kind_of, require_codec
from holdfast.content.media_types import named_type
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.file_nodes import FileNode, file_node
from holdfast.errors import ClientError, MalformedError
from holdfast.records import Pin
from holdfast.repository.adding import Adding
from holdfast.repository.pins import add_pin, find_pin
from holdfast.repository.rows import cid_of, natural

# Checking, before a DAG is pinned, that the sizes in its files are true.
#
# Readers of IPFS disagree on how to read a file whose nodes declare wrong sizes.


def check_file_sizes(
    block_sizes: Mapping[bytes, int | None], find: Callable[[CID], bytes | None]
) -> None:
    """Raise `MalformedError` if a node of a file declares other sizes than its children have.

    `block_sizes` has the key and the size of every block of the DAG; `find` returns a block. For a
    missing block both give None, and it is not checked. Each dag-pb block is read once.
    """
    # By the key of a dag-pb block: how many bytes of a file it holds (None: it is not a file), and
    # the size that its first parent declares for it.
    actual: dict[bytes, int | None] = {}
    declared: dict[bytes, tuple[CID, int]] = {}

    def check_children(cid: CID, node: FileNode) -> None:
        for child, size in node.children:
            if is_one_block(child):
                inline = inline_block(child)
                child_size = block_sizes.get(child.key) if inline is None else len(inline)
                if child_size is not None:
                    _compare(cid, child, size, child_size)
            elif declared.setdefault(child.key, (cid, size))[1] != size:
                what = f"it declares {size} bytes for {child}, but another node declares another"
                raise malformed(cid, f"{what} size")

    for key in block_sizes:
        cid = cid_of(key)
        if not is_node(cid) or (block := find(cid)) is None:
            continue
        actual[key] = None
        if kind_of(cid, block) in {Kind.FILE, Kind.RAW}:
            node = file_node(cid, block)
            actual[key] = node.size
            check_children(cid, node)
    for key in filter(actual.__contains__, declared):
        parent, size = declared[key]
        _compare(parent, cid_of(key), size, actual[key])


def _compare(parent: CID, child: CID, declared: int, actual: int | None) -> None:
    if actual != declared:
        what = "is not a file" if actual is None else f"has {actual} bytes"
        raise malformed(parent, f"it declares {declared} bytes for {child}, which {what}")


# One archive (CAR) that arrives in pieces: its blocks are added, and its roots are pinned.

PinDags: TypeAlias = Callable[..., list[tuple[Pin, bool]]]
"""Pins roots, if all blocks below them are there: see `Repository.importing`."""


class ArchiveImport:
    """Takes the pieces of an archive, and pins its roots at the end. Use it in a ``with``.

    Blocks with a hash function that is not supported are left out. After an error, none of its
    blocks stays in the store, unless a pin or another add needs them.

    Args:
        adding: Takes the blocks.
        pin_dags: Pins the roots.
        root: The only root that the archive may have; None for any.
    """

    def __init__(self, adding: Adding, pin_dags: PinDags, root: CID | None = None) -> None:
        self._adding = adding
        self._pin_dags = pin_dags
        self._root = root
        self._reader = CarReader()
        self._count = 0

    @property
    def roots(self) -> list[CID]:
        """The roots that the header of the archive names, as far as it was read."""
        return list(dict.fromkeys(self._reader.roots))

    def update(self, piece: bytes) -> None:
        """Take the next bytes, and add the blocks that they complete, verified."""
        for cid, data in self._reader.update(piece):
            self._check_roots()
            self._adding.put(cid, data)
            self._count += 1

    def pin(self, **fields: Any) -> list[tuple[Pin, bool]]:
        """Pin the roots; return the pins, and whether each existed.

        Raise `UnprovenError` if a root needs a block that is missing, and `MalformedError` if the
        archive is not valid or the sizes in a file contradict each other.
        """
        roots = self.keep_blocks()
        if not roots:
            raise MalformedError("CAR: the archive names no root, so there is nothing to pin")
        return self._pin_dags(roots, self._count, **fields)

    def keep_blocks(self) -> list[CID]:
        """Add the last blocks; return the roots. Without a pin, the blocks stay until `gc`."""
        self._reader.finish()
        self._check_roots()
        self._adding.flush()
        return self.roots

    def _check_roots(self) -> None:
        if self._root is not None:
            check_only_root(self._reader.roots, self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def discard(self) -> None:
        """End the import after an error, and remove its blocks."""
        # If this fails too, a collection of garbage removes the blocks.
        with suppress(OSError, sqlite3.Error, ClientError):
            self._adding.discard()
        self.close()

    def close(self) -> None:
        """End the import. After an error, use `discard`."""
        self._adding.close()


MAX_REPEATED: Final = 1_000_000  # visits to blocks that were visited for an earlier root

# The keys and the sizes of all blocks of a DAG. The size of a missing block is NULL.
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

Find: TypeAlias = Callable[[CID], bytes | None]
"""Returns a block without verifying it; None if it is missing."""


def check_dags(
    connection: sqlite3.Connection, find: Find, roots: list[CID], count: int | None = None
) -> None:
    """Raise `MalformedError` if the sizes in a file below `roots` contradict each other.

    Roots that are pinned were checked before. Each root is walked on its own, so blocks that
    several roots share are visited several times. With `count`, the number of blocks, this may
    happen `MAX_REPEATED` times.
    """
    sizes: dict[bytes, int | None] = {}
    visits = 0
    for root in roots:
        if find_pin(connection, root) is not None:
            continue
        reached = dict(connection.execute(REACHABLE, (root.key,)))
        visits += len(reached)
        if count is not None and len(roots) > 1 and visits > count + MAX_REPEATED:
            raise MalformedError(
                f"CAR: its {len(roots)} roots share too many blocks to count them for each "
                "(the limit is a million times): import them in several archives"
            )
        sizes.update(reached)
    check_file_sizes(sizes, find)


def pin_dag(
    connection: sqlite3.Connection, find: Find, cid: CID, **fields: Any
) -> tuple[Pin, bool]:
    """Pin `cid` if all blocks below it are here; return the pin, and whether it existed.

    The caller has begun a transaction, and called `check_dags`. Raise `UnprovenError` if a block is
    missing.
    """
    total = _check_whole(connection, cid)
    fields = {"type": _type(find(cid), cid, fields.get("name", "")), **fields}
    return add_pin(connection, cid, size=total, **fields)


def _check_whole(connection: sqlite3.Connection, cid: CID) -> int:
    """Return the size of all blocks below `cid`; raise `UnprovenError` if one is missing."""
    total = 0
    for key, size in connection.execute(REACHABLE, (cid.key,)).fetchall():
        block = cid_of(key)
        require_codec(block)  # unknown links would be garbage to a collection
        if size is not None:
            total += natural(size)
        elif inline_block(block) is None:
            raise missing_block(block)
    return total


def _type(block: bytes | None, cid: CID, name: str) -> str:
    is_directory = block is not None and kind_of(cid, block) in {Kind.DIRECTORY, Kind.SHARD}
    return "directory" if is_directory else named_type(name) or ""
