"""Archives (application/vnd.ipld.car): the blocks of the path, then those below its end.

The order is always depth first, as a walk reads the blocks::

    root ── docs ── report.pdf ─┬─ part          path: root, docs
                                └─ part          block: report.pdf    entity, all: its parts too

``entity`` is what is needed to read a file, or a range of it, or to list a directory; ``all`` is
everything below. Blocks of identity CIDs are in their links already, and are left out.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from holdfast.content.blocks import inline_block
from holdfast.content.car import car_head, section_head
from holdfast.content.cid import CID
from holdfast.content.codecs import kind_of
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.walks import DirectoryWalk, FileWalk
from holdfast.node.gateway import content_replies
from holdfast.node.gateway.addresses import ResolvedPath
from holdfast.node.gateway.cached_repository import (
    LINK_WEIGHT,
    BytesPieces,
    CachedRepository,
    block_pieces,
)
from holdfast.node.gateway.content_replies import JoinedPieces, RequestedFormat
from holdfast.node.http_server.refusals import Refusal
from holdfast.protocol.gateway import CAR_TYPE

SCOPES: Final = frozenset({"block", "entity", "all"})
_ENTITY_BYTES: Final = re.compile(r"(-?[0-9]{1,18}):(-?[0-9]{1,18}|\*)")


@dataclass(frozen=True, slots=True)
class Selection:
    """The blocks that a request asks for. Negative `first` and `last` count from the end."""

    scope: str
    first: int = 0
    last: int | None = None
    text: str = ""

    @classmethod
    def of(cls, query: QueryParams) -> "Selection":
        """Return what a query asks for; raise `Refusal` if it is not valid."""
        scope = query.get("dag-scope") or "all"
        if scope not in SCOPES:
            raise Refusal(400, "dag-scope is one of block, entity and all")
        text = query.get("entity-bytes", "")
        if not text:
            return cls(scope, text=scope)
        match = _ENTITY_BYTES.fullmatch(text)
        if match is None:
            raise Refusal(400, "entity-bytes is from:to, in whole numbers, where to may be *")
        last = None if match[2] == "*" else int(match[2])
        return cls("entity", int(match[1]), last, text=f"entity.{text}")

    def span(self, size: int) -> tuple[int, int]:
        """Return the start and the stop of the range in a file of `size` bytes."""
        start = self.first if self.first >= 0 else max(0, size + self.first)
        last = size - 1 if self.last is None else self.last
        stop = min(size, (last if last >= 0 else size + last) + 1)
        if size and (start >= size or stop <= 0):
            raise Refusal(400, f"entity-bytes is outside of {size} bytes")
        return (start, stop) if start < stop else (0, 0)


def archive_reply(
    request: Request, repository: CachedRepository, path: ResolvedPath, requested: RequestedFormat
) -> Response:
    """Return the archive as a stream. It breaks off where a block is missing."""
    selection = Selection.of(request.query_params)
    dups = "y" if requested.duplicates else "n"
    etag = f'W/"{path.cid}.car.{selection.text}.{dups}{_path_mark(path)}"'
    query = {"format": "car", "car-version": "1", "car-order": "dfs", "car-dups": dups}
    for name in ("dag-scope", "entity-bytes"):
        if value := request.query_params.get(name):
            query[name] = value
    headers = content_replies.content_headers(
        request,
        path,
        f"{path.cid}.car",
        f"{CAR_TYPE}; version=1; order=dfs; dups={dups}",
        disposition="attachment",
        query=urlencode(query, safe=":*"),
    )
    walk = ArchiveWalk(repository, duplicates=requested.duplicates)
    cids = walk.selected(path.cid, selection)
    pieces = ArchivePieces(repository, path.cid, walk.to_send(chain(path.path_blocks, cids)), walk)
    return content_replies.stream_reply(request, pieces, etag, headers)


def _path_mark(path: ResolvedPath) -> str:
    """Return a part of the ETag that differs for each path to the same CID."""
    if not path.path_blocks:
        return ""
    way = hashlib.sha256(b"".join(map(bytes, path.path_blocks)))
    return f".{way.hexdigest()[:16]}"


class ArchiveWalk:
    """The CIDs of the blocks of an archive, in its order.

    A small DAG can have an enormous number of paths through it. Where each block is sent once, no
    node is therefore entered twice. With `duplicates`, the archive is as long as the DAG makes it,
    and the client has to stop.
    """

    def __init__(self, repository: CachedRepository, *, duplicates: bool) -> None:
        self._repository = repository
        self._duplicates = duplicates
        self._sent: set[CID] = set()
        self._entered: set[CID] = set()
        self._pending: list[tuple[CID, int]] = []  # a node, and which of its links is next
        self._file_walk: FileWalk | None = None

    @property
    def memory_used(self) -> int:
        """How many bytes of memory the walk holds, about."""
        pending = len(self._pending) if self._file_walk is None else self._file_walk.pending
        return (len(self._sent) + len(self._entered) + pending) * LINK_WEIGHT

    def to_send(self, cids: Iterable[CID]) -> Iterator[CID]:
        """Yield `cids` without identity CIDs, and without those that were sent already."""
        for cid in cids:
            if inline_block(cid) is None and (self._duplicates or cid not in self._sent):
                if not self._duplicates:
                    self._sent.add(cid)
                yield cid

    def selected(self, cid: CID, selection: Selection) -> Iterator[CID]:
        """Return the blocks of `cid` that are asked for. Its own block must be in the store."""
        block = self._repository.block(cid)
        if selection.scope == "all":
            return self._everything(cid)
        kind = kind_of(cid, block) if selection.scope == "entity" else None
        if kind in {Kind.FILE, Kind.RAW}:
            start, stop = selection.span(self._repository.file_node(cid).size)
            return self._file(cid, start, stop)
        return self._directory(cid) if kind in {Kind.DIRECTORY, Kind.SHARD} else iter([cid])

    def _everything(self, root: CID) -> Iterator[CID]:
        """Yield all blocks below `root`. Between two blocks only one link of each level is held.

        The links of codecs other than dag-pb are not known: their blocks count as leaves.
        """
        self._pending = [(root, 0)]
        yield root
        while self._pending:
            cid, index = self._pending.pop()
            links = self._repository.links(cid)
            if index == len(links):
                continue
            self._pending.append((cid, index + 1))
            child = links[index]
            if child not in self._entered:
                if not self._duplicates:
                    self._entered.add(child)
                yield child
                self._pending.append((child, 0))

    def _file(self, root: CID, start: int, stop: int) -> Iterator[CID]:
        """Yield the blocks that a walk over these bytes of the file needs, in its order."""
        self._file_walk = walk = FileWalk(root, start, stop)
        while (segment := walk.segment) is not None:
            if segment.cid in self._entered:
                walk.skip()
                continue
            node = self._repository.file_node(segment.cid)
            # A node on the edge of the range is entered again, for its other bytes.
            is_whole = start <= segment.start and segment.start + node.size <= stop
            if is_whole and not self._duplicates:
                self._entered.add(segment.cid)
            walk.feed_node(segment, node)
            del node
            yield segment.cid

    def _directory(self, root: CID) -> Iterator[CID]:
        walk = DirectoryWalk(root)
        while (cid := walk.need) is not None:
            walk.feed(self._repository.block(cid), verified=True)
            yield cid


class ArchivePieces(JoinedPieces):
    """An archive of the blocks of `cids`, in pieces. Between two pieces no block is held."""

    def __init__(
        self, repository: CachedRepository, root: CID, cids: Iterator[CID], walk: ArchiveWalk
    ) -> None:
        super().__init__(self._write(root, cids))
        self._repository = repository
        self._walk = walk
        self._block: BytesPieces | None = None

    @property
    def memory_used(self) -> int:
        """How many bytes of memory the walk holds, about."""
        return self._walk.memory_used

    def next_cached(self) -> bytes | None:
        """Return the next piece if its block is in the cache, else None."""
        return None if self._block is None else self._block.next_cached()

    def _write(self, root: CID, cids: Iterator[CID]) -> Iterator[bytes]:
        yield car_head([root])
        for cid in cids:
            size = len(self._repository.block(cid))
            self._block = block_pieces(self._repository, cid, 0, size)
            yield section_head(cid, size)
            yield from self._block
