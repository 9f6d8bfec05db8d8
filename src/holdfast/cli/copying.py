"""The command `copy`: content from one provider to another, under the same CIDs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import exit_codes, output
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import (
    KEYVALUES,
    NAME_FILTER,
    cid_argument,
    connection_names,
    not_empty,
    parse_keyvalues,
)
from holdfast.cli.reports import AT_ONCE, FATAL, note, write_failure
from holdfast.cli.run import Run, command, group

if TYPE_CHECKING:
    from holdfast import Client, Outcome

commands: Final = group()

WAIT: Final = 60.0


@command(commands)
def copy(
    run: Run,
    cids: Annotated[
        list[str] | None,
        cid_argument("What to copy; else all pins of the source."),
    ] = None,
    *,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="CONNECTION",
            callback=not_empty,
            autocompletion=connection_names,
            help="Where the content is: a connection of your holdfast.toml, or a provider such "
            "as local or kubo.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="CONNECTION",
            callback=not_empty,
            autocompletion=connection_names,
            help="Where to copy it to, likewise.",
        ),
    ],
    name: NAME_FILTER = None,
    keyvalue: KEYVALUES = None,
    dry_run: Annotated[
        bool, typer.Option("-n", "--dry-run", help="Only show what is missing at the target.")
    ] = False,
    pin_by_cid: Annotated[
        bool | None,
        typer.Option(
            "--pin-by-cid/--no-pin-by-cid",
            show_default=False,
            help="Let the target fetch by its CID what it cannot be sent; or never do that.",
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long to wait until it is fetched.")
    ] = WAIT,
) -> None:
    """Copy content to another provider.

    The CIDs stay the same. There is a line for each pin. What the target has is not sent again, so
    the same command continues after an interruption.
    """
    from holdfast._sync.providers.foreign import as_provider

    wanted: dict[str, Any] = {"name": name, "keyvalues": parse_keyvalues(keyvalue)}
    if cids and (name is not None or wanted["keyvalues"]):
        raise UsageError("--name and --keyvalue choose among all pins: leave them or the CIDs out")
    options: dict[str, Any] = {"pin_by_cid": pin_by_cid, "wait": wait}
    if source == to:
        raise _same_place(source, to)
    with (
        run.connect(source, "--from", is_source=True) as client,
        run.connect(to, "--to") as target,
    ):
        if as_provider(client.provider).place().is_same(as_provider(target.provider).place()):
            raise _same_place(source, to)
        if dry_run:
            _show_missing(run, client, target, cids, wanted)
            return
        report = Report(run, f"copied to {to}")
        with report.told(), run.progress_bar("copy") as show:
            report.use_bar(show)
            if cids:
                outcomes = _copy_each(client, target, [*dict.fromkeys(cids)], report, options)
                report.take_all(outcomes)
            else:
                options |= {"progress": report.progress, **wanted}
                report.take_all(client.copy_pins(to=target, **options))
    if report.code:
        raise typer.Exit(report.code)


def _copy_each(
    client: "Client", target: "Client", cids: list[str], report: "Report", options: dict[str, Any]
) -> Any:
    from holdfast._sync.folder_download import Tally
    from holdfast._sync.workers import Outcomes, WorkGroup

    tally = Tally(report.progress)

    def copy_one(cid: str) -> Any:
        return client.copy(cid, to=target, progress=tally.of_file(), **options)

    return Outcomes(WorkGroup(copy_one, cids, AT_ONCE))


def _same_place(source: str, to: str) -> UsageError:
    return UsageError(
        f"--from {source} and --to {to} are the same place: name two connections that differ"
    )


def _show_missing(
    run: Run, client: "Client", target: "Client", cids: list[str] | None, wanted: dict[str, Any]
) -> None:
    """Write a line for each pin: whether the target has it."""
    from holdfast._sync.copying import find_pin, has_content
    from holdfast._sync.providers.foreign import as_provider
    from holdfast._sync.workers import Outcomes, WorkGroup
    from holdfast.content.reference import Reference
    from holdfast.records import Pin

    def look(pin: Pin) -> bool:
        found = find_pin(as_provider(target.provider), Reference.parse_cid(pin.cid))
        return found is not None and has_content(found)

    def chosen() -> Iterator[Pin]:
        for cid in map(Reference.parse_cid, cids or ()):
            yield find_pin(as_provider(client.provider), cid) or Pin(id="", cid=cid, size=None)

    pins = chosen() if cids else client.iter_pins(**wanted)
    missing = there = size = 0
    with Outcomes(WorkGroup(look, pins, AT_ONCE)) as outcomes:
        for outcome in outcomes:
            pin, has = outcome.item, outcome.result()
            there, missing = there + has, missing + (not has)
            size += 0 if has else pin.size or 0
            facts = {"cid": pin.cid, "name": pin.name, "size": pin.size, "duplicate": has}
            words = "there" if has else "missing"
            cid, amount = output.cid_column(pin.cid), output.size_text(pin.size)
            run.emit(facts, f"{words:7}  {cid}  {amount:>9}  {pin.name}")
    count = output.count_text(missing, "pin")
    note(run, f"missing: {count} ({output.size_text(size)}); there already: {there:,}")


class Report:
    """What became of the pins.

    Attributes:
        code: The exit code of the first that failed, or 0.
        is_over: Whether all were tried.
    """

    def __init__(self, run: Run, done: str) -> None:
        self._run = run
        self._words = done
        self._counts = {"new": 0, "there": 0, "waiting": 0, "failed": 0}
        self._bytes = 0
        self._show: Callable[..., None] | None = None
        self._held: list[tuple[str, dict[str, Any]]] = []
        self.is_over: bool = False
        self.code: int = 0

    def use_bar(self, show: Callable[..., None] | None) -> None:
        """Show progress with `show`; None without a terminal."""
        self._show = show

    def progress(self, done: int, _: int | None) -> None:
        """Show how many bytes were sent."""
        self._bytes = done
        if self._show is not None:
            self._show(done, None, output.count_text(sum(self._counts.values()), "pin"))

    def take_all(self, outcomes: Any) -> None:
        """Tell all outcomes, unless all others would fail too."""
        with outcomes:
            for outcome in outcomes:
                self._take(outcome)
                if isinstance(outcome.error, FATAL):
                    return
        self.is_over = True

    def _take(self, outcome: "Outcome[Any, Any]") -> None:
        item = getattr(outcome.item, "cid", outcome.item)
        if outcome.error is not None:
            self.code = self.code or exit_codes.family_of(outcome.error).code
            self._counts["failed"] += 1
            self._held.append((item, exit_codes.describe(outcome.error)))
            if self._show is None:
                self._tell_failures()
            return
        copied = outcome.result()
        is_new = copied.state == "pinned"
        self._counts["there" if copied.duplicate else "new" if is_new else "waiting"] += 1
        if self._show is None or not sys.stdout.isatty():
            dropped = f"  (without {', '.join(copied.dropped)})" if copied.dropped else ""
            done = "there" if copied.duplicate else "copied"
            done = done if copied.state == "pinned" else copied.state
            cid = output.cid_column(copied.cid)
            self._run.emit(asdict(copied), f"{done:7}  {cid}  {copied.name}{dropped}")
        if self._show is not None:
            self.progress(self._bytes, None)

    def _tell_failures(self) -> None:
        for item, failure in self._held:
            write_failure(self._run, "cid", item, failure)
        self._held.clear()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Write what is left to say at the end, also of an interrupt."""
        try:
            yield
        finally:
            self._tell_failures()
            counts = self._counts
            parts = [f"{self._words}: {output.count_text(counts['new'], 'pin')}"]
            parts += [f"there already: {counts['there']:,}"] if counts["there"] else []
            parts += [f"not fetched yet: {counts['waiting']:,}"] if counts["waiting"] else []
            parts += [f"failed: {counts['failed']:,}"] if counts["failed"] else []
            parts += [] if self.is_over else ["to go on, run the same command again"]
            note(self._run, "; ".join(parts))
