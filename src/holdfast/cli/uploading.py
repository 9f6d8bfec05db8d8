"""The command `upload`: one file or folder, or several at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import exit_codes, output
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import CONNECTED, not_empty
from holdfast.cli.pins import KEYVALUES, parse_keyvalues
from holdfast.cli.run import Run, command, group
from holdfast.errors import AuthenticationError, PermissionDeniedError

if TYPE_CHECKING:
    from holdfast import Client, ClientRecord
    from holdfast.files.sources import Progress

commands = group()

AT_ONCE: Final = 8  # uploads under way at the same time
FATAL: Final = (AuthenticationError, PermissionDeniedError)  # no other file would fare better
STDIN: Final = "-"


@command(commands, *CONNECTED)
def upload(
    run: Run,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", callback=not_empty, help='Files and folders to store, or "-".'
        ),
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name to give it, if there is one FILE.")
    ] = None,
    keyvalue: KEYVALUES = None,
    *,
    include_hidden: Annotated[
        bool,
        typer.Option("--include-hidden", help="Store names in folders too that begin with a dot."),
    ] = False,
) -> None:
    """Store files and folders; write their CIDs."""
    if len(files) == 1:
        _upload_one(run, files[0], name, keyvalue, include_hidden=include_hidden)
    elif name is not None or keyvalue:
        raise UsageError("--name and --keyvalue are for one file: leave them out for several")
    else:
        _upload_several(run, files, include_hidden=include_hidden)


def _upload_one(
    run: Run, file: str, name: str | None, keyvalue: list[str] | None, *, include_hidden: bool
) -> None:
    source: Any = run.standard_input() if file == STDIN else _source(file, include_hidden)
    label = name or ("standard input" if file == STDIN else Path(file).name)
    typed = file == STDIN and source.isatty()  # a bar would overwrite the typed text
    with run.client() as client, run.progress_bar(label, hidden=typed) as progress:
        record = client.upload(
            source, name=name, keyvalues=parse_keyvalues(keyvalue), progress=progress
        )
    run.emit(record.to_dict(), record.cid)
    _tell_hidden(run, getattr(source, "hidden", 0))


def _upload_several(run: Run, files: list[str], *, include_hidden: bool) -> None:
    if STDIN in files:
        raise UsageError('"-" cannot be one of several files: upload it alone')
    several = _Several(run, len(files))
    with run.client() as client, several.told(), run.progress_bar("upload", unit="files") as show:
        several.run(client, files, show, include_hidden=include_hidden)
    if several.code:
        raise typer.Exit(several.code)


class _Several:
    """Several uploads, and what became of them.

    Attributes:
        code: The exit code of the first that failed, or 0.
    """

    def __init__(self, run: Run, total: int) -> None:
        self._run = run
        self._total = total
        self._done = 0
        self._hidden = 0
        self._held: list[tuple[str, Any]] | None = None
        self.code = 0

    def run(
        self, client: "Client", files: list[str], show: "Progress | None", *, include_hidden: bool
    ) -> None:
        """Upload `files`. One that fails does not stop the others, unless all would fail."""
        from holdfast._sync.workers import Outcomes, WorkGroup

        def store(file: str) -> "tuple[ClientRecord[None], int]":
            source = _source(file, include_hidden)
            record = client.upload(source)
            self._done += 1
            return record, getattr(source, "hidden", 0)

        if show is not None:
            self._held = []  # while there is a bar, nothing else can be written
            show(0, self._total)
        with Outcomes(WorkGroup(store, files, AT_ONCE)) as outcomes:
            for number, outcome in enumerate(outcomes, 1):
                self._tell(outcome.item, outcome.error or outcome.result())
                if isinstance(outcome.error, FATAL):
                    break
                if show is not None:
                    show(number, self._total)

    def _tell(self, file: str, found: Any) -> None:
        if isinstance(found, Exception):
            self.code = self.code or exit_codes.family_of(found).code
        else:
            self._hidden += found[1]
        if self._held is None:
            self._write(file, found)
        else:
            self._held.append((file, found))

    def _write(self, file: str, found: Any) -> None:
        if isinstance(found, Exception):
            _write_failure(self._run, file, found)
        else:
            record = found[0]
            line = f"{record.cid} {file}"
            self._run.emit({**record.to_dict(), "path": file}, line)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Write what is left to say at the end, also of an interrupt."""
        try:
            yield
        finally:
            for file, found in self._held or ():
                self._write(file, found)
            _tell_hidden(self._run, self._hidden)
            if self._done < self._total:
                counts = f"uploaded {self._done:,} of {self._total:,} files"
                _note(self._run, f"{counts}; to upload the others, run the command again")


def _source(file: str, include_hidden: bool) -> Any:  # noqa: FBT001
    """Return what to upload: a folder is scanned, because its hidden files are counted."""
    from holdfast.files.folder_source import FolderSource

    path = Path(file)
    return FolderSource.of(path, include_hidden=include_hidden) if path.is_dir() else path


def _tell_hidden(run: Run, count: int) -> None:
    if count:
        files = "file" if count == 1 else "files"
        _note(run, f"left out {count:,} hidden {files}; --include-hidden uploads them too")


def _note(run: Run, text: str) -> None:
    if run.as_json:
        output.write_error_json({"warning": text})
    else:
        output.write_error(text)


def _write_failure(run: Run, file: str, error: Exception) -> None:
    report = exit_codes.describe(error)
    if run.as_json:
        output.write_error_json({"error": {**report, "path": file}})
        return
    message = report["message"]
    where = "" if file in message else f"{file}: "
    output.write_error(f"error: {where}{message}", f"hint: {report['remedy']}")
