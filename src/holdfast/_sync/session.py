# WARNING: this file is generated from src/holdfast/_async/session.py
# by scripts/generate_sync.py. Change the original instead.
"""One conversation with peers: the configured time-outs, and replies read whole or as a stream."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast._sync.runtime import now
from holdfast.config import Timeouts
from holdfast.protocol.http import MAX_REPLY, Reply, Request

if TYPE_CHECKING:
    from holdfast._sync.transport import Response, Transport


class Session:
    """Sends requests through a transport that others may share."""

    def __init__(self, transport: "Transport", timeouts: Timeouts) -> None:
        self._transport = transport
        self._timeouts = timeouts

    def deadline(self) -> float | None:
        """When a call that begins now must have ended."""
        return None if self._timeouts.total is None else now() + self._timeouts.total

    def fetch(self, request: Request, *, deadline: float | None = None) -> Reply:
        """The whole reply to `request`."""
        with self.stream(request, deadline=deadline) as response:
            return read_whole(response)

    @contextmanager
    def stream(self, request: Request, *, deadline: float | None = None) -> "Iterator[Response]":
        """The reply to `request`, its body still to come."""
        response = self._transport.send(request, timeouts=self._timeouts, deadline=deadline)
        try:
            yield response
        finally:
            response.close()


def read_whole(response: "Response") -> Reply:
    """The reply with its body, of which at most `MAX_REPLY` bytes are kept."""
    body = bytearray()
    for chunk in response.chunks():
        body += chunk
        if len(body) > MAX_REPLY:
            break
    return Reply(response.status, response.headers, bytes(body[:MAX_REPLY]))
