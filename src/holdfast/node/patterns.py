"""Patterns from outside, matched in bounded time: SQL's LIKE, and tame regular expressions.

Python's regular expressions can take exponential time, and hold up every thread while they do.
What could is refused: repetitions within repetitions, choices within them, references back, and
more than two repetitions.
"""

import re
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

from holdfast.node.replies import bad_request

MAX_PATTERN: Final = 200
MAX_SUBJECT: Final = 1000
MAX_REPEATS: Final = 2
_REPEATS: Final = {
    constants.MAX_REPEAT,
    constants.MIN_REPEAT,
    getattr(constants, "POSSESSIVE_REPEAT", None),
}
_REFUSED: Final = {
    constants.GROUPREF,
    constants.GROUPREF_EXISTS,
    constants.ASSERT,
    constants.ASSERT_NOT,
}


def like(text: str, pattern: str) -> bool:
    """SQL's LIKE: ``%`` for any run of characters, ``_`` for one. Never tries more than it must."""
    at = place = 0
    star: int | None = None
    resume = 0
    while at < len(text):
        if place < len(pattern) and pattern[place] == "%":
            star, resume = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in {"_", text[at]}:
            at, place = at + 1, place + 1
        elif star is not None:
            resume += 1
            at, place = resume, star + 1
        else:
            return False
    return not pattern[place:].strip("%")


def matches_pattern(pattern: str, text: str, flags: int = 0) -> bool:
    """Whether a pattern that was checked is found in the first part of `text`."""
    return re.search(pattern, text[:MAX_SUBJECT], flags) is not None


def check_pattern(pattern: Any) -> None:
    """Nothing, if `pattern` is a regular expression that cannot take long; else a `Refusal`."""
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN:
        raise bad_request(f"A regular expression may have {MAX_PATTERN} characters at the most")
    try:
        tree = parser.parse(pattern)
        re.compile(pattern)
        open_repeats = _open_repeats(tree, inside=False)
    except (re.error, OverflowError, RecursionError, ValueError):
        raise bad_request("The regular expression in metadata[keyvalues] is wrong") from None
    if open_repeats > MAX_REPEATS:
        raise bad_request("The regular expression in metadata[keyvalues] could take too long")


def _open_repeats(tree: Any, *, inside: bool) -> int:
    """How many repetitions there are; more than is allowed, where they are of a dangerous kind."""
    count = 0
    for operation, argument in tree:
        if operation in _REPEATS:
            count += MAX_REPEATS + 1 if inside else 1
            count += _open_repeats(argument[2], inside=True)
        elif operation in _REFUSED or (operation is constants.BRANCH and inside):
            count += MAX_REPEATS + 1
        elif operation is constants.BRANCH:
            count += sum(_open_repeats(branch, inside=inside) for branch in argument[1])
        elif operation is constants.SUBPATTERN:
            count += _open_repeats(argument[3], inside=inside)
    return count
