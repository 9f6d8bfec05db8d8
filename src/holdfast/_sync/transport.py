"""HTTP by urllib3, blocking: the twin of `_async/transport.py`.

Only this file and `connections` import urllib3.
"""

import http.client
import io
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import urllib3
from urllib3 import exceptions as library

from holdfast._sync import connections
from holdfast._sync.connections import ExchangeLimits, PlainResponse, current_limits
from holdfast.calls import NEVER, Deadline
from holdfast.config import ClientConfig, network
from holdfast.config.limits import Timeouts
from holdfast.config.secret import Scrubber, Secret
from holdfast.errors import ClientClosedError
from holdfast.forks import ForkAware
from holdfast.protocol import transport_errors
from holdfast.protocol.http import PLAIN_URL, RECEIVE_SIZE, Request, StreamBody

POOL_SIZE: Final = 100  # connections kept for reuse with each host; more threads open more
POOLS: Final = 20  # hosts with which connections are kept

TABLE: Final[transport_errors.Table] = {
    connections.OverheadError: transport_errors.OVERHEAD,
    connections.ForbiddenAddressError: transport_errors.PRIVATE_ADDRESS,
    library.NameResolutionError: transport_errors.UNKNOWN_HOST,
    library.NewConnectionError: transport_errors.UNREACHABLE,
    library.ConnectTimeoutError: transport_errors.CONNECT_TIMEOUT,
    library.TimeoutError: transport_errors.READ_TIMEOUT,
    TimeoutError: transport_errors.READ_TIMEOUT,
    library.SSLError: transport_errors.TLS,
    ssl.SSLError: transport_errors.TLS,
    library.ProxyError: transport_errors.PROXY,
    library.ProxySchemeUnsupported: transport_errors.PROXY,
    library.ProtocolError: transport_errors.BROKEN,
    library.IncompleteRead: transport_errors.BROKEN,
    library.InvalidChunkLength: transport_errors.GARBLED,
    library.InvalidHeader: transport_errors.GARBLED,
    library.HeaderParsingError: transport_errors.GARBLED,
    library.DecodeError: transport_errors.GARBLED,
    library.ResponseError: transport_errors.GARBLED,
    library.BodyNotHttplibCompatible: transport_errors.GARBLED,
    library.UnrewindableBodyError: transport_errors.BROKEN,
    library.TimeoutStateError: transport_errors.BROKEN,
    library.ClosedPoolError: None,
    library.PoolError: transport_errors.BROKEN,
    library.HTTPError: transport_errors.BROKEN,
    OSError: transport_errors.BROKEN,
    ValueError: transport_errors.BAD_ADDRESS,
}


class _SourceFailed(Exception):  # noqa: N818 - a signal to `send`, no error of its own
    """Raised through urllib3, which would take an OSError of the source for one of the network."""


class _StreamedBody:
    """A body that is read while it is sent.

    Attributes:
        source_error: What reading the source, or the progress callback, has raised.
        finished: Whether all of the body was sent.
    """

    def __init__(self, body: StreamBody, on_sent: Callable[[int], None] | None) -> None:
        self._body = body
        self._on_sent = on_sent
        self.source_error: Exception | None = None
        self.finished = False

    def __iter__(self) -> Iterator[bytes]:
        sent = 0
        try:
            for chunk in self._body.chunks():
                yield chunk
                sent += len(chunk)
                if self._on_sent is not None:
                    self._on_sent(sent)
        except Exception as error:  # noqa: BLE001 - kept, and raised by `send`
            self.source_error = error
            raise _SourceFailed from None
        self.finished = True


class Response:
    """A reply whose body is not read yet. Close it, or read it to its end.

    Attributes:
        status: The HTTP status.
        headers: The header fields with names in lower case. Credentials that the peer repeats are
            masked.
        address: The address that sent it, or None if a proxy made the connection.
    """

    def __init__(
        self,
        response: PlainResponse | urllib3.BaseHTTPResponse,
        *,
        peer: str,
        limits: ExchangeLimits,
        scrubber: Scrubber,
    ) -> None:
        self._response = response
        self._peer = peer
        self._limits = limits
        self._scrubber = scrubber
        self.address: str | None = limits.address
        self.status: int = response.status
        self.headers: dict[str, str] = scrubber.headers(response.headers.items())

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it arrives."""
        while chunk := self._next():
            yield chunk

    def read(self, limit: int) -> bytes:
        """Return at most `limit` bytes of the body."""
        return self._read(limit).getvalue()[:limit]

    def read_masked(self, limit: int) -> bytes:
        """Return the same, with credentials masked that the peer repeats."""
        return self._scrubber.data(self._read(limit).getvalue())[:limit]

    def _read(self, limit: int) -> io.BytesIO:
        body = io.BytesIO()  # not bytes: a traceback may show the variables of a frame
        while body.tell() <= limit and body.write(self._next()):
            pass
        return body

    def _next(self) -> bytes:
        """Return the next bytes of the body, or b"" at its end."""
        failure = None
        try:
            self._limits.expect_progress()
            chunk = self._response.read1(RECEIVE_SIZE, decode_content=False)
            self._limits.take_content(len(chunk))
            if self._response.closed:
                self._limits.release()
            return chunk
        except (library.HTTPError, OSError, http.client.HTTPException) as error:
            failure = transport_errors.translate(error, TABLE, self._peer, sent=True)
        try:
            raise failure
        finally:
            del failure  # the error and this frame would keep each other alive

    @property
    def stream_error(self) -> str:
        """The error in the trailer ``X-Stream-Error``, or "", after the body was read."""
        return self._scrubber.data(self._limits.stream_error).decode(errors="replace")

    def close(self) -> None:
        """Give the connection back, or close it if the body was not read to its end."""
        self._limits.release()
        self._response.close()


class Transport(ForkAware):
    """Sends requests. Its connections are kept open and shared by all threads."""

    def __init__(self, config: ClientConfig) -> None:
        self._can_exchange_plain = connections.can_exchange_plain()
        self._config = config
        self._managers: dict[tuple[Secret | None, bool], urllib3.PoolManager] = {}
        self._pools: dict[str, urllib3.HTTPConnectionPool] = {}
        self._mask_for = network.scrubbers(config)
        self._lock = threading.Lock()
        self._closed = False
        self.watch_forks()

    def after_fork_in_child(self) -> None:
        """Leave the connections to the parent, and the lock, which one of its threads may hold."""
        self._managers, self._pools, self._lock = {}, {}, threading.Lock()

    def send(self, request: Request, *, timeouts: Timeouts, deadline: Deadline = NEVER) -> Response:
        """Send `request` and wait for the head of the reply. Redirects are not followed."""
        proxy = network.proxy_for(request.url, self._config)
        limits = ExchangeLimits(
            timeouts, deadline, proxied=proxy is not None, max_privacy=request.max_privacy
        )
        body: _StreamedBody | None = None
        if request.body is not None and not isinstance(request.body, bytes):
            body = _StreamedBody(request.body, request.on_sent)
        token = current_limits.set(limits)
        failure: Exception | None = None
        try:
            response = self._exchange(request, body, limits, proxy)
        except _SourceFailed:
            failure = None if body is None else body.source_error
        except (library.HTTPError, OSError, ValueError, http.client.HTTPException) as error:
            failure = transport_errors.translate(error, TABLE, request.peer, sent=limits.sent)
            failure = network.advise_proxy(failure, request.url, self._config)
        finally:
            current_limits.reset(token)
        # Raise outside of the handlers: the library's exception, whose frames hold headers in the
        # clear, must not become the context of ours.
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # the error and this frame would keep each other alive
        if body is not None and not body.finished and response.status < 300:
            limits.release()
            response.close()
            raise transport_errors.UNSENT.error(request.peer)
        scrubber = self._mask_for(request.secrets, proxy)
        return Response(response, peer=request.peer, limits=limits, scrubber=scrubber)

    def _exchange(
        self,
        request: Request,
        body: _StreamedBody | None,
        limits: ExchangeLimits,
        proxy: Secret | None,
    ) -> PlainResponse | urllib3.BaseHTTPResponse:
        """Send a request and return the reply, whose body is not read yet."""
        manager = self._manager(proxy, secure=request.is_secure)
        is_plain = self._can_exchange_plain and body is None and proxy is None
        parts = PLAIN_URL.fullmatch(request.url) if is_plain else None
        if parts is None:
            return manager.urlopen(
                request.method,
                request.url,
                body=request.body if body is None else body,
                headers=request.header_values(),
                timeout=urllib3.Timeout(connect=limits.connect_seconds(), read=None),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        limits.connect_seconds()  # raises an error when no time is left
        pool = self._pool(parts[1], manager)
        return connections.exchange_plain(pool, limits, request, parts[2])

    def _pool(self, origin: str, manager: urllib3.PoolManager) -> urllib3.HTTPConnectionPool:
        """Return the connections to `origin`. Finding them takes urllib3 long."""
        pool = self._pools.get(origin)
        if pool is None or pool.pool is None:  # the manager has closed it
            if len(self._pools) >= POOLS:
                self._pools.clear()
            pool = self._pools[origin] = manager.connection_from_url(origin)
        return pool

    def _manager(self, proxy: Secret | None, *, secure: bool) -> urllib3.PoolManager:
        with self._lock:
            if self._closed:
                raise ClientClosedError
            key = (proxy, secure)
            if key not in self._managers:
                self._managers[key] = self._new_manager(proxy, secure=secure)
            return self._managers[key]

    def _new_manager(self, proxy: Secret | None, *, secure: bool) -> urllib3.PoolManager:
        options: dict[str, Any] = {"num_pools": POOLS, "maxsize": POOL_SIZE}
        if secure:
            options["ssl_context"] = network.tls_context(self._config)
        if proxy is None:
            manager = urllib3.PoolManager(**options)
        else:
            address, credentials = network.split_proxy(proxy)
            manager = urllib3.ProxyManager(
                address,
                proxy_headers={"Proxy-Authorization": credentials.reveal()}
                if credentials is not None
                else None,
                **options,
            )
        pools = {"http": connections.Pool, "https": connections.SecurePool}
        manager.pool_classes_by_scheme = pools
        return manager

    def close(self) -> None:
        """Close all connections. A second call does nothing."""
        with self._lock:
            self._closed = True
            managers, self._managers, self._pools = self._managers, {}, {}
        for manager in managers.values():
            for key in manager.pools.keys():  # noqa: SIM118 - it cannot be iterated over
                manager.pools[key].close()
            manager.clear()
