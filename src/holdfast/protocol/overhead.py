"""The limit on the bytes of a reply that are not content: heads, chunk sizes, trailers."""

from typing import Final

MAX_OVERHEAD: Final = 1 << 20
"""Bytes of heads, chunk sizes, chunk extensions and trailers that are allowed without content."""

RECEIVE_SIZE: Final = 1 << 20
"""Bytes that a transport receives at a time, at most: each receive costs the same."""

MAX_INFORMATIONAL: Final = 100
"""Informational replies (status 100 to 199) that are allowed before the final one."""

PER_CONTENT_BYTE: Final = 16  # a chunk of one byte needs five more

MOST: Final = MAX_OVERHEAD + RECEIVE_SIZE


class Overhead:
    """Counts the bytes of one reply that are not content.

    Each byte of content allows `PER_CONTENT_BYTE` further bytes, so that a body may arrive in tiny
    chunks. The bytes of one receive are counted before they are recognised as content, so
    `RECEIVE_SIZE` more bytes than `MAX_OVERHEAD` are allowed.

    Example:
        >>> overhead = Overhead()
        >>> overhead.receive(1_000_000), overhead.is_too_much  # heads
        (None, False)
        >>> overhead.receive(RECEIVE_SIZE), overhead.is_too_much  # perhaps all of it is content
        (None, False)
        >>> overhead.receive(RECEIVE_SIZE), overhead.is_too_much
        (None, True)
        >>> overhead.take_content(RECEIVE_SIZE), overhead.is_too_much
        (None, False)
    """

    def __init__(self) -> None:
        self._left = MOST
        self._informational = 0

    @property
    def is_too_much(self) -> bool:
        """Whether the limit is exceeded."""
        return self._left < 0 or self._informational > MAX_INFORMATIONAL

    def receive(self, count: int) -> None:
        """Count bytes from the connection, of any kind."""
        self._left -= count

    def take_content(self, count: int) -> None:
        """Count received bytes that are content."""
        self._left = min(MOST, self._left + count * (1 + PER_CONTENT_BYTE))

    def take_informational(self) -> None:
        """Count an informational reply."""
        self._informational += 1
