"""A multipart form with text fields and files, streamed, its length known beforehand."""

import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol

from holdfast.content.media_types import OCTETS


class FileSource(Protocol):
    """The bytes of one file in a form.

    Attributes:
        size: The number of bytes, or None if it is not known before they are read.
    """

    size: int | None

    @property
    def bytes_read(self) -> int:
        """How many bytes the last call of `chunks` has yielded so far."""

    @property
    def repeatable(self) -> bool:
        """Whether `chunks` can start again."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes; raise OSError unless they are as many as `size` says."""


@dataclass(frozen=True, slots=True)
class FormFile:
    """One file of a form: its name, which may hold slashes, its media type, and its bytes."""

    name: str
    type: str
    source: FileSource


class FileForm:
    """The body of an upload. The fields come first, so that the server knows them before the data.

    ::

        --boundary  fields  --boundary  head of the first file      = _head(0)
        the chunks of the first file
        --boundary  head of the next file                           = _head(1)
        …
        --boundary--                                                = _tail
    """

    def __init__(self, files: Sequence[FormFile], *, fields: Mapping[str, str]) -> None:
        boundary = secrets.token_hex(16)
        self._files = files
        self._boundary = boundary
        self._fields = b"".join(
            _part(boundary, f'name="{_quoted(name)}"') + value.encode() + b"\r\n"
            for name, value in fields.items()
        )
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        # For each file whose head was yielded: the position of its data in the form, and how many
        # bytes of files come before it.
        self._starts: list[tuple[int, int]] = []
        self.content_type = f"multipart/form-data; boundary={boundary}"

    @property
    def length(self) -> int | None:
        """The bytes of the whole form, or None if a file does not know its size."""
        total = len(self._tail)
        for number, file in enumerate(self._files):
            if file.source.size is None:
                return None
            total += len(self._head(number)) + file.source.size
        return total

    @property
    def repeatable(self) -> bool:
        """Whether the form can be sent again."""
        return all(file.source.repeatable for file in self._files)

    def chunks(self) -> Iterator[bytes]:
        """Yield the form. The tail comes only after every file has yielded all of its bytes."""
        starts = self._starts = []
        position = file_bytes = 0
        for number, file in enumerate(self._files):
            head = self._head(number)
            position += len(head)
            starts.append((position, file_bytes))
            yield head
            for chunk in file.source.chunks():
                yield chunk
                position += len(chunk)
                file_bytes += len(chunk)
        yield self._tail

    def on_sent(self, tell: Callable[[int], None]) -> Callable[[int], None]:
        """Return a function for `Request.on_sent` that reports how many bytes of files are sent."""
        told = -1

        def on_sent(sent: int) -> None:
            nonlocal told
            done = self._file_bytes(sent)
            if done != told:
                told = done
                tell(done)

        return on_sent

    def _file_bytes(self, sent: int) -> int:
        """Return how many bytes of files are among the first `sent` bytes of the form."""
        starts = self._starts
        number = bisect_right(starts, sent, key=itemgetter(0)) - 1
        if number < 0:
            return 0
        begin, before = starts[number]
        return before + min(sent - begin, self._files[number].source.bytes_read)

    def _head(self, number: int) -> bytes:
        file = self._files[number]
        head = _part(
            self._boundary,
            f'name="file"; filename="{_quoted(file.name)}"',
            content_type=_media_type(file.type),
        )
        return (b"\r\n" if number else self._fields) + head


def _part(boundary: str, disposition: str, *, content_type: str = "") -> bytes:
    head = f"--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n"
    if content_type:
        head += f"Content-Type: {content_type}\r\n"
    # A name from a file system may hold bytes that are not text; the form stays UTF-8.
    return f"{head}\r\n".encode(errors="replace")


def _quoted(name: str) -> str:
    """Return a name to stand in quotes, escaped as browsers do (WHATWG, multipart/form-data)."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _media_type(given: str) -> str:
    """Return `given`, unless it could break out of its header line."""
    return given if given.isascii() and given.isprintable() and given else OCTETS
