"""Sends a request with a whole body, or none, on a connection of aiohttp, and reads the head.

See `_sync/plain_exchange.py`.
"""

from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp.http import HttpProcessingError

from holdfast._async.exchange_limits import ExchangeLimits
from holdfast.protocol.http import head_bytes


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


async def exchange_plain(
    connection: Any, limits: ExchangeLimits, head: str, headers: dict[str, str], body: bytes | None
) -> PlainResponse:
    """Send a request whose first line is `head`, and return the reply."""
    protocol = connection.protocol
    transport = protocol.transport
    if transport is None or transport.is_closing():
        raise aiohttp.ClientConnectionResetError("the connection is closed")
    # The system takes it at once, or the event loop sends the rest: `body` is short.
    transport.write(head_bytes(head, headers) + (body or b""))
    limits.sent = True
    try:
        message, content = await protocol.read()
        while 100 <= message.code < 200 and message.code != HTTPStatus.SWITCHING_PROTOCOLS:
            message, content = await protocol.read()
    except HttpProcessingError:
        raise GarbledError from None
    return PlainResponse(connection, message.code, message.headers, content)
