"""A streamed request body for aiohttp, whose source is read on a thread, ahead of sending."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import aiohttp

from holdfast._async.connections import ExchangeLimits
from holdfast._async.runtime import ThreadReader
from holdfast.protocol import transport_errors
from holdfast.protocol.http import BytesBody, Request

MAX_WHOLE: Final = 1 << 16  # aiohttp sends bytes of this size at once, without waiting


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

        Closing it would first wait for the peer to take the buffered bytes, perhaps for ever.
        """
        if self._connection is not None:
            self._connection.abort()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        raise NotImplementedError("a streamed body is not text")
