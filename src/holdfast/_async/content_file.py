"""A file on IPFS that is open for reading; every part is verified when it is read."""

import io
import operator
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from holdfast._async.runtime import AsyncFileBase
from holdfast.content.media_types import told_type

LARGEST_RANGE: Final = 8 << 20  # bytes that are read within one `timeouts.total`
FIRST_WINDOW = 1 << 18  # the smallest fetch in bytes; it doubles with each sequential read
PEEKED = 1 << 13  # bytes that `peek` returns at most
NO_WINDOW = (-1, b"")  # the position of a window in the file, and its bytes

Part: TypeAlias = bytes | bytearray


@dataclass(frozen=True, slots=True)
class AsyncRanges:
    """The verified bytes of one file, read from any position.

    Attributes:
        size: The bytes of the whole file.
        read: Returns the bytes from a position up to another, which lie within the file.
        type: The media type that the peer reports, "" if it reports none. It is not verified.
    """

    size: int
    read: Callable[[int, int], Awaitable[Part]]
    type: str = ""


class AsyncContentFile(AsyncFileBase):
    """The file that `AsyncClient.open` returns: readable and seekable, every part verified.

    It has one position, so only one task may read it at a time. Close it, best by ``async with``.

    Attributes:
        size: The bytes of the whole file.
        name: The name of the file, if it was opened by a path.
        type: A media type, "" if unknown: what the provider or gateway reports, else by the name.
            It is a hint, and not verified.

    Example:
        >>> record = await client.upload(b"low tide, high tide")
        >>> async with client.open(record.cid) as file:
        ...     position = file.seek(-9, 2)
        ...     print(await file.read())
        b'high tide'
    """

    def __init__(self, ranges: AsyncRanges, *, name: str | None = None) -> None:
        self._ranges = ranges
        self._position = 0
        self._window: tuple[int, bytes | bytearray] = NO_WINDOW
        self._ahead = FIRST_WINDOW
        self.size: int = ranges.size
        self.name = name
        self.type: str = told_type(ranges.type, name or "")

    async def read(self, size: int | None = -1, /) -> bytes:
        """Return the next `size` bytes, fewer at the end; without a size, all that are left.

        If it fails, the position does not change.
        """
        self._check_open()
        start = self._position
        left = max(0, self.size - start)
        count = left if size is None or size < 0 else min(size, left)
        parts = []
        done = 0
        while done < count:
            part = await self._bytes_at(start + done, count - done)
            done += len(part)
            parts.append(part)
        self._position = start + done
        return b"".join(parts)

    async def read1(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes; those in memory, without a request, if there are any."""
        self._check_open()
        count = min(FIRST_WINDOW if size < 0 else size, max(0, self.size - self._position))
        start = self._position
        part = await self._bytes_at(start, count) if count else b""
        self._position = start + len(part)
        return part

    async def pread(self, size: int, offset: int, /) -> bytes:
        """Return `size` bytes from `offset`, fewer at the end; the position does not change.

        Nothing else is fetched, and nothing is kept. Several may be read at the same time.
        """
        self._check_open()
        if offset < 0:
            raise ValueError(f"negative seek position {offset}")
        stop = min(offset + size, self.size)
        parts = [
            await self._ranges.read(start, min(start + LARGEST_RANGE, stop))
            for start in range(offset, stop, LARGEST_RANGE)
        ]
        return b"".join(parts)

    async def peek(self, _size: int = 0, /) -> bytes:
        """Return some of the next bytes; the position does not change."""
        self._check_open()
        count = min(PEEKED, max(0, self.size - self._position))
        return await self._bytes_at(self._position, count) if count else b""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to `offset` from the start, the position or the end; return the new position."""
        self._check_open()
        offset = operator.index(offset)
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}.get(whence)
        if base is None:
            raise ValueError(f"whence must be 0, 1 or 2, not {whence}")
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Return the position of the next byte."""
        self._check_open()
        return self._position

    def readable(self) -> bool:
        """Return True."""
        self._check_open()
        return True

    def seekable(self) -> bool:
        """Return True."""
        self._check_open()
        return True

    def writable(self) -> bool:
        """Return False."""
        self._check_open()
        return False

    async def _bytes_at(self, position: int, count: int) -> bytes:
        """Return one to `count` bytes from `position` on; from the window, if they are in it."""
        start, data = self._window
        if not start <= position < start + len(data):
            follows = position == start + len(data)
            self._ahead = min(2 * self._ahead, LARGEST_RANGE) if follows else FIRST_WINDOW
            stop = min(position + min(max(count, self._ahead), LARGEST_RANGE), self.size)
            self._window = NO_WINDOW  # so that two windows are never in memory at once
            start, data = position, await self._ranges.read(position, stop)
            self._window = (start, data)
        return bytes(memoryview(data)[position - start : position - start + count])

    async def aclose(self) -> None:
        """Close the file. Closing it again has no effect."""
        self._window = NO_WINDOW
        await super().aclose()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an open file cannot be pickled or copied; open it where it is needed")

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")
