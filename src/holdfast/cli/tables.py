"""Tables on a terminal: a header, and columns that are in line and fit its width.

The widths are those of the first rows, as many as the terminal shows at a time. So a list of any
length is written as it comes. Pipes, which scripts read, get other lines: see `pins` and `listing`.
"""

import shutil
import sys
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Final, Literal, NamedTuple

from holdfast.cli.colours import paint
from holdfast.cli.output import CID_WIDTH, printable

GAP: Final = "  "
SHORT_CID: Final = 15  # columns of a CID where a whole one does not fit
SHORTEST_NAME: Final = 12  # columns of long names on the narrowest terminals


class Column(NamedTuple):
    """A column. Long names are cut at the end and CIDs in the middle; numbers stand at the right.

    The title is not shown if the cells of the first rows are empty.
    """

    title: str
    kind: Literal["name", "cid", "number", "text"] = "text"


def write_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> bool:
    """Write a table to the terminal as `rows` come; return whether there were any."""
    terminal = shutil.get_terminal_size()
    escaped = ([printable(cell) for cell in row] for row in rows)
    first = list(islice(escaped, max(1, terminal.lines)))
    if not first:
        return False
    cells = [[row[place] for row in first] for place in range(len(columns))]
    titles = [
        each.title if any(column) else "" for each, column in zip(columns, cells, strict=True)
    ]
    widths = _widths(columns, [titles, *first], terminal.columns)
    sys.stdout.write(f"{paint(_line(columns, titles, widths), 'bold', sys.stdout)}\n")
    for row in chain(first, escaped):
        sys.stdout.write(f"{_line(columns, row, widths)}\n")
    return True


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return the width of each column, so that a line has `room` columns if that can be."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, cells)) for cells in zip(*rows, strict=True)]
    cids = [place for place, column in enumerate(columns) if column.kind == "cid"]
    names = [place for place, column in enumerate(columns) if column.kind == "name"]
    for place in cids:
        widths[place] = CID_WIDTH
    gaps = len(GAP) * (sum(map(bool, widths)) - 1)
    too_many = sum(widths) + gaps - room
    for place in cids if too_many > 0 else ():
        too_many -= CID_WIDTH - SHORT_CID
        widths[place] = SHORT_CID
    for place in names if too_many > 0 else ():
        widths[place] = max(widths[place] - too_many, min(widths[place], SHORTEST_NAME))
    return widths


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    fitted = map(_fitted, columns, cells, widths)
    return GAP.join(fitted).rstrip()


def _fitted(column: Column, cell: str, width: int) -> str:
    """Return `cell` as wide as its column; wider if it is neither a name nor a CID."""
    from rich.cells import cell_len, set_cell_size

    length = cell_len(cell)
    if length > width and column.kind == "name":
        return f"{set_cell_size(cell, width - 1)}…"
    if length > width and column.kind == "cid":
        return short_cid(cell, width)
    padding = " " * (width - length)
    return padding + cell if column.kind == "number" else cell + padding


def short_cid(cid: str, width: int = SHORT_CID) -> str:
    """Return the beginning and the end of a CID, `width` characters in all.

    Example:
        >>> short_cid("bafkreietui4xdkiu4xvmx4fi2jivjtndbhb4drzpxomrjvd4mdz4w2avra")
        'bafkreie…w2avra'
    """
    end = width * 2 // 5
    return f"{cid[: width - end - 1]}…{cid[-end:]}"
