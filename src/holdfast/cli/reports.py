"""What becomes of many items, and where an interrupted transfer continues."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import typer

import holdfast
from holdfast.cli import exit_codes, output
from holdfast.cli.run import Run
from holdfast.errors import AuthenticationError, PermissionDeniedError
from holdfast.events import Event

AT_ONCE: Final = 8  # items under way at the same time
FATAL: Final = (AuthenticationError, PermissionDeniedError)  # no other item would fare better


class BatchReport:
    """Many items: a line for each, and a summary at the end, also of an interrupt.

    A command overrides `write_result` and `summary`. While a bar is on the same terminal, nothing
    else can be written there, so lines wait for its end.

    Attributes:
        has_late_results: Whether the lines of results that had to wait are written at all.
        fatal: The errors after which no other item is tried.
        counts: How many items have ended, by what became of them: "failed", or a `state_of`.
        is_over: Whether all were tried.
        code: The exit code of the first that failed, or 0.
        remark: What to write after the summary; "" for nothing.
    """

    has_late_results = True
    fatal: tuple[type[Exception], ...] = FATAL

    def __init__(self, run: Run, kind: str = "cid") -> None:
        """Report to `run`; with --json, `kind` is the name of the field for an item."""
        self._run = run
        self._kind = kind
        self._bar: output.ProgressBar | None = None
        self._bytes = 0
        self._unreported: list[tuple[Any, Any]] = []  # ended on threads; some, at an interrupt
        self._early: dict[int, Any] = {}  # outcomes by their index
        self._waiting: list[Callable[[], None]] = []
        self.counts: Counter[str] = Counter()
        self.is_over: bool = False
        self.code: int = 0
        self.remark: str = ""

    def write_result(self, item: Any, result: Any) -> None:
        """Write the line of an item that succeeded."""
        raise NotImplementedError

    def summary(self) -> str:
        """Return what is written at the end, on one or more lines; "" for nothing."""
        raise NotImplementedError

    def state_of(self, result: Any) -> str:  # noqa: ARG002 - for subclasses
        """Return what became of an item that succeeded, for `counts`."""
        return "done"

    def label(self) -> str:
        """Return the label of the bar."""
        return output.count_text(self.counts.total(), "pin")

    def total(self) -> int | None:
        """Return the bytes of all items, if known."""
        return None

    @contextmanager
    def shown(
        self, label: str, *, unit: str | None = None, hidden: bool = False
    ) -> Iterator[output.ProgressBar | None]:
        """Show a bar, in bytes or in `unit`, unless `hidden`; then write what is left to say.

        That is written after an interrupt too. If an item failed, the command ends with its exit
        code.
        """
        try:
            with self._run.progress_bar(label, unit=unit, hidden=hidden) as self._bar:
                yield self._bar
        finally:
            self._bar = None
            while self._early:
                self._report_next()
            for item, result in [*self._unreported]:
                self.succeed(item, result)
            for write in self._waiting:
                write()
            for text in filter(None, (*self.summary().splitlines(), self.remark)):
                self._run.note(text)
        if self.code:
            raise typer.Exit(self.code)

    def progress(self, done: int, _: int | None) -> None:
        """Show how many bytes of all items were sent."""
        self._bytes = done
        if (bar := self._bar) is not None:  # another thread may end it
            bar(done, self.total(), self.label())

    def work(self, function: Callable[[Any], Any], items: Iterable[Any]) -> None:
        """Call `function` with each item, several at a time, and report what becomes of it."""
        from holdfast._sync.outcomes import Outcomes
        from holdfast._sync.workers import WorkGroup

        def call(item: Any) -> Any:
            result = function(item)
            self._unreported.append((item, result))
            return result

        self.take_all(Outcomes(WorkGroup(call, items, AT_ONCE)), in_order=True)

    def take_all(self, outcomes: Any, *, in_order: bool = False) -> None:
        """Report all outcomes, until one says that all others would fail too.

        With `in_order`, one that has ended early waits for those before it.
        """
        last = -1
        with outcomes:
            for outcome in outcomes:
                self._early[outcome.index] = outcome
                while self._early and (not in_order or min(self._early) == last + 1):
                    last = min(self._early)
                    self._report_next()
                if isinstance(outcome.error, self.fatal):
                    return
                self.progress(self._bytes, None)
        self.is_over = True

    def _report_next(self) -> None:
        """Report the first outcome of those that wait."""
        outcome = self._early.pop(min(self._early))
        if outcome.error is None:
            self.succeed(outcome.item, outcome.result())
        else:
            self.fail(outcome.item, outcome.error)

    def fail(self, item: Any, error: Exception) -> None:
        """Report an item that failed."""
        report = exit_codes.describe(error)
        self.code = self.code or report["exitCode"]
        self.counts["failed"] += 1
        write = partial(self._run.write_failure, self._kind, getattr(item, "cid", item), report)
        if self._bar is None:
            write()
        else:
            self._waiting.append(write)

    def succeed(self, item: Any, result: Any) -> None:
        """Report an item that succeeded."""
        if self._bar is None or not sys.stdout.isatty():
            self.write_result(item, result)
        elif self.has_late_results:
            self._waiting.append(partial(self.write_result, item, result))
        with suppress(ValueError):  # at the end: an interrupt may come at any time
            self._unreported.remove((item, result))
        self.counts[self.state_of(result)] += 1


def source_reader(
    exclude: list[str] | None, *, include_hidden: bool, no_ignore: bool
) -> Callable[[str], Any]:
    """Return a function that scans a folder, to count what is left out; other paths stay paths."""
    from holdfast.sources.folder_source import IGNORE_FILE, FolderSelection, FolderSource

    how: FolderSelection = {"include_hidden": include_hidden, "exclude": exclude or ()}
    how["ignore_file"] = None if no_ignore else IGNORE_FILE
    return lambda file: FolderSource.of(file, **how) if Path(file).is_dir() else file


def note_excluded(run: Run, count: int) -> None:
    """Say how many names in folders were left out because of a pattern."""
    if count:
        run.note(f"left out by patterns of --exclude and .ipfsignore: {count:,}")


def telling_resumes(
    run: Run, client: "holdfast.Client", label: str, bar: output.ProgressBar | None = None
) -> "holdfast.Client":
    """Return a client that says where an interrupted upload or download continues.

    It says so once. A folder's next events are for its files.
    """
    is_said = False

    def tell(event: Event) -> None:
        nonlocal is_said
        if event.kind == "resume" and event.position and not is_said:
            is_said = True
            run.note(f"{label}: continues after {output.size_text(event.position)}")
            if bar is not None:
                bar.resume(event.position)

    return client.with_options(on_event=tell)
