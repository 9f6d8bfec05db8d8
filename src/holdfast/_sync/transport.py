"""HTTP by urllib3, blocking: the twin of `_async/transport.py`.

No other file knows urllib3 but `connections`, which keeps the limits of each exchange.
"""

import http.client
import io
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import urllib3
from urllib3 import exceptions as library

from holdfast._sync.connections import (
    Limits,
    OverheadError,
    Pool,
    PrivateAddressError,
    SecurePool,
    current_limits,
)
from holdfast.calls import NEVER, Deadline
from holdfast.config import ClientConfig, network
from holdfast.config.limits import Timeouts
from holdfast.config.secret import Scrubber, Secret
from holdfast.errors import ClientClosedError
from holdfast.forks import renew_after_fork
from holdfast.protocol import transport_errors
from holdfast.protocol.http import Request, StreamBody

POOL_SIZE: Final = 100  # connections kept for reuse with each host; more threads open more
CHUNK_SIZE: Final = 1 << 18


TABLE: Final[transport_errors.Table] = {
    OverheadError: transport_errors.OVERHEAD,
    PrivateAddressError: transport_errors.PRIVATE_ADDRESS,
    library.NameResolutionError: transport_errors.UNKNOWN_HOST,
    library.NewConnectionError: transport_errors.UNREACHABLE,
    library.ConnectTimeoutError: transport_errors.CONNECT_TIMEOUT,
    library.ReadTimeoutError: transport_errors.READ_TIMEOUT,
    library.TimeoutError: transport_errors.READ_TIMEOUT,
    TimeoutError: transport_errors.READ_TIMEOUT,
    library.SSLError: transport_errors.TLS,
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
    library.LocationValueError: transport_errors.BAD_ADDRESS,
    library.UnrewindableBodyError: transport_errors.BROKEN,
    library.TimeoutStateError: transport_errors.BROKEN,
    library.ClosedPoolError: None,
    library.PoolError: transport_errors.BROKEN,
    library.HTTPError: transport_errors.BROKEN,
    OSError: transport_errors.BROKEN,
    ValueError: transport_errors.BAD_ADDRESS,
}


class _FeedFailed(Exception):  # noqa: N818 - a signal to `send`, no error of its own
    """Raised through urllib3, which would take an OSError of the source for one of the network."""


class _Feed:
    """A streamed body on its way out. Keeps the source's own failure apart from the network's."""

    def __init__(self, body: StreamBody, on_sent: Callable[[int], None] | None) -> None:
        self._body = body
        self._on_sent = on_sent
        self.failure: Exception | None = None
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
            self.failure = error
            raise _FeedFailed from None
        self.finished = True


class Response:
    """A reply whose body is still to be read. Close it, or read it to its end.

    Attributes:
        status: The HTTP status.
        headers: The header fields, names in lower case, echoed credentials masked.
        address: The address that sent it, or None where only a proxy knows it.
    """

    def __init__(
        self,
        response: urllib3.BaseHTTPResponse,
        *,
        peer: str,
        limits: Limits,
        scrubber: Scrubber,
    ) -> None:
        self._response = response
        self._peer = peer
        self._limits = limits
        self._scrubber = scrubber
        self.address = limits.address
        self.status = response.status
        # What stands there several times is joined by commas.
        self.headers = scrubber.headers({name: response.headers[name] for name in response.headers})

    def chunks(self) -> Iterator[bytes]:
        """Give the body as it arrives."""
        while chunk := self._next():
            yield chunk

    def read(self, limit: int) -> bytes:
        """Return the whole body, but at most `limit` bytes of it."""
        return self._read(limit).getvalue()[:limit]

    def read_masked(self, limit: int) -> bytes:
        """Return the same, with the credentials masked that the peer has echoed."""
        return self._scrubber.data(self._read(limit).getvalue())[:limit]

    def _read(self, limit: int) -> io.BytesIO:
        body = io.BytesIO()  # a traceback shows no more of it than its name
        while body.tell() <= limit and body.write(self._next()):
            pass
        return body

    def _next(self) -> bytes:
        """Return the next bytes of the body; none at its end."""
        failure = None
        try:
            self._limits.expect_progress()
            chunk = self._response.read1(CHUNK_SIZE, decode_content=False)
            self._limits.take_content(len(chunk))
            if self._response.closed:
                self._limits.release()
            return chunk
        except (library.HTTPError, OSError, http.client.HTTPException) as error:
            failure = transport_errors.translate(error, TABLE, self._peer, sent=True)
        try:
            raise failure
        finally:
            del failure  # or it and this frame would hold each other

    def close(self) -> None:
        """Give the connection back, or close it where the body was not read to its end."""
        self._limits.release()
        self._response.close()


class Transport:
    """Sends requests over connections that are kept open and shared by all threads."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._managers: dict[tuple[Secret | None, bool], urllib3.PoolManager] = {}
        self._lock = threading.Lock()
        self._closed = False
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Leave the connections, and a lock that may be held, to the parent."""
        self._managers, self._lock = {}, threading.Lock()

    def send(self, request: Request, *, timeouts: Timeouts, deadline: Deadline = NEVER) -> Response:
        """Send `request` and wait for the head of the reply; no redirect is followed."""
        proxy = network.proxy_for(request.url, self._config)
        manager = self._manager(proxy, secure=request.is_secure)
        limits = Limits(
            timeouts, deadline, proxied=proxy is not None, max_privacy=request.max_privacy
        )
        feed: _Feed | None = None
        if request.body is not None and not isinstance(request.body, bytes):
            feed = _Feed(request.body, request.on_sent)
        token = current_limits.set(limits)
        failure: Exception | None = None
        try:
            response = manager.urlopen(
                request.method,
                request.url,
                body=request.body if feed is None else feed,
                headers=request.header_values(),
                timeout=urllib3.Timeout(connect=limits.connect(), read=timeouts.read),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except _FeedFailed:
            failure = feed.failure if feed is not None else None
        except (library.HTTPError, OSError, ValueError, http.client.HTTPException) as error:
            failure = transport_errors.translate(error, TABLE, request.peer, sent=limits.sent)
        finally:
            current_limits.reset(token)
        # Outside of the handlers: the library's own frames hold headers in the clear, so its
        # exception does not go along.
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # or it and this frame would hold each other, and the connections
        if feed is not None and not feed.finished and response.status < 300:
            limits.release()
            response.close()
            raise transport_errors.plain(transport_errors.UNSENT, request.peer)
        scrubber = Scrubber((*request.secrets, *network.secrets(self._config, proxy)))
        return Response(response, peer=request.peer, limits=limits, scrubber=scrubber)

    def _manager(self, proxy: Secret | None, *, secure: bool) -> urllib3.PoolManager:
        with self._lock:
            if self._closed:
                raise ClientClosedError
            key = (proxy, secure)
            if key not in self._managers:
                self._managers[key] = self._new_manager(proxy, secure=secure)
            return self._managers[key]

    def _new_manager(self, proxy: Secret | None, *, secure: bool) -> urllib3.PoolManager:
        options: dict[str, Any] = {"num_pools": 20, "maxsize": POOL_SIZE}
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
        manager.pool_classes_by_scheme = {"http": Pool, "https": SecurePool}
        return manager

    def close(self) -> None:
        """Close all connections. A second time does nothing."""
        with self._lock:
            self._closed = True
            managers, self._managers = self._managers, {}
        for manager in managers.values():
            for key in manager.pools.keys():  # noqa: SIM118 - it cannot be iterated over
                manager.pools[key].close()
            manager.clear()
