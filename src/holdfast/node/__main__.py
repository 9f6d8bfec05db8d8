"""`python -m holdfast.node`: run a node in the foreground."""

import argparse
import sys
from pathlib import Path

from holdfast.config.locations import data_folder
from holdfast.errors import ClientError
from holdfast.node.node_server import read_tokens, serve


def main(arguments: list[str] | None = None) -> int:
    """Run a node until it is interrupted."""
    options = _parser().parse_args(arguments)
    try:
        serve(
            options.path or data_folder(),
            host=options.host,
            port=options.port,
            tokens=read_tokens(options.token_file, options.token),
            rate_limit=options.rate_limit,
            gateways=options.gateway,
            v3_profile=options.v3_profile,
            pretend_pinned=options.pretend_pinned,
            announce=lambda _, lines: print(*lines, sep="\n", flush=True),  # noqa: T201
        )
    except KeyboardInterrupt:
        return 130  # the code of shells for an interrupt
    except (ClientError, OSError) as error:
        print(f"holdfast.node: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="holdfast.node", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=_port, default=5080, help="the port; 0 for any free port")
    parser.add_argument("--path", type=_path, help="the folder of the store")
    parser.add_argument("--token", help="the token; other users of this machine can see it")
    parser.add_argument(
        "--token-file", type=Path, help="a file with one token a line, followed by its scopes"
    )
    parser.add_argument("--rate-limit", type=int, help="requests a minute for each token")
    parser.add_argument(
        "--gateway",
        action="append",
        default=[],
        help="a gateway from which content is fetched to pin it by its CID; repeatable",
    )
    parser.add_argument(
        "--v3-profile", help="the layout of files uploaded by the v3 API; default kubo-legacy-cidv1"
    )
    parser.add_argument(
        "--pretend-pinned",
        action="store_true",
        help="for the compliance suite of the Pinning Services API: call missing content pinned",
    )
    return parser


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty; leave the option out for the default")
    return Path(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
