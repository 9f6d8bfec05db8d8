"""What commands write: text, tables or JSON, progress bars, and numbers as people read them."""

import contextlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TextIO

from holdfast.readable_size import readable_size

if TYPE_CHECKING:
    from rich.progress import Progress, Task

# Colours on terminals that show them.

STYLES: Final = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}


def paint(text: str, style: str, stream: TextIO) -> str:
    """Return `text` in a style of `STYLES`; unchanged if `stream` shows no colours."""
    is_styled = text and style and shows_colours(stream)
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if is_styled else text


def shows_colours(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal with colours, and the user wants them.

    ``NO_COLOR``, if it is not empty, and ``TERM=dumb`` turn them off.
    """
    return not os.environ.get("NO_COLOR") and moves_cursor(stream)


def moves_cursor(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal that can do more than write lines."""
    return stream.isatty() and os.environ.get("TERM") not in {None, "", "dumb"}


CID_WIDTH: Final = 59  # characters of a CID of version 1; those of version 0 have 46
# The words with which lines on standard error begin, and their colours.
LABELS: Final = {"error": "red", "warning": "yellow", "hint": "cyan", "note": "dim"}


def say(*lines: str) -> None:
    """Write lines, with line breaks and control characters in them escaped."""
    for line in lines:
        sys.stdout.write(f"{printable(line)}\n")


def say_facts(width: int, facts: Iterable[tuple[str, str]], **styles: str) -> None:
    """Write a line for each label, in `width` columns, and its text, in the style of the label."""
    for label, text in facts:
        title = paint(f"{label:<{width}}", "bold", sys.stdout)
        shown = paint(printable(text), styles.get(label, ""), sys.stdout)
        sys.stdout.write(f"{title}{shown}\n")


def say_json(value: Any, default: Callable[[Any], Any] | None = None) -> None:
    """Write `value` as one line of JSON, in ASCII so that every encoding can carry it.

    `default` returns the form of what JSON does not have.
    """
    sys.stdout.write(f"{json.dumps(value, default=default)}\n")


def say_content(text: str) -> None:
    """Write JSON or other text. What cannot be written, or seen on a terminal, is escaped as JSON.

    The escapes that messages get would not be JSON.
    """
    encoding, is_terminal = sys.stdout.encoding, sys.stdout.isatty()
    for letter in sorted({*text} - {"\n", "\t"}):
        is_writable = letter.encode(encoding, "ignore").decode(encoding) == letter
        if not is_writable or (is_terminal and not letter.isprintable()):
            text = text.replace(letter, json.dumps(letter)[1:-1].replace("\x7f", r"\u007f"))
    sys.stdout.write(f"{text}\n")


def write_error(*lines: str) -> None:
    """Write lines to standard error; ignore that it cannot be written."""
    with contextlib.suppress(OSError):
        for line in lines:
            label, colon, rest = printable(line).partition(": ")
            if colon and label in LABELS:
                label, colon = paint(f"{label}:", LABELS[label], sys.stderr), " "
            sys.stderr.write(f"{label}{colon}{rest}\n")
        sys.stderr.flush()


def write_error_json(value: Any) -> None:
    """Write `value` as one line of JSON to standard error."""
    write_error(json.dumps(value))


def write_aside(label: str, text: str, *, as_json: bool) -> None:
    """Write a warning or a line of the log to standard error, with its label."""
    if as_json:
        write_error_json({label: text})
    else:
        write_error(f"{label}: {text}")


def printable(text: str) -> str:
    r"""Return `text` on one line, with its control characters escaped.

    Example:
        >>> print(printable("a\x1b[31mb\nc"))
        a\x1b[31mb\nc
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def size_text(size: int | None) -> str:
    """Return a number of bytes for people; "-" if it is not known.

    Example:
        >>> size_text(1500), size_text(None)
        ('1.46 KiB', '-')
    """
    return "-" if size is None else readable_size(size)


def count_text(number: int, thing: str) -> str:
    """Return a number of things for people.

    Example:
        >>> count_text(1, "pin"), count_text(2000, "pin")
        ('1 pin', '2,000 pins')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def cid_column(cid: str) -> str:
    """Return a CID for a line with more behind it, as wide as the longest usual one.

    Example:
        >>> len(cid_column("QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn"))
        59
    """
    return f"{cid:<{CID_WIDTH}}"


def time_text(milliseconds: int | None) -> str:
    """Return a time in this machine's time zone; as its number if no calendar has it."""
    if milliseconds is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return moment.strftime("%Y-%m-%d %H:%M")


# Tables on a terminal: a header, and columns that are in line and fit its width.
#
# The widths are those of the first rows, as many as the terminal shows at a time. So a list of
# any length is written as it comes. Pipes, which scripts read, get other lines: see `pins` and
# `listing`.

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
        column.title if any(texts) else "" for column, texts in zip(columns, cells, strict=True)
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
        width = max(widths[place] - too_many, min(widths[place], SHORTEST_NAME))
        too_many, widths[place] = too_many - (widths[place] - width), width
    return widths


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(map(_fitted, columns, cells, widths)).rstrip()


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


# Progress bars on a terminal, for what takes longer than half a second.

DELAY: Final = 0.5  # seconds; what ends earlier shows no bar
OTHER_COLUMNS: Final = 50  # of a terminal: the amounts, the rate, the time, and a short bar
SHORTEST_LABEL: Final = 8


class ProgressBar:
    """A function that shows progress on a bar, which appears after `DELAY`. It ends with its block.

    It counts bytes, or things that are called `unit`. Threads may call it.
    """

    def __init__(self, label: str, unit: str | None = None) -> None:
        self._unit = unit
        self._state: dict[str, Any] = {"description": printable(label), "completed": 0}
        self._bar: Progress | None = None
        self._ended = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(DELAY, self._begin)
        self._timer.daemon = True
        self._timer.start()

    def __call__(self, done: int, total: int | None, label: str | None = None) -> None:
        """Show what is done, of how much, and a new label if one is given."""
        with self._lock:
            self._state |= {"completed": done, "total": total}
            if label is not None:
                self._state["description"] = printable(label)
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], **self._state)

    def resume(self, position: int) -> None:
        """Show that the first bytes were there already; they do not count for the rate."""
        with self._lock:
            self._state["completed"] = position
            self._state["description"] += f" (from {size_text(position)} on)"
            if self._bar is not None:
                self._bar.reset(self._bar.task_ids[0], **self._state)

    def _begin(self) -> None:
        with self._lock:
            if not self._ended:
                self._bar = _bar(self._unit)
                self._bar.add_task(**{"total": None, **self._state})
                self._bar.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar away from the cursor; it stays on the screen as it is."""
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._bar is not None:
                self._bar.stop()


def _bar(unit: str | None) -> "Progress":
    # Importing it takes longer than most commands.
    from rich import progress
    from rich.console import Console
    from rich.table import Column
    from rich.text import Text

    class BytesColumn(progress.ProgressColumn):
        """The bytes that are done, of how many, and the rate."""

        def get_table_column(self) -> Column:
            return Column(no_wrap=True)

        def render(self, task: "Task") -> Text:
            total = "" if task.total is None else f" of {size_text(int(task.total))}"
            speed = task.finished_speed or task.speed
            rate = "" if speed is None else f"  {size_text(int(speed))}/s"
            return Text(f"{size_text(int(task.completed))}{total}{rate}")

    amounts: Sequence[progress.ProgressColumn] = (BytesColumn(),)
    if unit is not None:
        amounts = (progress.MofNCompleteColumn(), progress.TextColumn(unit))
    console = Console(stderr=True)
    room = max(console.width - OTHER_COLUMNS, SHORTEST_LABEL)
    return progress.Progress(
        # A long label first makes the bar shorter; then the label is cut.
        progress.TextColumn(
            "{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=room)
        ),
        progress.BarColumn(),
        *amounts,
        progress.TimeRemainingColumn(),
        console=console,
        redirect_stdout=False,  # results go where the user sent them
    )
