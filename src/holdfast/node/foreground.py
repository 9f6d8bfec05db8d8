"""Run a node in the foreground until it is interrupted, and read its tokens."""

import os
import secrets
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.config import checks
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.node.http_server.acceptor import raise_descriptor_limit
from holdfast.node.node_server import NodeServer, check_host, page_url
from holdfast.node.settings import DEFAULT_V3_PROFILE, SCOPES, NodeSettings, NodeToken
from holdfast.repository import Repository

TOKEN_VARIABLE: Final = "HOLDFAST_NODE_TOKEN"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class Addresses:
    """The URLs, the store and the token of a node.

    Attributes:
        pin_api_url: The URL of the pinning API.
        gateway_url: The URL of the gateway.
        path: The folder of the store.
        provider_token: The generated token; None if the user gave one.
        page_url: The URL of the page.
    """

    pin_api_url: str
    gateway_url: str
    path: str
    provider_token: str | None
    page_url: str

    def lines(self) -> list[str]:
        """Return the lines to print for people."""
        labels = {
            "Pinning API": self.pin_api_url,
            "Gateway": self.gateway_url,
            "Store": self.path,
            "Token": self.provider_token,
            "Page": self.page_url,
        }
        return [f"{label:<12} {value}" for label, value in labels.items() if value is not None]

    def to_dict(self) -> dict[str, str | None]:
        """Return the fields as JSON, named as `Client.init` takes them."""
        return {
            "pinApiUrl": self.pin_api_url,
            "gatewayUrl": self.gateway_url,
            "path": self.path,
            "providerToken": self.provider_token,
            "pageUrl": self.page_url,
        }


def serve(
    path: Path,
    *,
    host: str,
    port: int,
    tokens: Sequence[NodeToken],
    rate_limit: int | None,
    gateways: Sequence[str],
    v3_profile: str | None = None,
    pretend_pinned: bool = False,
    announce: Callable[[Addresses], None],
) -> None:
    """Run a node until it is interrupted; call `announce` with its addresses once it listens."""
    check_host(host, token_given=bool(tokens))
    if rate_limit is not None and rate_limit < 1:
        raise ConfigError("--rate-limit must be 1 or more")
    generated = None if tokens else secrets.token_urlsafe(24)
    settings = NodeSettings(
        tokens=tuple(tokens) or (NodeToken(token=generated or ""),),
        rate_limit=rate_limit,
        gateways=(checks.gateways("--gateway", list(gateways)) or ()) if gateways else (),
        v3_profile=v3_profile or DEFAULT_V3_PROFILE,
        pretend_pinned=pretend_pinned,
    )
    raise_descriptor_limit()
    with Repository(path) as repository:
        repository.totals()  # fail now, not at the first request, if the store cannot be read
        server = NodeServer(repository, settings, host=host, port=port)
        addresses = Addresses(
            pin_api_url=server.url,
            gateway_url=f"{server.url}/ipfs",
            path=str(repository.path),
            provider_token=generated,
            page_url=page_url(server.url, generated),
        )
        with _stopped_by_hangup(server):
            server.run(lambda: announce(addresses))


@contextmanager
def _stopped_by_hangup(server: NodeServer) -> Iterator[None]:
    """Stop the server in order when its terminal is closed (SIGHUP), then exit."""
    hangup = signal.SIGHUP
    before = signal.getsignal(hangup)
    if before is signal.SIG_IGN:  # under nohup
        yield
        return
    received = False

    def end(*_: object) -> None:
        nonlocal received
        received = True
        server.end()

    signal.signal(hangup, end)
    try:
        yield
    finally:
        signal.signal(hangup, before)
    if received:
        raise SystemExit(128 + hangup)


def read_tokens(file: Path | None, given: str | None = None) -> list[NodeToken]:
    """Return the tokens of a node: `given`, the one in the environment, and those in `file`."""
    tokens = [
        NodeToken(token=_checked(source, text))
        for source, text in (("--token", given), (TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE)))
        if text and text.strip()
    ]
    for line in _lines(file) if file is not None else ():
        token, *scopes = line.split() or [""]
        if unknown := set(scopes) - SCOPES:
            known = ", ".join(sorted(SCOPES))
            raise ConfigError(f"unknown scope {min(unknown)!r} in the token file: {known}")
        if token:
            scope = frozenset(scopes) if scopes else None
            tokens.append(NodeToken(token=_checked("--token-file", token), scopes=scope))
    return tokens


def _checked(source: str, text: str) -> str:
    """Return `text` trimmed; raise ConfigError if it cannot be sent in a header."""
    token = checks.token(source, Secret(text))
    return "" if token is None else token.reveal()


def _lines(file: Path) -> Iterable[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"--token-file: {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--token-file: {file} cannot be read: it is not UTF-8 text") from None
