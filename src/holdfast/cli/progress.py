"""Progress bars on a terminal, for what takes longer than half a second."""

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.output import moves_cursor, printable, size_text

if TYPE_CHECKING:
    from rich.progress import Progress, Task

DELAY: Final = 0.5  # seconds; what ends earlier shows no bar
OTHER_COLUMNS: Final = 50  # of a terminal: the amounts, the rate, the time, and a short bar
SHORTEST_LABEL: Final = 8


@contextlib.contextmanager
def progress_bar(
    label: str, *, unit: str | None = None, hidden: bool = False
) -> "Iterator[ProgressBar | None]":
    """Show a progress bar, and yield it; yield None without a terminal that can draw one.

    It counts bytes, or things that are called `unit`.
    """
    if hidden or not moves_cursor(sys.stderr):
        yield None
        return
    bar = ProgressBar(label, unit)
    try:
        yield bar
    finally:
        bar.end()


class ProgressBar:
    """A function that shows progress on a bar, which appears after `DELAY`.

    Threads may call it.
    """

    def __init__(self, label: str, unit: str | None) -> None:
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

    def end(self) -> None:
        """Take the bar away from the cursor; it stays on the screen as it is."""
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._bar is not None:
                self._bar.stop()


def _bar(unit: str | None) -> "Progress":
    # Importing it takes longer than most commands.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column
    from rich.text import Text

    class BytesColumn(ProgressColumn):
        """The bytes that are done, of how many, and the rate."""

        def get_table_column(self) -> Column:
            return Column(no_wrap=True)

        def render(self, task: "Task") -> Text:
            total = "" if task.total is None else f" of {size_text(int(task.total))}"
            speed = task.finished_speed or task.speed
            rate = "" if speed is None else f"  {size_text(int(speed))}/s"
            return Text(f"{size_text(int(task.completed))}{total}{rate}")

    amounts = (BytesColumn(),) if unit is None else (MofNCompleteColumn(), TextColumn(unit))
    console = Console(stderr=True)
    room = max(console.width - OTHER_COLUMNS, SHORTEST_LABEL)
    return Progress(
        # A long label first makes the bar shorter; then the label is cut.
        TextColumn(
            "{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=room)
        ),
        BarColumn(),
        *amounts,
        TimeRemainingColumn(),
        console=console,
        redirect_stdout=False,  # results go where the user sent them
    )
