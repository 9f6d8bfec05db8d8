"""Unsigned varints of multiformats: little-endian groups of 7 bits, in the shortest form only."""

MAX_BYTES = 9  # the multiformats limit: 63 bits


def decode(data: bytes | bytearray, start: int = 0) -> tuple[int, int]:
    """Return the number at `start` and the position after it; raise `ValueError` if not valid."""
    value = shift = 0
    for position in range(start, min(len(data), start + MAX_BYTES)):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift:
                raise ValueError("a varint is not in its shortest form")
            return value, position + 1
        shift += 7
    raise ValueError(
        "a varint is cut off" if len(data) < start + MAX_BYTES else "a varint is too long"
    )


def encode(value: int) -> bytes:
    """Encode `value` in its shortest form."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
