"""Commands without network: compute and verify CIDs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import holdfast
from holdfast.cli.options import INCLUDE_HIDDEN, layout_options, not_empty
from holdfast.cli.run import Run, command, group
from holdfast.errors import InvalidCIDError, VerificationError
from holdfast.hints import advise

commands: Final = group()
Source = Annotated[
    str,
    typer.Argument(metavar="FILE", callback=not_empty, help='A file, a directory, or "-".'),
]


@command(commands, layout_options)
def cid(run: Run, file: Source, *, include_hidden: INCLUDE_HIDDEN = False) -> None:
    """Compute the CID of a file or directory, offline."""
    from holdfast.content.profiles import profile_for

    config = run.config()
    profile = profile_for(config.profile, config.cid_version).name
    with _source(run, file) as (source, progress):
        found = holdfast.compute_cid(
            source, profile=profile, include_hidden=include_hidden, progress=progress
        )
    run.emit({"cid": found, "profile": profile}, found)


@command(commands)
def verify(
    run: Run,
    file: Source,
    cid: Annotated[str, typer.Argument(metavar="CID", help="The CID that it should have.")],
    *,
    include_hidden: INCLUDE_HIDDEN = False,
) -> None:
    """Verify a file or directory against its CID, offline."""
    from holdfast.content.reference import Reference

    try:
        bare = Reference.parse_cid(cid)
    except InvalidCIDError as error:
        if Path(cid).exists():
            raise advise(error, "the file comes first: holdfast verify FILE CID") from None
        raise
    with _source(run, file) as (source, progress):
        try:
            holdfast.verify(source, cid, include_hidden=include_hidden, progress=progress)
        except VerificationError as error:
            raise advise(error, f"`holdfast download {bare}` gets what the CID names") from None
    run.emit({"cid": bare, "verified": True}, f"{file} is {bare}")


@contextmanager
def _source(run: Run, file: str) -> Iterator[Any]:
    """Yield the source to read, and the progress function of a bar for it."""
    source: Any = run.standard_input() if file == "-" else file
    label = "standard input" if file == "-" else Path(file).name
    with run.progress_bar(label, hidden=file == "-" and source.isatty()) as progress:
        yield source, progress
