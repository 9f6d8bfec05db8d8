"""Verifying the plain bytes of a file, as a gateway sends them, with a few blocks beside them.

The root block tells how the file is cut and what each piece must hash to. A piece under a raw CID
is hashed as it is. A piece under a dag-pb CID is most likely a leaf, so it is hashed in the frame
of one. Where the hash differs, the block of the piece is asked for. It may be an inner node: then
the same bytes are cut further. It may have another size than its parent declares: then the DAG is
malformed. Else the body is wrong.

This works for every chunker and layout, at the cost of one hash, and copies nothing: the bytes are
held as they came until their piece is whole, and come out in runs as long as possible.
"""

from itertools import islice
from typing import Any, ClassVar, Final, NamedTuple

from holdfast.content.blocks import MAX_BLOCK, check_block, unsupported_hash
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.hashes import FUNCTIONS, IDENTITY, SHA2_256
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

LOOK_AHEAD: Final = 200  # pieces that are looked at to tell which blocks will be needed
MAX_AHEAD: Final = 1 << 18  # bytes of an inner node: larger ones are fetched one at a time


class _Piece(NamedTuple):
    """A run of the file that one CID stands for.

    Of the root, the block alone tells the size; what is given before that is a guess.

    Attributes:
        cid: What its bytes must prove to be.
        start: Where in the file it begins.
        size: How many bytes it has, as its parent declares.
        depth: How many nodes are above it; guards against endless chains.
        is_content: Whether its bytes are from a block that was fetched, so that no block can
            explain a body that differs.
    """

    cid: CID
    start: int
    size: int
    depth: int
    is_content: bool = False


class BodyProof:
    """Verifies a body piece by piece as it arrives, and returns the bytes that are verified.

    Feed it the body by `update`, and, whenever `need` names a CID, that block by `feed_block`, the
    root block being the first. At the end of the body, feed it blocks while `ends_too_early`, then
    call `finish`.

    Args:
        root: The CID of the file.
        start: Where in the file to begin. The body must then begin at `position`, which is known
            when no block is needed, and lies at or before `start`.
        stop: Where in the file to end, or None for its end; the body must reach to `end`.
        length: How many bytes the whole file may have, if its sender says so. Then a file of one
            leaf is verified without its block.

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
        self._held: list[memoryview] = []
        self._held_size = 0
        self._begun = False  # from then on the body brings all of a piece, wanted or not
        self._needs_block = guess > MAX_BLOCK
        self._inner_depth = -1  # of the last inner node: its siblings are probably inner nodes too
        self._inner_size = 0
        self.size: int | None = None

    @property
    def need(self) -> CID | None:
        """The block that must be fed before more of the body can be verified, or None."""
        return self._pieces[-1].cid if self._needs_block and self._pieces else None

    @property
    def is_complete(self) -> bool:
        """Whether all that is wanted of the file has come."""
        return not self._pieces

    @property
    def position(self) -> int:
        """Where in the file the first byte is that is not verified yet."""
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

    def needed_next(self, most: int) -> list[CID]:
        """Return up to `most` blocks that will probably be needed soon after `need`.

        These are pieces that are too large for a leaf, and those at the level at which the last
        inner node was found. Where inner nodes are large, none: they might not fit into memory.
        """
        ahead: list[CID] = []
        if self._inner_size > MAX_AHEAD:
            return ahead
        for piece in islice(reversed(self._pieces), 1, LOOK_AHEAD):
            if len(ahead) >= most:
                break
            likely = piece.size > MAX_BLOCK or piece.depth == self._inner_depth
            if likely and piece.cid.codec == DAG_PB and piece.cid.hash_code in FUNCTIONS:
                ahead.append(piece.cid)
        return ahead

    def feed_end(self, block: bytes) -> None:
        """Take the block that `need_at_end` names."""
        self._pieces[:1] = reversed(self._unfold(self._pieces[0], block))

    def drop_guess(self) -> None:
        """The body broke off: what came of it can only be verified by the root block."""
        if self.size is None and self._pieces:
            self._needs_block = True

    def held(self) -> list[memoryview]:
        """Return what came and is not verified yet."""
        return list(self._held)

    def feed_block(self, block: bytes) -> list[Any]:
        """Take the block that is needed; return the bytes of the body that it verifies."""
        if self.need is None:
            raise ValueError("no block is needed now")
        self._pieces[-1:] = reversed(self._unfold(self._pieces[-1], block))
        self._needs_block = bool(self._pieces) and self._pieces[-1].size > MAX_BLOCK
        return self._advance()

    def _unfold(self, piece: _Piece, block: bytes) -> list[_Piece]:
        """Return the pieces that `block` says `piece` consists of, as far as they are wanted."""
        check_block(piece.cid, block)
        if piece.depth > MAX_DEPTH:
            raise malformed(piece.cid, f"the DAG is deeper than {MAX_DEPTH} levels")
        is_root = piece.depth == 0 and self.size is None
        node = file_node(piece.cid, block, None if is_root else piece.size)
        if is_root:
            self.size = node.size
        if node.children:
            self._inner_depth, self._inner_size = piece.depth, len(block)
        parts = []
        position = piece.start
        depth = piece.depth + 1
        if node.data:
            parts.append(
                _Piece(_content_cid(node.data), position, len(node.data), depth, is_content=True)
            )
            position += len(node.data)
        for cid, size in node.children:
            if size:
                parts.append(_Piece(cid, position, size, depth))
                position += size
        if not self._begun:
            parts = [part for part in parts if self._wants(part)]
        if len(self._pieces) + len(parts) > MAX_PENDING:
            raise malformed(piece.cid, "the DAG is too wide at too many levels")
        return parts

    def update(self, data: bytes) -> list[Any]:
        """Take the next bytes of the body, which must not change; return what is verified."""
        if data:
            self._held.append(memoryview(data))
            self._held_size += len(data)
            self._begun = True
        return self._advance()

    @property
    def doubts_bytes(self) -> bool:
        """Whether `need` is a leaf whose bytes came, but do not match its CID."""
        return self.need is not None and self._begun and self._pieces[-1].cid.codec == RAW

    def ends_too_early(self) -> bool:
        """Return whether the body has ended before the file, and a block may explain that.

        Then `need` names the block: it tells a malformed DAG from a body that was cut off.
        """
        if self._pieces and not self._pieces[-1].is_content:
            self._needs_block = True
        return self.need is not None

    def finish(self) -> None:
        """Raise `VerificationError` unless every byte of the file came, and no other."""
        if self._pieces:
            if self._held_size >= self._pieces[-1].size:
                raise self.wrong_bytes()
            raise self._wrong("ends too early")
        self._check_end()

    def wrong_bytes(self) -> VerificationError:
        """Return the error for bytes that are not what the CID names."""
        return VerificationError(
            f"the bytes that came for {self._root} are not what this CID names",
            cid=str(self._root),
        )

    def _wants(self, piece: _Piece) -> bool:
        return piece.start + piece.size > self._start and (
            self._stop is None or piece.start < self._stop
        )

    def _advance(self) -> list[memoryview]:
        """Verify piece after piece, as far as bytes are here and no block is needed."""
        pieces, held = self._pieces, self._held
        first = self.position
        index = offset = done = 0  # where the next piece begins in what is held
        while pieces and not self._needs_block:
            piece = pieces[-1]
            size = piece.size
            if self._held_size - done < size:
                break
            content: list[memoryview] = []
            end_index, end_offset, left = index, offset, size
            while left:
                view = held[end_index][end_offset : end_offset + left]
                content.append(view)
                left -= len(view)
                end_offset += len(view)
                if end_offset == len(held[end_index]):
                    end_index, end_offset = end_index + 1, 0
            if not self._proves(piece, content):
                self._needs_block = True
                break
            pieces.pop()
            index, offset, done = end_index, end_offset, done + size
            if pieces and pieces[-1].size > MAX_BLOCK:  # no leaf is as large
                self._needs_block = True
        verified = self._take(done)
        if not pieces:
            self._check_end()
        return self._cut(first, verified)

    def _cut(self, position: int, content: list[memoryview]) -> list[memoryview]:
        """Return what of `content`, which begins at `position` of the file, is in the range."""
        parts = []
        for view in content:
            stop = len(view) if self._stop is None else self._stop - position
            part = view[max(0, self._start - position) : max(0, stop)]
            position += len(view)
            if part:
                parts.append(part)
        return parts

    def _take(self, size: int) -> list[memoryview]:
        """Remove the first `size` bytes from what is held, and return them."""
        self._held_size -= size
        count = 0
        while size and size >= len(self._held[count]):
            size -= len(self._held[count])
            count += 1
        taken = self._held[:count]
        del self._held[:count]
        if size:
            taken.append(self._held[0][:size])
            self._held[0] = self._held[0][size:]
        return taken

    def _check_end(self) -> None:
        if self._held_size:
            raise self._wrong("is too long")

    def _proves(self, piece: _Piece, content: list[memoryview]) -> bool:
        """Return whether `content` is what the CID of `piece` names.

        False says that the block itself must tell. Raise `VerificationError` where it cannot.
        """
        cid = piece.cid
        if cid.codec == RAW:
            right = _digest(cid, content) == cid.digest
            if not right and piece.is_content:
                raise self.wrong_bytes()
            return right
        if cid.codec != DAG_PB:
            raise not_unixfs(cid)
        if cid.hash_code == IDENTITY:
            return False
        return any(
            _digest(cid, content, *dag_pb_frame(kind, piece.size)) == cid.digest
            for kind in (Kind.FILE, Kind.RAW)
        )

    def _wrong(self, how: str) -> VerificationError:
        return VerificationError(f"the body for {self._root} {how}", cid=str(self._root))


def _content_cid(content: bytes) -> CID:
    """Return a CID for bytes that a node holds itself, to verify them as a piece like any other."""
    return CID(1, RAW, SHA2_256, FUNCTIONS[SHA2_256].new(content).digest())


def _digest(cid: CID, views: list[memoryview], head: bytes = b"", tail: bytes = b"") -> bytes:
    """Return the digest of `views` between `head` and `tail`, by the hash function of `cid`."""
    function = FUNCTIONS.get(cid.hash_code)
    if function is None:
        if cid.hash_code != IDENTITY:
            raise unsupported_hash(cid)
        return b"".join(views)
    if len(views) == 1 and not head:
        return function.new(views[0]).digest()
    whole = function.new(head)
    for view in views:
        whole.update(view)
    whole.update(tail)
    return whole.digest()
