"""Sending large parts of a reply's body from a worker thread, as fast as the client reads them.

The event loop would copy what the client does not read at once into a buffer of its own, and wake
up for every part of it. Here a thread passes whole blocks to the system. What the system does not
take in time is not held: the caller only knows how many bytes were sent.
"""

import os
import socket
from concurrent.futures import Executor
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from holdfast.node.http_server.request_cycle import RequestCycle

if TYPE_CHECKING:
    from holdfast.node.http_server.streamed_replies import Pieces

WAIT_SECONDS: Final = 0.002  # a thread's wait for a client; a slower one is left to the event loop
PATIENCE: Final = 0.05  # the same for a client that was quick before, which may lack a processor


def second_socket(transport: Any) -> socket.socket:
    """Return a second socket of a connection, for a thread. It waits `WAIT_SECONDS` at most.

    The connection may end while the thread uses its socket. The system could then give the number
    of the descriptor to another connection, so the second socket has a descriptor of its own.
    """
    own = transport.get_extra_info("socket")
    copy = socket.socket(own.family, own.type, own.proto, os.dup(own.fileno()))
    copy.settimeout(WAIT_SECONDS)
    return copy


class DirectSender:
    """Sends bytes of a reply past the buffer of its connection.

    The reply must declare its length. Nothing else may be written to the connection meanwhile.
    """

    def __init__(self, transport: Any, cycle: RequestCycle) -> None:
        self._transport = transport
        self._cycle = cycle

    @property
    def is_ready(self) -> bool:
        """Whether the system has taken all bytes that were written before."""
        self._cycle.send_head()
        return (
            os.name == "posix"
            and not self._transport.is_closing()
            and not self._transport.get_write_buffer_size()
        )

    def open(self) -> socket.socket:
        """Return a second socket of the connection. Call it in the event loop."""
        return second_socket(self._transport)

    def send(self, connection: socket.socket, pieces: "Pieces", hashers: Executor) -> bool:
        """Send `pieces` on this thread; return False if the client does not read them in time."""
        with closing(pieces.runs(hashers)) as runs:
            for run in runs:
                connection.settimeout(PATIENCE if pieces.is_quick else WAIT_SECONDS)
                sent = 0
                while sent < len(run):
                    if self._transport.is_closing():
                        return False
                    try:
                        size = connection.send(run[sent:])
                    except OSError:  # a time-out, or the client has disconnected
                        return False
                    pieces.skip(size)
                    sent += size
        return True

    def record(self, size: int) -> None:
        """Count bytes that were sent as a part of the reply. Call it in the event loop."""
        if not self._cycle.is_disconnected:
            self._cycle.count(size)
            self._transport.count(size)
