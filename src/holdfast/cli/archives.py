"""Archives (CAR) out of the embedded store, and into it."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import output
from holdfast.cli.run import Run, command, group, store_options

PIECE_SIZE = 1 << 20
commands = group()
car = group(help="Archives (CAR) out of the store, and into it.")
commands.add_typer(car, name="car")


@command(car, store_options, name="export")
def export_car(
    run: Run,
    cid: Annotated[str, typer.Argument(metavar="CID", help="The root of what to write.")],
    to: Annotated[str, typer.Argument(metavar="FILE", help='The archive to write, or "-".')],
) -> None:
    """Write everything under a CID as an archive."""
    from holdfast.atomic import PendingFile
    from holdfast.content.cid import CID
    from holdfast.content.reference import Reference

    if to == "-" and run.as_json:
        raise typer.BadParameter('--json and "-" both want standard output: give one of them')
    root = CID.parse(Reference.parse_cid(cid))
    with run.repository() as repository:
        pieces = repository.export_car(root)
        if to == "-":
            sys.stdout.buffer.writelines(pieces)
            return
        size = 0
        with PendingFile(to) as pending:
            for piece in _shown(pieces, Path(to).name, None):
                pending.write(piece)
                size += len(piece)
            pending.commit()
    run.emit({"cid": cid, "path": to, "size": size}, to)


@command(car, store_options, name="import")
def import_car(
    run: Run,
    file: Annotated[str, typer.Argument(metavar="FILE", help='The archive to take in, or "-".')],
) -> None:
    """Take in an archive and pin its roots; write their CIDs."""
    with run.repository(make=True) as repository:
        if file == "-":
            pins = repository.import_car(_pieces(sys.stdin.buffer.fileno()))
        else:
            with Path(file).open("rb") as archive:
                size = Path(file).stat().st_size
                pieces = _shown(_pieces(archive.fileno()), Path(file).name, size)
                pins = repository.import_car(pieces)
    roots = [pin.cid for pin in pins]
    run.emit({"roots": roots}, "\n".join(roots))


def _pieces(descriptor: int) -> Iterator[bytes]:
    with open(descriptor, "rb", closefd=False) as file:
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
