"""Sends a request with a whole body, or none, on a connection of aiohttp, and reads the head.

See `_sync/plain_exchange.py`.
"""

import asyncio
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp.http import HttpProcessingError

from holdfast._async.exchange_limits import ExchangeLimits
from holdfast.protocol.http import Request


class GarbledError(aiohttp.ClientError):
    """The peer has sent something that cannot be parsed."""


class PlainResponse:
    """The part of `aiohttp.ClientResponse` that the transport uses."""

    __slots__ = ("connection", "content", "headers", "status")

    def __init__(self, connection: Any, status: int, headers: Any, content: Any) -> None:
        self.connection = connection
        self.status = status
        self.headers = headers
        self.content = content

    def release(self) -> None:
        """Keep the connection for another request."""
        self.connection.release()

    def close(self) -> None:
        """Close the connection, and wake whoever waits for the body."""
        if self.content.exception() is None:
            self.content.set_exception(aiohttp.ClientConnectionError("Connection closed"))
        self.connection.close()


class _Sending:
    """Sends the bytes of a request when it is called.

    They hold secrets. Tracebacks, and asyncio in its debug mode, show only the `repr` of this.
    """

    __slots__ = ("_data", "_limits", "_transport")

    def __init__(self, transport: Any, limits: ExchangeLimits, data: bytes) -> None:
        self._transport = transport
        self._limits = limits
        self._data = data

    def __call__(self) -> None:
        if not self._transport.is_closing():
            # The system takes it at once, or the event loop sends the rest: the body is short.
            self._transport.write(self._data)
            self._limits.sent = True


def is_final(status: int) -> bool:
    """Return whether no other reply to the same request follows."""
    return status >= HTTPStatus.OK or status == HTTPStatus.SWITCHING_PROTOCOLS


async def exchange_plain(
    connection: Any, limits: ExchangeLimits, request: Request, target: str, host: str
) -> PlainResponse:
    """Send `request` for the path `target` of `host`, and return the reply."""
    protocol = connection.protocol
    transport = protocol.transport
    if transport is None or transport.is_closing():
        raise aiohttp.ClientConnectionResetError("the connection is closed")
    # It is sent when all tasks that are ready have made theirs: each alone would wake the peer.
    loop = asyncio.get_running_loop()
    loop.call_soon(_Sending(transport, limits, request.whole(target, host)))
    try:
        message, content = await protocol.read()
        while not is_final(message.code):
            message, content = await protocol.read()
    except HttpProcessingError:
        raise GarbledError from None
    return PlainResponse(connection, message.code, message.headers, content)
