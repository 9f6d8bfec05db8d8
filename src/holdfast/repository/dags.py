"""Pinning a DAG that is in the store: check that it is whole, then pin it."""

import sqlite3
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from holdfast.content.blocks import inline_block, missing_block
from holdfast.content.cid import CID
from holdfast.content.codecs import kind_of, require_codec
from holdfast.content.media_types import named_type
from holdfast.content.unixfs.data import Kind
from holdfast.errors import MalformedError
from holdfast.records import Pin
from holdfast.repository.file_sizes import check_file_sizes
from holdfast.repository.pins import add_pin, find_pin
from holdfast.repository.rows import cid_of, natural

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
    connection: sqlite3.Connection, find: Find, roots: list[CID], known: int | None = None
) -> None:
    """Raise `MalformedError` if the sizes in a file below `roots` contradict each other.

    Roots that are pinned were checked before. Each root is walked on its own, so blocks that
    several roots share are visited several times. With `known`, the number of blocks, this may
    happen `MAX_REPEATED` times.
    """
    sizes: dict[bytes, int | None] = {}
    visits = 0
    for root in roots:
        if find_pin(connection, root) is not None:
            continue
        reached = dict(connection.execute(REACHABLE, (root.key,)))
        visits += len(reached)
        if known is not None and len(roots) > 1 and visits > known + MAX_REPEATED:
            raise MalformedError(
                f"CAR: its {len(roots)} roots share too many blocks to count them for each "
                "(the limit is a million times): import them in several archives"
            )
        sizes.update(reached)
    check_file_sizes(sizes, find)


def pin_dag(connection: sqlite3.Connection, find: Find, cid: CID, **about: Any) -> tuple[Pin, bool]:
    """Pin `cid` if all blocks below it are here; return the pin, and whether it existed.

    The caller has begun a transaction, and called `check_dags`. Raise `UnprovenError` if a block is
    missing.
    """
    total = _check_whole(connection, cid)
    about = {"type": _type(find(cid), cid, about.get("name", "")), **about}
    return add_pin(connection, cid, size=total, **about)


def _check_whole(connection: sqlite3.Connection, cid: CID) -> int:
    """Return the size of all blocks below `cid`; raise `UnprovenError` if one is missing."""
    total = 0
    for key, size in connection.execute(REACHABLE, (cid.key,)).fetchall():
        each = cid_of(key)
        require_codec(each)  # unknown links would be garbage to a collection
        if size is not None:
            total += natural(size)
        elif inline_block(each) is None:
            raise missing_block(each)
    return total


def _type(block: bytes | None, cid: CID, name: str) -> str:
    is_directory = block is not None and kind_of(cid, block) in {Kind.DIRECTORY, Kind.SHARD}
    return "directory" if is_directory else named_type(name) or ""
