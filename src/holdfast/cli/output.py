"""What a command writes: text for people, JSON for machines, and bars where somebody looks."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TextIO

from holdfast.cli import exits


def say(text: str, stream: TextIO | None = None) -> None:
    """Write a line; control characters in it move no terminal's cursor."""
    stream = stream or sys.stdout
    print(printable(text) if stream.isatty() else text, file=stream)


def say_json(value: Any, stream: TextIO | None = None) -> None:
    """Write `value` as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False), file=stream or sys.stdout)


def warn(text: str) -> None:
    """Write a warning where it disturbs no output."""
    say(f"warning: {text}", sys.stderr)


def printable(text: str) -> str:
    r"""`text` with its control characters escaped, line ends and tabs aside.

    Example:
        >>> print(printable("a\x1b[31mb"))
        a\x1b[31mb
    """
    return "".join(
        each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text
    )


def report(error: Exception, *, as_json: bool) -> int:
    """Write about `error`; the exit code that it ends in."""
    told = exits.describe(error)
    if as_json:
        say_json({"error": told}, sys.stderr)
    else:
        details = f" ({told['details']})" if "details" in told else ""
        say(f"error: {told['message']}{details}", sys.stderr)
        for note in told.get("notes", ()):
            say(f"note: {note}", sys.stderr)
        say(f"hint: {told['remedy']}", sys.stderr)
    code: int = told["exitCode"]
    return code


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """A bar on the terminal with rate and time left, as a progress function; in a pipe, None."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bar:
        task = bar.add_task(printable(label), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def size_text(size: int) -> str:
    """A number of bytes, as people read it.

    Example:
        >>> size_text(999), size_text(1_500_000)
        ('999 B', '1.5 MB')
    """
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def time_text(milliseconds: int) -> str:
    """A moment, by this machine's clock and time zone."""
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
