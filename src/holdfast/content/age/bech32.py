"""Bech32 (BIP 173), the text form of age's keys, without a limit of the length.

The data is base32 with other characters, followed by a checksum of six.
"""

from functools import reduce
from operator import xor
from typing import Final

from holdfast.content import multibase

CHARACTERS: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
CHECKSUM_SIZE: Final = 6

_BASE32: Final = "abcdefghijklmnopqrstuvwxyz234567"
_FROM_BASE32: Final = str.maketrans(_BASE32, CHARACTERS)
_TO_BASE32: Final = str.maketrans(CHARACTERS, _BASE32)
_VALUES: Final = {character: value for value, character in enumerate(CHARACTERS)}
_GENERATOR: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
# What is added for each value of the five bits that leave the checksum at its top.
_REDUCTIONS: Final = tuple(
    reduce(xor, (_GENERATOR[bit] for bit in range(5) if top >> bit & 1), 0) for top in range(32)
)


def encode(prefix: str, data: bytes) -> str:
    """Return `data` after `prefix`, in lower case.

    Example:
        >>> encode("age", bytes(2))
        'age1qqqqlpnwam'
    """
    body = multibase.base32_encode(data).translate(_FROM_BASE32)
    checksum = _checksum(prefix, body + CHARACTERS[0] * CHECKSUM_SIZE) ^ 1
    shifts = range(5 * CHECKSUM_SIZE - 5, -5, -5)
    return f"{prefix}1{body}" + "".join(CHARACTERS[checksum >> shift & 31] for shift in shifts)


def decode(text: str) -> tuple[str, bytes] | None:
    r"""Return the prefix, in lower case, and the data; None if `text` is not Bech32.

    It raises nothing: `text` may be a secret, and tracebacks show the variables of a frame.

    Example:
        >>> decode("AGE1QQQQLPNWAM")
        ('age', b'\x00\x00')
    """
    prefix, _, body = text.lower().rpartition("1")
    is_one_case = text.isascii() and text in (text.lower(), text.upper())
    if not prefix or not is_one_case or not _VALUES.keys() >= set(body):
        return None
    if _checksum(prefix, body) != 1:
        return None
    try:
        return prefix, multibase.base32_decode(body[:-CHECKSUM_SIZE].translate(_TO_BASE32))
    except ValueError:
        return None


def _checksum(prefix: str, body: str) -> int:
    """Return the remainder of the prefix and the body, a checksum included, by the generator."""
    checksum = 1
    high, low = ([ord(character) >> 5 for character in prefix], [ord(c) & 31 for c in prefix])
    for value in (*high, 0, *low, *map(_VALUES.__getitem__, body)):
        checksum = (checksum & 0x1FFFFFF) << 5 ^ value ^ _REDUCTIONS[checksum >> 25]
    return checksum
