"""A multipart form with text fields and one file, streamed, its length known beforehand."""

import secrets
from collections.abc import Iterator, Mapping

from holdfast.files.checked_source import CheckedSource
from holdfast.files.sources import Source

DEFAULT_TYPE = "application/octet-stream"


class FileForm:
    """The body of an upload: the text fields first, so that the server knows them when data comes.

    ::

        --boundary  fields  --boundary  file's head     = _head
        the source's chunks
        --boundary--                                    = _tail
    """

    def __init__(
        self,
        source: Source | CheckedSource,
        *,
        filename: str,
        fields: Mapping[str, str],
        boundary: str = "",
    ) -> None:
        boundary = boundary or secrets.token_hex(16)
        self._source = source
        self._head = b"".join(
            _part(boundary, f'name="{_quoted(name)}"') + value.encode() + b"\r\n"
            for name, value in fields.items()
        ) + _part(
            boundary,
            f'name="file"; filename="{_quoted(filename)}"',
            content_type=_media_type(source.type),
        )
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self.content_type = f"multipart/form-data; boundary={boundary}"

    @property
    def length(self) -> int | None:
        """The bytes of the whole form, or None where the source does not know its own."""
        if self._source.size is None:
            return None
        return len(self._head) + self._source.size + len(self._tail)

    @property
    def repeatable(self) -> bool:
        """Whether the form can be sent again."""
        return self._source.repeatable

    def chunks(self) -> Iterator[bytes]:
        """The form's bytes. The tail comes only when the source has given all that it promised."""
        yield self._head
        yield from self._source.chunks()
        yield self._tail

    def file_bytes(self, sent: int) -> int:
        """How many bytes of the file are among the first `sent` ones of the form."""
        return max(0, min(sent - len(self._head), self._source.bytes_read))


def _part(boundary: str, disposition: str, *, content_type: str = "") -> bytes:
    head = f"--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n"
    if content_type:
        head += f"Content-Type: {content_type}\r\n"
    # A name from a file system may hold bytes that are no text; the form stays UTF-8.
    return f"{head}\r\n".encode(errors="replace")


def _quoted(name: str) -> str:
    """A name inside quotes, escaped as browsers do it (WHATWG, multipart/form-data encoding)."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _media_type(given: str) -> str:
    """`given`, unless it could break out of its header line."""
    return given if given.isascii() and given.isprintable() and given else DEFAULT_TYPE
