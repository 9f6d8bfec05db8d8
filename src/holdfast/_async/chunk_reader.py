"""Reading the chunks of an upload on one thread, ahead of sending."""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Iterator
from contextlib import suppress


class ChunkReader:
    """Reads the chunks of an iterator on a thread of its own, one chunk ahead of the caller.

    For iterators that may wait without end: nobody waits for the thread after `close`, or when the
    process ends. It ends when the iterator has given its current chunk.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._loop = asyncio.get_running_loop()
        self._wanted: queue.SimpleQueue[str] = queue.SimpleQueue()  # "" ends the thread
        self._read: asyncio.Queue[bytes | BaseException] = asyncio.Queue()
        self._thread: threading.Thread | None = None

    async def next(self) -> bytes:
        """Return the next chunk, or b"" at the end."""
        self._wanted.put("next")
        if self._thread is None:
            self._wanted.put("next")
            run = contextvars.copy_context().run
            self._thread = threading.Thread(
                target=run, args=(self._run,), name="holdfast-source", daemon=True
            )
            self._thread.start()
        chunk = await self._read.get()
        try:
            if isinstance(chunk, BaseException):
                raise chunk
            return chunk
        finally:
            del chunk  # an error and this frame would keep each other alive

    def close(self) -> None:
        """Read no more chunks."""
        self._wanted.put("")

    def _run(self) -> None:
        while self._wanted.get():
            chunk: bytes | BaseException
            try:
                chunk = next(self._chunks, b"")
            except BaseException as error:  # noqa: BLE001 - raised in the caller
                chunk = error
            is_last = isinstance(chunk, BaseException) or not chunk
            with suppress(RuntimeError):  # the loop may be closed
                self._loop.call_soon_threadsafe(self._read.put_nowait, chunk)
            del chunk  # the caller may let it go while this thread waits
            if is_last:
                return
