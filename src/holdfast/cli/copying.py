"""The command `copy`: content from one provider to another, under the same CIDs."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import output
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import (
    KEYVALUES,
    NAME_FILTER,
    cid_argument,
    connection_names,
    flag,
    not_empty,
    option,
    parse_keyvalues,
)
from holdfast.cli.reports import AT_ONCE, BatchReport
from holdfast.cli.run import Run, command, group

if TYPE_CHECKING:
    from holdfast import Client, Copied

commands: Final = group()

WAIT: Final = 60.0


@command(commands)
def copy(
    run: Run,
    cids: Annotated[
        list[str] | None, cid_argument("What to copy; else all pins of the source.")
    ] = None,
    *,
    source: Annotated[
        str,
        option(
            "CONNECTION",
            "Where the content is: a connection of your holdfast.toml, or a provider such "
            "as local or kubo.",
            "--from",
            callback=not_empty,
            autocompletion=connection_names,
        ),
    ],
    to: Annotated[
        str,
        option(
            "CONNECTION",
            "Where to copy it to, likewise.",
            "--to",
            callback=not_empty,
            autocompletion=connection_names,
        ),
    ],
    name: NAME_FILTER = None,
    keyvalue: KEYVALUES = None,
    dry_run: Annotated[
        bool, flag("Only show what is missing at the target.", "-n", "--dry-run")
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
        float, option("SECONDS", "How long to wait until it is fetched.", min=0)
    ] = WAIT,
) -> None:
    """Copy content to another provider.

    The CIDs stay the same. There is a line for each pin. What the target has is not sent again, so
    the same command continues after an interruption.
    """
    from holdfast._sync.folder_download import Tally
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
        report = CopyReport(run, f"copied to {to}")
        with report.shown("copy"):
            if cids:
                tally = Tally(report.progress)
                report.work(
                    lambda cid: client.copy(cid, to=target, progress=tally.of_file(), **options),
                    dict.fromkeys(cids),
                )
            else:
                options |= {"progress": report.progress, **wanted}
                report.take_all(client.copy_pins(to=target, **options))
    if report.code:
        raise typer.Exit(report.code)


def _same_place(source: str, to: str) -> UsageError:
    return UsageError(
        f"--from {source} and --to {to} are the same place: name two connections that differ"
    )


def _show_missing(
    run: Run, client: "Client", target: "Client", cids: list[str] | None, wanted: dict[str, Any]
) -> None:
    """Write a line for each pin: whether the target has it."""
    from holdfast._sync.copying import find_pin, has_content
    from holdfast._sync.outcomes import Outcomes
    from holdfast._sync.providers.foreign import as_provider
    from holdfast._sync.workers import WorkGroup
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
    run.note(f"missing: {count} ({output.size_text(size)}); there already: {there:,}")


class CopyReport(BatchReport):
    """What became of the pins that are copied. On a terminal with a bar, only failures have lines.

    The words `done` say what was done with them.
    """

    has_late_results = False

    def __init__(self, run: Run, done: str) -> None:
        super().__init__(run)
        self._words = done

    def state_of(self, result: "Copied") -> str:
        """Return what became of a pin, for `counts`."""
        is_new = result.state == "pinned"
        return "there" if result.duplicate else "new" if is_new else "waiting"

    def write_result(self, item: object, result: "Copied") -> None:  # noqa: ARG002
        """Write what became of a pin, its CID and its name."""
        dropped = f"  (without {', '.join(result.dropped)})" if result.dropped else ""
        done = "there" if result.duplicate else "copied"
        done = done if result.state == "pinned" else result.state
        cid = output.cid_column(result.cid)
        self._run.emit(asdict(result), f"{done:7}  {cid}  {result.name}{dropped}")

    def summary(self) -> str:
        """Return how many were copied, and what became of the others."""
        counts = self.counts
        others = {"there": "there already", "waiting": "not fetched yet", "failed": "failed"}
        parts = [f"{self._words}: {output.count_text(counts['new'], 'pin')}"]
        parts += [f"{words}: {counts[name]:,}" for name, words in others.items() if counts[name]]
        parts += [] if self.is_over else ["to go on, run the same command again"]
        return "; ".join(parts)
