"""Sources: everything that can be uploaded, as chunks of bytes with a size and a name.

An argument that cannot be uploaded is an error when the source is made, before anything is sent. A
file that shrinks, grows or changes later is an error while it is read.
"""

import hashlib
import inspect
import io
import os
import re
import stat
import sys
import threading
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Self, TypeAlias, cast

from holdfast.hints import advise
from holdfast.sources.blob import Blob

CHUNK_SIZE = 1 << 20  # bytes that a worker thread reads at a time
END_SIZE: Final = 1 << 20  # bytes at both ends of a file whose hash is a part of its identity
JSON_TYPE: Final = "application/json"
TEXT_NOTE: Final = (
    "a string is the path of a file; for the text itself, give its bytes: text.encode()"
)
OTHER_NOTES: Final = {  # by a pattern of the start of the string
    r"~|.*[*?]": "~ and * are not expanded: use Path.expanduser() or Path.glob()",
    r"(Qm|baf)\w{44}": "this is a CID: use `pin` or `download`",
}
TEXT_HINT: Final = (
    "check the path: each argument is a file or folder; for text, write it to standard input, "
    "and give - as the file; for a JSON value, use `holdfast store`"
)
CURL: Final = "URLs are not fetched: use `curl -L URL | holdfast upload - --name NAME`"
Progress: TypeAlias = Callable[[int, int | None], None]
"""Called with the bytes that are done, and with the total or None if that is unknown."""
Uploadable: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | Blob | Source | Iterable[bytes]"  # noqa: E501


def size_of(pieces: Iterable[bytes]) -> int | None:
    """Return the bytes of all `pieces` of a list or tuple; None for another iterable."""
    if not isinstance(pieces, list | tuple):
        return None
    return sum(memoryview(checked_piece(piece)).nbytes for piece in pieces)


def checked_piece(piece: bytes | memoryview) -> bytes | memoryview:
    """Return `piece`; raise `TypeError` if it is not bytes."""
    if not isinstance(piece, bytes | bytearray | memoryview):
        name = type(piece).__name__
        raise TypeError(
            f"cannot read {name}: the iterable must give bytes; for several files, use "
            "`upload_many`; to store a JSON value, use `store`"
        )
    return piece


def no_progress(_done: int, _total: int | None) -> None:
    """Do nothing: the caller passed no callback."""


class PiecesFile:
    """An iterable of bytes that can be read like a file."""

    def __init__(self, pieces: Iterable[bytes | memoryview]) -> None:
        self._pieces = pieces
        self.seek(0)

    def seek(self, position: int) -> None:
        """Begin anew with the iterable, and skip to `position`."""
        self._iterator = iter(self._pieces)
        self._rest: bytes | memoryview = b""
        while position and (skipped := len(self.read(min(position, 1 << 20)))):
            position -= skipped

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end; all of them if it is negative."""
        parts: list[bytes] = []
        size = sys.maxsize if size < 0 else size
        while size:
            if not self._rest:
                try:
                    piece = next(self._iterator)
                except StopIteration:
                    break
                is_whole = isinstance(piece, bytes) and len(piece) <= size  # so it is not copied
                self._rest = piece if is_whole else memoryview(checked_piece(piece)).cast("B")
            parts.append(bytes(self._rest[:size]))  # the iterable may use its buffer again
            self._rest = self._rest[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        """Do nothing: the iterable belongs to the caller."""


class Source:
    """Bytes to upload.

    Attributes:
        name: The file's own base name, or None.
        size: How many bytes there are; None if only reading shows it.
        type: A media type, or "".
        data: All bytes, if they are in memory; else None.
        json: The text of a JSON value in UTF-8; None for every other source.
        leaf_ends: The offsets, in order, at which a leaf of the file must end. The bytes between
            two of them become a DAG of their own, below a root that links to all of them. Services
            that cut files by themselves do not get these offsets.
        bytes_read: Up to which byte the last `chunks` has read so far.
        file: The open file on disk, for callers that read it without `chunks`, or None.
    """

    data: bytes | None = None
    json: bytes | None = None
    leaf_ends: tuple[int, ...] = ()
    file: BinaryIO | None = None

    def __init__(
        self,
        file: BinaryIO,
        *,
        size: int | None,
        name: str | None = None,
        type: str = "",
        check: Callable[[], None] | None = None,
        rewind: Callable[[], object] | None = None,
        seek: Callable[[int], object] | None = None,
        close: bool = True,
    ) -> None:
        """Make a source of `file`.

        `rewind` moves it to the beginning again, `seek` to any byte. With neither, it can be read
        only once.
        """
        self.name: str | None = name
        self.size: int | None = size
        self.type: str = type
        self.bytes_read: int = 0
        self._file = file
        self._check_unchanged = check
        self._seek = seek
        self._rewind = rewind if seek is None else partial(seek, 0)
        self._started = False
        self._lock = threading.Lock()
        self._reading = 0  # the number of the current call of `chunks`
        self._close = close

    @classmethod
    def of_json(cls, text: str) -> "Source":
        """Return a source of a JSON value."""
        source = cls.of_bytes(text.encode(), JSON_TYPE)
        source.json = source.data
        return source

    @classmethod
    def of_bytes(cls, data: bytes, type: str = "") -> "Source":
        """Return a source of bytes in memory."""
        file = io.BytesIO(data)
        source = cls(file, size=len(data), type=type, seek=file.seek)
        source.data = data
        return source

    @property
    def repeatable(self) -> bool:
        """Whether the next `chunks` can start from the beginning."""
        return self._rewind is not None or not self._started

    @property
    def rewindable(self) -> bool:
        """Whether `chunks` can start from the beginning as often as it is called."""
        return self._rewind is not None

    @property
    def seekable(self) -> bool:
        """Whether `chunks` can start at any byte, as often as it is called."""
        return self._seek is not None

    def chunks(self, start: int = 0) -> Iterator[bytes]:
        """Yield the bytes in pieces, from `start` on; raise `OSError` if there are not `size`.

        A new call ends an earlier one, for which another thread may still be reading.
        """
        with self._lock:
            self._begin(start)
            self._started = True
            self.bytes_read = start
            self._reading += 1
            reading = self._reading
        while chunk := self._next(reading):
            yield chunk
        if reading == self._reading:
            if self.size is not None and self.bytes_read < self.size:
                raise self._changed(f"ended after {self.bytes_read} of {self.size} bytes")
            self.check_unchanged()

    def _begin(self, start: int) -> None:
        if start and self._seek is not None:
            self._seek(start)
        elif self._started and self._rewind is not None:
            self._rewind()

    def _next(self, reading: int) -> bytes:
        with self._lock:
            chunk = self._read() if reading == self._reading else b""
            if not isinstance(chunk, bytes):
                raise TypeError(f"the file gave {type(chunk).__name__}, not bytes")
            self.bytes_read += len(chunk)
            if self.size is not None and self.bytes_read > self.size:
                raise self._changed(f"grew beyond the {self.size} bytes that it had")
            return chunk

    def check_unchanged(self) -> None:
        """Raise `OSError` if the file was written to since it was opened."""
        if self._check_unchanged is not None:
            self._check_unchanged()

    def _read(self) -> bytes:
        chunk = self._file.read(CHUNK_SIZE)
        if chunk is None:
            raise BlockingIOError("the file is in non-blocking mode and has no data; make it block")
        return chunk

    def _changed(self, how: str) -> OSError:
        return changed_while_read(self.name, how)

    def close(self) -> None:
        """Close the file, unless the caller opened it."""
        if self._close:
            self._file.close()

    def identify(self) -> dict[str, Any] | None:
        """Return what tells a later process that it reads the same file; None for other sources.

        The system changes `ctime_ns` with every change to the file, and no program can set it back.
        """
        try:
            status = os.fstat(self._file.fileno())
        except (AttributeError, OSError):
            return None
        if not (stat.S_ISREG(status.st_mode) and status.st_nlink and self.size):
            return None
        name = getattr(self._file, "name", None)
        return {
            "path": os.path.abspath(name) if isinstance(name, str) else None,  # noqa: PTH100 - a text
            "dev": status.st_dev,
            "ino": status.st_ino,
            "mtime_ns": status.st_mtime_ns,
            "ctime_ns": status.st_ctime_ns,
            "file_size": status.st_size,
            "size": self.size,
            "ends": self._hash_ends(self.size),
        }

    def _hash_ends(self, size: int) -> str:
        """Return the hash of the first and the last MiB."""
        ends = hashlib.sha256()
        for start in (0, max(0, size - END_SIZE)):
            left = END_SIZE
            for chunk in self.chunks(start):
                ends.update(chunk[:left])
                left -= len(chunk)
                if left <= 0:
                    break
        return ends.hexdigest()

    def states(self, end: int) -> list[bytes]:  # noqa: ARG002 - a plain source has none
        """Return the state of each wrapper, the outermost first; see `WrappingSource.state`."""
        return []

    def restore_states(self, states: Sequence[bytes]) -> bool:
        """Pass each wrapper its state; return False if it cannot give the same bytes as before."""
        return not states

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WrappingSource(Source):
    """A source whose bytes are made from those of another one; by default, they are the same.

    A subclass overrides `wrap`. If its bytes depend on a random value or a secret, it overrides
    `state` and `restore` too: an upload that another process continues must send the same bytes.

    Attributes:
        inner: The source that is wrapped.

    Example:
        >>> class Reversed(WrappingSource):
        ...     def wrap(self, start):
        ...         data = b"".join(self.inner.chunks())
        ...         yield data[::-1][start:]
        >>> b"".join(Reversed(open_source(b"hello")).chunks())
        b'olleh'
    """

    def __init__(self, inner: Source, *, size: int | None = None) -> None:
        """Wrap `inner`. `size` is the number of bytes that `wrap` yields, if it is another one."""
        self.inner: Source = inner
        self.leaf_ends: tuple[int, ...] = inner.leaf_ends
        self._pieces: Iterator[bytes] = iter(())
        super().__init__(
            cast("BinaryIO", inner),  # for `close`; `_read` reads what `wrap` yields
            size=inner.size if size is None else size,
            name=inner.name,
            type=inner.type,
            check=inner.check_unchanged,
            rewind=(lambda: None) if inner.rewindable else None,
            seek=(lambda _: None) if inner.seekable else None,
        )

    def wrap(self, start: int) -> Iterator[bytes]:
        """Yield the bytes to send, from `start` on. It is 0 unless the inner source can seek."""
        return self.inner.chunks(start)

    def state(self, end: int) -> bytes:  # noqa: ARG002 - for subclasses
        """Return what `restore` needs in another process to make the bytes up to `end`, or more.

        The state is saved before these bytes are sent. By default it is the name of the class, so
        that no other wrapper continues the upload.
        """
        return type(self).__qualname__.encode()

    def restore(self, state: bytes) -> bool:
        """Use the state of an earlier process; return False if the bytes would differ."""
        return state == type(self).__qualname__.encode()

    def _begin(self, start: int) -> None:
        self._pieces = filter(None, self.wrap(start))

    def _read(self) -> bytes:
        return next(self._pieces, b"")

    def identify(self) -> dict[str, Any] | None:
        """Return what identifies the file that is wrapped."""
        return self.inner.identify()

    def states(self, end: int) -> list[bytes]:
        """Return the state of each wrapper, the outermost first."""
        return [self.state(end), *self.inner.states(end)]

    def restore_states(self, states: Sequence[bytes]) -> bool:
        """Pass each wrapper its state; return False if it cannot give the same bytes as before."""
        # The inner ones first: a nonce must not be used again for other bytes.
        return bool(states) and self.inner.restore_states(states[1:]) and self.restore(states[0])


def open_source(content: Uploadable) -> Source:
    """Return a source of `content`; raise `TypeError`, or the `OSError` of ``open``."""
    if isinstance(content, Source):
        return content
    if isinstance(content, Blob):
        file = content.open()
        return Source(file, size=content.size, name=content.name, type=content.type, seek=file.seek)
    if isinstance(content, bytes | bytearray | memoryview):
        return Source.of_bytes(bytes(content))
    if isinstance(content, str | os.PathLike):
        return open_path(existing_path(content))
    if hasattr(content, "read"):
        return _open_file(cast("BinaryIO", content))
    if isinstance(content, AbstractSet | Mapping):  # without an order
        raise _not_a_file(content)
    if isinstance(content, Iterable):
        size = size_of(content)
        pieces = PiecesFile(content)
        # Another iterable may not start from the beginning again: a streamed HTTP reply continues.
        return Source(
            cast("BinaryIO", pieces), size=size, seek=None if size is None else pieces.seek
        )
    if isinstance(content, AsyncIterable):
        raise TypeError(
            f"cannot read {type(content).__name__}: it is an async iterable; "
            "give it to `AsyncClient.upload`, or write its pieces to a file, and give that"
        )
    raise _not_a_file(content)


def _not_a_file(content: object) -> TypeError:
    return TypeError(
        f"cannot read {type(content).__name__}: give a path, bytes, a binary file, a Blob or "
        "an iterable of bytes; to store a JSON value, use `store`"
    )


def existing_path(path: str | os.PathLike[str]) -> Path:
    """Return `path` as a path; raise the `OSError` of ``open`` if nothing is there."""
    try:
        os.stat(path)  # noqa: PTH116 - `Path` would take an empty text for the current folder
    except (OSError, ValueError) as error:
        if isinstance(path, str) and not isinstance(error, PermissionError):
            notes = (note for start, note in OTHER_NOTES.items() if re.match(start, path))
            note = next(notes, TEXT_NOTE)
            advise(error, note, CURL if "://" in path.removeprefix("ipfs://") else TEXT_HINT)
        raise
    return Path(path)


def open_path(path: Path, *, opener: Callable[[str, int], int] | None = None) -> Source:
    """Return a source of the file at `path`; raise the `OSError` of ``open``."""
    if path.is_dir():
        # Windows raises PermissionError; Holdfast raises the same error on all systems.
        raise IsADirectoryError(f"{path} is a directory, not a file")
    file = open(path, "rb", opener=opener)  # noqa: SIM115 - a path has no opener
    before = os.fstat(file.fileno())
    # Some files of the system report a size of 0 and have content.
    if not stat.S_ISREG(before.st_mode) or (before.st_size == 0 and file.peek(1)):
        return Source(file, size=None, name=path.name)

    def check_unchanged() -> None:
        after = os.fstat(file.fileno())
        if _state(after) != _state(before):
            raise changed_while_read(path.name, "was written to")

    source = Source(
        file, size=before.st_size, name=path.name, check=check_unchanged, seek=file.seek
    )
    source.file = file
    return source


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _open_file(file: BinaryIO) -> Source:
    """Return a source of the caller's open file, which is read from its current position."""
    if getattr(file, "closed", False):
        raise ValueError("the file is closed; open it again")
    if inspect.iscoroutinefunction(file.read):
        raise TypeError(
            f"cannot read {type(file).__name__}: its read is async; "
            "give the file that it wraps, such as UploadFile.file"
        )
    if isinstance(file.read(0), str):
        raise TypeError("the file is open in text mode; open it with 'rb'")
    start, size = _start_and_size(file)
    seek = None if start is None else lambda offset: file.seek(start + offset)
    return Source(file, size=size, name=_file_name(file), seek=seek, close=False)


def _start_and_size(file: BinaryIO) -> tuple[int | None, int | None]:
    """Return the position of the file, and how many bytes follow; None if it cannot seek."""
    # What is not a file of the system may be able to seek.
    with suppress(OSError, AttributeError):
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None, None
    try:
        start = file.tell()
        file.seek(0, os.SEEK_END)
        end = file.tell()
        file.seek(start)
    except (OSError, AttributeError):
        return None, None
    return start, max(0, end - start)


def _file_name(file: BinaryIO) -> str | None:
    """Return the base name of an open file. Pipes have numbers or ``<stdin>`` as names."""
    name = getattr(file, "name", None)
    if not isinstance(name, str) or name.startswith("<"):
        return None
    return os.path.basename(name) or None  # noqa: PTH119 - a name, not a path to open


def changed_while_read(name: str | None, how: str) -> OSError:
    """Return the error for a file that changed while it was read."""
    return OSError(f"{name or 'the file'} {how} while it was read; try again")
