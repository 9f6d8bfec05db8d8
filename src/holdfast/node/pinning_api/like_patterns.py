"""Match SQL's LIKE patterns in bounded time.

Clients cannot use regular expressions: some take exponential time, and Python holds its global lock
while it matches, so one of them would stop the whole node.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from holdfast.node.http_server.refusals import bad_request

MAX_PATTERN: Final = 200
MAX_SUBJECT: Final = 1000


def like(pattern: Any, *, ignore_case: bool = False) -> Callable[[str], bool]:
    """Return a function that tells whether a text matches `pattern`.

    ``%`` matches any number of characters, ``_`` matches one. The parts between the ``%`` are
    searched for in order, each as far to the left as possible. No part is searched for twice, so
    the work is at most the length of the text times that of the pattern. A text of more than
    `MAX_SUBJECT` characters does not match.
    """
    text = str(pattern)
    if len(text) > MAX_PATTERN:
        raise bad_request(
            f"A pattern in metadata[keyvalues] may have at most {MAX_PATTERN} characters"
        )
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    parts = [
        re.compile("".join("." if each == "_" else re.escape(each) for each in part), flags)
        for part in text.split("%")
    ]
    first, *middle = parts
    if not middle:
        return lambda found: len(found) <= MAX_SUBJECT and first.fullmatch(found) is not None
    last = middle.pop()
    last_size = len(text.rpartition("%")[2])

    def matches(found: str) -> bool:
        start = first.match(found) if len(found) <= MAX_SUBJECT else None
        if start is None:
            return False
        position = start.end()
        for part in middle:
            place = part.search(found, position)
            if place is None:
                return False
            position = place.end()
        end = len(found) - last_size
        return end >= position and last.match(found, end) is not None

    return matches
