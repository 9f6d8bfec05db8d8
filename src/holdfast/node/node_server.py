"""A node that listens on a socket: in the foreground, or on a thread."""

import asyncio
import errno
import socket
import threading
from collections.abc import Callable
from urllib.parse import quote

import uvicorn
from starlette.types import ASGIApp

from holdfast.config.checks import is_loopback
from holdfast.errors import ConfigError
from holdfast.hints import advise
from holdfast.node.application import create_app
from holdfast.node.http_server.acceptor import BACKLOG, Acceptor, ConnectionLimits
from holdfast.node.http_server.http_connection import BODY_SIZE, NodeProtocol
from holdfast.node.settings import NodeSettings
from holdfast.repository import Repository

GRACE_SECONDS = 1.0  # for requests that are under way when the node stops
SEND_BUFFER = 256 << 10  # of the system, for each connection; its default grows to 4 MiB


class LimitedServer(uvicorn.Server):
    """A uvicorn server with a limit of connections, which tells when it listens."""

    announce: Callable[[], None] | None = None
    before_shutdown: Callable[[], None] | None = None
    _acceptor: Acceptor | None = None
    _buffer: memoryview | None = None
    _unread: set[NodeProtocol]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections of the one socket."""
        (listener,) = sockets if sockets is not None else []
        await super().startup([])  # without sockets: uvicorn would accept any number of connections
        if self.started:
            limits = ConnectionLimits().within_descriptors()
            self._buffer = memoryview(bytearray(BODY_SIZE))
            self._unread = set()
            self._acceptor = Acceptor(listener, self._make_protocol, limits)
            if self.announce is not None:
                self.announce()

    def _make_protocol(self) -> NodeProtocol:
        protocol = NodeProtocol(self.config, self.server_state, self.lifespan.state)
        protocol.buffer, protocol.unread = self._buffer, self._unread
        return protocol

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
    """A node over `repository` that listens on `host` and `port`; port 0 is any free one.

    `around` wraps the ASGI application, for tests.
    """

    def __init__(
        self,
        repository: Repository,
        settings: NodeSettings,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        around: Callable[[ASGIApp], ASGIApp] | None = None,
    ) -> None:
        app = create_app(repository, settings)
        self._socket = _listen(host, port)
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
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        wrong = ConfigError(f"cannot listen on {host}:{port}: {error.strerror}")
        if error.errno == errno.EADDRINUSE:
            advise(wrong, "another program listens there, perhaps a node: give another --port")
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
