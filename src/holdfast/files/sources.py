"""What can be uploaded, as one thing: a `Source` of chunks, with its size and its name.

Everything that can be wrong with the caller's argument shows when the source is made, before
anything is sent; what goes wrong with a file later (it shrinks, grows, changes) while it is read.
"""

import errno
import inspect
import io
import os
import stat
import threading
import warnings
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import BinaryIO, Self, TypeAlias, cast

from holdfast.files.blob import Blob

CHUNK_SIZE = 1 << 20  # one hop to a worker thread carries this much

Progress: TypeAlias = Callable[[int, int | None], None]
"""Is told how many bytes are done, and of how many, where that is known."""

Uploadable: TypeAlias = (
    "str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | Blob | Iterable[bytes]"
)


class Source:
    """Bytes to upload.

    Attributes:
        name: The file's own base name, or None.
        size: How many bytes there are, or None where only reading will tell.
        type: A media type, or "".
        bytes_read: How many bytes the last `chunks` gave so far.
    """

    def __init__(
        self,
        file: BinaryIO,
        *,
        size: int | None,
        name: str | None = None,
        type: str = "",
        check: Callable[[], None] | None = None,
        rewind: Callable[[], object] | None = None,
        close: bool = True,
    ) -> None:
        self.name = name
        self.size = size
        self.type = type
        self.bytes_read = 0
        self._file = file
        self._check_unchanged = check
        self._rewind = rewind
        self._touched = False
        self._reading = threading.Lock()
        self._turn = 0
        self._close = close

    @property
    def read_bytes(self) -> int:
        """The old name of `bytes_read`."""
        warnings.warn("Source.read_bytes is now bytes_read", DeprecationWarning, stacklevel=2)
        return self.bytes_read

    @property
    def repeatable(self) -> bool:
        """Whether `chunks` can be had from the start, be it for the first time."""
        return self._rewind is not None or not self._touched

    def chunks(self) -> Iterator[bytes]:
        """The bytes, in pieces; `OSError` where they are not as many as `size` says.

        Who asks for them anew ends an earlier reading, for which a thread may still be waiting.
        """
        with self._reading:
            if self._touched and self._rewind is not None:
                self._rewind()
            self._touched = True
            self.bytes_read = 0
            self._turn += 1
            mine = self._turn
        while chunk := self._next(mine):
            yield chunk
        if mine == self._turn:
            if self.size is not None and self.bytes_read < self.size:
                raise self._changed(f"ended after {self.bytes_read} of {self.size} bytes")
            self.check_unchanged()

    def _next(self, turn: int) -> bytes:
        with self._reading:
            chunk = self._read() if turn == self._turn else b""
            if not isinstance(chunk, bytes):
                raise TypeError(f"the file gave {type(chunk).__name__}, not bytes")
            self.bytes_read += len(chunk)
            if self.size is not None and self.bytes_read > self.size:
                raise self._changed(f"grew beyond the {self.size} bytes that it had")
            return chunk

    @property
    def file(self) -> BinaryIO:
        """The file underneath, for readers that know what they do."""
        return self._file

    def check_unchanged(self) -> None:
        """An `OSError` where the file was written to since it was opened."""
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
        """Close the file, if it was opened here."""
        if self._close:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_source(given: Uploadable) -> Source:
    """The source that `given` is; `TypeError` or the `OSError` of ``open`` where it is none."""
    if isinstance(given, Blob):
        file = given.open()
        return Source(
            file, size=given.size, name=given.name, type=given.type, rewind=lambda: file.seek(0)
        )
    if isinstance(given, bytes | bytearray | memoryview):
        data = io.BytesIO(given)
        return Source(data, size=data.getbuffer().nbytes, rewind=lambda: data.seek(0))
    if isinstance(given, str | os.PathLike):
        return _open_path(existing_path(given))
    if hasattr(given, "read"):
        return _open_file(cast("BinaryIO", given))
    if isinstance(given, AbstractSet | Mapping):
        raise TypeError(
            f"cannot read {type(given).__name__}: it has no order; give the pieces in a list"
        )
    if isinstance(given, Iterable):
        return _open_pieces(given)
    if isinstance(given, AsyncIterable):
        raise TypeError(
            f"cannot read {type(given).__name__}: it is an async iterable; "
            "write its pieces to a temporary file, and give that"
        )
    raise TypeError(
        f"cannot read {type(given).__name__}: "
        "give a path, bytes, a binary file, a Blob or an iterable of bytes"
    )


def _open_pieces(given: Iterable[bytes]) -> Source:
    size = None
    if isinstance(given, list | tuple):
        size = sum(memoryview(_piece(each)).nbytes for each in given)
    pieces = _Pieces(given)
    # Of other iterables nobody can tell whether they begin anew: a streamed HTTP reply goes on in
    # the middle.
    again = None if size is None else pieces.rewind
    return Source(cast("BinaryIO", pieces), size=size, rewind=again)


def _piece(given: bytes) -> bytes:
    """`given`, if it is bytes; whoever iterates can give anything."""
    if not isinstance(given, bytes | bytearray | memoryview):
        raise TypeError(f"cannot read {type(given).__name__}: the iterable must give bytes")
    return given


class _Pieces:
    """An iterable of bytes, read like a file."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.rewind()

    def rewind(self) -> None:
        self._left = iter(self._pieces)
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        parts: list[memoryview] = []
        while size:
            if not self._rest:
                piece = next(self._left, None)
                if piece is None:
                    break
                self._rest = memoryview(_piece(piece)).cast("B")
            parts.append(self._rest[:size])
            self._rest = self._rest[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        """Nothing: the iterable is the caller's."""


def existing_path(given: str | os.PathLike[str]) -> Path:
    """`given` as a path. An empty one is no path: `Path` would take it for the current folder."""
    if not os.fspath(given):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "")
    return Path(given)


def _open_path(path: Path) -> Source:
    if path.is_dir():
        # Windows calls this a PermissionError; here it is the same everywhere.
        raise IsADirectoryError(f"{path} is a directory, not a file")
    file = path.open("rb")
    before = os.fstat(file.fileno())
    # Some files of the system say that they have no bytes, and have some.
    if not stat.S_ISREG(before.st_mode) or (before.st_size == 0 and file.peek(1)):
        return Source(file, size=None, name=path.name)

    def check_unchanged() -> None:
        after = os.fstat(file.fileno())
        if _state(after) != _state(before):
            raise changed_while_read(path.name, "was written to")

    return Source(
        file,
        size=before.st_size,
        name=path.name,
        check=check_unchanged,
        rewind=lambda: file.seek(0),
    )


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _open_file(file: BinaryIO) -> Source:
    """A file of the caller's, read from where it stands and left open."""
    if getattr(file, "closed", False):
        raise ValueError("the file is closed; open it again")
    if inspect.iscoroutinefunction(file.read):
        raise TypeError(
            f"cannot read {type(file).__name__}: its read is async; "
            "give the file that it wraps, such as UploadFile.file"
        )
    if isinstance(file.read(0), str):
        raise TypeError("the file is open in text mode; open it with 'rb'")
    here, size = _ahead(file)
    rewind = None if here is None else lambda: file.seek(here)
    return Source(file, size=size, name=_file_name(file), rewind=rewind, close=False)


def _ahead(file: BinaryIO) -> tuple[int | None, int | None]:
    """Where the file stands and how many bytes lie ahead; None where it cannot go back, or tell."""
    try:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None, None
    except (OSError, AttributeError):
        pass  # no file of the system, but it may know its length all the same
    try:
        here = file.tell()
        file.seek(0, os.SEEK_END)
        end = file.tell()
        file.seek(here)
    except (OSError, AttributeError):
        return None, None
    return here, max(0, end - here)


def _file_name(file: BinaryIO) -> str | None:
    """The base name of an open file; pipes and the like have numbers or ``<stdin>`` for a name."""
    name = getattr(file, "name", None)
    if not isinstance(name, str) or name.startswith("<"):
        return None
    return os.path.basename(name) or None  # noqa: PTH119 - a name, not a path to open


def changed_while_read(name: str | None, how: str) -> OSError:
    """The error for a file that did not keep still."""
    return OSError(f"{name or 'the file'} {how} while it was read; try again")
