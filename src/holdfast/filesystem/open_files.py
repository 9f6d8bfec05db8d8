"""Files of the file system that are open for reading; every part is verified when it is read."""

from typing import Any, Final

from fsspec.asyn import sync

from holdfast._async.content_file import AsyncContentFile
from holdfast.filesystem.base_classes import AbstractAsyncStreamedFile, AbstractBufferedFile

READ_AHEAD: Final = 1 << 17  # bytes that are fetched behind those that are read


class HoldfastFile(AbstractBufferedFile):
    """A file that is open for reading, with the buffers of fsspec in front of it.

    When it is read from start to end, the content file below it fetches ever larger parts.
    """

    DEFAULT_BLOCK_SIZE = READ_AHEAD

    def __init__(self, fs: Any, path: str, content: AsyncContentFile, **options: Any) -> None:
        self._content = content
        super().__init__(fs, path, "rb", size=content.size, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = sync(self.fs.loop, self._read, start, end)
        return data

    async def _read(self, start: int, end: int) -> bytes:
        self._content.seek(start)
        return await self._content.read(end - start)

    def close(self) -> None:
        """Close the file. A second time does nothing."""
        super().close()
        self._content.closed = True


class AsyncHoldfastFile(AbstractAsyncStreamedFile):
    """A file that is open for reading, awaited."""

    def __init__(self, fs: Any, path: str, content: AsyncContentFile, **options: Any) -> None:
        self._content = content
        super().__init__(fs, path, "rb", size=content.size, **options)

    async def _fetch_range(self, start: int, end: int) -> bytes:
        self._content.seek(start)
        return await self._content.read(end - start)
