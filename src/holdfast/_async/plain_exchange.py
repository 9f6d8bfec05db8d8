"""Sends a request with a whole body, or none, on a connection of aiohttp, and reads the head.

See `_sync/plain_exchange.py`.
"""

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
    # The system takes it at once, or the event loop sends the rest: the body is short. Secrets are
    # not put in variables: a traceback may show those.
    transport.write(request.whole(target, host))
    limits.sent = True
    try:
        message, content = await protocol.read()
        while not is_final(message.code):
            message, content = await protocol.read()
    except HttpProcessingError:
        raise GarbledError from None
    return PlainResponse(connection, message.code, message.headers, content)
