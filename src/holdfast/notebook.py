"""How values look in notebooks: tables of HTML, in which every text is escaped."""

from collections.abc import Iterable
from datetime import datetime
from html import escape
from itertools import islice
from typing import Any, Final

from holdfast.readable_size import readable_size
from holdfast.single_line import short

MOST_ROWS: Final = 100  # of a list


def size_text(size: int | None) -> str:
    """Return a number of bytes for people; a dash if it is not known."""
    return "-" if size is None else readable_size(size)


def time_text(moment: datetime | None) -> str:
    """Return a time for people; a dash if it is not known."""
    return "-" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def table(rows: Iterable[Iterable[Any]], head: Iterable[str] = (), count: int = 0) -> str:
    """Return a table with a row for each of `rows`, of which there are `count`.

    Example:
        >>> table([("<b>", 1)])
        '<table><tr><td>&lt;b&gt;</td><td>1</td></tr></table>'
    """
    lines = [_row("th", head)] if head else []
    lines += [_row("td", row) for row in islice(rows, MOST_ROWS)]
    more = f"<p>and {count - MOST_ROWS:,} more</p>" if count > MOST_ROWS else ""
    return f"<table>{''.join(lines)}</table>{more}"


def _row(tag: str, cells: Iterable[Any]) -> str:
    texts = (f"<{tag}>{escape(short(str(cell)))}</{tag}>" for cell in cells)
    return f"<tr>{''.join(texts)}</tr>"
