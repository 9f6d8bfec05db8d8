"""A node that listens on a socket: on a thread, or in the foreground until it is interrupted."""

import asyncio
import errno
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

import uvicorn
from starlette.types import ASGIApp

from holdfast.config import checks
from holdfast.config.checks import is_loopback
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.hints import advise
from holdfast.node.application import create_app
from holdfast.node.http_server import acceptor
from holdfast.node.http_server.http_connection import BODY_SIZE, NodeProtocol
from holdfast.node.settings import DEFAULT_V3_PROFILE, SCOPES, NodeSettings, NodeToken
from holdfast.repository import Repository
from holdfast.repository.owners import announced

GRACE_SECONDS = 1.0  # for requests that are under way when the node stops
SEND_BUFFER = 256 << 10  # of the system, for each connection; its default grows to 4 MiB


class LimitedServer(uvicorn.Server):
    """A uvicorn server with a limit of connections, which tells when it listens."""

    announce: Callable[[], None] | None = None
    before_shutdown: Callable[[], None] | None = None
    _acceptor: acceptor.Acceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections of the one socket."""
        (listener,) = sockets if sockets is not None else []
        await super().startup([])  # without sockets: uvicorn would accept any number of connections
        if self.started:
            limits = acceptor.ConnectionLimits().within_descriptors()
            shared = memoryview(bytearray(BODY_SIZE)), set[NodeProtocol]()
            state = self.config, self.server_state, self.lifespan.state
            make = partial(NodeProtocol, *state, *shared)
            self._acceptor = acceptor.Acceptor(listener, make, limits)
            if self.announce is not None:
                self.announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, and wait for the requests that are under way."""
        if self._acceptor is not None:
            self._acceptor.close()
        if self.before_shutdown is not None:
            self.before_shutdown()
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._abort_all)
        await super().shutdown(sockets)

    def _abort_all(self) -> None:
        """Abort the remaining requests before uvicorn does, which would log each as an error."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()


class NodeServer:
    """A node over `repository` that uses `listener`, or listens on `host` and `port`.

    Port 0 is any free port. `around` wraps the ASGI application, for tests.
    """

    def __init__(
        self,
        repository: Repository,
        settings: NodeSettings,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        listener: socket.socket | None = None,
        around: Callable[[ASGIApp], ASGIApp] | None = None,
    ) -> None:
        app = create_app(repository, settings)
        self._socket = listener or _listen(host, port)
        self._server = LimitedServer(
            uvicorn.Config(
                app if around is None else around(app),
                http=NodeProtocol,  # type: ignore[arg-type]
                ws="none",
                timeout_graceful_shutdown=2,
                log_config=None,  # the process configures logging, not the node
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="on",
            )
        )
        self._server.before_shutdown = app.prepare_to_stop
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The URL of the node."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run(self, announce: Callable[[], None] | None = None) -> None:
        """Serve until interrupted; call `announce` once the node listens."""
        self._server.announce = announce
        self._server.run(sockets=[self._socket])

    def start(self) -> None:
        """Serve on a thread until `stop` is called."""
        self._thread = threading.Thread(target=self.run, name="holdfast-node", daemon=True)
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.005)
            if not self._thread.is_alive():
                raise ConfigError("the node did not start; its log says why")

    def end(self) -> None:
        """Make `run` return; safe to call in a signal handler."""
        self._server.should_exit = True

    def stop(self) -> None:
        """Stop serving, and close the socket."""
        self.end()
        if self._thread is not None:
            self._thread.join()
        self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns off Nagle's algorithm only for sockets with an explicit protocol. With the
    # algorithm on, each reply waits 40 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        listener.settimeout(0)
        listener.listen(acceptor.BACKLOG)
    except OSError as error:
        listener.close()
        wrong = ConfigError(f"cannot listen on {host}:{port}: {error.strerror}")
        if error.errno == errno.EADDRINUSE:
            advise(wrong, "another program is listening there, perhaps a node: give another --port")
        raise wrong from None
    return listener


def page_url(url: str, token: str | None) -> str:
    """Return the URL of the page of the node at `url`; with a token, one that signs in.

    The token is in the fragment, which browsers do not send.
    """
    return f"{url}/" if token is None else f"{url}/#token={quote(token, safe='')}"


def check_host(host: str, *, token_given: bool) -> None:
    """Raise ConfigError for a host that others can reach, unless the user gave a token."""
    if not is_loopback(host) and not token_given:
        raise ConfigError(
            f"host {host} can be reached from other machines: give a token of your own "
            "with --token-file or HOLDFAST_NODE_TOKEN"
        )


# Run a node in the foreground until it is interrupted, and read its tokens.

TOKEN_VARIABLE: Final = "HOLDFAST_NODE_TOKEN"  # noqa: S105 - a name


# What a node that listens says: the names of `Client.init`, and those for people.
LABELS: Final = {
    "pinApiUrl": "Pinning API",
    "gatewayUrl": "Gateway",
    "path": "Store",
    "providerToken": "Token",
    "pageUrl": "Page",
}
Announce: TypeAlias = Callable[[Mapping[str, str | None], Sequence[str]], None]


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
    announce: Announce,
) -> None:
    """Run a node until it is interrupted. Once it listens, call `announce`.

    Its arguments are the addresses of the node, its store, and the token if it was generated: as
    JSON, and as lines for people.
    """
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
    acceptor.raise_descriptor_limit()
    # Listen first, so that a failure creates no store.
    with _listen(host, port) as listener, Repository(path) as repository:
        repository.totals()  # fail now, not at the first request, if the store cannot be read
        server = NodeServer(repository, settings, listener=listener)
        url, path_text = server.url, str(repository.path)
        values = (url, f"{url}/ipfs", path_text, generated, page_url(url, generated))
        named = dict(zip(LABELS, values, strict=True))
        lines = [f"{LABELS[name]:<12} {value}" for name, value in named.items() if value]
        reachable = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        with announced(repository.path, reachable), _stopped_by_hangup(server):
            server.run(lambda: announce(named, lines))


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


def read_tokens(file: Path | None, option: str | None = None) -> list[NodeToken]:
    """Return the tokens of a node: `option`, the one in the environment, and those in `file`."""
    tokens = [
        NodeToken(token=_checked(source, text))
        for source, text in (("--token", option), (TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE)))
        if text and text.strip()
    ]
    for line in _lines(file) if file is not None else ():
        token, *scopes = line.split() or [""]
        if unknown := set(scopes) - SCOPES:
            scopes_text = ", ".join(sorted(SCOPES))
            raise ConfigError(f"unknown scope {min(unknown)!r} in the token file: {scopes_text}")
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
