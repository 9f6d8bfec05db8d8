"""CIDs without asking anyone: computing and verifying them."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import holdfast
from holdfast.cli.run import Run, command, group, layout_options

commands = group()
Source = Annotated[str, typer.Argument(metavar="FILE", help='A file, a directory, or "-".')]


@command(commands, layout_options)
def cid(run: Run, file: Source) -> None:
    """Compute the CID of a file or directory, offline."""
    from holdfast.content.profiles import profile_for

    config = run.config()
    profile = profile_for(config.profile, config.cid_version).name
    found = holdfast.compute_cid(_source(file), profile=profile)
    run.emit({"cid": found, "profile": profile}, found)


@command(commands)
def verify(
    run: Run,
    file: Source,
    cid: Annotated[str, typer.Argument(metavar="CID", help="What it should be.")],
) -> None:
    """Prove a file or directory against its CID, offline."""
    holdfast.verify(_source(file), cid)
    run.emit({"cid": cid, "verified": True}, f"{file} is {cid}")


def _source(file: str) -> Any:
    return sys.stdin.buffer if file == "-" else Path(file)
