"""Make a text that came from outside safe to show and to log, on one line."""

import re
from typing import Final

UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters: C0, DEL, C1
    "\u2028\u2029"  # line and paragraph separators
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # change the direction of the text around them
    "\ud800-\udfff]"  # halves of characters, which cannot be written to a file
)


def single_line(text: str) -> str:
    r"""Return `text` with escapes for characters that could change how other text is shown.

    A peer could forge a line of a log with them. They are not removed: a credential that was masked
    only where it is in one piece would become one piece. Other text is returned unchanged.

    Example:
        >>> print(single_line("no\n2026-01-01 INFO all  is well\x1b[2J"))
        no\n2026-01-01 INFO all  is well\x1b[2J
    """
    return UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)
