"""A node in the foreground: its tokens, where it listens, and its run until it is interrupted."""

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
from holdfast.node.accepting import raise_descriptor_limit
from holdfast.node.server import NodeServer, check_host, page_url
from holdfast.node.settings import SCOPES, NodeSettings, NodeToken
from holdfast.repository import Repository

TOKEN_VARIABLE: Final = "HOLDFAST_NODE_TOKEN"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a node can be reached, and with what.

    Attributes:
        pin_api_url: The pinning API.
        gateway_url: The gateway.
        path: The folder of the store.
        provider_token: The token that was made up; None where the user gave one.
        page_url: The page, for a browser.
    """

    pin_api_url: str
    gateway_url: str
    path: str
    provider_token: str | None
    page_url: str

    def lines(self) -> list[str]:
        """For people."""
        told = {
            "Pinning API": self.pin_api_url,
            "Gateway": self.gateway_url,
            "Store": self.path,
            "Token": self.provider_token,
            "Page": self.page_url,
        }
        return [f"{label:<12} {value}" for label, value in told.items() if value is not None]

    def to_dict(self) -> dict[str, str | None]:
        """For machines: as `Client.init` takes them, and the page."""
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
    announce: Callable[[Addresses], None],
) -> None:
    """Run a node until it is interrupted; `announce` is told where it listens, when it does."""
    check_host(host, token_given=bool(tokens))
    if rate_limit is not None and rate_limit < 1:
        raise ConfigError("--rate-limit must be 1 or more")
    fresh = None if tokens else secrets.token_urlsafe(24)
    settings = NodeSettings(
        tokens=tuple(tokens) or (NodeToken(token=fresh or ""),),
        rate_limit=rate_limit,
        gateways=(checks.gateways("--gateway", list(gateways)) or ()) if gateways else (),
    )
    raise_descriptor_limit()
    with Repository(path) as repository:
        repository.totals()  # a store that cannot be read is an error now, not for each client
        server = NodeServer(repository, settings, host=host, port=port)
        addresses = Addresses(
            pin_api_url=server.url,
            gateway_url=f"{server.url}/ipfs",
            path=str(repository.path),
            provider_token=fresh,
            page_url=page_url(server.url, fresh),
        )
        with _ended_by_a_hang_up(server):
            server.run(lambda: announce(addresses))


@contextmanager
def _ended_by_a_hang_up(server: NodeServer) -> Iterator[None]:
    """Have a terminal that is closed end the server in order, and not in the midst of a step."""
    hang_up = getattr(signal, "SIGHUP", None)  # Windows has none
    before = None if hang_up is None else signal.getsignal(hang_up)
    if hang_up is None or before is signal.SIG_IGN:  # under nohup
        yield
        return
    has_come = False

    def end(*_: object) -> None:
        nonlocal has_come
        has_come = True
        server.end()

    signal.signal(hang_up, end)
    try:
        yield
    finally:
        signal.signal(hang_up, before)
    if has_come:
        raise SystemExit(128 + hang_up)


def read_tokens(file: Path | None, given: str | None = None) -> list[NodeToken]:
    """The tokens that the node takes: one `given`, one in the environment, those in a file."""
    tokens = [
        NodeToken(token=_sound(source, text))
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
            tokens.append(NodeToken(token=_sound("--token-file", token), scopes=scope))
    return tokens


def _sound(source: str, text: str) -> str:
    """`text` as it can stand in a header."""
    token = checks.token(source, Secret(text))
    return "" if token is None else token.reveal()


def _lines(file: Path) -> Iterable[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"--token-file: {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--token-file: {file} cannot be read: it is not UTF-8 text") from None
