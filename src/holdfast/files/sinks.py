"""Where downloaded bytes go until they are proven: memory, a temporary file, or beside a target."""

import contextlib
import errno
import os
import tempfile
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from holdfast.content.reference import Reference
from holdfast.errors import SerializationError
from holdfast.files.atomic import PendingFile, check_size, check_target
from holdfast.files.background import Background
from holdfast.files.blob import Blob
from holdfast.files.partial import WORTH_KEEPING, PartialFile

FLUSH_SIZE = 64 << 20  # bytes to a target that are brought to the disk at a time
SPOOL_SIZE = 4 << 20  # up to here a download stays in memory


class Sink(Protocol):
    """Takes bytes; nobody sees them before the caller says that they are good.

    Attributes:
        proven: How many of the bytes that were written are proven, which whoever writes says.
    """

    proven: int

    @property
    def kept(self) -> int:
        """How many bytes an earlier download left, to be proven again."""

    def expect(self, size: int) -> None:
        """Raise an error if the sink cannot take `size` bytes in all."""

    def write(self, data: bytes) -> None:
        """Take the next bytes."""

    def read_kept(self, start: int, size: int) -> bytes:
        """Some of the bytes that an earlier download left."""

    def restart(self, size: int = 0) -> None:
        """Forget what was written, but for the first `size` bytes."""

    def discard(self) -> None:
        """Remove what was written, unless it was handed out already."""


class _FreshSink:
    """What the sinks have in common that find nothing from earlier downloads."""

    proven = 0

    def expect(self, size: int) -> None:
        """Do nothing: any size will do."""

    @property
    def kept(self) -> int:
        """Nothing is."""
        return 0

    def read_kept(self, start: int, size: int) -> bytes:
        """Nothing."""
        raise ValueError(f"nothing was kept: no {size} bytes at {start}")


class MemorySink(_FreshSink):
    """A few bytes, wanted at once."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self.data += data

    def restart(self, size: int = 0) -> None:
        """Forget what was written, but for the first `size` bytes."""
        del self.data[size:]

    def discard(self) -> None:
        """Forget what was written."""
        self.data.clear()


class RangeSink(_FreshSink):
    """A range of `size` bytes, wanted at once, for which the memory is set aside beforehand."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self._written = 0

    def write(self, data: bytes) -> None:
        """Take the next bytes; raise ValueError when they are too many."""
        stop = self._written + len(data)
        if stop > len(self.data):
            raise ValueError(f"a range of {len(self.data)} bytes is over")
        self.data[self._written : stop] = data
        self._written = stop

    def restart(self, size: int = 0) -> None:
        """Forget what was written, but for the first `size` bytes."""
        self._written = size

    def discard(self) -> None:
        """Forget what was written."""
        self._written = 0


class TextSink(MemorySink):
    """A JSON document on its way, of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def expect(self, size: int) -> None:
        """Raise SerializationError if the document is too large."""
        if size > self._limit:
            raise SerializationError(
                f"the document is larger than max_json_bytes ({self._limit}); "
                "raise that, or use download"
            )

    def write(self, data: bytes) -> None:
        """Take the next bytes; raise SerializationError when they are too many."""
        self.expect(len(self.data) + len(data))
        super().write(data)


class SpoolSink(_FreshSink):
    """A download without a target: in memory while it is small, then in a temporary file.

    That file has no name, so nothing is left of it, however the process ends.
    """

    def __init__(self) -> None:
        self._memory = bytearray()
        self._file: BinaryIO | None = None
        self.size = 0

    def open(self) -> None:
        """Nothing: the memory is there."""

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._file is None and self.size + len(data) > SPOOL_SIZE:
            # Unlinked when it is made; on Windows, removed by the system when it is closed.
            file = tempfile.TemporaryFile(prefix="holdfast-")  # noqa: SIM115 - the blob closes it
            self._file = cast("BinaryIO", file)
            self._file.write(self._memory)
            self._memory.clear()
        if self._file is None:
            self._memory += data
        else:
            self._file.write(data)
        self.size += len(data)

    def restart(self, size: int = 0) -> None:
        """Forget what was written, but for the first `size` bytes."""
        if self._file is not None:
            self._file.seek(size)
            self._file.truncate()
        else:
            del self._memory[size:]
        self.size = size

    def commit(self) -> None:
        """All has come, and is good."""
        if self._file is not None:
            self._file.flush()
            check_size(self._file, self.size)

    def blob(self, *, type: str, name: str | None) -> Blob:
        """What was committed."""
        if self._file is None:
            return Blob(self._memory, type=type, name=name)
        file, self._file = self._file, None
        return Blob.of_temporary(file, size=self.size, type=type, name=name)

    def discard(self) -> None:
        """Close the temporary file, unless a blob owns it by now."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk, say: it is of no use any more
                self._file.close()
            self._file = None


class TargetSink:
    """A download to a file that appears under its name whole, or not at all.

    Until then it is in the `cache` folder, where what is verified of it outlives an interruption.
    Where there can be no such folder, it is in the folder of the target and does not.
    """

    def __init__(
        self, target: str | os.PathLike[str], *, cache: Path | None, reference: Reference
    ) -> None:
        self._given = os.fspath(target)
        self._target = Path(target)
        self._mode: int | None = None
        self._partial = None if cache is None else PartialFile(cache / "partial", reference)
        self._pending = PendingFile(target)
        self._flusher = Background()
        self._flushed = 0
        self.size = 0
        self._proven = 0

    @property
    def proven(self) -> int:
        """How many of the bytes are verified. Enough of them outlive an interruption."""
        return self._proven

    @proven.setter
    def proven(self, size: int) -> None:
        self._proven = size
        if self._partial is not None and size >= WORTH_KEEPING:
            self._partial.keep()

    @property
    def kept(self) -> int:
        """How many bytes an earlier download left."""
        return self._partial.kept if self._partial is not None else 0

    def expect(self, size: int) -> None:
        """Do nothing: any size will do."""

    def open(self) -> None:
        """See that the target can be written, and make the file; an `OSError` where it cannot."""
        self._mode = check_target(self._target, self._given)
        if not os.access(self._target.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self._target.parent))
        if self._partial is not None:
            try:
                self._partial.open()
            except OSError:
                self._partial = None
        if self._partial is None:
            self._pending.open()
        self.size = self.kept

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        file = self._partial or self._pending
        file.write(data)
        self.size += len(data)
        # So that the disk has little left to do at the end, when all wait for it.
        if self.size - self._flushed >= FLUSH_SIZE and self._flusher.is_idle:
            self._flushed = self.size
            self._flusher.submit(file.sync)

    def read_kept(self, start: int, size: int) -> bytes:
        """Some of the bytes that an earlier download left."""
        return b"" if self._partial is None else self._partial.read(start, size)

    def restart(self, size: int = 0) -> None:
        """Forget what was written, but for the first `size` bytes."""
        self._flusher.drain()
        (self._partial or self._pending).truncate(size)
        self.size = size
        self._flushed = min(self._flushed, size)

    def commit(self) -> None:
        """All has come, and is good: the file gets its name."""
        self._flusher.drain()
        (self._partial or self._pending).check_size(self.size)
        if self._partial is None:
            self._pending.commit()
        else:
            self._partial.commit(self._target, self._mode)

    def blob(self, *, type: str, name: str | None) -> Blob:
        """What was committed."""
        return Blob.of_file(
            self._target, size=self.size, type=type, name=name or self._target.name, temporary=False
        )

    def discard(self) -> None:
        """Remove what was written, unless it has its name by now, or is worth keeping."""
        self._flusher.close()
        if self._partial is None:
            self._pending.discard()
        else:
            self._partial.close(proven=self.proven)
