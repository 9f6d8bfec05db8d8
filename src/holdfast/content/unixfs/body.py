"""Proving the plain bytes of a file, as a gateway sends them, with the root block beside them.

The root block tells how the file is cut and what each piece must hash to. A piece under a raw CID
is hashed as it is. A piece under a dag-pb CID is most likely a leaf, so it is framed as one; where
that does not fit, the block itself is asked for, and may turn out to be an inner node: then the
same bytes are cut further. Works for every chunker and layout, at the cost of one SHA-256, and
copies nothing: the bytes are held as they came until their piece is whole.
"""

import hashlib
from collections import deque
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from holdfast.content.blocks import MAX_BLOCK, check_block, check_provable
from holdfast.content.cid import CID, DAG_PB, IDENTITY, RAW, SHA2_256
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.files import dag_pb_frame
from holdfast.content.unixfs.walks import (
    MAX_DEPTH,
    MAX_PENDING,
    file_node,
    malformed,
    not_unixfs,
)
from holdfast.errors import VerificationError


class _Piece(NamedTuple):
    """A run of the file that one CID stands for; `depth` guards against endless chains.

    Of the root, the block alone tells the size; what is given before that is a guess.
    """

    cid: CID
    start: int
    size: int
    depth: int


class BodyProof:
    """Checks a body piece by piece, as it arrives, and lets out what is proven.

    Feed it the body by `update`, and, whenever `need` names a CID, that block by `feed_block`, the
    root block being the first. `finish` says that the body is at its end.

    Args:
        root: What the file must prove to be.
        start: Where in the file to begin. The body must then begin at `position`, which is known
            when no block is needed, and lies at or before `start`.
        stop: Where in the file to end, or None for its end; the body must reach to `end`.
        length: How many bytes the whole file may have, if its sender says so. Then a file of one
            leaf is proven without its block.

    Example:
        >>> from holdfast.content.profiles import UNIXFS_V1_2025
        >>> from holdfast.content.unixfs.files import FileImporter
        >>> blocks = {}
        >>> importer = FileImporter(UNIXFS_V1_2025, blocks.__setitem__)
        >>> importer.update(bytes(3_000_000))
        >>> proof = BodyProof(importer.finish().cid)
        >>> sum(map(len, proof.feed_block(blocks[proof.need])))
        0
        >>> sum(map(len, proof.update(bytes(2_500_000))))  # two pieces of 1 MiB are whole
        2097152
    """

    incremental: ClassVar[bool] = True
    has_more: bool = False  # no more comes out than the body brings

    def __init__(
        self, root: CID, start: int = 0, stop: int | None = None, *, length: int | None = None
    ) -> None:
        self._root = root
        self._start = start
        self._stop = stop
        guess = MAX_BLOCK + 1 if length is None or start or stop is not None else length
        self._pieces = [_Piece(root, 0, guess, 0)]
        self._held: deque[memoryview] = deque()
        self._held_size = 0
        self._begun = False  # from then on the body brings all of a piece, wanted or not
        self._needs_block = guess > MAX_BLOCK
        self.size: int | None = None

    @property
    def need(self) -> CID | None:
        """The block that must be fed before more of the body can be proven, or None."""
        return self._pieces[-1].cid if self._needs_block and self._pieces else None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is wanting any more."""
        return not self._pieces

    @property
    def position(self) -> int:
        """Where in the file the first byte stands that is not proven yet."""
        return self._pieces[-1].start if self._pieces else self.end

    @property
    def end(self) -> int:
        """Where in the file the last piece ends that is still to come."""
        last = self._pieces[0] if self._pieces else None
        return last.start + last.size if last is not None else self.size or 0

    @property
    def need_at_end(self) -> CID | None:
        """The inner node that holds the end of the range; without it, all of it would be sent."""
        last = self._pieces[0] if self._pieces and not self._begun else None
        if self._stop is None or last is None or last.size <= MAX_BLOCK or len(self._pieces) == 1:
            return None
        return last.cid

    def feed_end(self, block: bytes) -> None:
        """Take the block that `need_at_end` names."""
        self._pieces[:1] = reversed(self._unfold(self._pieces[0], block))

    def drop_guess(self) -> None:
        """The body broke off: what came of it can only be proven by the root block."""
        if self.size is None and self._pieces:
            self._needs_block = True

    def held(self) -> list[memoryview]:
        """What came and is not proven yet."""
        return list(self._held)

    def feed_block(self, block: bytes) -> list[Any]:
        """Take the block that is needed; give what of the body is proven by it."""
        if self.need is None:
            raise ValueError("no block is needed now")
        self._pieces[-1:] = reversed(self._unfold(self._pieces[-1], block))
        self._needs_block = bool(self._pieces) and self._pieces[-1].size > MAX_BLOCK
        self._check_size()
        return list(self._advance())

    def _unfold(self, piece: _Piece, block: bytes) -> list[_Piece]:
        """The pieces that `block` says `piece` consists of, as far as they are wanted."""
        check_block(piece.cid, block)
        if piece.depth > MAX_DEPTH:
            raise malformed(piece.cid, f"the DAG is deeper than {MAX_DEPTH} levels")
        node = file_node(piece.cid, block)
        if piece.depth == 0 and self.size is None:
            self.size = node.size
        elif piece.size != node.size:
            raise malformed(piece.cid, "its size is not the one that its parent declares")
        parts = []
        position = piece.start
        if node.data:
            parts.append(_Piece(_inline(node.data), position, len(node.data), piece.depth + 1))
            position += len(node.data)
        for cid, size in node.children:
            if size:
                parts.append(_Piece(cid, position, size, piece.depth + 1))
                position += size
        if not self._begun:
            parts = [part for part in parts if self._wants(part)]
        if len(self._pieces) + len(parts) > MAX_PENDING:
            raise malformed(piece.cid, "the DAG is too wide at too many levels")
        return parts

    def update(self, data: bytes) -> list[Any]:
        """Take the next bytes of the body, which must not change; give what is proven."""
        if data:
            self._held.append(memoryview(data))
            self._held_size += len(data)
            self._begun = True
        return list(self._advance())

    def finish(self) -> None:
        """Nothing, if every byte of the file came and no other; else `VerificationError`."""
        if self._pieces:
            raise self._wrong("ends too early")
        self._check_end()

    def _wants(self, piece: _Piece) -> bool:
        return piece.start + piece.size > self._start and (
            self._stop is None or piece.start < self._stop
        )

    def _advance(self) -> Iterator[Any]:
        while self._pieces and not self._needs_block:
            piece = self._pieces[-1]
            if self._held_size < piece.size:
                return
            content = self._take(piece.size)
            if not self._proves(piece.cid, content):
                self._held.extendleft(reversed(content))
                self._held_size += piece.size
                self._needs_block = True
                return
            self._pieces.pop()
            if self._pieces:
                self._check_size()
                self._needs_block = self._pieces[-1].size > MAX_BLOCK  # no leaf is as large
            yield from self._cut(piece, content)
        if not self._pieces:
            self._check_end()

    def _cut(self, piece: _Piece, content: list[memoryview]) -> Iterator[memoryview]:
        """What of `content` lies within the range."""
        position = piece.start
        for view in content:
            stop = len(view) if self._stop is None else self._stop - position
            part = view[max(0, self._start - position) : max(0, stop)]
            position += len(view)
            if part:
                yield part

    def _take(self, size: int) -> list[memoryview]:
        taken = []
        self._held_size -= size
        while size:
            view = self._held.popleft()
            if len(view) > size:
                self._held.appendleft(view[size:])
                view = view[:size]
            taken.append(view)
            size -= len(view)
        return taken

    def _check_size(self) -> None:
        """A piece that cannot be a block can only be an inner node, and those are dag-pb."""
        if self._pieces:
            piece = self._pieces[-1]
            if piece.size > MAX_BLOCK and piece.cid.codec != DAG_PB:
                raise malformed(piece.cid, f"a block of more than {MAX_BLOCK} bytes")

    def _check_end(self) -> None:
        if self._held_size:
            raise self._wrong("is too long")

    def _proves(self, cid: CID, content: list[memoryview]) -> bool:
        """Whether `content` is what `cid` names; False where only the block itself can tell."""
        check_provable(cid)
        if cid.codec == DAG_PB:
            if cid.hash_code == IDENTITY:
                return False
            return any(_leaf_digest(kind, content) == cid.digest for kind in (Kind.FILE, Kind.RAW))
        if cid.codec != RAW:
            raise not_unixfs(cid)
        if cid.hash_code == IDENTITY:
            right = b"".join(content) == cid.digest
        else:
            right = _digest(content) == cid.digest
        if not right:
            raise VerificationError(
                f"the bytes that came for {self._root} are not what this CID names",
                cid=str(self._root),
            )
        return True

    def _wrong(self, how: str) -> VerificationError:
        return VerificationError(f"the body for {self._root} {how}", cid=str(self._root))


def _inline(content: bytes) -> CID:
    """Bytes that a node holds itself, as a piece like any other."""
    return CID(1, RAW, SHA2_256, hashlib.sha256(content).digest())


def _digest(views: list[memoryview], head: bytes = b"", tail: bytes = b"") -> bytes:
    whole = hashlib.sha256(head)
    for view in views:
        whole.update(view)
    whole.update(tail)
    return whole.digest()


def _leaf_digest(kind: Kind, content: list[memoryview]) -> bytes:
    """The digest of the usual dag-pb leaf around `content`."""
    head, tail = dag_pb_frame(kind, sum(map(len, content)))
    return _digest(content, head, tail)
