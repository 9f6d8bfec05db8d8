"""dag-pb: the protobuf of IPLD nodes, written and read by hand.

::

    PBNode   2 Links (repeated PBLink), 1 Data       the links are written first
    PBLink   1 Hash (binary CID), 2 Name, 3 Tsize    all three are written, an empty Name as 12 00

We write the same bytes as Kubo. We read Links and Data in either order; a repeated or unknown field
and a length beyond the end are errors.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from holdfast.content import varint
from holdfast.content.cid import CID, DAG_PB
from holdfast.content.hashes import SHA2_256
from holdfast.errors import MalformedError

VARINT: Final = 0
BYTES: Final = 2
MAX_LINKS: Final = 50_000  # more than fit into a block of 2 MiB with ordinary CIDs

# The usual link of a file's node: a CID of version 1 or 0 with SHA-256, an empty name, the size.
# The length that it states (group 1) must be compared with its actual length (group 2).
_COMMON_LINK: Final = re.compile(
    rb"\x12(.)(\x0a(?:\x24(\x01[\x55\x70]\x12\x20.{32})|\x22(\x12\x20.{32}))"
    rb"\x12\x00\x18((?:[\x80-\xff]{0,8}[\x01-\x7f])|\x00))",
    re.DOTALL,
)


class Link(NamedTuple):
    """A link to another node; `size` is the number of bytes of all blocks under it."""

    cid: CID
    name: bytes
    size: int


class Node(NamedTuple):
    """A node: its links and its data."""

    links: list[Link]
    data: bytes


def encode(links: Iterable[Link], data: bytes) -> bytes:
    """Return the block of a node."""
    return b"".join([*(field(b"\x12", encode_link(link)) for link in links), field(b"\x0a", data)])


def encode_link(link: Link) -> bytes:
    """Return the PBLink of `link` without its tag and length."""
    name_and_size = field(b"\x12", link.name) + b"\x18" + varint.encode(link.size)
    return field(b"\x0a", bytes(link.cid)) + name_and_size


def field(tag: bytes, value: bytes) -> bytes:
    """Return a field of bytes: its tag, its length, its value."""
    return tag + varint.encode(len(value)) + value


def decode(block: bytes) -> Node:
    """Return the node in `block`; raise `MalformedError` if it is not valid."""
    links: list[Link] = []
    data: bytes | None = None
    position = 0
    while position < len(block):
        position = _decode_common_links(block, position, links)
        if position == len(block) or len(links) > MAX_LINKS:
            break
        number, value, position = read_field(block, position)
        if number == 2 and isinstance(value, bytes):
            links.append(_decode_link(value))
        elif number == 1 and isinstance(value, bytes) and data is None:
            data = value
        else:
            raise MalformedError(f"dag-pb: unexpected field {number}")
    if len(links) > MAX_LINKS:
        raise MalformedError(f"dag-pb: a node with more than {MAX_LINKS} links")
    return Node(links, data or b"")


def _decode_common_links(block: bytes, position: int, links: list[Link]) -> int:
    """Append the usual links that begin at `position`; return the position after them.

    All other links go to the general decoder, which is several times slower.
    """
    match = _COMMON_LINK.match
    while (link := match(block, position)) is not None and len(links) <= MAX_LINKS:
        length, body, cid_v1, cid_v0, size = link.groups()
        if length[0] != len(body):
            break
        if cid_v1 is not None:
            cid = CID(1, cid_v1[1], SHA2_256, cid_v1[4:])
        else:
            cid = CID(0, DAG_PB, SHA2_256, cid_v0[2:])
        links.append(Link(cid, b"", size[0] if len(size) == 1 else varint.decode(size)[0]))
        position = link.end()
    return position


def _decode_link(body: bytes) -> Link:
    cid: CID | None = None
    name: bytes | None = None
    size: int | None = None
    position = 0
    while position < len(body):
        number, value, position = read_field(body, position)
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
            raise MalformedError(f"dag-pb: unexpected field {number} in a link")
    if cid is None:
        raise MalformedError("dag-pb: a link without a CID")
    return Link(cid, name or b"", size or 0)


def read_field(data: bytes, position: int) -> tuple[int, int | bytes, int]:
    """Read the field of a protobuf message that begins at `position`.

    Return its number, its value (varints as int, strings and messages as bytes), and its end.
    """
    key, position = read_varint(data, position)
    number, wire_type = key >> 3, key & 7
    if wire_type not in {VARINT, BYTES}:
        raise MalformedError(f"protobuf: wire type {wire_type} is not used here")
    value, position = read_varint(data, position)
    if wire_type == VARINT:
        return number, value, position
    if value > len(data) - position:
        raise MalformedError("protobuf: a length exceeds the message")
    return number, data[position : position + value], position + value


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the varint at `position`, and its end."""
    try:
        return varint.decode(data, position)
    except ValueError as error:
        raise MalformedError(f"protobuf: {error}") from None
