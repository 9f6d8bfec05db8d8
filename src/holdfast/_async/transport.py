"""The async transport: HTTP with aiohttp. `_sync/transport.py` is the blocking one.

Only this file and `connections` import aiohttp.
"""

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

try:
    import aiohttp
    import yarl
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "the async client needs aiohttp: pip install 'holdfast[async]'", name=missing.name
    ) from None

from holdfast._async import connections
from holdfast._async.connections import Connector, ExchangeLimits, PlainResponse
from holdfast._async.runtime import ThreadReader
from holdfast.calls import NEVER, Deadline
from holdfast.config import ClientConfig, Timeouts, network
from holdfast.config.secret import Scrubber, Secret
from holdfast.errors import ClientClosedError
from holdfast.protocol import transport_errors
from holdfast.protocol.http import BytesBody, Request

MAX_WHOLE: Final = 1 << 16  # aiohttp sends bytes of this size at once, without waiting

TABLE: Final[transport_errors.Table] = {
    connections.ClosedError: None,
    connections.OverheadError: transport_errors.OVERHEAD,
    connections.GarbledError: transport_errors.GARBLED,
    connections.ForbiddenAddressError: transport_errors.PRIVATE_ADDRESS,
    aiohttp.ClientConnectorDNSError: transport_errors.UNKNOWN_HOST,
    aiohttp.ClientConnectorError: transport_errors.UNREACHABLE,
    aiohttp.ConnectionTimeoutError: transport_errors.CONNECT_TIMEOUT,
    aiohttp.ServerTimeoutError: transport_errors.READ_TIMEOUT,
    TimeoutError: transport_errors.READ_TIMEOUT,
    aiohttp.ClientSSLError: transport_errors.TLS,
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


class SourceFailed(Exception):  # noqa: N818 - a signal to `send`, no error of its own
    """Replaces the source's error inside aiohttp, so that the error does not hold its frames."""


class StreamedBody(aiohttp.Payload):
    """A body that is read while it is sent.

    Attributes:
        source_error: The exception that the source, or the progress callback, has raised.
        finished: Whether all of the body was sent.
    """

    @classmethod
    def of(cls, request: Request, limits: ExchangeLimits) -> "StreamedBody | None":
        """Return the body of `request` if it must be streamed, else None."""
        body = request.body
        if isinstance(body, bytes) and len(body) > MAX_WHOLE:
            body = BytesBody(body)
        return None if body is None or isinstance(body, bytes) else cls(body, request, limits)

    def __init__(self, body: Any, request: Request, limits: ExchangeLimits) -> None:
        super().__init__(body)
        self._body = body
        self._on_sent = request.on_sent
        self._limits = limits
        self._connection: asyncio.Transport | None = None
        self._ended = asyncio.Event()
        self.source_error: Exception | None = None
        self.finished = False

    async def write(self, writer: Any) -> None:
        """Send the body. aiohttp runs this as a task and cancels it when the reply is complete."""
        self._connection = writer.transport
        self._limits.start_step(None)  # the source may take its time
        try:
            await self._write(writer)
            self.finished = True
            self._limits.start_step(self._limits.timeouts.read)
        finally:
            self._ended.set()

    async def _write(self, writer: Any) -> None:
        sent = 0
        chunks = self._body.chunks()
        reader = None if isinstance(self._body, BytesBody) else ThreadReader(chunks)
        try:
            while chunk := next(chunks, b"") if reader is None else await self._next(reader):
                sent = await self._send(writer, chunk, sent)
        finally:
            if reader is not None:
                reader.close()

    async def _send(self, writer: Any, chunk: bytes, sent: int) -> int:
        """Send `chunk`, before which `sent` bytes were sent; return how many are sent then."""
        sent += len(chunk)
        self.finished = sent == self._body.end
        self._limits.start_step(self._limits.timeouts.write, transport_errors.STALLED)
        await writer.write(memoryview(chunk))  # asyncio would copy the unsent rest of bytes
        self._limits.start_step(None)
        if self._on_sent is not None:
            with self._keeping_error():
                self._on_sent(sent)
        return sent

    async def _next(self, reader: ThreadReader) -> bytes:
        with self._keeping_error():
            chunk: bytes = await reader.next()
            return chunk

    @contextmanager
    def _keeping_error(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - kept, and raised by `send`
            self.source_error = error
            raise SourceFailed from None

    async def wait(self) -> None:
        """Wait until the body is sent or has failed, but not longer than a write may take."""
        if not self.finished:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.timeouts.write):
                    await self._ended.wait()

    def abort(self) -> None:
        """Drop the connection.

        To close it in order would mean to wait until the peer has read all bytes that are still in
        the buffer, which may never happen.
        """
        if self._connection is not None:
            self._connection.abort()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        raise NotImplementedError("a streamed body is not text")


class AsyncResponse:
    """A reply whose body is not read yet. Close it, or read it to its end.

    Attributes:
        status: The HTTP status.
        headers: The header fields with names in lower case. Credentials that the peer repeats are
            masked.
        address: The address that sent it, or None if a proxy made the connection.
    """

    def __init__(
        self,
        response: PlainResponse | aiohttp.ClientResponse,
        *,
        peer: str,
        limits: ExchangeLimits,
        body: StreamedBody | None,
        scrubber: Scrubber,
    ) -> None:
        # The response itself is not kept: it holds unmasked headers, those of the request too.
        self._content = response.content
        self._taken = 0
        self._release = _releasing(response)
        self._request_body = body
        self._peer = peer
        self._limits = limits
        self._scrubber = scrubber
        self._connection = None if response.connection is None else response.connection.transport
        self.address: str | None = limits.address
        self.status: int = response.status
        self.headers: dict[str, str] = scrubber.headers(response.headers.items())

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        while chunk := await self._next():
            yield chunk

    async def read(self, limit: int) -> bytes:
        """Return at most `limit` bytes of the body."""
        return (await self._read(limit)).getvalue()[:limit]

    async def read_masked(self, limit: int) -> bytes:
        """Return the same, with credentials masked that the peer repeats."""
        return self._scrubber.data((await self._read(limit)).getvalue())[:limit]

    async def _read(self, limit: int) -> io.BytesIO:
        body = io.BytesIO()  # not bytes: a traceback may show the variables of a frame
        content = self._content
        if content.is_eof() and content.exception() is None and content.total_bytes <= limit:
            body.write(content.read_nowait())  # all of it has arrived with the head
            return body
        while body.tell() <= limit and body.write(await self._next()):
            pass
        return body

    async def _next(self) -> bytes:
        """Return the next bytes of the body, or b"" at its end."""
        content = self._content
        failure = None
        # A short body has arrived with the head: there is nothing to wait for.
        waits = content.total_bytes == self._taken and not content.is_eof()
        try:
            if waits:
                connections.receive_more_at_once(self._connection)
                self._limits.wait_for_body()
            chunk = await self._receive()
            self._taken += len(chunk)
            return chunk
        except (aiohttp.ClientError, OSError) as error:
            failure = transport_errors.translate(error, TABLE, self._peer, sent=True)
        finally:
            if waits:
                self._limits.pause()
        try:
            raise failure
        finally:
            del failure  # the error and this frame would keep each other alive

    async def _receive(self) -> bytes:
        try:
            if "transfer-encoding" in self.headers:
                return await self._content.readany()  # joins chunks, which may be many and small
            return (await self._content.readchunk())[0]  # without the copy that `readany` makes
        except RuntimeError as error:
            # aiohttp raises this if we closed the connection just before it starts to wait.
            if "closed" not in str(error):
                raise
            raise aiohttp.ClientConnectionError("Connection closed") from None

    @property
    def stream_error(self) -> str:
        """The error in the trailer ``X-Stream-Error``, or "", after the body was read."""
        return self._scrubber.data(self._limits.end_of_reply.stream_error()).decode(
            errors="replace"
        )

    async def aclose(self) -> None:
        """Give the connection back, or close it if the body was not read to its end."""
        self._limits.end()
        self._release()
        if self._request_body is not None and not self._request_body.finished:
            self._request_body.abort()


def _releasing(response: PlainResponse | aiohttp.ClientResponse) -> Callable[[], None]:
    def release() -> None:
        if response.content.is_eof():  # all of it has arrived, if not all was read
            response.release()
        else:
            response.close()

    return release


class AsyncTransport:
    """Sends requests. Its connections are kept open and shared by all tasks of one event loop."""

    def __init__(self, config: ClientConfig) -> None:
        self._shortcuts = connections.has_aiohttp_shortcuts()
        self._config = config
        self._connector: Connector | None = None
        self._timer = connections.ExchangeTimer()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tls: ssl.SSLContext | None = None
        self._mask_for = network.scrubbers(config)
        self._closed = False

    async def send(
        self, request: Request, *, timeouts: Timeouts, deadline: Deadline = NEVER
    ) -> AsyncResponse:
        """Send `request` and wait for the head of the reply. Redirects are not followed."""
        connector = self._open_connector()
        proxy = network.proxy_for(request.url, self._config)
        max_privacy = request.max_privacy if proxy is None else None
        limits = ExchangeLimits(self._timer, timeouts, deadline, max_privacy=max_privacy)
        if deadline.has_passed:
            raise transport_errors.READ_TIMEOUT.error(request.peer)
        body = StreamedBody.of(request, limits)
        failure: Exception | None = None
        response: PlainResponse | aiohttp.ClientResponse | None = None
        try:
            response = await connector.exchange(
                limits,
                request,
                streamed=body,
                **self._connection_options(proxy, secure=request.is_secure),
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            sent = limits.sent or (body is not None and body.finished)
            failure = self._translated(error, request, limits, sent=sent)
            failure = network.advise_proxy(failure, request.url, self._config)
        finally:
            limits.pause()
            if response is None:
                limits.end()
                if body is not None:
                    body.abort()
        # Raise outside of the handlers: the library's exception, whose frames hold headers in the
        # clear, must not become the context of ours.
        if response is None:
            try:
                source_error = None if body is None else body.source_error
                raise source_error or failure or ClientClosedError()
            finally:
                # The error and this frame would keep each other alive.
                del failure, source_error
        reply = AsyncResponse(
            response,
            peer=request.peer,
            limits=limits,
            body=body,
            scrubber=self._mask_for(request.secrets, proxy),
        )
        del response  # it holds unmasked headers
        if body is not None and reply.status < 300:
            await body.wait()
            if not body.finished:
                await reply.aclose()
                raise body.source_error or transport_errors.UNSENT.error(request.peer)
        return reply

    def _translated(
        self, error: Exception, request: Request, limits: ExchangeLimits, *, sent: bool
    ) -> Exception:
        if self._closed:
            return ClientClosedError()
        if limits.has_expired:
            return limits.timeout_error.error(request.peer, sent=sent)
        # A connection that was closed before has taken nothing of the request.
        sent = sent and not isinstance(error, aiohttp.ClientConnectionResetError)
        return transport_errors.translate(error, TABLE, request.peer, sent=sent)

    def _connection_options(self, proxy: Secret | None, *, secure: bool) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if secure:
            self._tls = self._tls or network.tls_context(self._config)
            options["ssl"] = self._tls
        if proxy is not None:
            address, credentials = network.split_proxy(proxy)
            options["proxy"] = yarl.URL(address)
            if credentials is not None:
                # aiohttp sends it to the proxy only, as Proxy-Authorization.
                options["proxy_headers"] = {"Authorization": credentials.reveal()}
        return options

    def _open_connector(self) -> Connector:
        if self._closed:
            raise ClientClosedError
        loop = asyncio.get_running_loop()
        if self._connector is None:
            self._loop = loop
            self._connector = Connector(loop, shortcuts=self._shortcuts)
        if self._loop is not loop:
            raise RuntimeError(
                "this client was used in another event loop before; make one client for each loop"
            )
        return self._connector

    async def aclose(self) -> None:
        """Close all connections. A second call does nothing."""
        self._closed = True
        connector, self._connector = self._connector, None
        if connector is not None:
            self._timer.stop()
            await connector.close()
