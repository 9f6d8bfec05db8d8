"""The command ``uploads``: the unfinished uploads that can be continued."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import output
from holdfast.cli.reports import note
from holdfast.cli.run import Run, command, group

if TYPE_CHECKING:
    from holdfast.disk.unfinished_uploads import UnfinishedUpload

commands: Final = group()


@command(commands)
def uploads(
    run: Run,
    *,
    clear: Annotated[
        bool, typer.Option("--clear", help="Forget them: the same uploads begin anew.")
    ] = False,
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
        note(run, "there are no unfinished uploads")


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
