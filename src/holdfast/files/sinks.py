"""Sinks: where a download is written, until all of it is verified.

A reader writes the bytes to a sink in order. Some strategies only verify them at the end, so nobody
may see them before `commit`. If they turn out to be wrong, `restart` removes them and the reader
tries again.
"""

import contextlib
import errno
import os
import tempfile
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from holdfast.content.reference import Reference
from holdfast.errors import SerializationError, TooLargeError
from holdfast.files.atomic import PendingFile, check_size, check_target
from holdfast.files.background import Background
from holdfast.files.blob import Blob
from holdfast.files.disk_space import DiskSpace
from holdfast.files.partial import PARTIAL, WORTH_KEEPING, PartialFile
from holdfast.hints import advise

FLUSH_SIZE = 32 << 20  # bytes after which what was written to a target is made durable
SPOOL_SIZE = 4 << 20  # a larger download goes to a temporary file
IN_ANOTHER_FOLDER = "free some space, set TMPDIR to a folder on another disk, or name a target"
IN_ANOTHER_CACHE = "free some space, or set cache_path to a folder on a larger disk"


class Sink(Protocol):
    """Takes the bytes of a download.

    Attributes:
        verified: How many of the written bytes are verified. The writer sets it.
    """

    verified: int

    @property
    def saved_size(self) -> int:
        """How many bytes an earlier download saved. They must be verified again."""

    def expect(self, size: int, *, is_claim: bool = False) -> None:
        """Raise an error if the sink cannot take `size` bytes in total.

        `is_claim` is for a size that a gateway declares. Another gateway may declare a smaller one,
        so the error must be one after which the next gateway is asked.
        """

    def write(self, data: bytes) -> None:
        """Append `data`."""

    def read_saved(self, start: int, size: int) -> bytes:
        """Return some of the bytes that an earlier download saved."""

    def restart(self, size: int = 0) -> None:
        """Remove what was written, apart from the first `size` bytes."""


class _UnsavedSink:
    """The base of sinks that save nothing for later downloads."""

    verified = 0

    def expect(self, size: int, *, is_claim: bool = False) -> None:
        """Accept any size."""

    @property
    def saved_size(self) -> int:
        """Zero: earlier downloads saved nothing."""
        return 0

    def read_saved(self, start: int, size: int) -> bytes:
        """Raise ValueError: there are no saved bytes."""
        raise ValueError(f"nothing was saved: no {size} bytes at {start}")


class MemorySink(_UnsavedSink):
    """A few bytes in memory."""

    def __init__(self) -> None:
        self.data: bytearray = bytearray()

    def write(self, data: bytes) -> None:
        """Append `data`."""
        self.data += data

    def restart(self, size: int = 0) -> None:
        """Remove what was written, apart from the first `size` bytes."""
        del self.data[size:]


class RangeSink(_UnsavedSink):
    """A range of `size` bytes in memory, which is allocated beforehand."""

    def __init__(self, size: int) -> None:
        self.data: bytearray = bytearray(size)
        self._written = 0

    def write(self, data: bytes) -> None:
        """Append `data`; raise ValueError if the range has too many bytes then."""
        stop = self._written + len(data)
        if stop > len(self.data):
            raise ValueError(f"{stop} bytes are more than the {len(self.data)} of the range")
        self.data[self._written : stop] = data
        self._written = stop

    def restart(self, size: int = 0) -> None:
        """Remove what was written, apart from the first `size` bytes."""
        self._written = size


class TextSink(MemorySink):
    """A JSON document of at most `limit` bytes, in memory."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def expect(self, size: int, *, is_claim: bool = False) -> None:  # noqa: ARG002
        """Raise SerializationError if the document is too large."""
        if size > self._limit:
            raise SerializationError(
                f"the document is larger than max_json_bytes ({self._limit}); "
                "raise that, or use download"
            )

    def write(self, data: bytes) -> None:
        """Append `data`; raise SerializationError if the document is too large then."""
        self.expect(len(self.data) + len(data))
        super().write(data)


class SpoolSink(_UnsavedSink):
    """A download without a target: in memory while it is small, then in a temporary file.

    This file has no name, so the system removes it when the process ends. More than `max_bytes` are
    a TooLargeError.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._memory = bytearray()
        self._file: BinaryIO | None = None
        self._space = DiskSpace(Path(tempfile.gettempdir()), IN_ANOTHER_FOLDER)
        self.size: int = 0

    @property
    def is_in_memory(self) -> bool:
        """Whether there is no temporary file (yet), so that no step of it waits for a disk."""
        return self._file is None

    def open(self) -> None:
        """Do nothing: memory needs no preparation."""

    def expect(self, size: int, *, is_claim: bool = False) -> None:
        """Raise TooLargeError above `max_bytes`, and `OSError` if the disk has too little space."""
        check_limit(size, self._max_bytes)
        if size > SPOOL_SIZE and not is_claim:
            self._space.require(size - self.size)

    def write(self, data: bytes) -> None:
        """Append `data`."""
        check_limit(self.size + len(data), self._max_bytes)
        if self._file is None and self.size + len(data) > SPOOL_SIZE:
            # It has no name from the start; Windows removes it when it is closed.
            file = tempfile.TemporaryFile(prefix="holdfast-")  # noqa: SIM115 - the blob closes it
            self._file = cast("BinaryIO", file)
            self._file.write(self._memory)
            self._memory.clear()
        if self._file is None:
            self._memory += data
        else:
            self._space.spend(len(data))
            self._file.write(data)
        self.size += len(data)

    def restart(self, size: int = 0) -> None:
        """Remove what was written, apart from the first `size` bytes."""
        if self._file is not None:
            self._file.seek(size)
            self._file.truncate()
        else:
            del self._memory[size:]
        self.size = size

    def commit(self) -> None:
        """End the download. All bytes are verified."""
        if self._file is not None:
            self._file.flush()
            check_size(self._file, self.size)

    def blob(self, *, type: str, name: str | None) -> Blob:
        """Return the blob of what was committed."""
        if self._file is None:
            return Blob(self._memory, type=type, name=name)
        file, self._file = self._file, None
        return Blob.of_temporary(file, size=self.size, type=type, name=name)

    def discard(self) -> None:
        """Remove what was written, unless a blob has it."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk, for example: its bytes are not needed
                self._file.close()
            self._file = None


class TargetSink:
    """A download to a file, which appears under its name complete, or not at all.

    Before `commit` the bytes are in a file in the `cache` folder. If the download is interrupted,
    the verified bytes stay there, and the next download of the same content continues after them.
    Without a usable cache folder, the bytes are in the folder of the target, and nothing is saved.
    More than `max_bytes` are a TooLargeError.
    """

    is_in_memory = False

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        cache: Path | None,
        reference: Reference,
        max_bytes: int | None = None,
    ) -> None:
        self._max_bytes = max_bytes
        self._given = os.fspath(target)
        self._target = Path(target)
        self._mode: int | None = None
        self._partial = None if cache is None else PartialFile(cache / PARTIAL, reference)
        self._pending = PendingFile(target)
        self._target_space = self._space = DiskSpace(self._target.parent)
        self._flusher = Background()
        self._flushed = 0
        self.size: int = 0
        self._proven = 0

    @property
    def verified(self) -> int:
        """How many of the bytes are verified. If they are enough, an interruption saves them."""
        return self._proven

    @verified.setter
    def verified(self, size: int) -> None:
        self._proven = size
        if self._partial is not None and size >= WORTH_KEEPING:
            self._partial.keep()

    @property
    def saved_size(self) -> int:
        """How many bytes an earlier download saved."""
        return self._partial.saved_size if self._partial is not None else 0

    def expect(self, size: int, *, is_claim: bool = False) -> None:
        """Raise TooLargeError above `max_bytes`, and `OSError` if a disk has too little space."""
        check_limit(size, self._max_bytes)
        if is_claim:
            return
        self._space.require(size - self.size)
        if self._space is not self._target_space:
            self._target_space.require(size)

    def open(self) -> None:
        """Open the file; raise `OSError` if it or the target cannot be written."""
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
        elif self._partial.folder.stat().st_dev != self._target.parent.stat().st_dev:
            self._space = DiskSpace(self._partial.folder, IN_ANOTHER_CACHE)
        self.size = self.saved_size

    def write(self, data: bytes) -> None:
        """Append `data`."""
        check_limit(self.size + len(data), self._max_bytes)
        self._space.spend(len(data))
        file = self._partial or self._pending
        file.write(data)
        self.size += len(data)
        # Then `commit`, for which the caller waits, has little left to write.
        if self.size - self._flushed >= FLUSH_SIZE and self._flusher.is_idle:
            self._flushed = self.size
            self._flusher.submit(file.sync)

    def read_saved(self, start: int, size: int) -> bytes:
        """Return some of the bytes that an earlier download saved."""
        return b"" if self._partial is None else self._partial.read(start, size)

    def restart(self, size: int = 0) -> None:
        """Remove what was written, apart from the first `size` bytes."""
        self._flusher.drain()
        (self._partial or self._pending).truncate(size)
        self.size = size
        self._flushed = min(self._flushed, size)

    def commit(self) -> None:
        """Give the file its name. All bytes are verified."""
        self._flusher.drain()
        (self._partial or self._pending).check_size(self.size)
        if self._partial is None:
            self._pending.commit()
        else:
            self._partial.commit(self._target, self._mode)

    def blob(self, *, type: str, name: str | None) -> Blob:
        """Return the blob of what was committed."""
        return Blob.of_file(
            self._target, size=self.size, type=type, name=name or self._target.name, temporary=False
        )

    def discard(self) -> None:
        """Remove what was written, apart from verified bytes that are worth saving.

        After `commit` this does nothing.
        """
        self._flusher.close()
        if self._partial is None:
            self._pending.discard()
        else:
            self._partial.close(verified=self.verified)


def check_limit(size: int, max_bytes: int | None) -> None:
    """Raise TooLargeError if content of `size` bytes or more exceeds `max_bytes`."""
    if max_bytes is not None and size > max_bytes:
        raise advise(
            TooLargeError(
                f"the content has {size} bytes or more, and max_bytes allows {max_bytes}",
                limit=max_bytes,
                size=size,
            ),
            "give a larger max_bytes, if you expect so much",
            "give a larger --max-size, if you expect so much",
        )
