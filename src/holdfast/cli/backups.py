"""The commands `backup` and `restore`: all pins as one file, and back."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from holdfast.cli import exit_codes, output
from holdfast.cli.copying import Report
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import CONNECTED, OUTPUT, not_empty, required_target
from holdfast.cli.reports import note, write_failure
from holdfast.cli.run import Run, command, group
from holdfast.errors import ClientError, MalformedError
from holdfast.hints import advise

if TYPE_CHECKING:
    from holdfast import Client
    from holdfast.disk.backup_file import BackupFile, BackupWriter

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
    file = required_target(file, output_file)
    with run.client(is_source=True) as client, _opened(run, file) as (out, commit):
        with run.progress_bar("backup", hidden=file == "-") as show:
            written = _Written(run, client, out, show)
            written.run()
        path = commit(is_complete=not written.code)
    if file != "-":
        facts = {"path": path, "pins": written.done, "size": written.size, "cid": written.cid}
        run.emit(facts, path)
    note(run, written.summary())
    if written.code:
        raise typer.Exit(written.code)


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


class _Written:
    """The pins that are written to a backup.

    Attributes:
        done: How many are complete in it.
        code: The exit code of the first that failed, or 0.
        size: The bytes of the file.
        cid: The CID of its manifest.
    """

    def __init__(
        self, run: Run, client: "Client", out: Any, show: Callable[..., None] | None
    ) -> None:
        self._run = run
        self._client = client
        self._out = out
        self._show = show
        self._failed: list[tuple[str, dict[str, Any]]] = []
        self.done = self.code = self.size = 0
        self.cid = ""

    def run(self) -> None:
        """Write the list of pins, then the content of each."""
        from holdfast.disk.backup_file import BackupPins, BackupWriter

        with (
            closing(BackupPins(self._client.iter_pins())) as pins,
            closing(BackupWriter(self._out, pins)) as writer,
        ):
            self.cid = str(pins.manifest[0])
            for cid in pins.cids():
                self._add(cid, writer)
            self.size = writer.size
        for cid, failure in self._failed:
            write_failure(self._run, "cid", cid, failure)

    def _add(self, cid: str, writer: "BackupWriter") -> None:
        from holdfast._sync.providers.foreign import as_provider

        try:
            provider = as_provider(self._client.provider).require("export_archive")
            writer.add(self._counted(provider.export_archive(cid)))
        except ClientError as error:
            self._failed.append((cid, exit_codes.describe(error)))
            self.code = self.code or exit_codes.family_of(error).code
        else:
            self.done += 1
        self.size = writer.size

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            yield piece
            self.size += len(piece)
            if self._show is not None:
                self._show(self.size, None, output.count_text(self.done, "pin"))

    def summary(self) -> str:
        """Return what was written, as a sentence."""
        failed = f"; not in it: {len(self._failed):,}" if self._failed else ""
        pins = output.count_text(self.done, "pin")
        return f"backed up: {pins}, {output.size_text(self.size)}{failed}"


@command(commands, *CONNECTED)
def restore(run: Run, file: Annotated[str, FILE]) -> None:
    """Store all pins of a backup.

    They get their names and key-values. There is a line for each. What the provider has is not sent
    again, so the same command continues after an interruption.
    """
    import holdfast
    from holdfast.cli.backup_provider import BackupProvider

    opened = _open(run, file)
    provider = BackupProvider(opened)
    report = Report(run, "restored")
    with closing(provider), run.client() as client:
        source = holdfast.Client(provider)
        with report.told(), run.progress_bar("restore") as show:
            report.use_bar(show)
            report.take_all(source.copy_pins(to=client, progress=report.progress))
        if opened.damage:
            note(run, opened.damage)
    if report.code:
        raise typer.Exit(report.code)


def _open(run: Run, file: str) -> "BackupFile":
    from holdfast.disk.backup_file import BackupFile

    try:
        if file != "-":
            return BackupFile(Path(file).open("rb"), file)
        # Blocks are read in any order.
        copy: Any = tempfile.TemporaryFile()  # noqa: SIM115 - BackupFile closes it
        source: BinaryIO = run.standard_input()
        shutil.copyfileobj(source, copy)
        return BackupFile(copy, "standard input")
    except MalformedError as error:
        raise advise(error, NOT_A_BACKUP) from None
