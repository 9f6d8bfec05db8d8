r"""The trailer of a chunked reply, in which Kubo and IPFS Cluster put an error that comes late.

::

    HTTP/1.1 200 OK                     the head
    5\r\nhello\r\n                      the chunks of the body
    0\r\n                               the last chunk, which is empty
    X-Stream-Error: out of memory\r\n   the trailer
    \r\n
"""

import re
from typing import Final

STREAM_ERROR: Final = b"x-stream-error"
MAX_TRAILER: Final = 1 << 14  # bytes of it that are looked at
LAST_CHUNK: Final = re.compile(rb"0+[ \t]*(;.*)?")


def read_stream_error(line: bytes) -> bytes:
    """Return the error in a line of the trailer; b"" if it has none."""
    name, _, value = line.partition(b":")
    return value.strip() if name.lower() == STREAM_ERROR else b""


class TrailingBytes:
    r"""The last bytes of a chunked reply, as they came from the connection.

    Example:
        >>> end = TrailingBytes()
        >>> end.feed(b"5\r\nhello\r\n0\r\nX-Stream")
        >>> end.feed(b"-Error: out of memory\r\n\r\n")
        >>> end.stream_error()
        b'out of memory'
    """

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes, and keep the last ones."""
        self._data = (self._data + data if len(data) < MAX_TRAILER else data)[-MAX_TRAILER:]

    def stream_error(self) -> bytes:
        """Return the error in the trailer; b"" if it has none. The reply must be complete."""
        for line in reversed(self._data.split(b"\r\n")):
            if LAST_CHUNK.fullmatch(line):
                break
            if error := read_stream_error(line):
                return error
        return b""
