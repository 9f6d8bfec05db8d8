"""What an async client can upload: all that a blocking one can, and async iterables of bytes."""

import asyncio
from collections.abc import AsyncIterable, Iterable
from typing import BinaryIO, TypeAlias, Unpack, cast

from holdfast._async.runtime import run_interruptible, wait_for_end
from holdfast.disk.closing import on_error
from holdfast.sources.folder_source import FolderSelection, FolderSource, open_file_or_folder
from holdfast.sources.sources import CHUNK_SIZE, Source, Uploadable, checked_piece

AsyncUploadable: TypeAlias = "Uploadable | AsyncIterable[bytes]"


async def open_upload(
    upload: "AsyncUploadable", **selection: Unpack[FolderSelection]
) -> Source | FolderSource:
    """Return a source of `upload`; raise `TypeError`, or the `OSError` of ``open``."""
    if isinstance(upload, bytes):
        return Source.of_bytes(upload)  # without a thread: nothing can wait here
    if isinstance(upload, AsyncIterable) and not (
        isinstance(upload, Iterable) or hasattr(upload, "read")
    ):
        return Source(cast("BinaryIO", _AsyncIterableFile(upload)), size=None)
    file = cast("Uploadable", upload)
    return await run_interruptible(open_file_or_folder, file, **selection)


class _AsyncIterableFile:
    """An async iterable of bytes that worker threads read like a file.

    One task iterates from the beginning to the end, because an iterable may depend on the task that
    it runs in. It has one chunk ready, and collects the next one meanwhile.
    """

    def __init__(self, pieces: AsyncIterable[bytes]) -> None:
        self._pieces = aiter(pieces)
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(1)

    def read(self, _size: int) -> bytes:
        """Wait for the next chunk and return it, or b"" at the end; not on the event loop."""
        if _running_loop() is self._loop:
            raise RuntimeError(
                "an async iterable cannot be read on the thread of its event loop: call "
                "`source.chunks` on another thread, with asyncio.to_thread"
            )
        step = self._next()
        with on_error(step.close):  # the loop may have ended, and then nothing would await it
            result = asyncio.run_coroutine_threadsafe(step, self._loop)
        return result.result()

    async def _next(self) -> bytes:
        if self._task is None:
            self._task = asyncio.create_task(self._iterate())
        chunk = asyncio.ensure_future(self._chunks.get())
        await asyncio.wait([chunk, self._task], return_when=asyncio.FIRST_COMPLETED)
        if chunk.done():
            return chunk.result()
        chunk.cancel()
        await self._task  # raises the error of the iterable
        return b""

    async def _iterate(self) -> None:
        buffer = bytearray()
        try:
            async for piece in self._pieces:
                rest = memoryview(checked_piece(piece)).cast("B")
                while rest:
                    room = CHUNK_SIZE - len(buffer)
                    buffer += rest[:room]
                    rest = rest[room:]
                    # A slow iterable must not hold back what it has given.
                    if len(buffer) == CHUNK_SIZE or self._chunks.empty():
                        await self._chunks.put(bytes(buffer))
                        buffer.clear()
            if buffer:
                await self._chunks.put(bytes(buffer))
        finally:
            if hasattr(self._pieces, "aclose"):
                await self._pieces.aclose()

    def close(self) -> None:
        """Close the iterable if it was begun. Call this on a worker thread."""
        asyncio.run_coroutine_threadsafe(self._aclose(), self._loop).result()

    async def _aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await wait_for_end([self._task])


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
