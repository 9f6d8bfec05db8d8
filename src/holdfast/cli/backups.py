"""The commands `backup` and `restore`: all pins as one file, and back."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from holdfast.cli import exit_codes, output
from holdfast.cli.copying import CopyReport
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import CONNECTED, OUTPUT, not_empty, required_target
from holdfast.cli.run import Run, command, group
from holdfast.errors import ClientError, MalformedError
from holdfast.hints import advise

if TYPE_CHECKING:
    from holdfast import Client
    from holdfast.cli.backup_file import BackupProvider, BackupWriter

commands: Final = group()

FILE = typer.Argument(metavar="FILE", callback=not_empty, help='The file, or "-".')
NOT_A_BACKUP = "take another copy of it; `holdfast car import` reads archives that are not backups"


@command(commands, *CONNECTED)
def backup(
    run: Run, file: Annotated[str | None, FILE] = None, *, output_file: OUTPUT = None
) -> None:
    """Write all pins to one file.

    The file has their content, names and key-values. It is an archive (CAR), and appears complete,
    or not at all. Pins whose content cannot be read are named, and the exit code is that of the
    first. Then an older backup of the same name stays, and the new one is FILE.incomplete.
    """
    from holdfast.cli.backup_file import BackupWriter

    file = required_target(file, output_file)
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
        out = run.standard_output()
        if out.isatty():
            raise UsageError("a backup cannot be shown on a terminal: name a file, or use > FILE")
        yield out, lambda **_: out.flush()
        return
    with PendingFile(file) as pending:

        def commit(*, is_complete: bool) -> str:
            if not is_complete and pending.target.exists():
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


@command(commands, *CONNECTED)
def restore(run: Run, file: Annotated[str, FILE]) -> None:
    """Store all pins of a backup.

    They get their names and key-values. There is a line for each. What the provider has is not sent
    again, so the same command continues after an interruption.
    """
    import holdfast

    report = CopyReport(run, "restored")
    with closing(_open(run, file)) as provider, run.client() as client:
        source = holdfast.Client(provider)
        with report.shown("restore"):
            report.take_all(source.copy_pins(to=client, progress=report.progress))
        if provider.damage:
            run.note(provider.damage)
    if report.code:
        raise typer.Exit(report.code)


def _open(run: Run, file: str) -> "BackupProvider":
    from holdfast.cli.backup_file import BackupProvider

    try:
        if file != "-":
            return BackupProvider(Path(file).open("rb"), file)
        # Blocks are read in any order.
        copy: Any = tempfile.TemporaryFile()  # noqa: SIM115 - BackupProvider closes it
        source: BinaryIO = run.standard_input()
        shutil.copyfileobj(source, copy)
        return BackupProvider(copy, "standard input")
    except MalformedError as error:
        raise advise(error, NOT_A_BACKUP) from None
