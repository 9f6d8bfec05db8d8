"""Receiving large parts of a request's body on a worker thread, as fast as the client sends them.

The event loop has several turns for each part that arrives, and passes each part to a thread. Here
the thread that uses the bytes takes them from the system itself. It never waits long: a client that
sends slowly is left to the event loop.
"""

import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.node.http_server.direct_sending import second_socket

if TYPE_CHECKING:
    from holdfast.node.http_server.http_connection import NodeProtocol

PIECE_SIZE: Final = 1 << 20  # bytes that are received before they are used
TURN_SIZE: Final = 16 << 20  # bytes after which the event loop looks at time and memory
WORTHWHILE: Final = 2 * PIECE_SIZE  # bytes of the body that are left
FOR_THE_LOOP: Final = 16 << 10  # the last bytes, with which the event loop ends the request


class DirectReceiver:
    """Receives bytes of a body that has a known length, past the buffer of its connection."""

    def __init__(self, connection: "NodeProtocol") -> None:
        self._connection = connection
        self._received = 0

    def open(self) -> socket.socket | None:
        """Return a second socket to receive from; None if that is not worthwhile.

        The event loop receives nothing until `record`.
        """
        connection = self._connection
        if os.name != "posix" or connection.body_left < WORTHWHILE:
            return None
        connection.flow.pause_reading()
        if connection.has_unread_body or connection.transport.is_closing():
            return None
        self._received = 0
        return second_socket(connection.transport)

    def receive(self, source: socket.socket, use: Callable[[bytes], None]) -> bool:
        """Receive on this thread, and `use` each piece; return False if the client is slow."""
        most = min(TURN_SIZE, self._connection.body_left - FOR_THE_LOOP)
        while self._received < most:
            piece = self._receive_piece(source, min(PIECE_SIZE, most - self._received))
            self._received += len(piece)
            if piece:
                use(piece)
            if len(piece) < PIECE_SIZE:
                return self._received == most
        return True

    def _receive_piece(self, source: socket.socket, size: int) -> bytes:
        """Return the next bytes: fewer than `size` if they do not come at once."""
        parts: list[bytes] = []
        while size and not self._connection.transport.is_closing():
            try:
                part = source.recv(size)
            except OSError:  # a time-out, or the client has disconnected
                break
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def record(self) -> None:
        """Count what was received as a part of the body. Call it in the event loop."""
        self._connection.skip_body(self._received)
