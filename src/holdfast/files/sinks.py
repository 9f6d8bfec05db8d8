"""Where downloaded bytes go until they are proven: memory, a temporary file, or beside a target."""

import os
import tempfile
from pathlib import Path
from typing import BinaryIO, Protocol

from holdfast.atomic import PendingFile
from holdfast.blob import Blob
from holdfast.errors import SerializationError

SPOOL_SIZE = 4 << 20  # up to here a download stays in memory


class Sink(Protocol):
    """Takes bytes; nobody sees them before the caller says that they are good."""

    def write(self, data: bytes) -> None:
        """Take the next bytes."""

    def restart(self) -> None:
        """Forget what was written: another gateway is asked."""

    def discard(self) -> None:
        """Remove what was written, unless it was handed out already."""


class TextSink:
    """A JSON document on its way, of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        """Take the next bytes; `SerializationError` when they are too many."""
        if len(self.data) + len(data) > self._limit:
            raise SerializationError(
                f"the document is larger than max_json_bytes ({self._limit}); "
                "raise that, or use download"
            )
        self.data += data

    def restart(self) -> None:
        """Forget what was written."""
        self.data.clear()

    def discard(self) -> None:
        """Forget what was written."""
        self.data.clear()


class SpoolSink:
    """A download without a target: in memory while it is small, then in a temporary file."""

    def __init__(self) -> None:
        self._memory = bytearray()
        self._file: BinaryIO | None = None
        self._path: Path | None = None
        self.size = 0

    def open(self) -> None:
        """Nothing: the memory is there."""

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._file is None and self.size + len(data) > SPOOL_SIZE:
            descriptor, name = tempfile.mkstemp(prefix="holdfast-")
            self._path, self._file = Path(name), os.fdopen(descriptor, "w+b")
            self._file.write(self._memory)
            self._memory.clear()
        if self._file is None:
            self._memory += data
        else:
            self._file.write(data)
        self.size += len(data)

    def restart(self) -> None:
        """Forget what was written."""
        self.discard()
        self._memory.clear()
        self.size = 0

    def commit(self) -> None:
        """All has come, and is good."""
        if self._file is not None:
            self._file.close()

    def blob(self, *, type: str, name: str | None) -> Blob:
        """What was committed."""
        if self._path is None:
            return Blob(self._memory, type=type, name=name)
        path, self._path = self._path, None
        return Blob.of_file(path, size=self.size, type=type, name=name, temporary=True)

    def discard(self) -> None:
        """Remove the temporary file, unless a blob owns it by now."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None


class TargetSink:
    """A download to a file that appears under its name whole, or not at all."""

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self._pending = PendingFile(target)
        self.size = 0

    def open(self) -> None:
        """Make the file beside the target; an `OSError` where that cannot be."""
        self._pending.open()

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self._pending.write(data)
        self.size += len(data)

    def restart(self) -> None:
        """Forget what was written."""
        self._pending.restart()
        self.size = 0

    def commit(self) -> None:
        """All has come, and is good: the file gets its name."""
        self._pending.commit()

    def blob(self, *, type: str, name: str | None) -> Blob:
        """What was committed."""
        target = self._pending.target
        return Blob.of_file(
            target, size=self.size, type=type, name=name or target.name, temporary=False
        )

    def discard(self) -> None:
        """Remove what was written, unless it has its name by now."""
        self._pending.discard()
