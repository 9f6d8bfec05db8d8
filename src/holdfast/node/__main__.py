"""`python -m holdfast.node`: run a node in the foreground."""

import argparse
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.errors import ClientError, ConfigError
from holdfast.locations import data_folder
from holdfast.node.server import NodeServer, check_host, page_url
from holdfast.node.settings import SCOPES, NodeSettings, NodeToken
from holdfast.repository import Repository

TOKEN_VARIABLE = "HOLDFAST_NODE_TOKEN"  # noqa: S105 - a name


def main(arguments: list[str] | None = None) -> int:
    """Run a node until it is interrupted."""
    try:
        serve(arguments, announce=_print_lines)
    except KeyboardInterrupt:
        return 130  # as shells have it
    except (ClientError, OSError, UnicodeDecodeError) as error:
        print(f"holdfast.node: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


def serve(arguments: list[str] | None, *, announce: Callable[[Mapping[str, str]], None]) -> None:
    """Run a node until it is interrupted; `announce` is told where it listens, when it does."""
    options = _parser().parse_args(arguments)
    tokens = _tokens(options)
    check_host(options.host, token_given=bool(tokens))
    fresh = None if tokens else secrets.token_urlsafe(24)
    settings = NodeSettings(
        tokens=tuple(tokens) or (NodeToken(token=fresh or ""),),
        rate_limit=options.rate_limit,
        gateways=tuple(options.gateway),
    )
    with Repository(options.path) as repository:
        server = NodeServer(repository, settings, host=options.host, port=options.port)
        told = {
            "Pinning API": server.url,
            "Gateway": f"{server.url}/ipfs",
            "Store": str(repository.path),
        }
        if fresh is not None:
            told["Token"] = fresh
        announce({**told, "Page": page_url(server.url, fresh)})
        server.run()


def _print_lines(told: Mapping[str, str]) -> None:
    for label, value in told.items():
        print(f"{label:<12} {value}", flush=True)  # noqa: T201


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="holdfast.node", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=_port, default=5080, help="the port; 0 for any")
    parser.add_argument("--path", type=Path, default=data_folder(), help="the store's folder")
    parser.add_argument("--token", help="the token; others on this machine can see it here")
    parser.add_argument(
        "--token-file", type=Path, help="a file with a token on each line, and its scopes behind it"
    )
    parser.add_argument("--rate-limit", type=int, help="requests a minute for each token")
    parser.add_argument(
        "--gateway", action="append", default=[], help="where pinByHash finds content; repeatable"
    )
    return parser


def _tokens(options: argparse.Namespace) -> list[NodeToken]:
    found = [text.strip() for text in (options.token, os.environ.get(TOKEN_VARIABLE)) if text]
    tokens = [NodeToken(token=text) for text in found if text]
    if options.token_file is not None:
        for line in options.token_file.read_text(encoding="utf-8").splitlines():
            token, *scopes = line.split() or [""]
            if unknown := set(scopes) - SCOPES:
                known = ", ".join(sorted(SCOPES))
                raise ConfigError(f"unknown scope {min(unknown)!r} in the token file: {known}")
            if token:
                tokens.append(NodeToken(token=token, scopes=frozenset(scopes) if scopes else None))
    return tokens


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
