"""Colours on terminals that show them."""

import os
import sys
from typing import Final, TextIO

STYLES: Final = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}


def paint(text: str, style: str, stream: TextIO) -> str:
    """Return `text` in a style of `STYLES`; unchanged if `stream` shows no colours."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if text and shows_colours(stream) else text


def shows_colours(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal with colours, and the user wants them.

    ``NO_COLOR``, if it is not empty, and ``TERM=dumb`` turn them off.
    """
    if os.environ.get("NO_COLOR") or not moves_cursor(stream):
        return False
    return sys.platform != "win32" or bool({"WT_SESSION", "TERM"} & {*os.environ})


def moves_cursor(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal that can do more than write lines."""
    is_dumb = os.environ.get("TERM") in {None, "", "dumb"} and sys.platform != "win32"
    return stream.isatty() and not is_dumb
