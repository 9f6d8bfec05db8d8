"""`Blob`: bytes that were downloaded or can be uploaded, in memory or in a file."""

import io
import os
import weakref
from base64 import b64encode
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Self, cast

from holdfast.disk.atomic import PendingFile
from holdfast.notebook import size_text, table

IMAGES: Final = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
MAX_SHOWN: Final = 1 << 20  # bytes of an image in a notebook


class Blob:
    """Bytes with a type and perhaps a name. With a name it is what the spec calls a ``File``.

    The bytes of a large download are in a temporary file without a name. The blob has this file
    open, and the system removes it when the blob goes away or the process ends.

    Attributes:
        size: The number of bytes.
        type: The media type from a gateway or the caller. It is a hint and is not verified.
        name: A file name, or None.

    Example:
        >>> blob = Blob(b"hello", type="text/plain", name="greeting.txt")
        >>> blob.size, blob.text()
        (5, 'hello')
        >>> with blob.open() as file:
        ...     file.read(2)
        b'he'
    """

    def __init__(
        self, data: bytes | bytearray | memoryview, *, type: str = "", name: str | None = None
    ) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            kind = data.__class__.__name__
            raise TypeError(f"a Blob is made of bytes, not {kind}; encode text first")
        for text in (type, name or ""):
            if not isinstance(text, str):
                raise TypeError("the type and the name of a Blob are strings")
        self._data: bytes | None = bytes(data)
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self.size: int = len(self._data)
        self.type = type
        self.name = name

    @classmethod
    def of_file(cls, path: Path, *, size: int, type: str = "", name: str | None = None) -> Self:
        """Return a blob of the file at `path`."""
        blob = cls(b"", type=type, name=name)
        blob._data, blob._path, blob.size = None, path, size
        return blob

    @classmethod
    def of_temporary(
        cls, file: BinaryIO, *, size: int, type: str = "", name: str | None = None
    ) -> Self:
        """Return a blob of an open temporary `file`, which is closed with the blob."""
        blob = cls(b"", type=type, name=name)
        blob._data, blob._file, blob.size = None, file, size
        weakref.finalize(blob, file.close)
        return blob

    def read(self) -> bytes:
        """Return all bytes."""
        if self._data is not None:
            return self._data
        with self.open() as file:
            return file.read()

    def text(self, encoding: str = "utf-8") -> str:
        """Return the bytes as text; raise `UnicodeDecodeError` if they are not in `encoding`."""
        return self.read().decode(encoding)

    def open(self) -> BinaryIO:
        """Open the bytes as a binary file, at their start."""
        if self._path is not None:
            return self._path.open("rb")
        if self._file is not None:
            return cast("BinaryIO", io.BufferedReader(_SharedFile(self, self._file)))
        return io.BytesIO(self._data or b"")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the bytes to `path`, all of them or none, and return the path."""
        with PendingFile(path) as pending, self.open() as file:
            pending.copy_from(file)
            pending.commit()
        return pending.target

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        return self.read()

    def __bool__(self) -> bool:
        # Without this, an empty blob would be false, because its length is 0.
        return True

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name is not None else ""
        return f"<Blob: {self.size} bytes, type={self.type!r}{name}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the facts, and an image that is not too large."""
        facts = {"Name": self.name or "-", "Type": self.type or "-", "Size": size_text(self.size)}
        if self.type not in IMAGES or self.size > MAX_SHOWN:
            return table(facts.items())
        data = b64encode(self.read()).decode()
        return f'{table(facts.items())}<img src="data:{self.type};base64,{data}">'

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Blob, self.read(), type=self.type, name=self.name), ()


class _SharedFile(io.RawIOBase):
    """A file that several readers share, each with its own position.

    It refers to the blob, so that the file stays open.
    """

    def __init__(self, blob: Blob, file: BinaryIO) -> None:
        self._blob = blob
        self._shared = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._blob.size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        data = os.pread(self._shared.fileno(), len(buffer), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
