"""The nodes of a file: the contents of a block, and which of its children hold a range of bytes.

Only `file_node` checks sizes. The sizes that a node declares must agree with each other, with those
that its parent declares, and with its children; otherwise it raises `MalformedError`. So a file
never has more bytes than its root declares. A child that is declared empty is never visited, so
that shared links cannot turn a small DAG into endless work. Its CID must show that it is empty:
otherwise the content of a file would depend on the program that reads it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeVar

from holdfast.content import dag_pb
from holdfast.content.blocks import MAX_BLOCK, check_provable, malformed
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.codecs import ONE_BLOCK, VALUES, is_one_block, require_codec
from holdfast.content.hashes import FUNCTIONS, IDENTITY
from holdfast.content.unixfs import data
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.files import dag_pb_frame
from holdfast.errors import MalformedError, NotAFileError

MAX_DEPTH: Final = 32  # a terabyte in the narrowest known layout is 5 deep
MAX_FILE: Final = (1 << 63) - 1  # the largest size that file systems and our varints can express

Bytes = TypeVar("Bytes", bytes, memoryview)


class Segment(NamedTuple):
    """A run of bytes of a file, and the node that they are in or below.

    Attributes:
        cid: The CID of the node.
        start: The position in the file of its first byte.
        size: How many bytes it has, as its parent declares; None for the root.
        depth: How many nodes are above it.
        is_content: Whether its bytes are those that a verified node holds itself. `cid` is then
            that of the bytes alone, and names no block.
    """

    cid: CID
    start: int = 0
    size: int | None = None
    depth: int = 0
    is_content: bool = False


class FileNode(NamedTuple):
    """A node of a file: its own bytes come first, then those of its children.

    Attributes:
        size: How many bytes of the file are in this node and below it.
        data: Its own bytes.
        children: The CID of each child, and how many bytes it has.
        ends: Where the bytes of each child end, counted from the beginning of this node.
    """

    size: int
    data: bytes
    children: Sequence[tuple[CID, int]] = ()
    ends: Sequence[int] = ()

    def segments(
        self, segment: Segment, start: int = 0, stop: int | None = None
    ) -> Sequence[Segment]:
        """Return the children that have bytes of the file from `start` up to `stop`, in order.

        `segment` is the place of this node in the file. Raise `MalformedError` if it declares
        another size than this node has, or is too deep in the DAG.
        """
        check_place(segment.cid, self.size, segment.size, segment.depth)
        begin, depth = segment.start, segment.depth + 1
        if not self.children or (stop is not None and stop <= begin + len(self.data)):
            return ()
        first = bisect_right(self.ends, start - begin)
        last = len(self.ends) if stop is None else bisect_left(self.ends, stop - begin) + 1
        position = begin + (self.ends[first - 1] if first else len(self.data))
        segments = []
        for cid, size in self.children[first:last]:
            if size:
                segments.append(Segment(cid, position, size, depth))
                position += size
        return segments


def check_place(cid: CID, size: int, declared: int | None, depth: int = 0) -> None:
    """Raise `MalformedError` if a node has another size than its parent declares, or is too deep.

    `declared` is None for the root of a file.
    """
    if depth > MAX_DEPTH:
        raise malformed(cid, f"the DAG is deeper than {MAX_DEPTH} levels")
    if declared is not None and declared != size:
        raise malformed(cid, f"it has {size} bytes, and its parent declares {declared}")


def in_range(content: Bytes, position: int, start: int, stop: int | None) -> Bytes:
    """Return the part of `content` that is between `start` and `stop` of the file.

    `position` is where in the file `content` begins.
    """
    last = None if stop is None else max(0, stop - position)
    return content[max(0, start - position) : last]


def file_node(cid: CID, block: bytes, declared: int | None = None) -> FileNode:
    """Return the node of a file in `block`, which is already verified.

    `declared` is the size that its parent declares for it, or None for the root of a file. Raise
    `MalformedError` if sizes contradict each other, as far as this block and the CIDs in it
    show.
    """
    if cid.codec in ONE_BLOCK:
        node = FileNode(len(block), block)
    elif declared is not None and (leaf := _usual_leaf(block, declared)) is not None:
        return leaf
    else:
        node = _decode_file(cid, block, is_root=declared is None)
    check_place(cid, node.size, declared)
    return node


def _usual_leaf(block: bytes, size: int) -> FileNode | None:
    """Return the leaf of `size` bytes in `block`, or None if it is not written in the usual way."""
    head, tail = dag_pb_frame(Kind.FILE, size)
    is_framed = block.startswith(head) and block.endswith(tail)
    if not is_framed or len(block) != len(head) + size + len(tail):
        return None
    return FileNode(size, block[len(head) : len(head) + size])


def _decode_file(cid: CID, block: bytes, *, is_root: bool) -> FileNode:
    """Return the file node in a dag-pb block, whose parts agree with each other."""
    require_codec(cid)
    node = dag_pb.decode(block)
    message = data.decode(node.data)
    if message.kind not in {Kind.FILE, Kind.RAW}:
        if is_root:
            raise not_a_file(cid, message.kind)
        raise malformed(cid, "it is a part of a file, but is not a file itself")
    sizes = message.block_sizes
    if len(sizes) != len(node.links):
        raise malformed(cid, "the numbers of block sizes and links differ")
    size = len(message.data) + sum(sizes)
    if message.size is not None and message.size != size:
        raise malformed(cid, "the declared file size is not that of its parts")
    if size > MAX_FILE:
        raise malformed(cid, f"it declares more than {MAX_FILE} bytes")
    if not {link.cid.codec for link in node.links}.isdisjoint(VALUES):
        raise malformed(cid, "a part of it is a value, not a file")
    children = [(link.cid, child) for link, child in zip(node.links, sizes, strict=True)]
    # Ordinary leaves need no check of their own; there may be very many of them.
    if min(sizes, default=1) == 0 or max(sizes, default=0) > MAX_BLOCK:
        for child, child_size in children:
            _check_child(cid, child, child_size)
    ends = list(accumulate(sizes, initial=len(message.data)))[1:]
    return FileNode(size, message.data, children, ends)


def _check_child(cid: CID, child: CID, size: int) -> None:
    """Raise `MalformedError` if the CID of a child contradicts its declared size."""
    if size == 0 and not is_empty_leaf(child):
        raise malformed(cid, f"it declares {child} to be empty, but its CID does not show that")
    if size > MAX_BLOCK and is_one_block(child):
        raise malformed(cid, f"it declares {size} bytes for {child}, which is a single block")


def not_a_file(cid: CID, kind: Kind) -> NotAFileError | MalformedError:
    """Return the error for a node that is something other than a file."""
    if kind in {Kind.DIRECTORY, Kind.SHARD}:
        return directory_error(cid)
    if kind is Kind.SYMLINK:
        return NotAFileError(f"{cid} is a symbolic link, not a file")
    return malformed(cid, "it is metadata, not a file")


def directory_error(cid: object) -> NotAFileError:
    """Return the error for a directory that is read as a file."""
    return NotAFileError(
        f"{cid} is a directory; read a file in it by its path, or all of it with download_folder"
    )


# Leaves

# The messages of a leaf without bytes, as programs write them: the type is File or Raw, Data is
# absent or empty, filesize is absent or 0.
_MESSAGES: Final = [
    bytes((0x08, kind)) + content + size
    for kind in (Kind.FILE, Kind.RAW)
    for content in (b"", b"\x12\x00")
    for size in (b"", b"\x18\x00")
]


def _cids() -> Iterator[CID]:
    for code, function in FUNCTIONS.items():
        yield CID(1, RAW, code, function.new(b"").digest())
        for message in _MESSAGES:
            block = dag_pb.encode([], message)
            yield CID(1, DAG_PB, code, function.new(block).digest())


_EMPTY: Final = frozenset(_cids())


def is_empty_leaf(cid: CID) -> bool:
    """Return whether `cid` is known to name a leaf without bytes."""
    if cid.hash_code != IDENTITY:
        return cid in _EMPTY
    if cid.codec != DAG_PB:
        return cid.codec == RAW and not cid.digest
    try:
        node = dag_pb.decode(cid.digest)
        message = data.decode(node.data)
    except MalformedError:
        return False
    has_bytes = node.links or message.data or message.size or message.block_sizes
    return message.kind in {Kind.FILE, Kind.RAW} and not has_bytes


def is_leaf(piece: Segment, content: list[memoryview]) -> bool:
    """Return whether `piece` is a leaf, and `content` its bytes.

    False means that only the block of the piece can decide. Raise `VerificationError` if the block
    cannot help either.
    """
    cid = piece.cid
    if is_one_block(cid):
        return _leaf_digest(cid, content) == cid.digest
    require_codec(cid)
    if cid.hash_code == IDENTITY:
        return False
    return any(
        _leaf_digest(cid, content, *dag_pb_frame(kind, piece.size or 0)) == cid.digest
        for kind in (Kind.FILE, Kind.RAW)
    )


def _leaf_digest(cid: CID, views: list[memoryview], head: bytes = b"", tail: bytes = b"") -> bytes:
    """Return the digest of `views` between `head` and `tail`, by the hash function of `cid`."""
    check_provable(cid)
    whole = cid.new_hash(head)
    for view in views:
        whole.update(view)
    whole.update(tail)
    return whole.digest()
