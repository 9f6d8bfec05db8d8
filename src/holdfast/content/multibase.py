"""The text encodings of CIDs: base32, base36 and base58btc, strict and without padding."""

import base64
import re
from typing import Final

BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

_BASE58_VALUES: Final = {character: value for value, character in enumerate(BASE58)}
_BASE36_TEXT: Final = re.compile(r"[0-9a-z]+")
_BASE32: Final = b"abcdefghijklmnopqrstuvwxyz234567"
# int() reads base 32 with the digits 0-9a-v, and is much faster than the base64 module. The table
# has "!", which int() refuses, for every other byte.
_TO_INT_DIGITS: Final = bytes(
    ord(BASE36[_BASE32.index(code)]) if code in _BASE32 else ord("!") for code in range(256)
)


def base32_decode(text: str) -> bytes:
    """Decode lower-case base32; raise `ValueError` for a wrong character or leftover bits."""
    try:
        number = int(text.encode("ascii").translate(_TO_INT_DIGITS), 32)
    except ValueError:
        raise ValueError("not base32") from None
    size, left_over = divmod(len(text) * 5, 8)
    # The last byte leaves at most four bits unused. Five would be one character too many.
    if left_over > 4 or number & ((1 << left_over) - 1):
        raise ValueError("base32 with leftover bits")
    return (number >> left_over).to_bytes(size, "big")


def base32_encode(data: bytes) -> str:
    """Encode as lower-case base32 without padding."""
    return base64.b32encode(data).decode("ascii").rstrip("=").lower()


def base36_decode(text: str) -> bytes:
    """Decode lower-case base36. Takes quadratic time: callers limit the length."""
    if not _BASE36_TEXT.fullmatch(text):
        raise ValueError("not base36")
    return _with_leading_zeros(int(text, 36), len(text) - len(text.lstrip("0")))


def base58_decode(text: str) -> bytes:
    """Decode base58btc. Takes quadratic time: callers limit the length."""
    number = 0
    try:
        for character in text:
            number = number * 58 + _BASE58_VALUES[character]
    except KeyError:
        raise ValueError("not base58btc") from None
    return _with_leading_zeros(number, len(text) - len(text.lstrip("1")))


def base58_encode(data: bytes) -> str:
    """Encode as base58btc."""
    number = int.from_bytes(data, "big")
    digits = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(BASE58[digit])
    leading = len(data) - len(data.lstrip(b"\0"))
    return BASE58[0] * leading + "".join(reversed(digits))


def _with_leading_zeros(number: int, zeros: int) -> bytes:
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")
