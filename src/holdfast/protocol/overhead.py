"""How much of a reply may be something else than content."""

from typing import Final

MAX_OVERHEAD: Final = 1 << 20
"""Bytes of heads, chunk sizes, chunk extensions and trailers that may come without any content."""

MAX_INFORMATIONAL: Final = 100
"""Informational replies (status 100 to 199) that may come before the real one."""

PER_CONTENT_BYTE: Final = 16  # a chunk of one byte has five bytes around it


class Overhead:
    """Counts the bytes of one reply that are not content.

    Content makes up for overhead: each byte of it allows `PER_CONTENT_BYTE` further bytes, so that
    a body may come in tiny chunks. `slack` is the number of bytes that may have been received
    without having been recognised as content yet.

    Example:
        >>> overhead = Overhead()
        >>> overhead.receive(2_000_000), overhead.is_too_much
        (None, True)
        >>> overhead.take_content(1_900_000), overhead.is_too_much
        (None, False)
    """

    def __init__(self, slack: int = 0) -> None:
        self._most = MAX_OVERHEAD + slack
        self._left = self._most
        self._informational = 0

    @property
    def is_too_much(self) -> bool:
        """Whether the limit is passed."""
        return self._left < 0 or self._informational > MAX_INFORMATIONAL

    def receive(self, count: int) -> None:
        """Count bytes that came from the connection, whatever they are."""
        self._left -= count

    def take_content(self, count: int) -> None:
        """Count bytes among those that are content."""
        self._left = min(self._most, self._left + count * (1 + PER_CONTENT_BYTE))

    def take_informational(self) -> None:
        """Count an informational reply."""
        self._informational += 1
