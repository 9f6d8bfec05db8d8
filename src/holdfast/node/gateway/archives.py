"""Archives (application/vnd.ipld.car): the blocks of the path, then those of what it leads to.

Always depth first, as a walk reads them::

    root ── docs ── report.pdf ─┬─ part          path: root, docs
                                └─ part          block: report.pdf    entity, all: its parts too

``entity`` is what is needed to read a file, or a range of it, or to list a directory; ``all`` is
everything below. Blocks of identity CIDs are in their links already, and are left out.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from holdfast.content.blocks import inline_block
from holdfast.content.car import Block, write_car
from holdfast.content.cid import CID
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.walks import DirectoryWalk, file_node, kind_of
from holdfast.errors import MalformedError
from holdfast.node.gateway.addresses import Found
from holdfast.node.gateway.negotiation import CAR_TYPE, Wanted
from holdfast.node.gateway.replies import IMMUTABLE, Refusal, begun, disposition, is_known
from holdfast.repository.blocks import linked_from
from holdfast.repository.store import Repository

SCOPES: Final = frozenset({"block", "entity", "all"})
_ENTITY_BYTES: Final = re.compile(r"(-?[0-9]{1,18}):(-?[0-9]{1,18}|\*)")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which blocks are asked for; `first` and `last` count from the end where they are negative."""

    scope: str
    first: int = 0
    last: int | None = None
    text: str = ""

    @classmethod
    def of(cls, query: QueryParams) -> "Selection":
        """What a query asks for; a `Refusal` where that is nonsense."""
        scope = query.get("dag-scope") or "all"
        if scope not in SCOPES:
            raise Refusal(HTTPStatus.BAD_REQUEST, "dag-scope is one of block, entity and all")
        text = query.get("entity-bytes", "")
        if not text:
            return cls(scope, text=scope)
        match = _ENTITY_BYTES.fullmatch(text)
        if match is None:
            raise Refusal(
                HTTPStatus.BAD_REQUEST,
                "entity-bytes is from:to, in whole numbers, where to may be *",
            )
        last = None if match[2] == "*" else int(match[2])
        return cls("entity", int(match[1]), last, text=f"entity.{text}")

    def span(self, size: int) -> tuple[int, int]:
        """The range in a file of `size` bytes, its end not included; empty where nothing is."""
        start = self.first if self.first >= 0 else max(0, size + self.first)
        last = size - 1 if self.last is None else self.last
        stop = min(size, (last if last >= 0 else size + last) + 1)
        if size and (start >= size or stop <= 0):
            raise Refusal(HTTPStatus.BAD_REQUEST, f"entity-bytes is outside of {size} bytes")
        return (start, stop) if start < stop else (0, 0)


def archive_reply(
    request: Request, repository: Repository, found: Found, wanted: Wanted
) -> Response:
    """The archive, streamed. A block that turns out to be missing on the way breaks it off."""
    selection = Selection.of(request.query_params)
    dups = "y" if wanted.duplicates else "n"
    etag = f'W/"{found.cid}.car.{selection.text}.{dups}{_path_mark(found)}"'
    headers = {
        **found.headers(),
        **disposition(request, f"{found.cid}.car", attach=True),
        "Content-Type": f"{CAR_TYPE}; version=1; order=dfs; dups={dups}",
        "Cache-Control": IMMUTABLE,
        "Accept-Ranges": "none",
        "ETag": etag,
    }
    if "format" not in request.query_params:
        query = {"format": "car", "car-version": "1", "car-order": "dfs", "car-dups": dups}
        query |= {
            name: value
            for name in ("dag-scope", "entity-bytes")
            if (value := request.query_params.get(name))
        }
        headers["Content-Location"] = f"{found.address.path}?{urlencode(query, safe=':*')}"
    blocks = _selected(repository, found.cid, selection, duplicates=wanted.duplicates)
    if is_known(request, etag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    if request.method == "HEAD":
        return StreamingResponse(iter(()), headers=headers)
    way = ((cid, repository.block(cid)) for cid in found.way)
    sent = _to_send(_in_turn(way, blocks), duplicates=wanted.duplicates)
    return StreamingResponse(begun(write_car([found.cid], sent)), headers=headers)


def _path_mark(found: Found) -> str:
    """What tells apart the archives of one thing that is reached by two ways."""
    if not found.way:
        return ""
    way = hashlib.sha256(b"".join(map(bytes, found.way)))
    return f".{way.hexdigest()[:16]}"


def _in_turn(*parts: Iterable[Block]) -> Iterator[Block]:
    for part in parts:
        yield from part


def _to_send(blocks: Iterable[Block], *, duplicates: bool) -> Iterator[Block]:
    sent: set[CID] = set()
    for cid, block in blocks:
        if inline_block(cid) is None and (duplicates or cid not in sent):
            if not duplicates:
                sent.add(cid)
            yield cid, block


def _selected(
    repository: Repository, cid: CID, selection: Selection, *, duplicates: bool
) -> Iterator[Block]:
    """The blocks of what stands at the end of the path; its own must be here."""
    block = repository.block(cid)
    if selection.scope == "all":
        return _everything(repository, cid, duplicates=duplicates)
    kind = kind_of(cid, block) if selection.scope == "entity" else None
    if kind in {Kind.FILE, Kind.RAW}:
        start, stop = selection.span(file_node(cid, block).size)
        return _file(repository, cid, start, stop, duplicates=duplicates)
    if kind in {Kind.DIRECTORY, Kind.SHARD}:
        return _directory(repository, cid)
    return iter([(cid, block)])


# A small DAG can have an endless number of paths through it. Where each block is sent but once,
# nothing is therefore entered twice; where it is sent each time, it is the client who gives up.


def _everything(repository: Repository, root: CID, *, duplicates: bool) -> Iterator[Block]:
    # The links of codecs other than dag-pb are not known here: their blocks count as leaves.
    entered: set[CID] = set()
    pending = [root]
    while pending:
        cid = pending.pop()
        if cid in entered:
            continue
        if not duplicates:
            entered.add(cid)
        block = repository.block(cid)
        yield cid, block
        pending += reversed(linked_from(cid, block))


def _file(
    repository: Repository, root: CID, start: int, stop: int, *, duplicates: bool
) -> Iterator[Block]:
    """The blocks that a walk through these bytes of the file needs, in its order."""
    entered: set[CID] = set()
    pending: list[tuple[CID, int, int | None]] = [(root, 0, None)]
    while pending:
        cid, position, promised = pending.pop()
        if cid in entered:
            continue
        block = repository.block(cid)
        node = file_node(cid, block)
        if promised is not None and promised != node.size:
            raise MalformedError(f"{cid} has {node.size} bytes, its parent says {promised}")
        # A part on the edge of the range is not sent whole, and is entered for what is left.
        if not duplicates and start <= position and position + node.size <= stop:
            entered.add(cid)
        yield cid, block
        position += len(node.data)
        children = []
        for child, size in node.children:
            if size and position < stop and position + size > start:
                children.append((child, position, size))
            position += size
        pending += reversed(children)


def _directory(repository: Repository, root: CID) -> Iterator[Block]:
    walk = DirectoryWalk(root)
    while (cid := walk.need) is not None:
        block = repository.block(cid)
        yield cid, block
        for _ in walk.feed(block):
            pass
