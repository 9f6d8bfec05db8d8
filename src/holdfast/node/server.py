"""The node as a running server: in the foreground, or on a thread beside a test or a notebook."""

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.checks import is_loopback
from holdfast.errors import ConfigError
from holdfast.node.app import create_app
from holdfast.node.settings import NodeSettings
from holdfast.repository import Repository

HEAD_SECONDS = 20.0
MAX_HEAD = 32 << 10
# An ASGI extension, for what stands around the application: the transport, to end the connection.
CONNECTION = "holdfast.connection"


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that does not wait for ever for the head of a request."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def handle_events(self) -> None:
        """Take what has come."""
        super().handle_events()
        if self._has_request():
            scope: Any = self.scope
            scope["extensions"] = {CONNECTION: self.transport}
        if self._timer is not None and self._has_request():
            self._timer.cancel()
            self._timer = None

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there already."""
        super().on_response_complete()
        if self._timer is None and not self.transport.is_closing() and not self._has_request():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _has_request(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """Drop a peer that sends no request; not one that still reads the last reply."""
        if self.transport.get_write_buffer_size():
            self._wait()
        else:
            self._timer = None
            self.transport.abort()


class AnnouncedServer(uvicorn.Server):
    """A server that tells when it listens, and takes signals."""

    announce: Callable[[], None] | None = None
    before_shutdown: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started and self.announce is not None:
            self.announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and wait for the requests that are under way."""
        if self.before_shutdown is not None:
            self.before_shutdown()
        await super().shutdown(sockets)


class NodeServer:
    """A node that listens on a socket of its own."""

    def __init__(
        self,
        repository: Repository,
        settings: NodeSettings,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        around: Callable[[ASGIApp], ASGIApp] | None = None,
    ) -> None:
        guard = create_app(repository, settings)
        app: ASGIApp = guard
        self._socket = _listen(host, port)
        self._server = AnnouncedServer(
            uvicorn.Config(
                app if around is None else around(app),
                http=PatientProtocol,
                h11_max_incomplete_event_size=MAX_HEAD,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=2,
                log_config=None,  # the logging of the process is not ours to set up
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="on",
            )
        )
        self._server.before_shutdown = guard.begin_to_stop
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The address of the node."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run(self, announce: Callable[[], None] | None = None) -> None:
        """Serve until interrupted; `announce` is called when it has begun."""
        self._server.announce = announce
        self._server.run(sockets=[self._socket])

    def start(self) -> None:
        """Serve on a thread, until `stop`."""
        self._thread = threading.Thread(target=self.run, name="holdfast-node", daemon=True)
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.005)
            if not self._thread.is_alive():
                raise ConfigError("the node did not start; its log says why")

    def end(self) -> None:
        """Let `run` come to its end; may be called by a signal."""
        self._server.should_exit = True

    def stop(self) -> None:
        """Stop serving."""
        self.end()
        if self._thread is not None:
            self._thread.join()
        self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: asyncio switches Nagle's algorithm off only for sockets that have it,
    # and with it on each reply would wait 40 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener


def page_url(url: str, token: str | None) -> str:
    """The address of the page of the node at `url`; with a token, one that lets in who opens it.

    The token stands in the fragment, which browsers keep to themselves.
    """
    return f"{url}/" if token is None else f"{url}/#token={quote(token, safe='')}"


def check_host(host: str, *, token_given: bool) -> None:
    """Refuse to let the network in with a token that nobody chose."""
    if not is_loopback(host) and not token_given:
        raise ConfigError(
            f"host {host} can be reached by others: give a token of your own "
            "with --token-file or HOLDFAST_NODE_TOKEN"
        )
