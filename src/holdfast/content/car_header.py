"""The header of a CAR: DAG-CBOR for ``{"roots": [CIDs], "version": 1}``, and nothing else."""

from typing import Final

from holdfast.content.cid import CID
from holdfast.errors import MalformedError

_ROOTS: Final = b"\x65roots"
_VERSION: Final = b"\x67version"


def encode_header(roots: list[CID]) -> bytes:
    """Return the header with these roots."""
    out = bytearray(b"\xa2" + _ROOTS + _cbor_head(0x80, len(roots)))
    for root in roots:
        cid = b"\x00" + bytes(root)
        out += b"\xd8\x2a" + _cbor_head(0x40, len(cid)) + cid
    return bytes(out + _VERSION + b"\x01")


def decode_header(header: bytes) -> list[CID]:
    """Return the roots in `header`; raise `MalformedError` if it is not valid."""
    if not header.startswith(b"\xa2"):
        raise MalformedError("CAR: not a header of version 1")
    position = 1
    roots: list[CID] | None = None
    version: int | None = None
    while position < len(header):
        if header.startswith(_VERSION, position) and version is None:
            version, position = _cbor_number(header, position + len(_VERSION), 0x00)
        elif header.startswith(_ROOTS, position) and roots is None:
            roots, position = _decode_roots(header, position + len(_ROOTS))
        else:
            raise MalformedError("CAR: the header has an unknown field")
    if version != 1 or roots is None:
        raise MalformedError("CAR: not a header of version 1")
    return roots


def check_only_root(roots: list[CID], root: CID) -> None:
    """Raise `MalformedError` unless `root` is the only one of `roots`, in the same version."""
    if [*map(bytes, roots)] != [bytes(root)]:
        named = ", ".join(map(str, roots[:3])) or "none"
        raise MalformedError(f"CAR: the root must be {root}, not {named}", cid=str(root))


def _decode_roots(header: bytes, position: int) -> tuple[list[CID], int]:
    count, position = _cbor_number(header, position, 0x80)
    roots = []
    for _ in range(count):
        if header[position : position + 2] != b"\xd8\x2a":
            raise MalformedError("CAR: a root is not a CID")
        size, position = _cbor_number(header, position + 2, 0x40)
        link = header[position : position + size]
        position += size
        if len(link) != size or not link.startswith(b"\0"):
            raise MalformedError("CAR: a root is cut off or lacks its zero byte")
        try:
            roots.append(CID.from_bytes(link[1:]))
        except ValueError as error:
            raise MalformedError(f"CAR: a root is not a CID: {error}") from None
    return roots, position


def _cbor_head(major: int, number: int) -> bytes:
    """Return a type and its number in the shortest form."""
    if number < 24:
        return bytes([major | number])
    size = 1 if number < 1 << 8 else 2 if number < 1 << 16 else 4
    return bytes([major | 24 + size.bit_length() - 1]) + number.to_bytes(size, "big")


def _cbor_number(data: bytes, position: int, major: int) -> tuple[int, int]:
    """Return the number of the item at `position`, which must have this type, and its end."""
    first = data[position] if position < len(data) else 0xFF
    small = first & 0x1F
    if first & 0xE0 == major and small < 24:
        return small, position + 1
    if first & 0xE0 == major and small <= 26:
        end = position + 1 + (1 << small - 24)
        if end <= len(data):
            return int.from_bytes(data[position + 1 : end], "big"), end
    raise MalformedError("CAR: the header is not valid DAG-CBOR")
