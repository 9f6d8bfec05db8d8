"""Commands that export and import CAR archives of the embedded store."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import OUTPUT, cid_argument, not_empty, required_target, store_options
from holdfast.cli.run import Run, command, group

if TYPE_CHECKING:
    from holdfast.sources.sources import Progress

commands: Final = group()
car_commands: Final = group()
commands.add_typer(car_commands, name="car")


@command(car_commands, is_group=True)
def car(_: Run) -> None:
    """Export and import CAR archives of the store."""
    raise UsageError("name a command: export or import")


@command(car_commands, store_options, name="export")
def export_car(
    run: Run,
    cid: Annotated[str, cid_argument("The root to export.")],
    to: Annotated[
        str | None,
        typer.Argument(metavar="FILE", callback=not_empty, help='The archive to write, or "-".'),
    ] = None,
    *,
    output_file: OUTPUT = None,
) -> None:
    """Write all blocks under a CID to an archive."""
    from holdfast.content.cid import CID
    from holdfast.content.reference import Reference
    from holdfast.disk.atomic import PendingFile

    to = required_target(to, output_file)
    out = run.standard_output() if to == "-" else None
    if out is not None and out.isatty():
        raise UsageError("an archive cannot be shown on a terminal: name a file, or use > FILE")
    text = Reference.parse_cid(cid)
    with run.repository() as repository:
        pieces = repository.export_car(CID.parse(text))
        if out is not None:
            out.writelines(pieces)
            return
        size = 0
        with run.progress_bar(Path(to).name) as progress, PendingFile(to) as pending:
            for piece in _counted(pieces, None, progress):
                pending.write(piece)
                size += len(piece)
            pending.commit()
    run.emit({"cid": text, "path": to, "size": size}, to)


@command(car_commands, store_options, name="import")
def import_car(
    run: Run,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", callback=not_empty, help='The archive to import, or "-".'),
    ],
) -> None:
    """Import an archive and pin its roots; write their CIDs."""
    from holdfast.sources.sources import open_source

    given: Any = run.standard_input() if file == "-" else Path(file)
    with (
        open_source(given) as source,  # first, so that a missing file creates no store
        run.repository(make=True) as repository,
        run.progress_bar(Path(file).name, hidden=file == "-") as progress,
    ):
        pins = repository.import_car(_counted(source.chunks(), source.size, progress))
    roots = [pin.cid for pin in pins]
    run.emit({"roots": roots}, *roots)


def _counted(
    pieces: Iterable[bytes], total: int | None, progress: "Progress | None"
) -> Iterator[bytes]:
    """Yield `pieces`, and report them to `progress`."""
    done = 0
    for piece in pieces:
        yield piece
        done += len(piece)
        if progress is not None:
            progress(done, total)
