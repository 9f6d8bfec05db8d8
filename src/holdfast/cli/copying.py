"""The commands `copy`, `backup` and `restore`: pins to another provider, or to a file and back."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import holdfast
from holdfast.cli import exit_codes, options, output
from holdfast.cli.cid_list import read_list
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import cid_argument, file_argument, flag, option
from holdfast.cli.references import References
from holdfast.cli.reports import AT_ONCE, BatchReport
from holdfast.cli.run import Run, command, group
from holdfast.content.reference import Reference
from holdfast.errors import ClientError, MalformedError, NotFoundError
from holdfast.hints import advise

if TYPE_CHECKING:
    from holdfast import Client, Copied
    from holdfast.cli.backup_file import BackupProvider, BackupWriter

commands: Final = group()
PLACE: Final = partial(
    options.option,
    "CONNECTION",
    callback=options.not_empty,
    autocompletion=options.connection_names,
)
FILE = file_argument('The file, or "-".')
NOT_A_BACKUP = "use another copy of it; `holdfast car import` reads archives that are not backups"


@command(commands)
def copy(
    run: Run,
    cids: Annotated[
        list[str] | None, cid_argument("What to copy; by default all pins of the source.")
    ] = None,
    *,
    source: Annotated[
        str,
        PLACE(
            "Where the content is: a connection of your holdfast.toml, or a provider such "
            "as local or kubo. `gateway` is all public gateways.",
            "--from",
        ),
    ],
    to: Annotated[str, PLACE("Where to copy it: a connection or provider, as for --from.", "--to")],
    cid_file: Annotated[
        str | None,
        option(
            "FILE",
            'A file that lists what to copy, or "-": one CID on each line, or a CSV with a column '
            "cid and perhaps name. Other columns become key-values.",
            "--cids",
            callback=options.not_empty,
        ),
    ] = None,
    gateway_url: Annotated[
        list[str] | None, option("URL", "Read the content through this gateway. Repeatable.")
    ] = None,
    journal: Annotated[
        str | None,
        option(
            "FILE",
            "Record in this file what was copied, for the summaries of later runs.",
            callback=options.not_empty,
        ),
    ] = None,
    name: options.NAME_FILTER = None,
    keyvalue: options.KEYVALUES = None,
    dry_run: Annotated[bool, flag("Only show what is missing at the target.", "--dry-run")] = False,
    pin_by_cid: Annotated[
        bool | None,
        flag(
            "Let the target fetch content by its CID if it cannot be sent, or never do that.",
            "--pin-by-cid/--no-pin-by-cid",
        ),
    ] = None,
    wait: Annotated[
        float, option("SECONDS", "How long to wait for the target to fetch it.", min=0)
    ] = 60.0,
    proof: Annotated[bool, flag("Ask for random blocks; send missing ones.", "--proof")] = False,
    sample: Annotated[
        str | None, option("SAMPLE", "The blocks, with --proof: 2%, 3/30 of all, or 500M.")
    ] = None,
) -> None:
    """Copy content to another provider.

    The CIDs stay the same. Each pin gets a line. Content that the target already has is not sent
    again, so you can run the same command again after an interruption. At the end, it says how many
    pins were copied, from which gateways, and how many were not found. With --proof it also says
    what the target has proven to have; the exit code is 1 if blocks are missing there.
    """
    from holdfast._sync.providers.foreign import as_provider

    filters: dict[str, Any] = {"name": name, "keyvalues": options.parse_keyvalues(keyvalue)}
    is_chosen = bool(cids) or cid_file is not None
    if is_chosen and (name is not None or filters["keyvalues"]):
        raise UsageError("--name and --keyvalue filter all pins: give these or CIDs, not both")
    if cids and cid_file is not None:
        raise UsageError("give the CIDs, or a file of them with --cids, not both")
    if source == to:
        raise _same_place(source, to)
    report = CopyReport(run, f"copied to {to}")
    with (
        run.connect(source, "--from", is_source=True, gateway_url=gateway_url) as client,
        run.connect(to, "--to") as target,
        nullcontext() if cid_file in {None, "-"} else Path(cid_file).open("rb") as file,
    ):
        provider = as_provider(client.provider)
        if provider.place().is_same(as_provider(target.provider).place()):
            raise _same_place(source, to)
        items: Iterable[Any] | None = References(client, cids).cids() if cids else None
        if cid_file is not None:
            items = read_list(file or run.standard_input(), cid_file, report.fail)
        if not provider.supports("list_pins"):
            if items is None:
                raise UsageError(f"{source} has no list of pins: give CIDs, or --cids FILE")
            target.test_connection()
            report.fatal = ()  # a gateway may refuse one CID and have the next
        if dry_run:
            _show_missing(run, client, target, items, filters)
            raise typer.Exit(report.code)
        how: dict[str, Any] = {"pin_by_cid": pin_by_cid, "wait": wait, "journal": journal}
        how |= {"to": target, "progress": report.progress}
        how |= {"proof": proof or sample is not None, "sample": "2%" if sample is None else sample}
        with report.shown("copy"):
            if items is None:
                report.take_all(client.copy_pins(**how, **filters))
            else:
                report.take_all(client.copy_many(items, **how))


def _same_place(source: str, to: str) -> UsageError:
    return UsageError(
        f"--from {source} and --to {to} are the same place: name two different connections"
    )


def _show_missing(
    run: Run,
    client: "Client",
    target: "Client",
    items: Iterable[Any] | None,
    filters: dict[str, Any],
) -> None:
    """Write a line for each pin: whether the target has it."""
    from holdfast._sync.outcomes import Outcomes
    from holdfast._sync.providers.foreign import as_provider
    from holdfast._sync.proving import find_pin, has_content
    from holdfast._sync.workers import WorkGroup
    from holdfast.records import Pin

    def look(pin: Pin) -> bool:
        copied = find_pin(as_provider(target.provider), Reference.parse_cid(pin.cid))
        return copied is not None and has_content(copied)

    def chosen() -> Iterator[Pin]:
        for item in items or ():
            if isinstance(item, Pin):
                yield item
                continue
            cid = Reference.parse_cid(item)
            yield find_pin(as_provider(client.provider), cid) or Pin(id="", cid=cid, size=None)

    pins = client.iter_pins(**filters) if items is None else chosen()
    missing = present = size = 0
    with Outcomes(WorkGroup(look, pins, AT_ONCE)) as outcomes:
        for outcome in outcomes:
            pin, has = outcome.item, outcome.result()
            present, missing = present + has, missing + (not has)
            size += 0 if has else pin.size or 0
            facts = {"cid": pin.cid, "name": pin.name, "size": pin.size, "duplicate": has}
            words = "there" if has else "missing"
            cid, amount = output.cid_column(pin.cid), output.size_text(pin.size)
            run.emit(facts, f"{words:7}  {cid}  {amount:>9}  {pin.name}")
    count = output.count_text(missing, "pin")
    run.note(f"missing: {count} ({output.size_text(size)}); there already: {present:,}")


class CopyReport(BatchReport):
    """What became of the pins that are copied. On a terminal with a bar, only failures have lines.

    The words `done` say what was done with them.
    """

    has_late_results = False

    def __init__(self, run: Run, done: str) -> None:
        super().__init__(run)
        self._words = done
        self._gateways: Counter[str] = Counter()
        self._proven = 0
        self._missing = 0

    def state_of(self, result: "Copied") -> str:
        """Return what became of a pin, for `counts`."""
        if result.proof == "missing" or result.repaired:
            return "missing" if result.proof == "missing" else "repaired"
        is_new = result.state == "pinned"
        return "there" if result.duplicate or result.earlier else "new" if is_new else "waiting"

    def succeed(self, item: Any, result: "Copied") -> None:
        """Report a copy."""
        super().succeed(item, result)
        self._gateways.update(result.gateways)
        self._proven += result.proof == "proven"
        if result.proof == "missing":
            self.code: int = self.code or exit_codes.FAILED
        elif result.proof_note:
            self.remark: str = f"not proven: {result.proof_note}"

    def fail(self, item: Any, error: Exception) -> None:
        """Report an item that failed."""
        super().fail(item, error)
        self._missing += isinstance(error, NotFoundError)

    def write_result(self, item: object, result: "Copied") -> None:  # noqa: ARG002
        """Write what became of a pin, its CID and its name."""
        done = self.state_of(result)
        remark = f"  (without {', '.join(result.dropped)})" if result.dropped else ""
        remark = f"  ({result.proof_note})" if done == "missing" else remark
        if done in {"new", "there", "waiting"}:
            words = "copied" if done == "new" else "there"
            done = words if result.state == "pinned" else result.state
        cid = output.cid_column(result.cid)
        self._run.emit(asdict(result), f"{done:7}  {cid}  {result.name}{remark}")

    def summary(self) -> str:
        """Return how many were copied, and what became of the others."""
        counts = self.counts
        others = {"there": "there already", "waiting": "not fetched yet", "repaired": "repaired"}
        others |= {"missing": "blocks missing at the target", "failed": "failed"}
        parts = [f"{self._words}: {output.count_text(counts['new'], 'pin')}"]
        parts += [f"from {host}: {count:,}" for host, count in self._gateways.most_common()]
        parts += [f"{words}: {counts[name]:,}" for name, words in others.items() if counts[name]]
        parts[-1] += f" (not found: {self._missing:,})" if self._missing else ""
        parts += [f"proven: {self._proven:,}"] if self._proven else []
        parts += [] if self.is_over else ["to continue, run the same command again"]
        return "; ".join(parts)


@command(commands, *options.LOOKS)
def backup(
    run: Run,
    file: Annotated[str | None, FILE] = None,
    *,
    output_file: options.OUTPUT = None,
    force: options.FORCE = False,
) -> None:
    """Write all pins to one file.

    The file has their content, names and key-values. It is an archive (CAR), and appears complete,
    or not at all. Pins whose content cannot be read are listed, and the exit code is that of the
    first. In that case, the new file is named FILE.incomplete, and an existing FILE stays even with
    --force.
    """
    from holdfast.cli.backup_file import BackupWriter

    file = options.required_target(file, output_file, force=force)
    with run.client(is_source=True) as client, _opened(run, file) as (out, commit):
        with (
            closing(BackupWriter(out, client.iter_pins())) as writer,
            run.progress_bar("backup", hidden=file == "-") as show,
        ):
            done, failures = _write_content(client, writer, show)
        for cid, failure in failures:
            run.write_failure("cid", cid, failure)
        path = commit(is_complete=not failures)
    pins, missing = output.count_text(done, "pin"), len(failures)
    if file != "-":
        facts = {"path": path, "pins": done, "size": writer.size, "cid": str(writer.root)}
        run.emit(facts, path)
    missed = f"; not in it: {missing:,}" if missing else ""
    run.note(f"backed up: {pins}, {output.size_text(writer.size)}{missed}")
    if failures:
        raise typer.Exit(failures[0][1]["exitCode"])


@contextmanager
def _opened(run: Run, file: str) -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Yield the file to write to, and the function that gives it its name and returns that."""
    from holdfast.disk.atomic import PendingFile

    if file == "-":
        out = run.standard_output("a backup")
        yield out, lambda **_: out.flush()
        return
    with PendingFile(file) as pending:

        def commit(*, is_complete: bool) -> str:
            if not is_complete:
                pending.target = Path(f"{file}.incomplete")
            pending.commit()
            return str(pending.target)

        yield pending, commit


def _write_content(
    client: "Client", writer: "BackupWriter", show: Callable[..., None] | None
) -> tuple[int, list[tuple[str, dict[str, Any]]]]:
    """Write the content of each pin; return how many are complete, and what failed of the others.

    The errors themselves would hold all that was being read.
    """
    from holdfast._sync.providers.foreign import as_provider

    provider = as_provider(client.provider).require("export_archive")
    done, failures = 0, []

    def report() -> None:
        if show is not None:
            show(writer.size, None, output.count_text(done, "pin"))

    for cid in writer.cids():
        try:
            writer.add(provider.export_archive(cid), report)
            done += 1
        except ClientError as error:
            failures.append((cid, exit_codes.describe(error)))
    return done, failures


@command(commands, *options.WRITES)
def restore(run: Run, file: Annotated[str, FILE]) -> None:
    """Store all pins of a backup.

    Names and key-values are restored too. Each pin gets a line. Pins that the provider already has
    are not sent again, so you can run the same command again after an interruption.
    """
    report = CopyReport(run, "restored")
    with closing(_open(run, file)) as provider, run.client() as client:
        source = holdfast.Client(provider)
        with report.shown("restore"):
            report.take_all(source.copy_pins(to=client, progress=report.progress))
            report.remark = provider.damage


def _open(run: Run, file: str) -> "BackupProvider":
    from holdfast.cli.backup_file import BackupProvider

    try:
        if file != "-":
            return BackupProvider(Path(file).open("rb"), file)
        # Blocks are read in any order.
        spooled: Any = tempfile.TemporaryFile()  # noqa: SIM115 - BackupProvider closes it
        shutil.copyfileobj(run.standard_input(), spooled)
        return BackupProvider(spooled, "standard input")
    except MalformedError as error:
        raise advise(error, NOT_A_BACKUP) from None
