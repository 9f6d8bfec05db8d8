"""Walks from a root CID over the blocks below it, each verified before it is decoded.

A walk says which block it needs next, and is fed it. It does not know where blocks come from::

    while (cid := walk.need) is not None:
        for item in walk.feed(blocks[cid]):
            ...

The caller fetches the blocks. The repository fetches many with one query; a reader over the network
fetches several at the same time. The block of an identity CID is never fetched: use `inline_block`.
"""

from abc import ABC, abstractmethod
from collections.abc import Container, Sequence
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from holdfast.content.blocks import MAX_BLOCK, BlockCache, check_block, inline_block, malformed
from holdfast.content.budgets import OUTPUT_SIZE, PIECE_COST
from holdfast.content.car import Block
from holdfast.content.cid import CID
from holdfast.content.codecs import has_links, links_of, step
from holdfast.content.unixfs.directory_nodes import DirectoryEntry, Shard, directory_node
from holdfast.content.unixfs.file_nodes import FileNode, Segment, file_node, in_range
from holdfast.errors import NotFoundError
from holdfast.hints import advise

MAX_PENDING: Final = 60_000  # links seen but not yet followed: some 20 MiB at most
MAX_AHEAD: Final = 4 << 20  # bytes that may be fetched before they are needed
SHARD_SIZE: Final = 1 << 18  # bytes that are counted for a shard there; most are much smaller

Item = TypeVar("Item")


class HasCID(Protocol):
    """A link to a block."""

    @property
    def cid(self) -> CID:
        """The CID of the block."""


Link = TypeVar("Link", bound=HasCID)


class Walk(ABC, Generic[Link, Item]):
    """A walk over blocks that returns items: bytes of a file, or entries of a directory.

    It has a list of the links to follow; the next one is the last.
    """

    def __init__(self, *roots: Link) -> None:
        self._pending: list[Link] = [*roots]

    @property
    def need(self) -> CID | None:
        """The CID of the block to feed next, or None at the end."""
        return self._pending[-1].cid if self._pending else None

    @abstractmethod
    def feed(self, block: bytes, *, verified: bool = False) -> list[Item]:
        """Take the block that is needed, and return the items in it.

        Raise `VerificationError` if it is another block, unless it is `verified` already.
        """

    def needed_next(self, most: int) -> list[CID]:
        """Return up to `most` blocks that are needed after `need`, of a few MiB in all."""
        ahead: list[CID] = []
        size = 0
        for link in islice(reversed(self._pending), 1, most + 1):
            size += self._size_of(link)
            if size > MAX_AHEAD:
                break
            ahead.append(link.cid)
        return ahead

    def _size_of(self, link: Link) -> int:  # noqa: ARG002 - for walks that know it
        """Return how many bytes are counted for the block of `link`."""
        return SHARD_SIZE

    def _expect(self, block: bytes, *, verified: bool) -> Link:
        """Return the link that leads to the needed block, and verify that `block` is it."""
        if not self._pending:
            raise ValueError("the walk is over and needs no block")
        link = self._pending[-1]
        if not verified:
            check_block(link.cid, block)
        return link

    def _replace(self, children: Sequence[Link]) -> None:
        """Put the children of the needed node in its place."""
        if not children:
            self._pending.pop()
            return
        check_pending(self._pending[-1].cid, len(self._pending) + len(children))
        self._pending[-1:] = reversed(children)


def check_pending(cid: CID, count: int, limit: int = MAX_PENDING) -> None:
    """Raise `MalformedError` if `count` links are too many to be held, after those of `cid`."""
    if count > limit:
        raise malformed(cid, "the DAG is too wide at too many levels")


def feed_known(walk: Walk[Any, Item], block: bytes, cache: BlockCache) -> list[Item]:
    """Feed the block that `walk` needs, then those that `cache` has, all verified already.

    Return the items. Stop after `OUTPUT_SIZE` bytes of blocks: a small DAG may have very many links
    to one block.
    """
    items: list[Item] = []
    work = 0
    following: bytes | None = block
    while following is not None and work < OUTPUT_SIZE:
        items += walk.feed(following, verified=True)
        work += len(following) + PIECE_COST
        following = None if walk.need is None else cache.get(walk.need)
    return items


class FileWalk(Walk[Segment, bytes]):
    """The bytes of a file, or those from `start` up to `stop`, in order.

    Attributes:
        size: The bytes of the whole file, known after the first block.
    """

    def __init__(self, root: CID, start: int = 0, stop: int | None = None) -> None:
        super().__init__(Segment(root))
        self._start = start
        self._stop = stop
        self.size: int | None = None

    @property
    def segment(self) -> Segment | None:
        """The run of bytes that the needed block is for, or None at the end."""
        return self._pending[-1] if self._pending else None

    @property
    def pending(self) -> int:
        """How many links are known and not yet followed."""
        return len(self._pending)

    def feed(self, block: bytes, *, verified: bool = False) -> list[bytes]:
        """Take the block that is needed, and return the bytes of the range that it has itself."""
        segment = self._expect(block, verified=verified)
        return self.feed_node(segment, file_node(segment.cid, block, segment.size))

    def feed_node(self, segment: Segment, node: FileNode) -> list[bytes]:
        """Take the verified `node` of `segment`, which is the needed one, as `feed` does."""
        if segment.size is None:
            self.size = node.size
        self._replace(node.segments(segment, self._start, self._stop))
        data = in_range(node.data, segment.start, self._start, self._stop)
        return [data] if data else []

    def skip(self) -> None:
        """Leave out the needed block and all below it."""
        self._pending.pop()

    def _size_of(self, link: Segment) -> int:
        return min(link.size or 0, MAX_BLOCK)

    def next_segments(self, most: int) -> list[Segment]:
        """Return up to `most` runs of bytes, from `segment` on, as far as they are known."""
        return self._pending[: -most - 1 : -1]


class DirectoryWalk(Walk[Shard, DirectoryEntry]):
    """The entries of a directory, plain or sharded, in the order of its blocks."""

    def __init__(self, root: CID) -> None:
        super().__init__(Shard(root))

    def feed(self, block: bytes, *, verified: bool = False) -> list[DirectoryEntry]:
        """Take the block that is needed, and return the entries in it."""
        node = directory_node(self._expect(block, verified=verified), block)
        self._replace(node.shards)
        return node.entries


class PathWalk(Walk[Shard, CID]):
    """Follows a path from a root through directories and values to the CID at its end.

    Attributes:
        target: The CID at the end of the path, when `need` is None.
        names_left: How many names of the path are still to be followed.
        inside: The names that lead to a value inside the block of `target`; none for all of it.
    """

    def __init__(self, root: CID, path: Sequence[str]) -> None:
        super().__init__(Shard(root))
        self.target: CID | None = None
        self.inside: list[str] = []
        self._go_on(Shard(root), [name.encode("utf-8", "surrogateescape") for name in path])

    def feed(self, block: bytes, *, verified: bool = False) -> list[CID]:
        """Take the block that is needed; return the CID at the end of the path, if that is it."""
        shard = self._expect(block, verified=verified)
        following, names = step(shard, block, self._names)
        if following is None:
            self.inside = [name.decode("utf-8", "surrogateescape") for name in names]
            following, names = shard, ()
        self._go_on(following, names)
        return [] if self.target is None else [self.target]

    def end(self) -> CID:
        """Return the CID at the end of the path, when `need` is None.

        Raise `NotFoundError` if the path ends inside its block.
        """
        if self.target is None:
            raise ValueError("the walk is not over yet")
        if self.inside:
            path = "/".join(self.inside)
            error = NotFoundError(f"{path!r} is a value inside {self.target}, not a file")
            raise advise(error, "`retrieve` returns it", "`holdfast retrieve CID/PATH` prints it")
        return self.target

    def _go_on(self, shard: Shard, names: Sequence[bytes]) -> None:
        self._names = names
        self.names_left: int = len(names)
        self._pending = [shard] if names else []
        self.target = None if names else shard.cid


MAX_LINKS_HELD: Final = 250_000  # links seen but not yet followed: some 60 MiB at most
DEEPEST: Final = 4096  # levels; the path of a file on disk cannot have more
UNKNOWN_SIZE: Final = 1 << 18  # bytes that are counted for a link that declares no size


class SeenCIDs(Container[CID], Protocol):
    """The CIDs that a walk has visited, such as a set."""

    def add(self, cid: CID, /) -> None:
        """Add a CID."""


class _Link(NamedTuple):
    cid: CID
    size: int
    depth: int


class DagWalk(Walk[_Link, Block]):
    """All blocks below a root, depth first, each once. Those in identity CIDs are left out.

    The links of unsupported codecs are not known: their blocks count as leaves.

    Args:
        root: The root.
        seen: Gets the CIDs of all blocks. A set needs memory for each of them.
    """

    def __init__(self, root: CID, seen: SeenCIDs | None = None) -> None:
        super().__init__(_Link(root, 0, 0))
        self._seen: SeenCIDs = set() if seen is None else seen
        self._drop_seen()

    def feed(self, block: bytes, *, verified: bool = False) -> list[Block]:
        """Take the block that is needed, and return it with its CID."""
        cid, _, depth = self._expect(block, verified=verified)
        self._seen.add(cid)
        links = links_of(cid, block)
        if links and depth >= DEEPEST:
            raise malformed(cid, f"the DAG is deeper than {DEEPEST} levels")
        check_pending(cid, len(self._pending) + len(links), MAX_LINKS_HELD)
        following = (_Link(link.cid, link.size, depth + 1) for link in reversed(links))
        self._pending[-1:] = filter(self.follows, following)
        self._drop_seen()
        return [(cid, block)]

    def follows(self, link: _Link) -> bool:  # noqa: ARG002 - for walks that leave blocks out
        """Return whether the block that `link` leads to is needed."""
        return True

    def needed_next(self, most: int) -> list[CID]:
        """Return up to `most` blocks that are needed after `need`, of a few MiB in all."""
        ahead: dict[CID, None] = {}
        size = 0
        # The last one is `need`. Of several links to one block, only the first counts.
        for cid, declared, _ in self._pending[-2 : -2 * most - 2 : -1]:
            if cid in ahead or cid == self.need or cid in self._seen or _is_inline(cid):
                continue
            size += min(declared or UNKNOWN_SIZE, MAX_BLOCK)
            if len(ahead) == most or size > MAX_AHEAD:
                break
            ahead[cid] = None
        return list(ahead)

    def _drop_seen(self) -> None:
        """Remove the links that are next in line and lead to blocks that were fed already."""
        pending = self._pending
        while pending and (pending[-1].cid in self._seen or _is_inline(pending[-1].cid)):
            pending.pop()


class NodeWalk(DagWalk):
    """The blocks below a root that may have links. The others are noted without their blocks.

    Attributes:
        leaves: The CIDs and the declared sizes of the blocks without links. Take them from here.
    """

    def __init__(self, root: CID, seen: SeenCIDs) -> None:
        super().__init__(root, seen)
        self.leaves: list[tuple[CID, int]] = []

    def follows(self, link: _Link) -> bool:
        """Return whether a block may have links. If not, note it."""
        if has_links(link.cid) or _is_inline(link.cid):
            return True
        if link.cid not in self._seen:
            self._seen.add(link.cid)
            self.leaves.append((link.cid, link.size))
        return False


def _is_inline(cid: CID) -> bool:
    return inline_block(cid) is not None
