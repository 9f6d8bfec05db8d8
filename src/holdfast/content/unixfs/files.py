"""From bytes to the DAG of a file: leaves, and a balanced tree over them that grows as they come.

The tree keeps one list for each level. When a level is full and another sibling arrives, the level
is folded into a node, which goes one level up; so memory is the width times the depth::

    level 2                          [n]
    level 1          [n n n]         [n]              at the end every level is folded upwards,
    level 0   [l l]  [l]             [l l l]          until the top one holds one node: the root
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from holdfast.content import dag_pb, varint
from holdfast.content.blocks import Emit
from holdfast.content.cid import CID
from holdfast.content.profiles import Profile
from holdfast.content.unixfs import data
from holdfast.content.unixfs.data import Kind


class Part(NamedTuple):
    """A finished DAG: its root, the bytes of the file in it, and the bytes of all its blocks."""

    cid: CID
    size: int
    dag_size: int


@lru_cache(maxsize=64)
def dag_pb_frame(kind: Kind, size: int) -> tuple[bytes, bytes]:
    """What stands before and behind `size` bytes in a dag-pb leaf of a file."""
    length = varint.encode(size)
    head = bytes((0x08, kind)) + (b"\x12" + length if size else b"")
    tail = b"\x18" + length
    return b"\x0a" + varint.encode(len(head) + size + len(tail)) + head, tail


def leaf_frame(profile: Profile, size: int) -> tuple[bytes, bytes]:
    """What stands before and behind the `size` bytes of a leaf in its block."""
    return (b"", b"") if profile.raw_leaves else dag_pb_frame(Kind.FILE, size)


def leaf_part(profile: Profile, digest: bytes, size: int) -> Part:
    """The leaf of `size` bytes whose block has this digest."""
    if profile.raw_leaves:
        return Part(profile.raw_cid(digest), size, size)
    head, tail = leaf_frame(profile, size)
    return Part(profile.dag_pb_cid(digest), size, len(head) + size + len(tail))


def node_part(
    links: list[dag_pb.Link], message: bytes, profile: Profile, emit: Emit | None, *, size: int = 0
) -> Part:
    """The dag-pb node of `links` and a UnixFS message, emitted."""
    block = dag_pb.encode(links, message)
    cid = profile.dag_pb_cid(profile.new_hash(block).digest())
    if emit is not None:
        emit(cid, block)
    return Part(cid, size, len(block) + sum(link.size for link in links))


class Tree:
    """The balanced tree over a file's leaves."""

    def __init__(self, profile: Profile, emit: Emit | None = None) -> None:
        self._profile = profile
        self._emit = emit
        self._levels: list[list[Part]] = [[]]

    def add(self, leaf: Part) -> None:
        """Take the next leaf."""
        self._push(0, leaf)

    def root(self) -> Part:
        """The root over all leaves, of which there must be one at least. The end."""
        level = 0
        while level < len(self._levels) - 1 or len(self._levels[level]) > 1:
            self._push(level + 1, self._fold(self._levels[level]))
            level += 1
        return self._levels[level][0]

    def _push(self, level: int, part: Part) -> None:
        if level == len(self._levels):
            self._levels.append([])
        if len(self._levels[level]) == self._profile.width:
            self._push(level + 1, self._fold(self._levels[level]))
            self._levels[level] = []
        self._levels[level].append(part)

    def _fold(self, parts: list[Part]) -> Part:
        sizes = [part.size for part in parts]
        links = [dag_pb.Link(part.cid, b"", part.dag_size) for part in parts]
        message = data.file_data(sum(sizes), sizes)
        return node_part(links, message, self._profile, self._emit, size=sum(sizes))


class LeafCutter:
    """Is fed a file's bytes in pieces of any size; gives its leaves to `add` as they are whole."""

    def __init__(
        self, profile: Profile, add: Callable[[Part], None], emit: Emit | None = None
    ) -> None:
        self._profile = profile
        self._add = add
        self._emit = emit
        self._buffer = bytearray()
        self._empty = True

    def update(self, piece: Any) -> None:
        """Take the next bytes: any buffer."""
        view = memoryview(piece).cast("B")
        chunk_size = self._profile.chunk_size
        if self._buffer:
            missing = chunk_size - len(self._buffer)
            self._buffer += view[:missing]
            view = view[missing:]
            if len(self._buffer) == chunk_size:
                self._leaf(self._buffer)
                self._buffer = bytearray()
        while len(view) >= chunk_size:
            self._leaf(view[:chunk_size])
            view = view[chunk_size:]
        self._buffer += view

    def finish(self) -> None:
        """Give the last leaf: an empty file has one too."""
        if self._buffer or self._empty:
            self._leaf(self._buffer)
            self._buffer = bytearray()

    def _leaf(self, chunk: bytearray | memoryview) -> None:
        head, tail = leaf_frame(self._profile, len(chunk))
        # Never joined for hashing alone: that would copy the whole file once more.
        block_hash = self._profile.new_hash(head)
        block_hash.update(chunk)
        block_hash.update(tail)
        leaf = leaf_part(self._profile, block_hash.digest(), len(chunk))
        if self._emit is not None:
            self._emit(leaf.cid, b"".join((head, chunk, tail)))
        self._add(leaf)
        self._empty = False


class FileImporter:
    """Is fed a file's bytes in pieces of any size; gives its DAG's root, and the blocks on the way.

    Example:
        >>> from holdfast.content.profiles import UNIXFS_V1_2025
        >>> importer = FileImporter(UNIXFS_V1_2025)
        >>> importer.update(b"hel")
        >>> importer.update(b"lo")
        >>> print(importer.finish().cid)
        bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq
    """

    def __init__(self, profile: Profile, emit: Emit | None = None) -> None:
        self._tree = Tree(profile, emit)
        self._cutter = LeafCutter(profile, self._tree.add, emit)
        self._root: Part | None = None

    def update(self, piece: Any) -> None:
        """Take the next bytes: any buffer."""
        self._cutter.update(piece)

    def finish(self) -> Part:
        """The file's DAG."""
        if self._root is None:
            self._cutter.finish()
            self._root = self._tree.root()
        return self._root
