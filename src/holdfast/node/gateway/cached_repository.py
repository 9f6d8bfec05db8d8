"""The repository with a cache of verified blocks, which all requests of the gateway share.

A reply keeps only its position in the content, not a block. So it holds almost no memory while its
client reads nothing. When the client reads on, the block is still in the cache, or is read and
verified again.
"""

import threading
from collections.abc import Callable, Generator, Hashable, Sequence, Sized
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from holdfast.content.blocks import inline_block
from holdfast.content.cid import CID
from holdfast.content.codecs import has_links, has_value, is_one_block, kind_of, links_of
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.directory_nodes import DirectoryEntry
from holdfast.content.unixfs.file_nodes import FileNode, Segment, file_node, in_range
from holdfast.content.unixfs.walks import FileWalk, PathWalk
from holdfast.errors import ClientError
from holdfast.node.http_server.http_connection import BATCH, PIECE, Pieces
from holdfast.node.http_server.refusals import Refusal
from holdfast.node.memory import Cache
from holdfast.repository import Repository

# Reading and verifying the next nodes of a file on other threads, while one is in use.

GROUP: Final = 1 << 20  # bytes that a thread reads at a time; up to three groups are read ahead
MOST: Final = 64  # nodes of a group

ReadNode: TypeAlias = Callable[[Segment], FileNode]


class ReadAhead:
    """The nodes that come next in a walk: read by `read`, on the threads of `hashers`."""

    def __init__(self, read: ReadNode, hashers: Executor) -> None:
        self._read = read
        self._hashers = hashers
        self._jobs: dict[CID, Future[dict[CID, FileNode]]] = {}
        self._size = 0  # bytes of the nodes in `_jobs`

    def take(self, segment: Segment) -> FileNode:
        """Return the node of `segment`; read it now if it was not read ahead."""
        job = self._jobs.pop(segment.cid, None)
        node = None
        if job is not None:
            self._size -= _size(segment)
            node = job.result().get(segment.cid)
        return self._read(segment) if node is None else node

    def start(self, walk: FileWalk) -> None:
        """Start to read the nodes that `walk` needs next, until enough of them are read ahead."""
        while (
            self._size <= 2 * GROUP
            and len(self._jobs) <= MOST
            and (group := self._next_group(walk))
        ):
            job = self._hashers.submit(_read_group, self._read, group)
            self._jobs.update(dict.fromkeys((segment.cid for segment in group), job))
            self._size += sum(map(_size, group))

    def _next_group(self, walk: FileWalk) -> list[Segment]:
        """Return the next nodes that are not read ahead yet."""
        group: dict[CID, Segment] = {}
        size = 0
        for segment in walk.next_segments(2 * MOST):
            if size >= GROUP or len(group) >= MOST:
                break
            if segment.cid not in self._jobs and segment.cid not in group:
                group[segment.cid] = segment
                size += _size(segment)
        return list(group.values())

    def cancel(self) -> None:
        """Start none of the jobs that still wait for a thread."""
        for job in self._jobs.values():
            job.cancel()


def _size(segment: Segment) -> int:
    """Return about how many bytes the node of a segment has itself."""
    return min(segment.size or 0, GROUP)


def _read_group(read: ReadNode, group: Sequence[Segment]) -> dict[CID, FileNode]:
    """Read nodes up to the first error. Whoever needs that node reads it again, with its error."""
    nodes: dict[CID, FileNode] = {}
    with suppress(ClientError, OSError):
        for segment in group:
            nodes[segment.cid] = read(segment)
    return nodes


T = TypeVar("T")
S = TypeVar("S", bound=Sized)

LINK_WEIGHT: Final = 300  # approximate bytes of memory for a link
SMALL: Final = 16 << 10  # bytes of a block up to which decoding it again is faster than the cache
LARGE_VALUE: Final = 128 << 10  # bytes of a block of values that only one thread decodes
QUICK: Final = 1 << 20  # bytes that a client has read without a wait before blocks are read ahead
ENTRY_WEIGHT: Final = 500  # bytes of memory for an entry of the cache, besides its value


class CachedRepository:
    """Reads `repository` through a cache of verified blocks, and of what was made of them."""

    def __init__(self, repository: Repository, cache: Cache | None = None) -> None:
        self.repository = repository
        self._cache = Cache() if cache is None else cache
        self._computing = threading.RLock()
        self._decoding = threading.Lock()

    def _cached(self, key: Hashable, make: Callable[[], T], weigh: Callable[[T], int]) -> T:
        """Return the value of `key` in the cache, or make it."""
        value: T | None = self._cache.get(key)
        if value is None:
            value = make()
            self._cache.put(key, value, weight=weigh(value) + ENTRY_WEIGHT)
        return value

    def block(self, cid: CID) -> bytes:
        """Return the verified block of `cid`; raise UnprovenError if it is missing."""
        inline = inline_block(cid)
        if inline is not None:
            return inline
        return self._cached(("block", cid), lambda: self.repository.block(cid), len)

    def cached_block(self, cid: CID) -> bytes | None:
        """Return the block of `cid` if it is inline or in the cache, else None."""
        cached: bytes | None = self._cache.get(("block", cid))
        return inline_block(cid) if cached is None else cached

    def kind(self, cid: CID) -> Kind | None:
        """Return the kind of the node at `cid`, or None if it is not UnixFS."""
        block = self.block(cid)
        if is_one_block(cid) or len(block) <= SMALL:
            return kind_of(cid, block)
        return self.computed(("kind", cid), lambda: (kind_of(cid, block),))[0]

    def plain_entries(self, cid: CID) -> list[DirectoryEntry]:
        """Return the entries of a directory that is not sharded."""

        def entries() -> list[DirectoryEntry]:
            return list(self.repository.entries(cid))

        return self.computed(("entries", cid), entries, weight=LINK_WEIGHT)

    def computed(self, key: Hashable, compute: Callable[[], S], *, weight: int = 1) -> S:
        """Return the cached result of `compute`, or call it.

        One thread computes at a time; others that want the same result then find it in the cache.
        `weight` is the weight of each item of the result.
        """
        result: S | None = self.cached(key)
        if result is not None:
            return result
        with self._computing:
            return self._cached(("computed", key), compute, lambda result: weight * len(result))

    def cached(self, key: Hashable) -> Any:
        """Return the result of `computed` for `key` if it is in the cache, else None."""
        return self._cache.get(("computed", key))

    def links(self, cid: CID) -> tuple[CID, ...]:
        """Return the links of the block of `cid`; none for unsupported codecs."""
        if not has_links(cid):
            return ()

        def links() -> tuple[CID, ...]:
            return tuple(link.cid for link in links_of(cid, self.block(cid)))

        return self._cached(("links", cid), links, lambda links: len(links) * LINK_WEIGHT)

    def follow(self, walk: PathWalk, cid: CID) -> None:
        """Feed `walk` the block of `cid`, which it needs.

        A block of 2 MiB can hold a value that takes 150 MiB of memory and seconds to decode. So one
        thread at a time decodes a large one, and no other waits for it: raise a `Refusal` (503).
        """
        block = self.block(cid)
        if not has_value(cid) or len(block) <= LARGE_VALUE:
            walk.feed(block, verified=True)
        elif self._decoding.acquire(blocking=False):
            try:
                walk.feed(block, verified=True)
            finally:
                self._decoding.release()
        else:
            why = "a path through another large value is followed now; try again"
            raise Refusal(503, why, {"Retry-After": "5"})

    def file_node(self, cid: CID) -> FileNode:
        """Return the node of a file at `cid`."""
        return self._cached(
            ("node", cid), lambda: file_node(cid, self.repository.block(cid)), _node_weight
        )

    def node_at(self, segment: Segment) -> FileNode:
        """Return the node of a part of a file. A leaf that is not in the cache is not added."""
        node = self.cached_node(segment.cid)
        if node is None:
            node = file_node(segment.cid, self.repository.block(segment.cid), segment.size)
            if node.children:
                self.keep_node(segment.cid, node)
        return node

    def keep_node(self, cid: CID, node: FileNode) -> None:
        """Add the node of a file to the cache."""
        self._cache.put(("node", cid), node, weight=_node_weight(node) + ENTRY_WEIGHT)

    def cached_node(self, cid: CID) -> FileNode | None:
        """Return the node of a file at `cid` if it is in the cache, else None."""
        node: FileNode | None = self._cache.get(("node", cid))
        return node

    def read(self, cid: CID, start: int = 0, stop: int | None = None) -> "FilePieces":
        """Return the verified bytes of the file at `cid`, or a range of them, in pieces."""
        return FilePieces(self, cid, start, stop)


def _node_weight(node: FileNode) -> int:
    return len(node.data) + len(node.ends) * LINK_WEIGHT


@dataclass(eq=False, repr=False)
class FilePieces(Pieces):
    """The bytes of a file in pieces of at most `PIECE`."""

    _repository: CachedRepository
    _root: CID
    _at: int
    _stop: int | None
    _quick: int = 0  # bytes of runs that were used whole, since one was not

    def __next__(self) -> bytes:
        piece = self._gather(self._repository.file_node)
        if not piece:
            raise StopIteration
        return piece

    def next_cached(self) -> bytes | None:
        """Return the next piece if all of it is in the cache, else None."""
        before = self._at
        piece = self._gather(self._repository.cached_node)
        if piece is None:
            self._at = before
        return piece or None

    @property
    def left(self) -> int:
        """How many bytes follow, at most; 0 if that is not known."""
        return 0 if self._stop is None else max(0, self._stop - self._at)

    @property
    def is_quick(self) -> bool:
        """Whether the client has used the last runs without a wait."""
        return self._quick >= QUICK

    def runs(self, hashers: Executor) -> Generator[memoryview, None, None]:
        """Yield the next bytes, block by block. Blocks that are used whole are not cached.

        While the caller uses a block, others are read and verified ahead, if it was quick before.
        """
        walk = FileWalk(self._root, self._at, self._at + min(self.left, BATCH))
        ahead = ReadAhead(self._repository.node_at, hashers)
        while (segment := walk.segment) is not None:
            node = ahead.take(segment)
            walk.feed_node(segment, node)
            if self.is_quick:
                ahead.start(walk)
            data = in_range(memoryview(node.data), segment.start, self._at, self._stop)
            if not data:
                continue
            end = self._at + len(data)
            try:
                yield data
            finally:
                if self._at < end:
                    self._quick = 0
                    self._repository.keep_node(segment.cid, node)
                    ahead.cancel()

    def skip(self, size: int) -> None:
        """Go on after the next `size` bytes."""
        self._at += size
        self._quick += size

    def _gather(self, find: Callable[[CID], FileNode | None]) -> bytes | None:
        """Return the next piece; empty at the end; None where `find` lacks a node for it."""
        if self._stop is None:
            root = find(self._root)
            if root is None:
                return None
            self._stop = root.size
        parts: list[bytes] = []
        room = min(PIECE, self._stop - self._at)
        while room > 0:
            part = self._slice(find, room)
            if part is None:
                return None
            if not part:
                break  # the range ends after the end of the file
            parts.append(part)
            self._at += len(part)
            room -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _slice(self, find: Callable[[CID], FileNode | None], room: int) -> bytes | None:
        """Return up to `room` bytes of the node with the next byte, found from the root down."""
        segment = Segment(self._root)
        while True:
            node = find(segment.cid)
            if node is None:
                return None
            children = node.segments(segment, self._at, self._at + 1)
            if not children:
                return in_range(node.data, segment.start, self._at, self._at + room)
            segment = children[0]


@dataclass(slots=True)
class BytesPieces(Pieces):
    """A range of the bytes that `find` returns, in pieces; `find_cached` looks in the cache."""

    find: Callable[[], bytes]
    find_cached: Callable[[], bytes | None]
    at: int
    stop: int

    def __next__(self) -> bytes:
        if self.at >= self.stop:
            raise StopIteration
        return self._slice(self.find())

    def next_cached(self) -> bytes | None:
        """Return the next piece if the bytes are in the cache, else None."""
        data = self.find_cached()
        return None if data is None or self.at >= self.stop else self._slice(data)

    @property
    def left(self) -> int:
        """How many bytes follow."""
        return self.stop - self.at

    def runs(self, hashers: Executor) -> Generator[memoryview, None, None]:  # noqa: ARG002
        """Yield all bytes that follow: they are in memory already."""
        yield memoryview(self.find())[self.at : self.stop]

    def skip(self, size: int) -> None:
        """Go on after the next `size` bytes."""
        self.at += size

    def _slice(self, data: bytes) -> bytes:
        start, self.at = self.at, min(self.at + PIECE, self.stop)
        return data[start : self.at]


def block_pieces(repository: CachedRepository, cid: CID, start: int, stop: int) -> BytesPieces:
    """Return the bytes of one block, from `start` to `stop`, in pieces."""
    find, find_cached = partial(repository.block, cid), partial(repository.cached_block, cid)
    return BytesPieces(find, find_cached, start, stop)
