"""The table of codecs: how the blocks of each codec are read. A new codec is one row.

No code outside `content` looks at the codec of a CID; it asks the functions below.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from holdfast.content import dag_pb
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.dag_pb import Link
from holdfast.content.unixfs import data
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.directory_nodes import Shard, find_name, not_a_directory
from holdfast.errors import MalformedError, UnprovenError


class Codec(NamedTuple):
    """How the blocks of one codec are read. Each function takes a verified block.

    Attributes:
        links: Returns the links of a block; None if blocks have no links.
        step: Returns where a name in a path leads to; None if no path goes through a block.
        kind: Returns the UnixFS kind of a block; None if a block is a file as it is, byte by byte.
    """

    links: Callable[[bytes], Sequence[Link]] | None = None
    step: Callable[[Shard, bytes, bytes], CID | Shard] | None = None
    kind: Callable[[bytes], Kind] | None = None


def _node_links(block: bytes) -> Sequence[Link]:
    return dag_pb.decode(block).links


def _node_kind(block: bytes) -> Kind:
    return data.decode(dag_pb.decode(block).data).kind


CODECS: Final = {
    RAW: Codec(),
    DAG_PB: Codec(links=_node_links, step=find_name, kind=_node_kind),
}

ONE_BLOCK: Final = frozenset(code for code, codec in CODECS.items() if codec.kind is None)
"""The codecs whose blocks are files as they are."""


def is_one_block(cid: CID) -> bool:
    """Return whether `cid` names a file of one block, for which comparing its hash is enough."""
    return cid.codec in ONE_BLOCK


def is_node(cid: CID) -> bool:
    """Return whether `cid` names a UnixFS node: its block tells whether it is a file."""
    return cid.codec in CODECS and cid.codec not in ONE_BLOCK


def kind_of(cid: CID, block: bytes) -> Kind | None:
    """Return the kind of a block, or None if it is not UnixFS."""
    try:
        return read_kind(cid, block)
    except (MalformedError, UnprovenError):
        return None


def read_kind(cid: CID, block: bytes) -> Kind:
    """Return the kind of a block.

    Raise `UnprovenError` for an unsupported codec, and `MalformedError` if it is not UnixFS.
    """
    codec = require_codec(cid)
    return Kind.RAW if codec.kind is None else codec.kind(block)


def has_links(cid: CID) -> bool:
    """Return whether the block of `cid` may have links."""
    codec = CODECS.get(cid.codec)
    return codec is not None and codec.links is not None


def links_of(cid: CID, block: bytes) -> Sequence[Link]:
    """Return the links of a block, none for an unsupported codec.

    Raise `MalformedError` if they cannot be read.
    """
    codec = CODECS.get(cid.codec)
    return () if codec is None or codec.links is None else codec.links(block)


def step(place: Shard, block: bytes, name: bytes) -> CID | Shard:
    """Return the CID of `name` in `block`, or the shard that may have it.

    Raise `NotFoundError` if it is not there.
    """
    codec = CODECS.get(place.cid.codec)
    if codec is None or codec.step is None:
        raise not_a_directory(place.cid)
    return codec.step(place, block, name)


def require_codec(cid: CID) -> Codec:
    """Return the row of the codec of `cid`; raise `UnprovenError` if there is none."""
    codec = CODECS.get(cid.codec)
    if codec is None:
        raise UnprovenError(f"{cid} is no UnixFS: its codec is {cid.codec:#x}", cid=str(cid))
    return codec
