"""The UnixFS message in the Data of a dag-pb node: the kind of the node, and its sizes.

::

    1 Type    2 Data    3 filesize    4 blocksizes (repeated, unpacked)
    5 hashType    6 fanout    7 mode    8 mtime

Messages are written in this order, with exactly the fields that Kubo writes.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from holdfast.content import dag_pb, varint
from holdfast.errors import MalformedError

DIRECTORY: Final = b"\x08\x01"
BLOCK_SIZE: Final = 0x20  # the key of field 4: a varint


class Kind(IntEnum):
    """The type of a node."""

    RAW = 0
    DIRECTORY = 1
    FILE = 2
    METADATA = 3
    SYMLINK = 4
    SHARD = 5


@dataclass(frozen=True, slots=True)
class Data:
    """A UnixFS message, as it was read. Its numbers are not checked: the caller must do that."""

    kind: Kind
    data: bytes
    size: int | None
    block_sizes: tuple[int, ...]
    hash_type: int | None
    fanout: int | None


def file_data(size: int, block_sizes: list[int]) -> bytes:
    """Return the message of an inner node of a file."""
    out = bytearray(b"\x08\x02\x18" + varint.encode(size))
    for block_size in block_sizes:
        out += b"\x20" + varint.encode(block_size)
    return bytes(out)


def symlink_data(target: bytes) -> bytes:
    """Return the message of a symbolic link."""
    return dag_pb.field(b"\x08\x04\x12", target)


def shard_data(bitfield: int, fanout: int, hash_type: int) -> bytes:
    """Return the message of a shard; its bitfield has no leading zero bytes, as in Kubo."""
    bits = bitfield.to_bytes((bitfield.bit_length() + 7) // 8, "big")
    hashing = b"\x28" + varint.encode(hash_type) + b"\x30" + varint.encode(fanout)
    return dag_pb.field(b"\x08\x05\x12", bits) + hashing


def decode(message: bytes) -> Data:
    """Return the UnixFS message of `message`; raise `MalformedError` if it is not one."""
    kind: int | None = None
    numbers: dict[int, int] = {}
    data: bytes | None = None
    block_sizes: list[int] = []
    position = 0
    while position < len(message):
        if message[position] == BLOCK_SIZE:
            position = _read_block_sizes(message, position, block_sizes)
            continue
        number, value, position = dag_pb.read_field(message, position)
        match number, value:
            case 1, int() if kind is None:
                kind = value
            case 2, bytes() if data is None:
                data = value
            case ((3 | 5 | 6 | 7), int()) if number not in numbers:
                numbers[number] = value
            case 8, bytes():
                pass  # the time of the last change, which is not used here
            case _:
                raise MalformedError(f"UnixFS: unexpected field {number}")
    if kind is None or kind > max(Kind):
        raise MalformedError("UnixFS: unknown type of node")
    size, hash_type, fanout = (numbers.get(number) for number in (3, 5, 6))
    return Data(Kind(kind), data or b"", size, tuple(block_sizes), hash_type, fanout)


def _read_block_sizes(message: bytes, position: int, sizes: list[int]) -> int:
    """Append the block sizes that begin at `position`, one after the other; return their end."""
    while position < len(message) and message[position] == BLOCK_SIZE:
        size, position = dag_pb.read_varint(message, position + 1)
        sizes.append(size)
        if len(sizes) > dag_pb.MAX_LINKS:
            raise MalformedError(f"UnixFS: more than {dag_pb.MAX_LINKS} block sizes")
    return position
