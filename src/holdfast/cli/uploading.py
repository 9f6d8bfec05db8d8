"""The command `upload`: one file or folder, or several at a time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import exit_codes
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import (
    CONNECTED,
    INCLUDE_HIDDEN,
    KEYVALUES,
    not_empty,
    parse_keyvalues,
)
from holdfast.cli.reports import AT_ONCE, FATAL, note, telling_resumes, write_failure
from holdfast.cli.run import Run, command, group

if TYPE_CHECKING:
    from holdfast import Client, ClientRecord
    from holdfast.sources.sources import Progress

commands: Final = group()

STDIN: Final = "-"


@command(commands, *CONNECTED)
def upload(
    run: Run,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", callback=not_empty, help='The files and folders to store, or "-".'
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name of the pin, for one FILE; else its own name."),
    ] = None,
    keyvalue: KEYVALUES = None,
    *,
    include_hidden: INCLUDE_HIDDEN = False,
) -> None:
    """Store files and folders; write their CIDs.

    A folder gets one CID for all that is in it. With several FILEs, there is a line for each, with
    its CID and its path. With the provider pinata, an interrupted upload of a large file continues
    when the same command is run again; `holdfast uploads` lists such files.
    """
    keyvalues = parse_keyvalues(keyvalue)
    if len(files) == 1:
        _upload_one(run, files[0], name, keyvalues, include_hidden=include_hidden)
    elif name is not None:
        raise UsageError("--name is for one file: leave it out for several")
    elif STDIN in files:
        raise UsageError('"-" cannot be one of several files: upload it alone')
    else:
        several = _Several(run, files, include_hidden=include_hidden)
        with run.client() as client, several.told(), run.progress_bar("upload") as show:
            several.run(client, keyvalues, show)
        if several.code:
            raise typer.Exit(several.code)


def _upload_one(
    run: Run,
    file: str,
    name: str | None,
    keyvalues: dict[str, str] | None,
    *,
    include_hidden: bool,
) -> None:
    source: Any = run.standard_input() if file == STDIN else _source(file, include_hidden)
    label = name or ("standard input" if file == STDIN else Path(file).name)
    typed = file == STDIN and source.isatty()  # a bar would overwrite the typed text
    with run.client() as client, run.progress_bar(label, hidden=typed) as progress:
        record = telling_resumes(run, client, label, progress).upload(
            source, name=name, keyvalues=keyvalues, progress=progress
        )
    run.emit(record.to_dict() | ({} if file == STDIN else {"path": file}), record.cid)
    _tell_hidden(run, getattr(source, "hidden", 0))


class _Several:
    """Several uploads, and what became of them.

    Attributes:
        code: The exit code of the first that failed, or 0.
    """

    def __init__(self, run: Run, files: list[str], *, include_hidden: bool) -> None:
        self._run = run
        self._files = files
        self._include_hidden = include_hidden
        self._done = 0
        self._hidden = 0
        self._held: list[tuple[str, Any]] | None = None
        self._untold: list[tuple[str, Any]] = []  # done on threads; after an interrupt, some remain
        self.code = 0

    def run(
        self,
        client: "Client",
        keyvalues: dict[str, str] | None,
        show: Callable[..., None] | None,
    ) -> None:
        """Upload the files. One that fails does not stop the others, unless all would fail."""
        from holdfast._sync.workers import Outcomes, WorkGroup

        bar = None if show is None else _Bar(show, self._files)

        def store(file: str) -> "tuple[ClientRecord[None], int]":
            source = _source(file, self._include_hidden)
            progress = None if bar is None else bar.progress_of(source)
            telling = telling_resumes(self._run, client, file)
            record = telling.upload(source, keyvalues=keyvalues, progress=progress)
            found = record, getattr(source, "hidden", 0)
            self._untold.append((file, found))
            return found

        if bar is not None:
            self._held = []  # while there is a bar, nothing else can be written
        with Outcomes(WorkGroup(store, self._files, AT_ONCE)) as outcomes:
            for outcome in outcomes:
                self._tell(outcome.item, outcome.error or outcome.result())
                if isinstance(outcome.error, FATAL):
                    break
                if bar is not None:
                    bar.count_file()

    def _tell(self, file: str, found: Any) -> None:
        is_failure = isinstance(found, Exception)
        if is_failure:
            self.code = self.code or exit_codes.family_of(found).code
        told = exit_codes.describe(found) if is_failure else found
        if self._held is None:
            self._write(file, told)
        else:
            self._held.append((file, told))
        if not is_failure:
            self._untold.remove((file, found))  # at the end: an interrupt may come at any time
            self._done += 1
            self._hidden += found[1]

    def _write(self, file: str, found: Any) -> None:
        if isinstance(found, dict):
            write_failure(self._run, "path", file, found)
        else:
            record = found[0]
            self._run.emit({**record.to_dict(), "path": file}, f"{record.cid} {file}")

    @contextmanager
    def told(self) -> Iterator[None]:
        """Write what is left to say at the end, also of an interrupt."""
        try:
            yield
        finally:
            for file, found in [*self._untold]:
                self._tell(file, found)
            for file, found in self._held or ():
                self._write(file, found)
            _tell_hidden(self._run, self._hidden)
            if self._done < len(self._files):
                counts = f"uploaded {self._done:,} of {len(self._files):,} files"
                note(self._run, f"{counts}; to upload the others, run the command again")


class _Bar:
    """One bar for several uploads: how many files are done, and the bytes of all of them.

    The size of a folder is known when its upload begins; until then there is no total.
    """

    def __init__(self, show: Callable[..., None], files: list[str]) -> None:
        self._show = show
        self._files_done = 0
        self._files = len(files)
        self._done = 0
        self._total = sum(path.stat().st_size for path in map(Path, files) if path.is_file())
        self._folders = sum(Path(file).is_dir() for file in files)
        self._lock = threading.Lock()
        self._update()

    def progress_of(self, source: Any) -> "Progress":
        """Return the function that counts the bytes of one upload; threads may call them."""
        seen = 0
        if not isinstance(source, str):
            with self._lock:
                self._folders -= 1
                self._total += source.size

        def count(done: int, _: int | None) -> None:
            nonlocal seen
            with self._lock:
                self._done += done - seen  # less than zero when it is sent again
                seen = done
                self._update()

        return count

    def count_file(self) -> None:
        """Count one file or folder that is done, or has failed."""
        with self._lock:
            self._files_done += 1
            self._update()

    def _update(self) -> None:
        counts = f"{self._files_done:,}/{self._files:,} files"
        self._show(self._done, None if self._folders else self._total, counts)


def _source(file: str, include_hidden: bool) -> Any:  # noqa: FBT001
    """Return what to upload: a folder is scanned, because its hidden files are counted."""
    from holdfast.sources.folder_source import FolderSource

    is_folder = Path(file).is_dir()
    return FolderSource.of(file, include_hidden=include_hidden) if is_folder else file


def _tell_hidden(run: Run, count: int) -> None:
    if count:
        note(run, f"left out hidden files and folders: {count:,}; --include-hidden uploads them")
