"""A multipart form with text fields and files, streamed, its length known beforehand."""

import secrets
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol, TypeAlias

from holdfast.content.media_types import OCTETS

OnSent: TypeAlias = Callable[[int], None]

SMALL: Final = 1 << 16  # bytes in memory that are sent at once
JOINED: Final = 1 << 16  # bytes of small pieces that are sent together


class FileSource(Protocol):
    """The bytes of one file in a form.

    Attributes:
        size: The number of bytes, or None if it is not known before they are read.
    """

    size: int | None

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


class FormFolder:
    """The files of a folder called `name`, each made when it is needed.

    `files` returns, each time it is called, the paths below the folder with their bytes.
    """

    def __init__(self, name: str, files: Callable[[], Iterable[tuple[str, FileSource]]]) -> None:
        self._name = name
        self._files = files

    def __iter__(self) -> Iterator[FormFile]:
        for path, source in self._files():
            yield FormFile(f"{self._name}/{path}", "", source)


class FileForm:
    """The body of an upload. The fields come first, so that the server knows them before the data.

    ::

        --boundary  fields  --boundary  head of the first file
        the chunks of the first file
        --boundary  head of the next file
        …
        --boundary--                                                = _tail

    Small pieces are joined, so that a folder of many small files is sent in few steps.
    """

    def __init__(self, files: Iterable[FormFile], *, fields: Mapping[str, str]) -> None:
        """Make the form of `files`, which can be iterated again."""
        boundary = secrets.token_hex(16)
        self._files = files
        self._boundary = boundary
        self._fields = b"".join(
            _part(boundary, f'name="{_quoted(name)}"') + value.encode() + b"\r\n"
            for name, value in fields.items()
        )
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        # For each file whose head was read: the position of its data in the form, and how many
        # bytes of files come before it. The last one is for the end of the form.
        self._starts, self._before = array("q"), array("q")
        self.content_type: str = f"multipart/form-data; boundary={boundary}"
        self._end: int | None = None

    @cached_property
    def length(self) -> int | None:
        """The bytes of the whole form, or None if a file does not know its size."""
        total = len(self._tail)
        for number, file in enumerate(self._files):
            if file.source.size is None:
                return None
            total += len(self._head(file, number)) + file.source.size
        return total

    @property
    def end(self) -> int | None:
        """The bytes of the whole form, as soon as they are known."""
        return self._end if self.length is None else self.length

    @property
    def repeatable(self) -> bool:
        """Whether the form can be sent again."""
        return all(file.source.repeatable for file in self._files)

    def chunks(self) -> Iterator[bytes]:
        """Yield the form. The tail comes only after every file has yielded all of its bytes."""
        joined = bytearray()
        self._end = None
        for piece, may_join in self._pieces():
            if may_join and len(joined) + len(piece) <= JOINED:
                joined += piece
                continue
            if joined:
                yield bytes(joined)
                joined.clear()
            yield piece
        joined += self._tail
        self._end = self._starts[-1]
        yield bytes(joined)

    def _pieces(self) -> Iterator[tuple[bytes, bool]]:
        """Yield the pieces of the form up to its tail, each with whether it may wait for the next.

        A source of unknown size may be slow: what it gives is sent at once.
        """
        starts, before = self._starts, self._before = array("q"), array("q")
        position = done = 0
        for number, file in enumerate(self._files):
            head = self._head(file, number)
            may_join = file.source.size is not None
            position += len(head)
            starts.append(position)
            before.append(done)
            yield head, may_join
            for chunk in file.source.chunks():
                position += len(chunk)
                done += len(chunk)
                yield chunk, may_join
        starts.append(position + len(self._tail))
        before.append(done)

    def sending(self, tell: OnSent | None = None, *, whole: bool = False) -> dict[str, Any]:
        """Return the arguments of a `Request` with the form; `tell` gets the bytes of files sent.

        With `whole`, the form is small and in memory: it is sent at once.
        """
        return {
            "headers": {"Content-Type": self.content_type},
            "body": b"".join(self.chunks()) if whole else self,
            "on_sent": None if tell is None else self.on_sent(tell),
        }

    def on_sent(self, tell: OnSent) -> OnSent:
        """Return a function for `Request.on_sent` that reports how many bytes of files are sent."""
        reported = -1

        def on_sent(sent: int) -> None:
            nonlocal reported
            done = self._file_bytes(sent)
            if done != reported:
                reported = done
                tell(done)

        return on_sent

    def _file_bytes(self, sent: int) -> int:
        """Return how many bytes of files are among the first `sent` bytes of the form."""
        number = bisect_right(self._starts, sent) - 1
        if number < 0:
            return 0
        done = self._before[number] + sent - self._starts[number]
        following = self._before[number + 1 : number + 2]
        return min(done, *following) if following else done

    def _head(self, file: FormFile, number: int) -> bytes:
        disposition = f'name="file"; filename="{_quoted(file.name)}"'
        head = _part(self._boundary, disposition, content_type=_media_type(file.type))
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


def _media_type(media_type: str) -> str:
    """Return `media_type`, unless it could break out of its header line."""
    is_plain = media_type.isascii() and media_type.isprintable()
    return media_type if media_type and is_plain else OCTETS
