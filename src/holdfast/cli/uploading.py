"""The commands `upload`: one file or folder, or several at a time; and `uploads`."""

import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import output
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import (
    CONNECTED,
    INCLUDE_HIDDEN,
    KEYVALUES,
    argument,
    flag,
    not_empty,
    option,
    parse_keyvalues,
)
from holdfast.cli.reports import BatchReport, telling_resumes
from holdfast.cli.run import Run, command, group

if TYPE_CHECKING:
    from holdfast import Client, ClientRecord
    from holdfast.disk.unfinished_uploads import UnfinishedUpload

commands: Final = group()

STDIN: Final = "-"


@command(commands, *CONNECTED)
def upload(
    run: Run,
    files: Annotated[
        list[str], argument("FILE", 'The files and folders to store, or "-".', callback=not_empty)
    ],
    name: Annotated[
        str | None, option("NAME", "The name of the pin, for one FILE; else its own name.")
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
        report = _Uploads(run, files, include_hidden=include_hidden)
        with run.client() as client, report.shown("upload"):
            report.upload(client, keyvalues)
        if report.code:
            raise typer.Exit(report.code)


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
    _note_hidden(run, getattr(source, "hidden", 0))


class _Uploads(BatchReport):
    """The uploads of several files and folders.

    The size of a folder is known when its upload begins; until then the bar has no total.
    """

    def __init__(self, run: Run, files: list[str], *, include_hidden: bool) -> None:
        super().__init__(run, "path")
        self._files = files
        self._include_hidden = include_hidden
        self._total = self._folders = 0
        for path in map(Path, files):
            with suppress(OSError):  # its upload raises the error
                self._folders += path.is_dir()
                self._total += path.stat().st_size if path.is_file() else 0
        self._lock = threading.Lock()
        self._hidden = 0

    def upload(self, client: "Client", keyvalues: dict[str, str] | None) -> None:
        """Upload the files. One that fails does not stop the others, unless all would fail."""
        from holdfast._sync.folder_download import Tally

        tally = Tally(self.progress)

        def store(file: str) -> "tuple[ClientRecord[None], int]":
            source = _source(file, self._include_hidden)
            if not isinstance(source, str):
                with self._lock:
                    self._folders -= 1
                    self._total += source.size
            telling = telling_resumes(self._run, client, file)
            record = telling.upload(source, keyvalues=keyvalues, progress=tally.of_file())
            return record, getattr(source, "hidden", 0)

        self.work(store, self._files)

    def total(self) -> int | None:
        """Return the bytes of all, if known."""
        return None if self._folders else self._total

    def label(self) -> str:
        """Return how many have ended."""
        return f"{self.counts.total():,}/{len(self._files):,} files"

    def write_result(self, item: str, result: "tuple[ClientRecord[None], int]") -> None:
        """Write the CID and the path."""
        record, hidden = result
        self._hidden += hidden
        self._run.emit({**record.to_dict(), "path": item}, f"{record.cid} {item}")

    def summary(self) -> str:
        """Return how many are uploaded, unless all are."""
        _note_hidden(self._run, self._hidden)
        done, all_files = self.counts["done"], len(self._files)
        words = f"uploaded {done:,} of {all_files:,} files; "
        return "" if done == all_files else f"{words}to upload the others, run the command again"


def _source(file: str, include_hidden: bool) -> Any:  # noqa: FBT001
    """Return what to upload: a folder is scanned, because its hidden files are counted."""
    from holdfast.sources.folder_source import FolderSource

    is_folder = Path(file).is_dir()
    return FolderSource.of(file, include_hidden=include_hidden) if is_folder else file


def _note_hidden(run: Run, count: int) -> None:
    if count:
        run.note(f"left out hidden files and folders: {count:,}; --include-hidden uploads them")


@command(commands)
def uploads(
    run: Run,
    *,
    clear: Annotated[bool, flag("Forget them: the same uploads begin anew.", "--clear")] = False,
) -> None:
    """List or clear the unfinished uploads.

    A large file is sent to the provider pinata in pieces. After an interruption, the same upload
    continues. What nobody continues for a week is forgotten, by the service often earlier.
    """
    from holdfast.disk.unfinished_uploads import UnfinishedUploads

    unfinished = UnfinishedUploads()
    rows = []
    for key, state in unfinished.listed():
        is_free = unfinished.forget(key) if clear else not unfinished.is_busy(key)
        rows.append(_row(state, is_busy=not is_free, is_removed=clear and is_free))
    run.emit(rows, *map(_line, rows))
    if not rows and not run.as_json and sys.stdout.isatty():
        run.note("there are no unfinished uploads")


def _row(state: "UnfinishedUpload", *, is_busy: bool, is_removed: bool) -> dict[str, Any]:
    return {
        "path": (state.source or {}).get("path"),
        "name": state.name,
        "size": state.size,
        "sent": state.offset,
        "created": round(state.created * 1000),
        "expires": None if state.expires is None else round(state.expires * 1000),
        "uploadUrl": state.endpoint,
        "underWay": is_busy,
        "removed": is_removed,
    }


def _line(row: dict[str, Any]) -> str:
    verb = "removed  " if row["removed"] else "under way  " if row["underWay"] else ""
    done = f"{output.size_text(row['sent'])} of {output.size_text(row['size'])}"
    return f"{verb}{done}  {output.time_text(row['created'])}  {row['path'] or row['name']}"
