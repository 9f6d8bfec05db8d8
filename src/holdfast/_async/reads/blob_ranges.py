"""Parts of a file that was downloaded whole."""

from holdfast._async.runtime import run_blocking
from holdfast.files.blob import Blob


class AsyncBlobRanges:
    """Reads parts of a blob."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self.size = blob.size

    async def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` up to `stop`."""
        return await run_blocking(self._read, start, stop)

    def _read(self, start: int, stop: int) -> bytes:
        with self._blob.open() as file:
            file.seek(start)
            return file.read(stop - start)
