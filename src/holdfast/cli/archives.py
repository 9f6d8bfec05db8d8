"""Archives (CAR) out of the embedded store, and into it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from holdfast.cli import output
from holdfast.cli.exits import UsageError
from holdfast.cli.options import not_empty, store_options
from holdfast.cli.run import Run, command, group

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
        with PendingFile(to) as pending:
            for piece in _shown(pieces, Path(to).name, None):
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
    with run.repository(make=True) as repository:
        if file == "-":
            pins = repository.import_car(_pieces(run.standard_input()))
        else:
            with Path(file).open("rb") as archive:
                size = Path(file).stat().st_size
                pieces = _shown(_pieces(archive), Path(file).name, size)
                pins = repository.import_car(pieces)
    roots = [pin.cid for pin in pins]
    run.emit({"roots": roots}, *roots)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(PIECE_SIZE):
        yield piece


def _shown(pieces: Iterable[bytes], label: str, total: int | None) -> Iterator[bytes]:
    """`pieces`, with a bar on the terminal while they pass."""
    done = 0
    with output.progress_bar(label) as progress:
        for piece in pieces:
            yield piece
            done += len(piece)
            if progress is not None:
                progress(done, total)
