"""Building files: leaves, and a balanced tree over them that grows while they arrive.

The tree has one list for each level. When a level is full and another sibling arrives, one node
is made of the level and added one level up. So the memory is the width times the depth::

    level 2                          [n]
    level 1          [n n n]         [n]              at the end, one node is made of each level,
    level 0   [l l]  [l]             [l l l]          until the top level has one node: the root
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field
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
    """Return the bytes before and after the `size` bytes of content in a dag-pb leaf."""
    length = varint.encode(size)
    head = bytes((0x08, kind)) + (b"\x12" + length if size else b"")
    tail = b"\x18" + length
    return b"\x0a" + varint.encode(len(head) + size + len(tail)) + head, tail


def leaf_frame(profile: Profile, size: int) -> tuple[bytes, bytes]:
    """Return the bytes before and after the `size` bytes of content in the block of a leaf."""
    return (b"", b"") if profile.raw_leaves else dag_pb_frame(Kind.FILE, size)


def leaf_part(profile: Profile, digest: bytes, size: int) -> Part:
    """Return the leaf of `size` bytes whose block has this digest."""
    if profile.raw_leaves:
        return Part(profile.raw_cid(digest), size, size)
    head, tail = leaf_frame(profile, size)
    return Part(profile.dag_pb_cid(digest), size, len(head) + size + len(tail))


def hash_leaf(profile: Profile, pieces: Iterable[Any], size: int) -> Part:
    """Return the leaf of the `size` bytes that `pieces` have together."""
    head, tail = leaf_frame(profile, size)
    # Not joined to be hashed: that would copy the whole file once more.
    block_hash = profile.new_hash(head)
    for piece in pieces:
        block_hash.update(piece)
    block_hash.update(tail)
    return leaf_part(profile, block_hash.digest(), size)


def node_part(
    links: list[dag_pb.Link], message: bytes, profile: Profile, emit: Emit | None, *, size: int = 0
) -> Part:
    """Return the dag-pb node of `links` and a UnixFS message, and emit its block."""
    block = dag_pb.encode(links, message)
    cid = profile.dag_pb_cid(profile.new_hash(block).digest())
    if emit is not None:
        emit(cid, block)
    return Part(cid, size, len(block) + sum(link.size for link in links))


class Tree:
    """The balanced tree over the leaves of a file. Several sections are trees below one root."""

    def __init__(self, profile: Profile, emit: Emit | None = None) -> None:
        self._profile = profile
        self._emit = emit
        self._levels: list[list[Part]] = [[]]
        self._sections: list[Part] = []

    def add(self, leaf: Part) -> None:
        """Add the next leaf."""
        self._push(0, leaf)

    def end_section(self) -> None:
        """Let the next leaf begin a tree of its own."""
        if self._levels[0]:
            self._sections.append(self._top())
            self._levels = [[]]

    def root(self) -> Part:
        """Return the root over all leaves, at least one. Call it once, after the last leaf."""
        self.end_section()
        sections = self._sections
        return sections[0] if len(sections) == 1 else self._make_node(sections)

    def _top(self) -> Part:
        level = 0
        while level < len(self._levels) - 1 or len(self._levels[level]) > 1:
            self._push(level + 1, self._make_node(self._levels[level]))
            level += 1
        return self._levels[level][0]

    def _push(self, level: int, part: Part) -> None:
        if level == len(self._levels):
            self._levels.append([])
        if len(self._levels[level]) == self._profile.width:
            self._push(level + 1, self._make_node(self._levels[level]))
            self._levels[level] = []
        self._levels[level].append(part)

    def _make_node(self, parts: list[Part]) -> Part:
        sizes = [part.size for part in parts]
        links = [dag_pb.Link(part.cid, b"", part.dag_size) for part in parts]
        message = data.file_data(sum(sizes), sizes)
        return node_part(links, message, self._profile, self._emit, size=sum(sizes))


@dataclass(eq=False, repr=False)
class LeafCutter:
    """Cuts a file, which comes in pieces of any size, into leaves, and adds them to all `trees`.

    A leaf and a section of the trees end at each of `leaf_ends`, which are offsets in order.
    """

    _profile: Profile
    _trees: Sequence[Tree]
    _emit: Emit | None = None
    leaf_ends: InitVar[Iterable[int]] = ()
    _position: int = 0
    _buffer: bytearray = field(default_factory=bytearray)
    _empty: bool = True

    def __post_init__(self, leaf_ends: Iterable[int]) -> None:
        self._ends = deque(leaf_ends)

    def update(self, piece: Any) -> None:
        """Add the next bytes, from any buffer."""
        view = memoryview(piece).cast("B")
        while self._ends and self._ends[0] <= self._position + len(view):
            room = max(0, self._ends.popleft() - self._position)
            self._cut(view[:room])
            self._end_leaf()
            for tree in self._trees:
                tree.end_section()
            view = view[room:]
        self._cut(view)

    def _cut(self, view: memoryview) -> None:
        self._position += len(view)
        chunk_size = self._profile.chunk_size
        if self._buffer:
            missing = chunk_size - len(self._buffer)
            self._buffer += view[:missing]
            view = view[missing:]
            if len(self._buffer) == chunk_size:
                self._end_leaf()
        while len(view) >= chunk_size:
            self._leaf(view[:chunk_size])
            view = view[chunk_size:]
        self._buffer += view

    def finish(self) -> None:
        """Pass on the last leaf: an empty file has one too."""
        if self._empty and not self._buffer:
            self._leaf(self._buffer)
        self._end_leaf()

    def _end_leaf(self) -> None:
        if self._buffer:
            self._leaf(self._buffer)
            self._buffer = bytearray()

    def _leaf(self, chunk: bytearray | memoryview) -> None:
        leaf = hash_leaf(self._profile, [chunk], len(chunk))
        if self._emit is not None:
            head, tail = leaf_frame(self._profile, len(chunk))
            self._emit(leaf.cid, b"".join((head, chunk, tail)))
        for tree in self._trees:
            tree.add(leaf)
        self._empty = False


class FileImporter:
    """Makes the DAG of a file, which comes in pieces of any size, and emits its blocks.

    Example:
        >>> from holdfast.content.profiles import UNIXFS_V1_2025
        >>> importer = FileImporter(UNIXFS_V1_2025)
        >>> importer.update(b"hel")
        >>> importer.update(b"lo")
        >>> print(importer.finish().cid)
        bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq
    """

    def __init__(
        self, profile: Profile, emit: Emit | None = None, leaf_ends: Iterable[int] = ()
    ) -> None:
        self._tree = Tree(profile, emit)
        self._cutter = LeafCutter(profile, [self._tree], emit, leaf_ends)
        self._root: Part | None = None

    def update(self, piece: Any) -> None:
        """Add the next bytes, from any buffer."""
        self._cutter.update(piece)

    def add(self, part: Part) -> None:
        """Add the bytes of a DAG that is there. The leaf before it has ended."""
        self._tree.add(part)

    def finish(self) -> Part:
        """Return the DAG of the file."""
        if self._root is None:
            self._cutter.finish()
            self._root = self._tree.root()
        return self._root
