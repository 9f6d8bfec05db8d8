"""A walk over all blocks below a root, whatever they are: files, directories, links."""

from collections.abc import Container
from typing import Final, NamedTuple, Protocol

from holdfast.content.blocks import MAX_BLOCK, inline_block, malformed
from holdfast.content.car import Block
from holdfast.content.cid import CID
from holdfast.content.codecs import links_of
from holdfast.content.unixfs.walks import MAX_AHEAD, Walk

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
        if len(self._pending) + len(links) > MAX_LINKS_HELD:
            raise malformed(cid, "the DAG is too wide at too many levels")
        self._pending[-1:] = (_Link(each.cid, each.size, depth + 1) for each in reversed(links))
        self._drop_seen()
        return [(cid, block)]

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


def _is_inline(cid: CID) -> bool:
    return inline_block(cid) is not None
