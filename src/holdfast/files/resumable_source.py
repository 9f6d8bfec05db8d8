"""A source that is sent in several parts, of which a later process may send the rest."""

import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from typing import Any, Final

from holdfast.content.unixfs.layouts import WriteCheck
from holdfast.files.background import Background
from holdfast.files.sinks import SpoolSink
from holdfast.files.sources import Source, open_source

END_SIZE: Final = 1 << 20  # bytes at both ends of a file whose hash is a part of its identity


class ResumableSource:
    """A seekable source of known size that is sent in parts, and hashed once, in order.

    A part that is sent again is not hashed again. `catch_up` hashes what an earlier process sent.

    Attributes:
        source: The source itself.
        check: Has the hash of the bytes up to the last `catch_up`; None if nothing is hashed.
    """

    def __init__(self, source: Source, check: WriteCheck | None) -> None:
        self.source = source
        self.check = check
        self.size: int = source.size or 0
        self._hashed = 0  # bytes from the beginning
        self._lock = threading.Lock()

    def part(self, start: int, end: int) -> "SourcePart":
        """Return the bytes from `start` to `end`, to send them."""
        return SourcePart(self, start, end)

    def catch_up(self, end: int) -> None:
        """Hash what was not hashed yet of the bytes before `end`."""
        if self.check is not None and self._hashed < end:
            for _ in self.part(self._hashed, end).chunks():
                pass

    def expected_cid(self) -> str | None:
        """Return the CID of all bytes in the usual layout. Call it after `catch_up` to the end."""
        cid = None if self.check is None else self.check.expected_cid()
        return None if cid is None else str(cid)

    def hash(self, position: int, data: bytes) -> None:
        """Hash `data`, which begins at `position`, as far as it was not hashed before.

        If bytes before it are missing, because reading was interrupted, do nothing: `catch_up`
        hashes all of them later.
        """
        with self._lock:
            known = self._hashed - position
            if self.check is not None and 0 <= known < len(data):
                self.check.update(data[known:])
                self._hashed = position + len(data)


class SourcePart:
    """A part of a source as the body of a request. After a failure the next part may be another.

    Attributes:
        length: The number of bytes.
    """

    repeatable = False

    def __init__(self, whole: ResumableSource, start: int, end: int) -> None:
        self._whole = whole
        self._start = start
        self._end = end
        self.length: int = end - start
        self.end: int = self.length

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes, which are hashed on another thread; raise OSError if they have changed.

        When the last is taken, all are hashed.
        """
        position = self._start
        with Background() as background:
            for chunk in self._whole.source.chunks(position):
                data = chunk[: self._end - position]
                background.submit(self._whole.hash, position, data)
                position += len(data)
                yield data
                if position == self._end < self._whole.size:
                    break  # else the source itself ends, with a check that it has not changed
            background.drain()


def identify(source: Source) -> dict[str, Any] | None:
    """Return what tells a later process that it reads the same file; None for other sources.

    The system changes `ctime_ns` with every change to the file, and no program can set it back.
    """
    try:
        status = os.fstat(source.file.fileno())
    except (AttributeError, OSError):
        return None
    if not (stat.S_ISREG(status.st_mode) and status.st_nlink and source.size):
        return None
    name = getattr(source.file, "name", None)
    return {
        "path": os.path.abspath(name) if isinstance(name, str) else None,  # noqa: PTH100 - a text
        "dev": status.st_dev,
        "ino": status.st_ino,
        "mtime_ns": status.st_mtime_ns,
        "ctime_ns": status.st_ctime_ns,
        "file_size": status.st_size,
        "size": source.size,
        "ends": _hash_ends(source, source.size),
    }


def _hash_ends(source: Source, size: int) -> str:
    """Return the hash of the first and the last MiB."""
    ends = hashlib.sha256()
    for start in (0, max(0, size - END_SIZE)):
        left = END_SIZE
        for chunk in source.chunks(start):
            ends.update(chunk[:left])
            left -= len(chunk)
            if left <= 0:
                break
    return ends.hexdigest()


def spool(source: Source, limit: int) -> Source:
    """Return a seekable source of the bytes of `source`; raise OSError if they exceed `limit`.

    A few bytes are kept in memory, more in a temporary file without a name.
    """
    sink = SpoolSink()
    try:
        for chunk in source.chunks():
            sink.write(chunk)
            if sink.size > limit:
                raise OSError(f"the source has more than {limit:,} bytes, which are too many")
        sink.commit()
        return open_source(sink.blob(type=source.type, name=source.name))
    finally:
        sink.discard()
