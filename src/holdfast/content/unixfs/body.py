"""Verify the plain bytes of a file, as a gateway sends them, with the help of a few blocks.

The root block contains the size and the CID of each piece of the file. A piece under a raw CID is
hashed as it is. A piece under a dag-pb CID is most likely a leaf, so it is hashed together with the
bytes that a leaf has around its content. If the hash differs, the block of the piece is needed:

* It is an inner node: then the same bytes are cut into smaller pieces.
* It has another size than its parent declares: then the DAG is malformed.
* It is a leaf with other bytes: then the body is wrong.

This works for every chunker and layout. Each byte is hashed once, and none is copied: the received
chunks are held until their piece is complete.
"""

from collections.abc import Iterator
from itertools import dropwhile, islice, takewhile
from typing import Any, Final, NamedTuple

from holdfast.content.blocks import MAX_BLOCK, check_block
from holdfast.content.budgets import BATCH_SIZE
from holdfast.content.cid import CID
from holdfast.content.codecs import is_node, is_one_block
from holdfast.content.hashes import FUNCTIONS
from holdfast.content.proof import Proof, wrong_bytes
from holdfast.content.unixfs.file_nodes import Segment, file_node, in_range, is_leaf
from holdfast.content.unixfs.walks import check_pending
from holdfast.errors import VerificationError


class HeldBytes:
    """A queue of bytes: `peek` at the next ones, then accept them or not.

    Example:
        >>> held = HeldBytes()
        >>> held.append(b"abc")
        >>> held.append(b"def")
        >>> [bytes(view) for view in held.peek(4)]
        [b'abc', b'd']
        >>> held.accept()
        >>> [bytes(view) for view in held.take_accepted()]
        [b'abc', b'd']
        >>> held.size
        2
    """

    def __init__(self) -> None:
        self._views: list[memoryview] = []
        self._at = (0, 0)  # the view, and the position in it, after the accepted bytes
        self._peeked = (0, 0, 0)  # the same after the last `peek`, and how many bytes it returned
        self.size: int = 0  # the bytes that are not accepted

    def append(self, data: bytes) -> None:
        """Add bytes, which must not change while they are held."""
        self._views.append(memoryview(data))
        self.size += len(data)

    def peek(self, size: int) -> list[memoryview] | None:
        """Return the next `size` bytes, or None if there are not as many."""
        if self.size < size:
            return None
        content: list[memoryview] = []
        index, offset = self._at
        left = size
        while left:
            whole = self._views[index]
            view = whole[offset : offset + left]
            content.append(view)
            left -= len(view)
            offset += len(view)
            if offset == len(whole):
                index, offset = index + 1, 0
        self._peeked = (index, offset, size)
        return content

    def accept(self) -> None:
        """Accept the bytes that `peek` has returned."""
        index, offset, size = self._peeked
        self._at = (index, offset)
        self.size -= size

    def take_accepted(self) -> list[memoryview]:
        """Remove the accepted bytes, and return them in runs as long as possible."""
        index, offset = self._at
        taken = self._views[:index]
        if offset:
            taken.append(self._views[index][:offset])
            self._views[index] = self._views[index][offset:]
        del self._views[:index]
        self._at = (0, 0)
        return taken

    def views(self) -> list[memoryview]:
        """Return all bytes that are held."""
        return list(self._views)


LOOK_AHEAD: Final = 200  # pieces that are examined to predict which blocks will be needed
MIN_AHEAD: Final = 1 << 16  # bytes of a piece that is worth verifying ahead, on another thread
MAX_AHEAD: Final = 1 << 18  # bytes of an inner node: larger ones are fetched one at a time


class BodyProof(Proof):
    """Verifies a body piece by piece as it arrives, and returns the bytes that are verified.

    Pass the body to `update`. Whenever `need` is a CID, pass that block to `feed_block`; the first
    is the root block. At the end of the body, feed blocks while `ends_too_early()`, then call
    `finish`.

    Args:
        root: The CID of the file.
        start: Where in the file to begin. The body must then begin at `position`, which is known
            when no block is needed, and lies at or before `start`.
        stop: Where in the file to end, or None for its end; the body must reach to `end`.
        length: The size of the whole file as the sender declares it, if it does. With it, a file
            of one leaf is verified without its block.

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

    def __init__(
        self, root: CID, start: int = 0, stop: int | None = None, *, length: int | None = None
    ) -> None:
        self._root = root
        self._start = start
        self._stop = stop
        guess = MAX_BLOCK + 1 if length is None or start or stop is not None else length
        # Pieces still to come, the next one last. The size of the root is a guess at first.
        self._pieces = [Segment(root, 0, guess)]
        self._queue = HeldBytes()
        self._begun = False  # once True, the body has each piece as a whole, wanted or not
        self._needs_block = guess > MAX_BLOCK
        self._inner_depth = -1  # of the last inner node: its siblings are probably inner nodes too
        self._inner_size = 0
        self._size: int | None = None

    @property
    def need(self) -> CID | None:
        """The block that must be fed before more of the body can be verified, or None."""
        return self._pieces[-1].cid if self._needs_block and self._pieces else None

    @property
    def doubt(self) -> VerificationError | None:
        """The error if `need` is a leaf whose bytes were received and do not match its CID."""
        is_leaf = self.need is not None and self._begun and is_one_block(self._pieces[-1].cid)
        return wrong_bytes(self._root) if is_leaf else None

    @property
    def size(self) -> int | None:
        """The size of the whole file, after its root is verified."""
        return self._size

    @property
    def is_complete(self) -> bool:
        """Whether all wanted bytes are received and verified."""
        return not self._pieces

    @property
    def position(self) -> int:
        """The position in the file of the first byte that is not verified yet."""
        return self._pieces[-1].start if self._pieces else self.end

    @property
    def received(self) -> int:
        """The position in the file of the next byte of the body."""
        return self.position + self._queue.size

    @property
    def end(self) -> int:
        """The position in the file at which the last missing piece ends."""
        if not self._pieces:
            return self._size or 0
        last = self._pieces[0]
        return last.start + (last.size or 0)

    @property
    def need_at_end(self) -> CID | None:
        """The inner node at the end of the range. Without it, the whole node must be requested."""
        if self._stop is None or self._begun or len(self._pieces) < 2:
            return None
        last = self._pieces[0]
        return last.cid if _is_inner(last) else None

    def needed_next(self, most: int) -> list[CID]:
        """Return up to `most` blocks that will probably be needed soon after `need`.

        These are pieces that are too large for a leaf, and those at the level at which the last
        inner node was found. Return none if inner nodes are large: they might not fit into memory.
        """
        ahead: list[CID] = []
        if self._inner_size > MAX_AHEAD:
            return ahead
        for piece in islice(reversed(self._pieces), 1, LOOK_AHEAD):
            if len(ahead) >= most:
                break
            likely = _is_inner(piece) or piece.depth == self._inner_depth
            if likely and is_node(piece.cid) and piece.cid.hash_code in FUNCTIONS:
                ahead.append(piece.cid)
        return ahead

    def feed_end(self, block: bytes) -> None:
        """Feed the block that `need_at_end` names."""
        self._pieces[:1] = reversed(self._unfold(self._pieces[0], block))

    def drop_guess(self) -> None:
        """Expect no more bytes: those received so far can only be verified with the root block."""
        if self._size is None and self._pieces:
            self._needs_block = True

    def unverified(self) -> list[memoryview]:
        """Return the received bytes that are not verified yet."""
        return self._queue.views()

    def feed_block(self, block: bytes) -> list[Any]:
        """Feed the block that is needed, and return the bytes of the body that it verifies."""
        if self.need is None:
            raise ValueError("no block is needed now")
        self._pieces[-1:] = reversed(self._unfold(self._pieces[-1], block))
        self._needs_block = bool(self._pieces) and _is_inner(self._pieces[-1])
        return self._advance()

    def _unfold(self, piece: Segment, block: bytes) -> list[Segment]:
        """Return the pieces that `block` says `piece` consists of, as far as they are wanted."""
        check_block(piece.cid, block)
        if self._size is None:
            piece = piece._replace(size=None)
        node = file_node(piece.cid, block, piece.size)
        start, stop = (0, None) if self._begun else (self._start, self._stop)
        parts = [*node.segments(piece, start, stop)]
        if self._size is None:
            self._size = node.size
        if node.children:
            self._inner_depth, self._inner_size = piece.depth, len(block)
        if in_range(node.data, piece.start, start, stop):
            parts.insert(0, _content_piece(node.data, piece))
        check_pending(piece.cid, len(self._pieces) + len(parts))
        return parts

    def update(self, data: bytes) -> list[Any]:
        """Feed the next bytes of the body, which must not change; return what is verified."""
        if data:
            self._queue.append(data)
            self._begun = True
        return self._advance()

    def leaves_from(self, position: int) -> Iterator[Segment]:
        """Yield some of the next leaves at and after `position`, to verify them ahead.

        The proof may be in use on another thread.
        """
        pieces = self._pieces[: -LOOK_AHEAD - 1 : -1]
        coming = dropwhile(lambda piece: piece.start < position, pieces)
        return takewhile(self._is_probably_leaf, coming)

    def _is_probably_leaf(self, piece: Segment) -> bool:
        cid = piece.cid
        is_inner = not is_one_block(cid) and (not is_node(cid) or piece.depth == self._inner_depth)
        is_large = MIN_AHEAD <= (piece.size or 0) <= MAX_BLOCK
        return is_large and not is_inner and not piece.is_content and cid.hash_code in FUNCTIONS

    def update_leaf(self, piece: Segment, content: list[Any]) -> list[Any]:
        """Feed `content`, for which `is_leaf` returned True; return what is verified."""
        if self._needs_block or self._queue.size or not self._pieces or self._pieces[-1] != piece:
            return self.update_all(content)
        self._begun = True
        self._end_piece()
        return self._requested(content, piece.start)

    def ends_too_early(self) -> bool:
        """Return whether the body has ended before the file, and a block may explain that.

        Then `need` names that block. It shows whether the DAG is malformed or the body was cut off.
        """
        if self._pieces and not self._pieces[-1].is_content:
            self._needs_block = True
        return self.need is not None

    def finish(self) -> None:
        """Raise `VerificationError` unless the body was exactly the bytes of the file."""
        if self._pieces:
            if self._queue.size >= (self._pieces[-1].size or 0):
                raise wrong_bytes(self._root)
            raise self._wrong("ends too early")
        self._check_end()

    def _advance(self) -> list[memoryview]:
        """Verify piece after piece, while there are enough bytes and no block is needed."""
        pieces, queue = self._pieces, self._queue
        position = self.position
        while pieces and not self._needs_block:
            piece = pieces[-1]
            content = queue.peek(piece.size or 0)
            if content is None:
                break
            if not is_leaf(piece, content):
                if piece.is_content:
                    raise wrong_bytes(self._root)
                self._needs_block = True
                break
            queue.accept()
            self._end_piece()
        verified = queue.take_accepted()
        if not pieces:
            self._check_end()
        return self._requested(verified, position)

    def _end_piece(self) -> None:
        """Go on to the next piece."""
        self._pieces.pop()
        self._needs_block = bool(self._pieces) and _is_inner(self._pieces[-1])

    def _requested(self, verified: list[memoryview], position: int) -> list[memoryview]:
        """Return the wanted part of `verified`, which begins at `position` in the file."""
        parts = []
        for view in verified:
            if part := in_range(view, position, self._start, self._stop):
                parts.append(part)
            position += len(view)
        return parts

    def _check_end(self) -> None:
        if self._queue.size:
            raise self._wrong("is too long")

    def _wrong(self, how: str) -> VerificationError:
        return VerificationError(f"the body for {self._root} {how}", cid=str(self._root))


def _is_inner(piece: Segment) -> bool:
    """Return whether a piece is too large for a leaf, so that its block is needed."""
    return (piece.size or 0) > MAX_BLOCK


def _content_piece(content: bytes, node: Segment) -> Segment:
    """Return a piece for the bytes inside a node itself, to verify them like any other piece."""
    return Segment(CID.of_raw(content), node.start, len(content), node.depth + 1, is_content=True)


class BodyPart(NamedTuple):
    """The bytes of one leaf, or, without a leaf, any bytes of the body."""

    leaf: Segment | None
    content: list[Any]


class BodyCutter:
    """Cuts a body into parts, as far as the proof knows its leaves already.

    It only helps to verify them sooner: the proof gets all parts in order, however they are cut.
    """

    def __init__(self, proof: BodyProof) -> None:
        self._proof = proof
        self._position = proof.received
        self._queue = HeldBytes()

    def cut(self, chunks: list[bytes]) -> Iterator[list[BodyPart]]:
        """Yield the parts of `chunks`, in lists of `BATCH_SIZE` bytes; hold back half a leaf."""
        queue = self._queue
        for chunk in chunks:
            queue.append(chunk)
        parts: list[BodyPart] = []
        begun = self._position
        for leaf in self._proof.leaves_from(self._position):
            between = leaf.start - self._position
            if between and queue.size >= between:
                parts.append(self._take(None, between))
            size = leaf.size or 0
            if leaf.start > self._position or queue.size < size:
                break
            parts.append(self._take(leaf, size))
            if self._position - begun >= BATCH_SIZE:
                yield parts
                parts, begun = [], self._position
        else:
            if queue.size:
                parts.append(self._take(None, queue.size))
        if parts:
            yield parts
        queue.take_accepted()

    def rest(self) -> list[BodyPart]:
        """Return what was held back: the body has ended."""
        return [self._take(None, self._queue.size)] if self._queue.size else []

    def _take(self, leaf: Segment | None, size: int) -> BodyPart:
        content = self._queue.peek(size) or []
        self._queue.accept()
        self._position += size
        return BodyPart(leaf, content)
