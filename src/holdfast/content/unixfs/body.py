"""Proving the plain bytes of a file, as a gateway sends them, with the root block beside them.

The root block tells how the file is cut and what each piece must hash to. A piece under a raw CID
is hashed as it is. A piece under a dag-pb CID is most likely a leaf, so it is framed as one; where
that does not fit, the block itself is asked for, and may turn out to be an inner node: then the
same bytes are cut further. Works for every chunker and layout, at the cost of one SHA-256.
"""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.content.blocks import MAX_BLOCK, check_block, unsupported_hash
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
    """A run of the body that one CID stands for; `depth` guards against endless chains."""

    cid: CID
    size: int | None
    depth: int


class BodyProof:
    """Checks a body piece by piece, as it arrives, and lets out what is proven.

    Feed it the body by `update`, and, whenever `need` names a CID, that block by `feed_block`, the
    root block being the first. `finish` says that the body is at its end.

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

    def __init__(self, root: CID) -> None:
        self._root = root
        self._pieces = [_Piece(root, None, 0)]
        self._buffer = bytearray()
        self._needs_block = True
        self.size: int | None = None

    @property
    def need(self) -> CID | None:
        """The block that must be fed before more of the body can be proven, or None."""
        return self._pieces[-1].cid if self._needs_block and self._pieces else None

    def feed_block(self, block: bytes) -> list[bytes]:
        """Take the block that is needed; give what of the body is proven by it."""
        if self.need is None:
            raise ValueError("no block is needed now")
        piece = self._pieces[-1]
        check_block(piece.cid, block)
        if piece.depth > MAX_DEPTH:
            raise malformed(piece.cid, f"the DAG is deeper than {MAX_DEPTH} levels")
        node = file_node(piece.cid, block)
        if piece.size is None:
            self.size = node.size
        elif piece.size != node.size:
            raise malformed(piece.cid, "its size is not the one that its parent declares")
        parts = [_Piece(cid, size, piece.depth + 1) for cid, size in node.children if size]
        if node.data:
            parts.insert(0, _Piece(_inline(node.data), len(node.data), piece.depth))
        if len(self._pieces) + len(parts) > MAX_PENDING:
            raise malformed(piece.cid, "the DAG is too wide at too many levels")
        self._pieces[-1:] = reversed(parts)
        self._needs_block = False
        return list(self._advance())

    def update(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the body; give what is proven."""
        self._buffer += data
        return list(self._advance())

    def finish(self) -> None:
        """Nothing, if every byte of the file came and no other; else `VerificationError`."""
        if self._pieces:
            raise self._wrong(f"the body for {self._root} ends too early")
        if self._buffer:
            raise self._wrong(f"the body for {self._root} is too long")

    def _advance(self) -> Iterator[bytes]:
        while self._pieces and not self._needs_block:
            piece = self._pieces[-1]
            size = piece.size or 0
            if size > MAX_BLOCK:
                if piece.cid.codec != DAG_PB:
                    raise malformed(piece.cid, f"a block of more than {MAX_BLOCK} bytes")
                self._needs_block = True  # no leaf is as large
                return
            if len(self._buffer) < size:
                return
            content = bytes(self._buffer[:size])
            if not self._proves(piece.cid, content):
                self._needs_block = True
                return
            del self._buffer[:size]
            self._pieces.pop()
            yield content
        if not self._pieces and self._buffer:
            raise self._wrong(f"the body for {self._root} is too long")

    def _proves(self, cid: CID, content: bytes) -> bool:
        """Whether `content` is what `cid` names; False where only the block itself can tell."""
        if not cid.is_provable:
            raise unsupported_hash(cid)
        if cid.codec == DAG_PB:
            return any(_leaf_digest(kind, content) == cid.digest for kind in (Kind.FILE, Kind.RAW))
        if cid.codec != RAW:
            raise not_unixfs(cid)
        if cid.hash_code == IDENTITY:
            right = content == cid.digest
        else:
            right = hashlib.sha256(content).digest() == cid.digest
        if not right:
            raise self._wrong(f"the bytes that came for {self._root} are not what this CID names")
        return True

    def _wrong(self, words: str) -> VerificationError:
        return VerificationError(words, cid=str(self._root))


def _inline(content: bytes) -> CID:
    """Bytes that a node holds itself, as a piece like any other."""
    return CID(1, RAW, SHA2_256, hashlib.sha256(content).digest())


def _leaf_digest(kind: Kind, content: bytes) -> bytes:
    """The digest of the usual dag-pb leaf around `content`."""
    head, tail = dag_pb_frame(kind, len(content))
    block_hash = hashlib.sha256(head)
    block_hash.update(content)
    block_hash.update(tail)
    return block_hash.digest()
