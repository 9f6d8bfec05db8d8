"""HTTP by aiohttp, async: the twin of `_sync/transport.py`.

No other file knows aiohttp but `connections`, which keeps the limits of each exchange.
"""

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

try:
    import aiohttp
    import yarl
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "the async client needs aiohttp: pip install 'holdfast[async]'", name=missing.name
    ) from None

from holdfast._async.connections import (
    RECEIVE_SIZE,
    Connector,
    GarbledError,
    NoCookies,
    OverheadError,
    Patience,
    PrivateAddressError,
    current_patience,
)
from holdfast._async.runtime import run_interruptible
from holdfast.calls import NEVER, Deadline
from holdfast.config import ClientConfig, Timeouts, network
from holdfast.config.secret import Scrubber, Secret
from holdfast.errors import ClientClosedError
from holdfast.protocol import transport_errors
from holdfast.protocol.http import BytesBody, Request, StreamBody

CHUNK_SIZE: Final = 1 << 18


TABLE: Final[transport_errors.Table] = {
    OverheadError: transport_errors.OVERHEAD,
    GarbledError: transport_errors.GARBLED,
    PrivateAddressError: transport_errors.PRIVATE_ADDRESS,
    aiohttp.ClientConnectorDNSError: transport_errors.UNKNOWN_HOST,
    aiohttp.ClientConnectorError: transport_errors.UNREACHABLE,
    aiohttp.ConnectionTimeoutError: transport_errors.CONNECT_TIMEOUT,
    aiohttp.ServerTimeoutError: transport_errors.READ_TIMEOUT,
    TimeoutError: transport_errors.READ_TIMEOUT,
    aiohttp.ClientSSLError: transport_errors.TLS,
    aiohttp.ClientConnectorCertificateError: transport_errors.TLS,
    aiohttp.ServerFingerprintMismatch: transport_errors.TLS,
    aiohttp.ClientProxyConnectionError: transport_errors.PROXY,
    aiohttp.ClientHttpProxyError: transport_errors.PROXY,
    aiohttp.ClientConnectionError: transport_errors.BROKEN,
    aiohttp.ClientPayloadError: transport_errors.BROKEN,
    aiohttp.ClientResponseError: transport_errors.GARBLED,
    aiohttp.InvalidURL: transport_errors.BAD_ADDRESS,
    aiohttp.NonHttpUrlClientError: transport_errors.BAD_ADDRESS,
    aiohttp.RedirectClientError: transport_errors.BAD_ADDRESS,
    aiohttp.ClientError: transport_errors.BROKEN,
    OSError: transport_errors.BROKEN,
    ValueError: transport_errors.BAD_ADDRESS,
}


class _Feed(aiohttp.Payload):
    """A streamed body on its way out. Keeps the source's own failure apart from the network's."""

    def __init__(self, request: Request, body: StreamBody, patience: Patience) -> None:
        super().__init__(body)
        self._on_sent = request.on_sent
        self._patience = patience
        self._connection: asyncio.Transport | None = None
        self._over = asyncio.Event()
        self.failure: Exception | None = None
        self.finished = False

    async def write(self, writer: Any) -> None:
        """Called by aiohttp in a task of its own, which it cancels when a whole reply has come."""
        self._connection = writer.transport
        try:
            await self._write(writer)
            self.finished = True
            self._patience.allow(self._patience.timeouts.read)
        finally:
            self._over.set()

    async def _write(self, writer: Any) -> None:
        sent = 0
        chunks = self._value.chunks()
        while chunk := await self._next(chunks):
            sent += len(chunk)
            self.finished = sent == self._value.length
            self._patience.allow(self._patience.timeouts.write, transport_errors.STALLED)
            await writer.write(chunk)
            self._patience.allow(None)
            if self._on_sent is not None:
                with self._keeping_failure():
                    self._on_sent(sent)

    async def _next(self, chunks: Iterator[bytes]) -> bytes:
        with self._keeping_failure():
            return await run_interruptible(next, chunks, b"")

    @contextmanager
    def _keeping_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - kept, and raised by `send`
            self.failure = error
            raise _FeedFailed from None

    async def over(self) -> None:
        """Wait until the body is sent or has failed, but not longer than a write may take."""
        if not self.finished:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience.timeouts.write):
                    await self._over.wait()

    def abort(self) -> None:
        """Drop the connection.

        Closing alone would wait for the peer to take what is buffered, for ever if it does not.
        """
        if self._connection is not None:
            self._connection.abort()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        raise NotImplementedError("a streamed body is not text")


class _FeedFailed(Exception):  # noqa: N818 - a signal to `send`, no error of its own
    """Raised through aiohttp in place of the source's failure, which stays free of its frames."""


class AsyncResponse:
    """A reply whose body is still to be read. Close it, or read it to its end.

    Attributes:
        status: The HTTP status.
        headers: The header fields, names in lower case, echoed credentials masked.
        address: The address that sent it, or None where only a proxy knows it.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        *,
        peer: str,
        patience: Patience,
        feed: _Feed | None,
        scrubber: Scrubber,
    ) -> None:
        # Not the response itself: it holds the head as it came, and the request's.
        self._content = response.content
        self._end = _ending(response)
        self._feed = feed
        self._peer = peer
        self._patience = patience
        self._scrubber = scrubber
        _take_more_at_once(response)
        self.address = patience.address
        self.status = response.status
        names = {name.lower() for name in response.headers}
        self.headers = scrubber.headers(
            {name: ", ".join(response.headers.getall(name)) for name in names}
        )

    async def chunks(self) -> AsyncIterator[bytes]:
        """Give the body as it arrives."""
        while chunk := await self._next():
            yield chunk

    async def read(self, limit: int) -> bytes:
        """Return the whole body, but at most `limit` bytes of it."""
        return (await self._read(limit)).getvalue()[:limit]

    async def read_masked(self, limit: int) -> bytes:
        """Return the same, with the credentials masked that the peer has echoed."""
        return self._scrubber.data((await self._read(limit)).getvalue())[:limit]

    async def _read(self, limit: int) -> io.BytesIO:
        body = io.BytesIO()  # a traceback shows no more of it than its name
        while body.tell() <= limit and body.write(await self._next()):
            pass
        return body

    async def _next(self) -> bytes:
        """Return the next bytes of the body; none at its end."""
        failure = None
        try:
            async with asyncio.timeout(self._patience.until_progress()):
                return await self._receive()
        except (aiohttp.ClientError, OSError) as error:
            failure = transport_errors.translate(error, TABLE, self._peer, sent=True)
        try:
            raise failure
        finally:
            del failure  # or it and this frame would hold each other

    async def _receive(self) -> bytes:
        try:
            if "transfer-encoding" in self.headers:
                return await self._content.readany()  # there may be many small chunks by now
            return (await self._content.readchunk())[0]  # as it came: `readany` would copy it
        except RuntimeError as error:
            # What aiohttp says when the connection was closed, by us, just before it would wait.
            if "closed" not in str(error):
                raise
            raise aiohttp.ClientConnectionError("Connection closed") from None

    async def aclose(self) -> None:
        """Give the connection back, or close it where the body was not read to its end."""
        self._end()
        if self._feed is not None and not self._feed.finished:
            self._feed.abort()


def _ending(response: aiohttp.ClientResponse) -> Callable[[], None]:
    def end() -> None:
        if response.content.at_eof():
            response.release()
        else:
            response.close()

    return end


def _take_more_at_once(response: aiohttp.ClientResponse) -> None:
    """Let the event loop read more from the socket in one go: each costs it the same."""
    transport: Any = None if response.connection is None else response.connection.transport
    if hasattr(transport, "max_size"):
        transport.max_size = RECEIVE_SIZE


class AsyncTransport:
    """Sends requests over connections that are kept open and shared by all tasks of one loop."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def send(
        self, request: Request, *, timeouts: Timeouts, deadline: Deadline = NEVER
    ) -> AsyncResponse:
        """Send `request` and wait for the head of the reply; no redirect is followed."""
        session = self._open_session()
        proxy = network.proxy_for(request.url, self._config)
        most = request.max_privacy if proxy is None else None
        patience = Patience(timeouts, deadline, request.length, max_privacy=most)
        if patience.is_over:
            raise transport_errors.plain(transport_errors.READ_TIMEOUT, request.peer)
        feed: _Feed | None = None
        body = request.body
        if isinstance(body, bytes) and len(body) > CHUNK_SIZE:
            body = BytesBody(body)  # aiohttp warns of large bytes: they are not sent piece by piece
        if body is not None and not isinstance(body, bytes):
            feed = _Feed(request, body, patience)
        failure: Exception | None = None
        response: aiohttp.ClientResponse | None = None
        token = current_patience.set(patience)
        try:
            async with patience.scope():
                response = await session.request(
                    request.method,
                    # As it stands: yarl would quote and normalise what is quoted already.
                    yarl.URL(request.url, encoded=True),
                    data=body if feed is None else feed,
                    headers=request.header_values(),
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=timeouts.connect),
                    allow_redirects=False,
                    trace_request_ctx=patience,
                    # Here and not in a variable: a traceback would show it.
                    **self._connection_options(proxy, secure=request.is_secure),
                )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            sent = patience.sent or (feed is not None and feed.finished)
            failure = self._translated(error, request, patience, sent=sent)
        finally:
            current_patience.reset(token)
            if response is None and feed is not None:
                feed.abort()
        # Outside of the handlers: the library's own frames hold headers in the clear, so its
        # exception does not go along.
        if response is None:
            try:
                raise (feed.failure if feed is not None else None) or failure or ClientClosedError()
            finally:
                del failure  # or it and this frame would hold each other
        scrubber = Scrubber((*request.secrets, *network.secrets(self._config, proxy)))
        answer = AsyncResponse(
            response, peer=request.peer, patience=patience, feed=feed, scrubber=scrubber
        )
        del response  # it shows its head
        if feed is not None and answer.status < 300:
            await feed.over()
            if not feed.finished:
                await answer.aclose()
                raise feed.failure or transport_errors.plain(transport_errors.UNSENT, request.peer)
        return answer

    def _translated(
        self, error: Exception, request: Request, patience: Patience, *, sent: bool
    ) -> Exception:
        if self._closed:
            return ClientClosedError()
        if type(error) is TimeoutError:
            return transport_errors.plain(patience.fault, request.peer, sent=sent)
        # What was written to a connection that had closed before did not go anywhere.
        sent = sent and not isinstance(error, aiohttp.ClientConnectionResetError)
        return transport_errors.translate(error, TABLE, request.peer, sent=sent)

    def _connection_options(self, proxy: Secret | None, *, secure: bool) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if secure:
            self._tls = self._tls or network.tls_context(self._config)
            options["ssl"] = self._tls
        if proxy is not None:
            options["proxy"], credentials = network.split_proxy(proxy)
            if credentials is not None:
                # aiohttp sends it on as Proxy-Authorization, to the proxy alone.
                options["proxy_headers"] = {"Authorization": credentials.reveal()}
        return options

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise ClientClosedError
        loop = asyncio.get_running_loop()
        if self._session is None:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=Connector(loop),
                cookie_jar=NoCookies(),
                auto_decompress=False,
                read_bufsize=2 * CHUNK_SIZE,
                skip_auto_headers=("Accept", "Content-Type"),
                trace_configs=[Patience.tracing()],
            )
            # It would send a request again by itself; attempts are counted, and made, in one place.
            self._session._retry_connection = False  # noqa: SLF001
        if self._loop is not loop:
            raise RuntimeError(
                "this client was used in another event loop before; make one client for each loop"
            )
        return self._session

    async def aclose(self) -> None:
        """Close all connections. A second time does nothing."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()
