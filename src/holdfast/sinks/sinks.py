"""Sinks: where a download is written, until all of it is verified.

A reader writes the bytes to a sink in order. Some strategies only verify them at the end, so nobody
may see them before `commit`. If they turn out to be wrong, `truncate` removes them and the reader
tries again.

A reader that changes content on its way (one that decrypts, say) adds a `Finish`. Then the sink has
two stages: it collects the verified bytes, which an interrupted download saves, and the finish
makes the content from them, in a second sink of the same kind. For a large file, the finish runs
beside the download.
"""

import contextlib
import io
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Final, Protocol, Self, TypeAlias, cast

from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.disk.atomic import WORTH_KEEPING, PendingFile, SavedPlace, check_size
from holdfast.disk.background import Background
from holdfast.disk.disk_space import DiskSpace
from holdfast.errors import SerializationError, TooLargeError
from holdfast.hints import advise
from holdfast.sources.blob import Blob
from holdfast.sources.sources import PiecesFile, Progress, Source, open_source

FLUSH_SIZE = 32 << 20  # bytes after which what was written to a target is made durable
SPOOL_SIZE = 4 << 20  # a larger download goes to a temporary file
BESIDE_SIZE: Final = 4 << 20  # verified bytes after which finishes run beside the download
IN_ANOTHER_FOLDER = "free some space, set TMPDIR to a folder on another disk, or name a target"
IN_ANOTHER_CACHE = "free some space, or set cache_path to a folder on a larger disk"


class BytesReader(Protocol):
    """Bytes that are read from their start."""

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes, fewer at the end."""


@dataclass(frozen=True)
class Finish:
    """What makes the content of a file from its verified bytes.

    Args:
        make: Reads the verified bytes and yields the content. It runs on a worker thread, and waits
            there for bytes that are not verified yet. It may use the memory of a piece again for
            the next one. If it fails, nothing is written to the target, and the verified bytes are
            saved like those of an interrupted download.
        size: Returns the bytes of the content that is made from so many verified bytes. Limits and
            progress use it before there is any content; `make` says how many there are at the end.

    Example:
        >>> without_prefix = Finish(lambda file: [file.read(3)[3:], file.read(9)], lambda n: n - 3)
        >>> sink = MemorySink()
        >>> sink.add_finish(without_prefix)
        >>> sink.write(b"...hello")
        >>> _ = [*sink.finish()]
        >>> sink.final.data
        bytearray(b'hello')
    """

    make: Callable[[BytesReader], Iterable[bytes | memoryview]]
    size: Callable[[int], int]

    def progress(self, progress: Progress | None) -> Progress | None:
        """Return a callback that calls `progress` with the sizes of the content."""
        if progress is None:
            return None
        size = self.size
        return lambda done, total: progress(size(done), total and size(total))


Finishes: TypeAlias = tuple[Finish, ...]


def finished(finishes: Finishes, source: BytesReader) -> Iterator[bytes | memoryview]:
    """Yield what `finishes` make of the bytes of `source`. A piece is valid until the next one."""
    *inner, outermost = finishes
    for finish in inner:
        source = PiecesFile(finish.make(source))
    return iter(outermost.make(source))


class VerifiedBytes:
    """The bytes of an open file that are verified so far. To read more of them is to wait.

    One thread writes and verifies the file, another one reads it here.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._changed = threading.Condition()
        self._position = self._verified = 0
        self._ended = self._closed = False

    def verify(self, size: int, *, ended: bool = False) -> None:
        """Let the first `size` bytes be read; `ended` says that there are no others."""
        with self._changed:
            self._verified, self._ended = size, ended
            self._changed.notify()

    def close(self) -> None:
        """Let `read` fail, which may be waiting."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes, fewer at the end; wait until they are verified."""
        stop = self._position + size
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._ended or stop <= self._verified)
            if self._closed:
                raise InterruptedError("nobody needs the bytes any more")
            stop = min(stop, self._verified)
        data = os.pread(self._descriptor, stop - self._position, self._position)
        self._position += len(data)
        return data


class Sink:
    """Takes the bytes of a download.

    Attributes:
        verified: How many of the written bytes are verified. The writer sets it.
        size: How many bytes were written.
        cid: The CID at the end of the path of the download, if it was verified.
        saved_size: How many bytes an earlier download saved. They must be verified again.
        is_in_memory: Whether no step of it waits for a disk.
        finishes: What makes the content from the verified bytes, in the order in which they run.
        final: The sink with the content that the finishes make, once they have begun.
    """

    verified: int = 0
    size: int = 0
    cid: CID | None = None
    saved_size: int = 0
    is_in_memory: bool = True
    finishes: Finishes = ()
    final: Self | None = None

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes

    # For readers

    def expect(self, size: int, *, is_claim: bool = False) -> None:  # noqa: ARG002 - for disks
        """Raise an error if the sink cannot take `size` bytes in total.

        `is_claim` is for a size that a gateway declares. Another gateway may declare a smaller one,
        so the error must be one after which the next gateway is asked.
        """
        self.check_limit(size)

    def write(self, data: bytes | memoryview) -> None:
        """Append `data`."""
        raise NotImplementedError

    def read_saved(self, start: int, size: int) -> bytes:
        """Return some of the bytes that an earlier download saved."""
        raise ValueError(f"nothing was saved: no {size} bytes at {start}")

    def truncate(self, size: int) -> None:
        """Remove what was written, apart from the first `size` bytes."""
        raise NotImplementedError

    def add_finish(self, finish: Finish) -> None:
        """Let `finish` make the content from what is written. What is added last runs first."""
        self.finishes = (finish, *self.finishes)

    # For the owner of the sink

    def open(self) -> None:
        """Prepare the sink; raise `OSError` if the target cannot be written."""

    def restart(self) -> None:
        """Remove what was written, and the finishes, so that the sink can be filled again."""
        self.discard_final()
        self.finishes, self.verified = (), 0
        self.truncate(0)

    def commit(self) -> None:
        """Make the content appear at its target. All bytes are verified."""

    def discard(self) -> None:
        """Remove what was written, apart from verified bytes that are worth saving.

        After `commit` this does nothing.
        """
        self.discard_final()

    # The second stage

    def discard_final(self) -> None:
        """Remove what the finishes have made."""
        if self.final is not None:
            self.final.discard()
            self.final = None

    def content_size(self, size: int) -> int:
        """Return how large the content is that is made from `size` verified bytes."""
        for finish in self.finishes:
            size = finish.size(size)
        return size

    def second_size(self, size: int) -> int:
        """Return the bytes that `final` needs besides the `size` verified ones; 0 without it."""
        return self.content_size(size) if self.finishes else 0

    def check_limit(self, size: int) -> None:
        """Raise TooLargeError if the content from `size` verified bytes exceeds `max_bytes`."""
        if self._max_bytes is not None:
            self.check_content(self.content_size(size), self._max_bytes)

    def check_content(self, size: int, limit: int) -> None:
        """Raise TooLargeError if content of `size` bytes exceeds `limit`."""
        check_limit(size, limit)

    def finish(self: Self) -> Generator[bool, None, None]:
        """Fill `final` with what the finishes make; yield True after some MiB."""
        yield from self.fill_final(self.read_all())

    def fill_final(self: Self, source: BytesReader) -> Generator[bool, None, None]:
        """Fill `final` with what the finishes make of the bytes of `source`, as `finish` does."""
        final = self.final = self.make_final()
        final.open()
        final.expect(self.content_size(self.size))
        for piece in finished(self.finishes, source):
            final.write(piece)
            yield True

    def read_all(self) -> BytesReader:
        """Return all bytes that were written."""
        raise NotImplementedError

    def make_final(self) -> Self:
        """Return an empty sink with the same target and limits."""
        return type(self)(self._max_bytes)


class MemorySink(Sink):
    """A few bytes in memory."""

    def __init__(self, max_bytes: int | None = None) -> None:
        super().__init__(max_bytes)
        self.data: bytearray = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        """Append `data`."""
        self.check_limit(self.size + len(data))
        self.data += data
        self.size = len(self.data)

    def truncate(self, size: int) -> None:
        """Remove what was written, apart from the first `size` bytes."""
        del self.data[size:]
        self.size: int = len(self.data)

    def read_all(self) -> BytesReader:
        """Return all bytes that were written."""
        return io.BytesIO(self.data)


class TextSink(MemorySink):
    """A JSON document in memory."""

    def check_content(self, size: int, limit: int) -> None:
        """Raise SerializationError if the document is too large."""
        if size > limit:
            raise SerializationError(
                f"the document is larger than max_json_bytes ({limit}); raise that, or use download"
            )


class SpoolSink(Sink):
    """A download without a target: in memory while it is small, then in a temporary file.

    This file has no name, so the system removes it when the process ends. More than `max_bytes` are
    a TooLargeError.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        super().__init__(max_bytes)
        self._file: BinaryIO = io.BytesIO()

    @cached_property
    def _space(self) -> DiskSpace:
        return DiskSpace(Path(tempfile.gettempdir()), IN_ANOTHER_FOLDER)

    def expect(self, size: int, *, is_claim: bool = False) -> None:
        """Raise TooLargeError above `max_bytes`, and `OSError` if the disk has too little space."""
        self.check_limit(size)
        if size > SPOOL_SIZE and not is_claim:
            self._space.require(size - self.size + self.second_size(size))

    def write(self, data: bytes | memoryview) -> None:
        """Append `data`."""
        self.check_limit(self.size + len(data))
        if self.is_in_memory and self.size + len(data) > SPOOL_SIZE:
            # It has no name from the start.
            file = tempfile.TemporaryFile(prefix="holdfast-")  # noqa: SIM115 - the blob closes it
            beginning = self._bytes()
            self._file = cast("BinaryIO", file)
            self.is_in_memory: bool = False
            self._file.write(beginning)
        if not self.is_in_memory:
            self._space.spend(len(data))
        self._file.write(data)
        self.size += len(data)

    def _bytes(self) -> bytes:
        """Return the bytes in memory."""
        return cast("io.BytesIO", self._file).getvalue()

    def truncate(self, size: int) -> None:
        """Remove what was written, apart from the first `size` bytes."""
        self._file.seek(size)
        self._file.truncate()
        self.size: int = size

    def commit(self) -> None:
        """End the download. All bytes are verified."""
        if not self.is_in_memory:
            self._file.flush()
            check_size(self._file, self.size)

    def blob(self, *, type: str, name: str | None) -> Blob:
        """Return the blob of what was committed."""
        if self.is_in_memory:
            return Blob(self._bytes(), type=type, name=name)
        file, self._file = self._file, io.BytesIO()
        return Blob.of_temporary(file, size=self.size, type=type, name=name)

    def discard(self) -> None:
        """Remove what was written, unless a blob has it."""
        super().discard()
        with contextlib.suppress(OSError):  # a full disk, for example: its bytes are not needed
            self._file.close()

    def read_all(self) -> BytesReader:
        """Return all bytes that were written."""
        if self.is_in_memory:
            return io.BytesIO(self._bytes())
        self.commit()
        self._file.seek(0)
        return self._file


class TargetSink(Sink):
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
        super().__init__(max_bytes)
        self._reference = reference
        self._target = target
        place = None if cache is None else SavedPlace.of(cache, reference)
        self._file = PendingFile(target, place=place)
        self._target_space = self._space = DiskSpace(self._file.target.parent)
        self._flusher = Background()
        self._flushed = 0
        self._proven = 0
        self._verified_bytes: VerifiedBytes | None = None  # which a thread reads for the finishes
        self._finished: Future[None] = Future()

    @property
    def verified(self) -> int:
        """How many of the bytes are verified. If they are enough, an interruption saves them."""
        return self._proven

    @verified.setter
    def verified(self, size: int) -> None:
        self._proven = size
        if size >= WORTH_KEEPING:
            self._file.save()
        if self.finishes and size >= BESIDE_SIZE:
            self._file.flush()
            if self._verified_bytes is None:
                self._verified_bytes, self._finished = VerifiedBytes(self._file.fileno()), Future()
                args = self._verified_bytes, self._finished
                threading.Thread(target=self._finish_beside, args=args, daemon=True).start()
            self._verified_bytes.verify(size)

    def _finish_beside(self, source: VerifiedBytes, result: "Future[None]") -> None:
        """Make the content on this thread while the bytes of `source` are downloaded."""
        try:
            deque(self.fill_final(source), maxlen=0)
            result.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised by `finish`
            result.set_exception(error)

    def finish(self) -> Generator[bool, None, None]:
        """Wait for the thread that makes the content, if there is one; yield True meanwhile."""
        if self._verified_bytes is None:
            yield from super().finish()
            return
        self._check_size()
        self._verified_bytes.verify(self.size, ended=True)
        while not wait([self._finished], timeout=0.1).done:
            yield True
        self._finished.result()

    def discard_final(self) -> None:
        """Remove what the finishes have made, and end the thread on which they run."""
        if self._verified_bytes is not None:
            self._verified_bytes.close()
            wait([self._finished])
            self._verified_bytes = None
        super().discard_final()

    def expect(self, size: int, *, is_claim: bool = False) -> None:
        """Raise TooLargeError above `max_bytes`, and `OSError` if a disk has too little space."""
        self.check_limit(size)
        if is_claim:
            return
        if self._space is self._target_space:
            self._space.require(size - self.size + self.second_size(size))
        else:
            self._space.require(size - self.size)
            self._target_space.require(self.content_size(size))

    def open(self) -> None:
        """Open the file; raise `OSError` if it or the target cannot be written."""
        is_open = False
        with contextlib.suppress(OSError):  # of the cache folder; one of the target comes again
            self._file.open()
            is_open = True
        if not is_open:
            self._file.discard()
            self._file = PendingFile(self._target)
            self._file.open()
        if self._file.folder.stat().st_dev != self._file.target.parent.stat().st_dev:
            self._space = DiskSpace(self._file.folder, IN_ANOTHER_CACHE)
        self.size = self.saved_size = self._file.saved_size

    def write(self, data: bytes | memoryview) -> None:
        """Append `data`."""
        self.check_limit(self.size + len(data))
        self._space.spend(len(data))
        self._file.write(data)
        self.size += len(data)
        # Then `commit`, for which the caller waits, has little left to write. With finishes, it
        # removes these bytes; they must outlive the process, not the machine.
        is_long = self.size - self._flushed >= FLUSH_SIZE
        if is_long and not self.finishes and self._flusher.is_idle:
            self._flushed = self.size
            self._flusher.submit(self._file.sync)

    def read_saved(self, start: int, size: int) -> bytes:
        """Return some of the bytes that an earlier download saved."""
        return self._file.read_saved(start, size)

    def truncate(self, size: int) -> None:
        """Remove what was written, apart from the first `size` bytes."""
        self._flusher.drain()
        if size < self._proven:
            self.discard_final()
        self._file.truncate(size)
        self.size: int = size
        self.saved_size: int = min(self.saved_size, size)
        self._flushed = min(self._flushed, size)

    def commit(self) -> None:
        """Give the file its name. All bytes are verified."""
        self._check_size()
        self._file.commit()

    def blob(self, *, type: str, name: str | None) -> Blob:
        """Return the blob of what was committed."""
        path = self._file.target
        return Blob.of_file(path, size=self.size, type=type, name=name or path.name)

    def discard(self) -> None:
        """Remove what was written, apart from verified bytes that are worth saving.

        After `commit` this does nothing.
        """
        super().discard()
        self._flusher.close()
        self._file.discard(verified=self.verified)

    def _check_size(self) -> None:
        self._flusher.drain()
        self._file.check_size(self.size)

    def read_all(self) -> BytesReader:
        """Return all bytes that were written."""
        self._check_size()
        return self._file.read_all()

    def make_final(self) -> Self:
        """Return an empty sink with the same target and limits, from which nothing is saved."""
        return type(self)(
            self._target, cache=None, reference=self._reference, max_bytes=self._max_bytes
        )


def check_limit(size: int, max_bytes: int | None) -> None:
    """Raise TooLargeError if content of `size` bytes or more exceeds `max_bytes`."""
    if max_bytes is not None and size > max_bytes:
        words = f"the content has {size} bytes or more, and max_bytes allows {max_bytes}"
        error = TooLargeError(words, limit=max_bytes, size=size)
        remedy = "give a larger {}, if you expect this much"
        raise advise(error, remedy.format("max_bytes"), remedy.format("--max-size"))


def spool(
    source: Source, limit: int | None = None, stopped: Callable[[], bool] = lambda: False
) -> Source:
    """Return a seekable source of the bytes of `source`; raise OSError if they exceed `limit`.

    A few bytes are kept in memory, more in a temporary file without a name.
    """
    sink = SpoolSink()
    try:
        for chunk in source.chunks():
            if stopped():
                raise InterruptedError("nobody needs the bytes any more")
            sink.write(chunk)
            if limit is not None and sink.size > limit:
                raise OSError(f"the source has more than {limit:,} bytes, which is too many")
        sink.commit()
        spooled = open_source(sink.blob(type=source.type, name=source.name))
    finally:
        sink.discard()
    spooled.leaf_ends = source.leaf_ends
    return spooled
