"""Sizes as people read them. The page of the node has the same function, in ``format.js``."""

from typing import Final

UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


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
