"""dag-pb: the protobuf of IPLD nodes, written and read by hand.

::

    PBNode   2 Links (repeated PBLink), 1 Data       the links are written first
    PBLink   1 Hash (binary CID), 2 Name, 3 Tsize    all three are written, an empty Name as 12 00

Written to the byte as Kubo writes it. Read in either order of Links and Data, but nothing twice,
nothing unknown, and no length beyond the end.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from holdfast.content import varint
from holdfast.content.cid import CID
from holdfast.errors import MalformedError

VARINT: Final = 0
BYTES: Final = 2
MAX_LINKS: Final = 100_000  # twice what fits into a block with ordinary CIDs


class Link(NamedTuple):
    """A link to another node; `size` is the bytes of the whole DAG under it."""

    cid: CID
    name: bytes
    size: int


class Node(NamedTuple):
    """A node: what it links to, and its data."""

    links: list[Link]
    data: bytes


def encode(links: Iterable[Link], data: bytes) -> bytes:
    """The block of a node."""
    out = bytearray()
    for link in links:
        body = encode_link(link)
        out += b"\x12" + varint.encode(len(body)) + body
    out += b"\x0a" + varint.encode(len(data)) + data
    return bytes(out)


def encode_link(link: Link) -> bytes:
    """The PBLink of `link`, without its own tag and length."""
    cid = bytes(link.cid)
    return b"".join(
        (
            b"\x0a",
            varint.encode(len(cid)),
            cid,
            b"\x12",
            varint.encode(len(link.name)),
            link.name,
            b"\x18",
            varint.encode(link.size),
        )
    )


def decode(block: bytes) -> Node:
    """The node of `block`; `MalformedError` where it is none."""
    links: list[Link] = []
    data: bytes | None = None
    for number, value in read_fields(block):
        if number == 2 and isinstance(value, bytes):
            links.append(_decode_link(value))
            if len(links) > MAX_LINKS:
                raise MalformedError(f"dag-pb: a node with more than {MAX_LINKS} links")
        elif number == 1 and isinstance(value, bytes) and data is None:
            data = value
        else:
            raise MalformedError(f"dag-pb: field {number} is out of place")
    return Node(links, data or b"")


def _decode_link(body: bytes) -> Link:
    cid: CID | None = None
    name: bytes | None = None
    size: int | None = None
    for number, value in read_fields(body):
        if number == 1 and isinstance(value, bytes) and cid is None:
            try:
                cid = CID.from_bytes(value)
            except ValueError as error:
                raise MalformedError(f"dag-pb: a link's CID is wrong: {error}") from None
        elif number == 2 and isinstance(value, bytes) and name is None:
            name = value
        elif number == 3 and isinstance(value, int) and size is None:
            size = value
        else:
            raise MalformedError(f"dag-pb: field {number} of a link is out of place")
    if cid is None:
        raise MalformedError("dag-pb: a link without a CID")
    return Link(cid, name or b"", size or 0)


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message: varints as int, strings and messages as bytes."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire_type = key >> 3, key & 7
        if wire_type not in {VARINT, BYTES}:
            raise MalformedError(f"protobuf: wire type {wire_type} is not used here")
        value, position = _varint(data, position)
        if wire_type == VARINT:
            yield number, value
        elif value > len(data) - position:
            raise MalformedError("protobuf: a length runs over the end")
        else:
            yield number, data[position : position + value]
            position += value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    try:
        return varint.decode(data, position)
    except ValueError as error:
        raise MalformedError(f"protobuf: {error}") from None
