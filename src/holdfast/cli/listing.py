"""The command that lists directories."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import output
from holdfast.cli.options import CONNECTED, cid_argument
from holdfast.cli.output import Column, write_table
from holdfast.cli.pins import list_pins
from holdfast.cli.run import Run, command, group
from holdfast.errors import NotFoundError
from holdfast.hints import advise

if TYPE_CHECKING:
    from holdfast.records import Entry

commands: Final = group()
SHORT: Final = (Column("NAME", "name"), Column("CID", "cid"))
LONG: Final = (
    Column("NAME", "name"),
    Column("KIND"),
    Column("SIZE", "number"),
    Column("CID", "cid"),
)
REMEDY = (
    "`ls` lists directories, and `holdfast info` tells what a CID or a path names; "
    "new pins may take a while to reach other gateways"
)


@command(commands, *CONNECTED, name="ls")
def list_directory(
    run: Run,
    cid: Annotated[
        str | None, cid_argument("A directory; else the pins, as `list` shows them.")
    ] = None,
    long: Annotated[  # noqa: FBT002 - an option
        bool,
        typer.Option("-l", "--long", help="Also write the kind, the size and the CID of each."),
    ] = False,
) -> None:
    """List the names in a directory; without CID, the pins.

    With a CID and --json, each line is an object: name, CID, and kind and size if known.
    """
    if cid is None:
        list_pins(run)
        return
    with run.client() as client:
        entries = client.iter_entries(cid, details=long)
        try:
            if sys.stdout.isatty() and not run.as_json:
                write_table(
                    *((LONG, map(_cells, entries)) if long else (SHORT, map(_name, entries)))
                )
                return
            for entry in entries:
                run.emit(asdict(entry), _line(entry) if long else entry.name)
        except NotFoundError as error:
            raise advise(error, REMEDY) from None


def _name(entry: "Entry") -> tuple[str, str]:
    return entry.name, entry.cid


def _cells(entry: "Entry") -> tuple[str, ...]:
    return entry.name, entry.kind or "unknown", output.size_text(entry.size), entry.cid


def _line(entry: "Entry") -> str:
    """Return a line for a pipe: the name, which may be any text, comes last."""
    kind = entry.kind or "unknown"
    size, cid = output.size_text(entry.size), output.cid_column(entry.cid)
    return f"{kind:<9}  {size:>9}  {cid}  {entry.name}"
