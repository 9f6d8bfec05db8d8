"""An iterable of bytes that can be read like a file."""

from collections.abc import Iterable


def size_of(pieces: Iterable[bytes]) -> int | None:
    """Return the bytes of all `pieces` of a list or tuple; None for another iterable."""
    if not isinstance(pieces, list | tuple):
        return None
    return sum(memoryview(checked_piece(each)).nbytes for each in pieces)


def checked_piece(given: bytes) -> bytes:
    """Return `given`; raise `TypeError` if it is not bytes."""
    if not isinstance(given, bytes | bytearray | memoryview):
        name = type(given).__name__
        raise TypeError(
            f"cannot read {name}: the iterable must give bytes; for several files, use "
            "`upload_many`; for a JSON value, use `store`"
        )
    return given


class PiecesFile:
    """An iterable of bytes that can be read like a file."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.seek(0)

    def seek(self, position: int) -> None:
        """Begin anew with the iterable, and skip to `position`."""
        self._iterator = iter(self._pieces)
        self._rest = memoryview(b"")
        while position and (skipped := len(self.read(min(position, 1 << 20)))):
            position -= skipped

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end."""
        parts: list[memoryview] = []
        while size:
            if not self._rest:
                piece = next(self._iterator, None)
                if piece is None:
                    break
                self._rest = memoryview(checked_piece(piece)).cast("B")
            parts.append(self._rest[:size])
            self._rest = self._rest[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        """Do nothing: the iterable belongs to the caller."""
