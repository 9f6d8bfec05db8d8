"""The local node, in the foreground."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.run import Run, command, group, store_options

commands = group()


@command(commands, store_options)
def node(
    run: Run,
    *,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, max=65535, help="The port; 0 for any.")
    ] = 5080,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A file with a token on each line, and its scopes behind it."
        ),
    ] = None,
    rate_limit: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=1, help="Requests a minute for each token.")
    ] = None,
    gateway: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Where pinByHash finds content; repeatable."),
    ] = None,
) -> None:
    """Run a node over the embedded store, until interrupted.

    It speaks the pinning API and the protocols of gateways. A token of your own comes
    from HOLDFAST_NODE_TOKEN or --token-file.
    """
    from holdfast.locations import data_folder
    from holdfast.node.__main__ import serve

    path = run.config().path or data_folder()
    arguments = [f"--host={host}", f"--port={port}", f"--path={path}"]
    if token_file is not None:
        arguments.append(f"--token-file={token_file}")
    if rate_limit is not None:
        arguments.append(f"--rate-limit={rate_limit}")
    arguments += [f"--gateway={each}" for each in gateway or ()]

    def announce(told: Mapping[str, str]) -> None:
        machine = {label.lower().replace(" ", "_"): value for label, value in told.items()}
        run.emit(machine, "\n".join(f"{label:<12} {value}" for label, value in told.items()))
        sys.stdout.flush()  # whoever started it in a pipe waits for these lines

    serve(arguments, announce=announce)
