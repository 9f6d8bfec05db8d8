"""The table of codecs: how the blocks of each codec are read. A new codec is one row.

No code outside `content` looks at the codec of a CID; it asks the functions below.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from holdfast.content import dag_cbor, dag_json, dag_pb
from holdfast.content.cid import CBOR, CID, DAG_CBOR, DAG_JSON, DAG_PB, JSON, RAW
from holdfast.content.dag_pb import Link
from holdfast.content.unixfs import data
from holdfast.content.unixfs.data import Kind
from holdfast.content.unixfs.directory_nodes import Shard, find_name, not_a_directory
from holdfast.errors import MalformedError, NotFoundError, UnprovenError

NUMBER: Final = re.compile("0|[1-9][0-9]{0,9}")  # of an item in a list
Names: TypeAlias = Sequence[bytes]
"""The names of a path that are still to be followed."""
Step: TypeAlias = tuple[Shard | None, Names]
"""The block in which a path goes on, and the names that are left.

With None, the path ends in the block that it has reached, and the names lead to a value inside it.
"""


class Codec(NamedTuple):
    """How the blocks of one codec are read. Each function takes a verified block.

    Attributes:
        name: Its name in the table of multicodecs.
        links: Returns the links of a block; None if blocks have no links.
        step: Returns where the next names of a path lead to; None if no path goes through a block.
        kind: Returns the UnixFS kind of a block; None if a block is a file as it is, byte by byte.
        value: Returns the value in a block: JSON, with links as `CID` and bytes; None if it is not
            of values.
    """

    name: str
    links: Callable[[bytes], Sequence[Link]] | None = None
    step: Callable[[Shard, bytes, Names], Step] | None = None
    kind: Callable[[bytes], Kind] | None = None
    value: Callable[[bytes], Any] | None = None


def _node_links(block: bytes) -> Sequence[Link]:
    return dag_pb.decode(block).links


def _node_kind(block: bytes) -> Kind:
    return data.decode(dag_pb.decode(block).data).kind


def _node_step(place: Shard, block: bytes, names: Names) -> Step:
    target = find_name(place, block, names[0])
    return (target, names) if isinstance(target, Shard) else (Shard(target), names[1:])


def _unnamed(links: Callable[[bytes], Sequence[CID]]) -> Callable[[bytes], Sequence[Link]]:
    return lambda block: [Link(cid, b"", 0) for cid in links(block)]


def _value_step(place: Shard, block: bytes, names: Names) -> Step:
    value = read_value(place.cid, block)
    for position, name in enumerate(names):
        if isinstance(value, CID):
            return Shard(value), names[position:]
        value = _inner(place.cid, value, name.decode("utf-8", "surrogateescape"))
    return (Shard(value), ()) if isinstance(value, CID) else (None, names)


def _inner(cid: CID, value: Any, name: str) -> Any:
    """Return what `name` is in a map, or the item of a list with this number."""
    if isinstance(value, dict) and name in value:
        return value[name]
    if isinstance(value, list) and NUMBER.fullmatch(name) and int(name) < len(value):
        return value[int(name)]
    raise NotFoundError(f"there is no {name!r} in {cid}")


CODECS: Final = {
    RAW: Codec("raw"),
    DAG_PB: Codec("dag-pb", _node_links, _node_step, _node_kind),
    DAG_CBOR: Codec("dag-cbor", _unnamed(dag_cbor.links), _value_step, value=dag_cbor.decode),
    DAG_JSON: Codec("dag-json", _unnamed(dag_json.links), _value_step, value=dag_json.decode),
    CBOR: Codec("cbor", step=_value_step, value=partial(dag_cbor.decode, strict=False)),
    JSON: Codec("json", step=_value_step, value=partial(dag_json.decode, strict=False)),
}

ONE_BLOCK: Final = frozenset(code for code, codec in CODECS.items() if codec.kind is None)
"""The codecs whose blocks are files as they are."""
VALUES: Final = frozenset(code for code, codec in CODECS.items() if codec.value is not None)
"""The codecs whose blocks are values. Such a block is a file as it is, but never part of one."""


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


def step(place: Shard, block: bytes, names: Names) -> Step:
    """Return where the next of `names` lead to from `block`.

    Raise `NotFoundError` if they lead nowhere.
    """
    codec = CODECS.get(place.cid.codec)
    if codec is None or codec.step is None:
        raise not_a_directory(place.cid)
    return codec.step(place, block, names)


def has_value(cid: CID) -> bool:
    """Return whether the block of `cid` has a value, which `read_value` returns."""
    return cid.codec in VALUES


def value_codec(cid: CID) -> str:
    """Return the name of the codec of `cid` if its block has a value, else an empty text."""
    return CODECS[cid.codec].name if has_value(cid) else ""


def read_value(cid: CID, block: bytes, names: Sequence[str] = ()) -> Any:
    """Return the value in a block for which `has_value`, or the one inside it that `names` name.

    Raise `MalformedError` if the block has none, and `NotFoundError` if a name is not there.
    """
    decode = require_codec(cid).value
    if decode is None:
        raise MalformedError(f"{cid} is a file or a directory, not a value", cid=str(cid))
    value = decode(block)
    for name in names:
        value = _inner(cid, value, name)
    return value


def require_codec(cid: CID) -> Codec:
    """Return the row of the codec of `cid`; raise `UnprovenError` if there is none."""
    codec = CODECS.get(cid.codec)
    if codec is None:
        raise UnprovenError(f"{cid} is not UnixFS: its codec is {cid.codec:#x}", cid=str(cid))
    return codec
