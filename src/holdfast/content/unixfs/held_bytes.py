"""The received bytes of a body that are not verified yet, held without a copy."""


class HeldBytes:
    """A queue of bytes: `peek` at the next ones, then accept them or not.

    Example:
        >>> held = HeldBytes()
        >>> held.append(b"abc")
        >>> held.append(b"def")
        >>> [bytes(view) for view in held.peek(4)]
        [b'abc', b'd']
        >>> held.accept()
        >>> [bytes(view) for view in held.take_accepted()]
        [b'abc', b'd']
        >>> held.size
        2
    """

    def __init__(self) -> None:
        self._views: list[memoryview] = []
        self._at = (0, 0)  # the view, and the position in it, after the accepted bytes
        self._peeked = (0, 0, 0)  # the same after the last `peek`, and how many bytes it returned
        self.size: int = 0  # the bytes that are not accepted

    def append(self, data: bytes) -> None:
        """Add bytes, which must not change while they are held."""
        self._views.append(memoryview(data))
        self.size += len(data)

    def peek(self, size: int) -> list[memoryview] | None:
        """Return the next `size` bytes, or None if there are not as many."""
        if self.size < size:
            return None
        content: list[memoryview] = []
        index, offset = self._at
        left = size
        while left:
            whole = self._views[index]
            view = whole[offset : offset + left]
            content.append(view)
            left -= len(view)
            offset += len(view)
            if offset == len(whole):
                index, offset = index + 1, 0
        self._peeked = (index, offset, size)
        return content

    def accept(self) -> None:
        """Accept the bytes that `peek` has returned."""
        index, offset, size = self._peeked
        self._at = (index, offset)
        self.size -= size

    def take_accepted(self) -> list[memoryview]:
        """Remove the accepted bytes, and return them in runs as long as possible."""
        index, offset = self._at
        taken = self._views[:index]
        if offset:
            taken.append(self._views[index][:offset])
            self._views[index] = self._views[index][offset:]
        del self._views[:index]
        self._at = (0, 0)
        return taken

    def views(self) -> list[memoryview]:
        """Return all bytes that are held."""
        return list(self._views)
