"""The command that lists directories."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import output
from holdfast.cli.content import CID
from holdfast.cli.options import CONNECTED
from holdfast.cli.run import Run, command, group

if TYPE_CHECKING:
    from holdfast.records import Entry

commands = group()


@command(commands, *CONNECTED, name="ls")
def list_directory(
    run: Run,
    cid: CID,
    long: Annotated[  # noqa: FBT002 - an option
        bool,
        typer.Option("-l", "--long", help="Also read the kind and the size of each entry."),
    ] = False,
) -> None:
    """List a directory: a name on each line; with --json, an object on each line."""
    with run.client() as client:
        for entry in client.iter_entries(cid, details=long):
            run.emit(asdict(entry), _line(entry) if long else entry.name)


def _line(entry: "Entry") -> str:
    kind = entry.kind or "unknown"
    return f"{kind:<9}  {output.size_text(entry.size):>9}  {entry.cid}  {entry.name}"
