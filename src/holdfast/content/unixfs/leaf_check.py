"""Whether bytes are a leaf of a file, which needs no more than the CID of the leaf."""

from holdfast.content.blocks import check_provable
from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block, require_codec
from holdfast.content.hashes import IDENTITY
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.file_nodes import Segment
from holdfast.content.unixfs.files import dag_pb_frame


def is_leaf(piece: Segment, content: list[memoryview]) -> bool:
    """Return whether `piece` is a leaf, and `content` its bytes.

    False means that only the block of the piece can decide. Raise `VerificationError` if the block
    cannot help either.
    """
    cid = piece.cid
    if is_one_block(cid):
        return _digest(cid, content) == cid.digest
    require_codec(cid)
    if cid.hash_code == IDENTITY:
        return False
    return any(
        _digest(cid, content, *dag_pb_frame(kind, piece.size or 0)) == cid.digest
        for kind in (Kind.FILE, Kind.RAW)
    )


def _digest(cid: CID, views: list[memoryview], head: bytes = b"", tail: bytes = b"") -> bytes:
    """Return the digest of `views` between `head` and `tail`, by the hash function of `cid`."""
    check_provable(cid)
    whole = cid.new_hash(head)
    for view in views:
        whole.update(view)
    whole.update(tail)
    return whole.digest()
