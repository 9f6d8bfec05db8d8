"""Byte ranges: the Range header of a request, and the part of the content that it asks for."""

import re
from typing import Final

UNIT: Final = "bytes="
_FIRST_TO_LAST: Final = re.compile(r"([0-9]{1,99})-([0-9]{0,99})")
_SUFFIX: Final = re.compile(r"-([0-9]{1,99})")


class NotSatisfiableError(ValueError):
    """The content has none of the bytes that were asked for."""


def asked_range(header: str, size: int) -> tuple[int, int] | None:
    """Return where the range to send begins and where it ends, the end not included.

    Of several ranges, choose the first that the content has, as Kubo does: RFC 9110, 15.3.7
    allows a reply with one part. Return None to send the whole content: for an empty header, a
    header that is not valid, and for empty content, of which no range can be named.

    Raise `NotSatisfiableError` where the content has none of the ranges.

    Example:
        >>> asked_range("bytes=6-16, 0-4", 31)
        (6, 17)
    """
    if header[: len(UNIT)].lower() != UNIT or not size:
        return None
    elements = [element.strip(" \t") for element in header[len(UNIT) :].split(",")]
    ranges = [_parsed(element, size) for element in elements if element]
    if not ranges or None in ranges:
        return None
    satisfiable = (each for each in ranges if each is not None and each[0] < size)
    chosen = next(satisfiable, None)
    if chosen is None:
        raise NotSatisfiableError
    return chosen


def _parsed(element: str, size: int) -> tuple[int, int] | None:
    """Return one range of the header, or None where it is not valid."""
    if match := _SUFFIX.fullmatch(element):
        return max(0, size - int(match[1])), size
    match = _FIRST_TO_LAST.fullmatch(element)
    if match is None:
        return None
    first = int(match[1])
    if not match[2]:
        return first, size
    last = int(match[2])
    return (first, min(last + 1, size)) if first <= last else None
