"""From a root CID to what stands under it, block by block, each proven before it is looked into.

A walk says which block it needs next and is fed it; where the blocks come from is not its concern::

    while (cid := walk.need) is not None:
        for piece in walk.feed(blocks[cid]):
            ...

The sizes that a file's node declares must agree with each other, with what its parent declared,
and with what its children hold; anything else is a `MalformedError`. So no more bytes come out than
the root declares. A child that is declared empty is not visited, so shared links cannot turn a
small DAG into endless work; it must be a leaf that is known to be empty by its CID, or a file would
depend on who reads it. The block of an identity CID is `inline_block`: it is never fetched.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from holdfast.content import dag_pb
from holdfast.content.blocks import MAX_BLOCK, check_block
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.dag_pb import Link
from holdfast.content.unixfs import data, hamt
from holdfast.content.unixfs.data import Data, Kind
from holdfast.content.unixfs.empty_leaves import is_empty_leaf
from holdfast.content.unixfs.files import dag_pb_frame
from holdfast.errors import MalformedError, NotAFileError, NotFoundError, UnprovenError

MAX_DEPTH: Final = 32  # a terabyte in the narrowest known layout is 5 deep
MAX_PENDING: Final = 60_000  # links seen but not yet followed: some 20 MiB at the most
MAX_AHEAD: Final = 4 << 20  # bytes that may be fetched before they are needed
MAX_FILE: Final = (1 << 63) - 1  # what a file system, and a varint of ours, can express


class FileNode(NamedTuple):
    """A node of a file: its own bytes come first, then those of its children.

    Attributes:
        size: The bytes of the file below this node, its own included.
        data: Its own bytes.
        children: The CID of each child, and how many bytes are below it.
    """

    size: int
    data: bytes
    children: list[tuple[CID, int]]


class Pending(NamedTuple):
    """A block still to come.

    For a part of a file, `start` is where its bytes begin and `size` how many its parent promised.
    For a shard, `start` is the way to it, slot by slot, and `size` the bits of that.
    """

    cid: CID
    start: int = 0
    size: int | None = None
    depth: int = 0


def file_node(cid: CID, block: bytes, declared: int | None = None) -> FileNode:
    """Return what `block`, already verified, holds of a file.

    `declared` is the size that its parent declares for it, or None for the root of a file. Raise
    `MalformedError` where sizes contradict each other, as far as this block and the CIDs in it
    can tell.
    """
    if cid.codec == RAW:
        node = FileNode(len(block), block, [])
    elif cid.codec == DAG_PB:
        leaf = None if declared is None else _usual_leaf(block, declared)
        node = leaf or _decode_file(cid, block, is_root=declared is None)
    else:
        raise not_unixfs(cid)
    if declared is not None and declared != node.size:
        raise malformed(cid, f"it has {node.size} bytes, and its parent declares {declared}")
    return node


def _usual_leaf(block: bytes, size: int) -> FileNode | None:
    """Return the leaf of `size` bytes that `block` is, if it is written as all leaves are."""
    head, tail = dag_pb_frame(Kind.FILE, size)
    if len(block) != len(head) + size + len(tail):
        return None
    if not (block.startswith(head) and block.endswith(tail)):
        return None
    return FileNode(size, block[len(head) : len(head) + size], [])


def _decode_file(cid: CID, block: bytes, *, is_root: bool) -> FileNode:
    """Return the file node in a dag-pb block, whose parts agree with each other."""
    node = dag_pb.decode(block)
    message = data.decode(node.data)
    if message.kind not in {Kind.FILE, Kind.RAW}:
        if is_root:
            raise not_a_file(cid, message.kind)
        raise malformed(cid, "it is a part of a file, but is not a file itself")
    sizes = message.block_sizes
    if len(sizes) != len(node.links):
        raise malformed(cid, "there are not as many block sizes as links")
    size = len(message.data) + sum(sizes)
    if message.size is not None and message.size != size:
        raise malformed(cid, "the declared file size is not that of its parts")
    if size > MAX_FILE:
        raise malformed(cid, f"it declares more than {MAX_FILE} bytes")
    children = [(link.cid, child) for link, child in zip(node.links, sizes, strict=True)]
    # Ordinary leaves need no look of their own; there may be very many of them.
    if min(sizes, default=1) == 0 or max(sizes, default=0) > MAX_BLOCK:
        for child, child_size in children:
            _check_child(cid, child, child_size)
    return FileNode(size, message.data, children)


def _check_child(cid: CID, child: CID, size: int) -> None:
    """Raise `MalformedError` where the CID of a child alone contradicts its declared size."""
    if size == 0 and not is_empty_leaf(child):
        raise malformed(cid, f"it declares {child} to be empty, which is not known of it")
    if size > MAX_BLOCK and child.codec == RAW:
        raise malformed(cid, f"it declares {size} bytes for {child}, which is a single block")


def kind_of(cid: CID, block: bytes) -> Kind | None:
    """What a node is; None where it is no UnixFS."""
    if cid.codec == RAW:
        return Kind.RAW
    if cid.codec != DAG_PB:
        return None
    try:
        return data.decode(dag_pb.decode(block).data).kind
    except MalformedError:
        return None


def not_unixfs(cid: CID) -> UnprovenError:
    """The error for a codec that we cannot read."""
    return UnprovenError(f"{cid} is no UnixFS: its codec is {cid.codec:#x}", cid=str(cid))


def check_codec(cid: CID) -> None:
    """Nothing, if `cid` may name a file; else `UnprovenError`."""
    if cid.codec not in {RAW, DAG_PB}:
        raise not_unixfs(cid)


def not_a_file(cid: CID, kind: Kind) -> NotAFileError | MalformedError:
    """The error for a node that is something other than a file."""
    if kind in {Kind.DIRECTORY, Kind.SHARD}:
        return NotAFileError(f"{cid} is a directory; read a file in it by its path")
    if kind is Kind.SYMLINK:
        return NotAFileError(f"{cid} is a symbolic link, not a file")
    return malformed(cid, "it is metadata, not a file")


class _Walk:
    """The next block that is needed, and whether what comes is that."""

    def __init__(self, root: CID) -> None:
        self._pending = [Pending(root)]

    @property
    def need(self) -> CID | None:
        """The CID of the block to feed, or None at the end."""
        return self._pending[-1].cid if self._pending else None

    def _expect(self, block: bytes) -> Pending:
        """What is needed, if `block` is that. It stays needed until `_replace`."""
        if not self._pending:
            raise ValueError("the walk is over and needs no block")
        pending = self._pending[-1]
        check_block(pending.cid, block)
        if pending.depth > MAX_DEPTH:
            raise malformed(pending.cid, f"the DAG is deeper than {MAX_DEPTH} levels")
        return pending

    def _replace(self, children: list[Pending]) -> None:
        """What was needed is done; now its children are, before all else."""
        if len(self._pending) + len(children) > MAX_PENDING:
            raise malformed(self._pending[-1].cid, "the DAG is too wide at too many levels")
        self._pending[-1:] = reversed(children)


class FileWalk(_Walk):
    """The bytes of a file, or those from `start` up to `stop`, in order.

    A file of more than `limit` bytes is refused at its first block.

    Attributes:
        size: The bytes of the whole file, known after the first block.
    """

    def __init__(
        self, root: CID, start: int = 0, stop: int | None = None, *, limit: int | None = None
    ) -> None:
        super().__init__(root)
        self._start = start
        self._stop = stop
        self._limit = limit
        self.size: int | None = None

    def feed(self, block: bytes) -> list[bytes]:
        """The bytes of the file that `block`, which must be the one needed, brings."""
        pending = self._expect(block)
        node = file_node(pending.cid, block, pending.size)
        if pending.size is None:
            self._check_limit(pending.cid, node.size)
        position = pending.start + len(node.data)
        children = []
        for cid, size in node.children:
            if self._wants(position, size):
                children.append(Pending(cid, position, size, pending.depth + 1))
            position += size
        self._replace(children)
        if not self._wants(pending.start, len(node.data)):
            return []
        first = max(0, self._start - pending.start)
        last = None if self._stop is None else self._stop - pending.start
        return [node.data[first:last]]

    def needed_next(self, most: int) -> list[CID]:
        """Return up to `most` blocks that are needed after `need`, of a few MiB in all."""
        ahead: list[CID] = []
        size = 0
        for pending in islice(reversed(self._pending), 1, most + 1):
            size += min(pending.size or 0, MAX_BLOCK)
            if size > MAX_AHEAD:
                break
            ahead.append(pending.cid)
        return ahead

    def _check_limit(self, cid: CID, size: int) -> None:
        self.size = size
        if self._limit is not None and size > self._limit:
            raise malformed(cid, f"it has {size} bytes, over {self._limit}")

    def _wants(self, start: int, size: int) -> bool:
        return (
            size > 0 and start + size > self._start and (self._stop is None or start < self._stop)
        )


class Entry(NamedTuple):
    """A name in a directory, and what stands under it; `size` is of all its blocks."""

    name: str
    cid: CID
    size: int


class DirectoryWalk(_Walk):
    """The entries of a directory, sharded or not, in the order of its blocks.

    Each name comes once. In a sharded directory its hash leaves only one place for it, so that the
    names need not be remembered.
    """

    def feed(self, block: bytes) -> list[Entry]:
        """The entries that `block`, which must be the one needed, brings."""
        pending = self._expect(block)
        message, links = directory_node(pending, block)
        if message.kind is Kind.DIRECTORY:
            if len({link.name for link in links}) != len(links):
                raise malformed(pending.cid, "a directory with an empty, unsafe or doubled name")
            entries = [_entry(link, link.name) for link in links]
            self._replace([])
            return entries
        fanout = hamt.check_shard(message, links)
        width = len(hamt.slot_prefix(0, fanout))
        used = (pending.size or 0) + hamt.slot_bits(fanout)
        if used > hamt.HASH_BITS:
            raise malformed(pending.cid, "a sharded directory is too deep")
        if pending.depth and not links:
            raise malformed(pending.cid, "an empty shard")
        entries, shards = [], []
        for link in links:
            way = pending.start * fanout + int(link.name[:width], 16)
            if name := link.name[width:]:
                # An entry has its place by its name; a shard that stands in two has none for it.
                if hamt.murmur3(name) >> (hamt.HASH_BITS - used) != way:
                    raise malformed(pending.cid, "an entry stands in the wrong slot")
                entries.append(_entry(link, name))
            else:
                shards.append(Pending(link.cid, way, used, pending.depth + 1))
        self._replace(shards)
        return entries


def _entry(link: Link, name: bytes) -> Entry:
    """Return an entry, or raise `MalformedError` for a name that no file system can have."""
    if name in {b"", b".", b".."} or b"/" in name or b"\0" in name:
        raise malformed(link.cid, "a directory with an empty, unsafe or doubled name")
    return Entry(name.decode("utf-8", "surrogateescape"), link.cid, link.size)


class PathWalk(_Walk):
    """The way from a root through directories, name by name, to the CID that a path ends at.

    Attributes:
        found: The CID at the end of the path, when `need` is None.
    """

    def __init__(self, root: CID, path: Sequence[str]) -> None:
        super().__init__(root)
        self._names = [name.encode("utf-8", "surrogateescape") for name in path]
        self.found: CID | None = None
        self._arrive(root)

    def feed(self, block: bytes) -> None:
        """Go on with `block`, which must be the one needed."""
        pending = self._expect(block)
        message, links = directory_node(pending, block)
        name = self._names[0]
        if message.kind is Kind.DIRECTORY:
            self._step(pending.cid, [link.cid for link in links if name and link.name == name])
            return
        fanout = hamt.check_shard(message, links)
        used = pending.size or 0
        prefix = hamt.slot_prefix(hamt.slot_at(hamt.murmur3(name), used, fanout), fanout)
        shards = [link.cid for link in links if link.name == prefix]
        if shards:
            used += hamt.slot_bits(fanout)
            self._replace([Pending(shards[0], size=used, depth=pending.depth + 1)])
        else:
            self._step(pending.cid, [link.cid for link in links if link.name == prefix + name])

    def end(self) -> CID:
        """Where the path has led, when `need` is None."""
        if self.found is None:
            raise ValueError("the walk is not over yet")
        return self.found

    def _step(self, cid: CID, matches: list[CID]) -> None:
        if len(matches) > 1:
            raise malformed(cid, "a directory with a doubled name")
        if not matches:
            name = self._names[0].decode("utf-8", "replace")
            raise NotFoundError(f"there is no {name!r} in {cid}")
        del self._names[0]
        self._arrive(matches[0])

    def _arrive(self, cid: CID) -> None:
        self._pending = [Pending(cid)] if self._names else []
        self.found = None if self._names else cid


def directory_node(pending: Pending, block: bytes) -> tuple[Data, list[Link]]:
    """What `block`, already proven, says of a directory or of a shard of one."""
    cid = pending.cid
    if cid.codec != DAG_PB:
        raise NotFoundError(f"{cid} is not a directory")
    node = dag_pb.decode(block)
    message = data.decode(node.data)
    if message.kind not in {Kind.DIRECTORY, Kind.SHARD}:
        raise NotFoundError(f"{cid} is not a directory")
    if message.kind is Kind.DIRECTORY and pending.depth:
        raise malformed(cid, "a plain directory among shards")
    return message, node.links


def malformed(cid: CID, what: str) -> MalformedError:
    """The error for a DAG that breaks the rules at `cid`."""
    return MalformedError(f"{cid}: {what}", cid=str(cid))
