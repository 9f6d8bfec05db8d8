"""Archives (CAR) out of the embedded store, and into it."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from holdfast.cli.exits import UsageError
from holdfast.cli.options import not_empty, store_options
from holdfast.cli.run import Run, command, group

if TYPE_CHECKING:
    from holdfast.files.sources import Progress

PIECE_SIZE = 1 << 20
commands = group()
car = group(help="Archives (CAR) out of the store, and into it.")
commands.add_typer(car, name="car")


@command(car, store_options, name="export")
def export_car(
    run: Run,
    cid: Annotated[str, typer.Argument(metavar="CID", help="The root of what to write.")],
    to: Annotated[
        str,
        typer.Argument(metavar="FILE", callback=not_empty, help='The archive to write, or "-".'),
    ],
) -> None:
    """Write everything under a CID as an archive."""
    from holdfast.atomic import PendingFile
    from holdfast.content.cid import CID
    from holdfast.content.reference import Reference

    out = run.standard_output() if to == "-" else None
    if out is not None and out.isatty():
        raise UsageError("an archive is nothing for a terminal: name a file, or use > FILE")
    text = Reference.parse_cid(cid)
    with run.repository() as repository:
        pieces = repository.export_car(CID.parse(text))
        if out is not None:
            out.writelines(pieces)
            return
        size = 0
        with run.progress_bar(Path(to).name) as progress, PendingFile(to) as pending:
            for piece in counted(pieces, None, progress):
                pending.write(piece)
                size += len(piece)
            pending.commit()
    run.emit({"cid": text, "path": to, "size": size}, to)


@command(car, store_options, name="import")
def import_car(
    run: Run,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", callback=not_empty, help='The archive to take in, or "-".'),
    ],
) -> None:
    """Take in an archive and pin its roots; write their CIDs."""
    with ExitStack() as opened:
        # First what may not be there: no store is made for nothing.
        source = (
            run.standard_input() if file == "-" else opened.enter_context(Path(file).open("rb"))
        )
        size = None if file == "-" else Path(file).stat().st_size
        repository = opened.enter_context(run.repository(make=True))
        bar = run.progress_bar(Path(file).name, hidden=file == "-")
        pieces = counted(_pieces(source), size, opened.enter_context(bar))
        pins = repository.import_car(pieces)
    roots = [pin.cid for pin in pins]
    run.emit({"roots": roots}, *roots)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(PIECE_SIZE):
        yield piece


def counted(
    pieces: Iterable[bytes], total: int | None, progress: "Progress | None"
) -> Iterator[bytes]:
    """`pieces`, of which `progress` is told as they pass."""
    done = 0
    for piece in pieces:
        yield piece
        done += len(piece)
        if progress is not None:
            progress(done, total)
