"""The CIDs of leaves that hold no bytes: the only children that a file's node may declare empty."""

from collections.abc import Iterator
from typing import Final

from holdfast.content import dag_pb
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.hashes import FUNCTIONS, IDENTITY
from holdfast.content.unixfs import data
from holdfast.content.unixfs.data import Kind
from holdfast.errors import MalformedError

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
    return (
        message.kind in {Kind.FILE, Kind.RAW}
        and not node.links
        and not message.data
        and not message.size
        and not message.block_sizes
    )
