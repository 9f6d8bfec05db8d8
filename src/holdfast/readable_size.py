"""Sizes as people read and write them. The page of the node has the first in ``format.js``."""

import re
from typing import Final

UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
WRITTEN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:([KMGTP])(i?B)?|B)?", re.IGNORECASE)


def readable_size(size: int) -> str:
    """Return a number of bytes in the largest fitting unit, with three digits or more.

    Example:
        >>> readable_size(999), readable_size(1500), readable_size(20_000_000)
        ('999 B', '1.46 KiB', '19.1 MiB')
    """
    last = len(UNITS) - 1
    unit = next(n for n in range(last + 1) if n == last or _rounded(size, n, 0) < 1024)
    digits = next((n for n in (2, 1) if unit and _rounded(size, unit, n) < 1000), 0)
    return f"{_rounded(size, unit, digits) / 10**digits:.{digits}f} {UNITS[unit]}"


def _rounded(size: int, unit: int, digits: int) -> int:
    """Return `size` in the given unit, with `digits` behind the point but without the point."""
    whole = 1 << 10 * unit
    return (2 * size * int(10**digits) + whole) // (2 * whole)


def parse_size(text: str) -> int:
    """Return the bytes of a size as people write it; raise ValueError for anything else.

    As in other tools, ``2G`` and ``2GiB`` are 2 * 1024³ bytes, and ``2GB`` are 2 * 1000³.

    Example:
        >>> parse_size("500"), parse_size("1.5k"), parse_size("2 GiB"), parse_size("2GB")
        (500, 1536, 2147483648, 2000000000)
    """
    match = WRITTEN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size: write bytes, or a number with K, M, G or T")
    number, unit, ending = match.groups()
    step = 1000 if (ending or "").upper() == "B" else 1024
    power = 0 if unit is None else "KMGTP".index(unit.upper()) + 1
    return int(step**power * (float(number) if "." in number else int(number)))
