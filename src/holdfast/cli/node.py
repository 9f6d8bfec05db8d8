"""The command that runs the local node in the foreground."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

from holdfast.cli.options import not_empty, option, store_options
from holdfast.cli.run import Run, command, group
from holdfast.errors import ConfigError
from holdfast.hints import advise

commands: Final = group()
REMEDY = "give another --port, --host, --token-file or --gateway: `holdfast node --help`"


@command(commands, store_options)
def node(
    run: Run,
    *,
    host: Annotated[str, option("ADDRESS", "The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("NUMBER", "The port; 0 is any free one.", min=0, max=65535)] = 5080,
    token_file: Annotated[
        str | None,
        option("FILE", "A file with one token a line, followed by its scopes.", callback=not_empty),
    ] = None,
    rate_limit: Annotated[
        int | None, option("NUMBER", "Requests a minute for each token.", min=1)
    ] = None,
    gateway: Annotated[
        list[str] | None, option("URL", "A gateway for content that is pinned by CID. Repeatable.")
    ] = None,
    v3_profile: Annotated[
        str | None,
        option("NAME", "The layout of files uploaded by the v3 API; default kubo-legacy-cidv1."),
    ] = None,
) -> None:
    """Run a node over the embedded store until interrupted.

    It serves the pinning API, the v3 API, the Pinning Services API (/psa) and the gateway
    protocols. To use your own token, set
    HOLDFAST_NODE_TOKEN or give --token-file.
    """
    from holdfast.node.node_server import read_tokens, serve

    def announce(values: Mapping[str, str | None], lines: Sequence[str]) -> None:
        run.emit(dict(values), *lines)
        sys.stdout.flush()  # the process that reads a pipe waits for these lines

    path = run.store_path()
    try:
        serve(
            path,
            host=host,
            port=port,
            tokens=read_tokens(None if token_file is None else Path(token_file)),
            rate_limit=rate_limit,
            gateways=gateway or (),
            v3_profile=v3_profile,
            announce=announce,
        )
    except ConfigError as error:
        raise advise(error, REMEDY) from None
