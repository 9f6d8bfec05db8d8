"""A journal: a file of JSON objects, one on each line, which one process at a time may write.

The first line is the header, and begins with the kind of the journal. A line is written by one
system call. After a crash the last line may be incomplete; the next process that opens the journal
removes it. A lock of the operating system on the file keeps other processes out, and ends with the
process.
"""

import contextlib
import functools
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from holdfast.disk.atomic import PendingFile
from holdfast.disk.locks import try_lock

LONGEST_LINE: Final = 1 << 20  # bytes, unless the journal is made for longer ones

Opener = Callable[[int, int], int]


class Journal:
    """The journal of this `kind` at `path`.

    Args:
        kind: What the journal is for, and the version of its lines.
        path: The file. `open` makes it if it is missing. Only its user can read it.
        opener: Opens the file with flags and a mode, as `os.open` does.
        longest: The bytes of the longest line; a longer one is damaged.

    Attributes:
        path: The file.
        size: The bytes of all lines.

    Example:
        >>> import tempfile
        >>> journal = Journal("example 1", Path(tempfile.mkdtemp(), "journal"))
        >>> journal.open(), list(journal.replay())
        (True, [])
        >>> journal.append({"kind": "example 1"}), journal.append({"n": 1})
        (0, 21)
        >>> list(journal.replay())
        [(0, {'kind': 'example 1'}), (21, {'n': 1})]
        >>> journal.compact([{"kind": "example 1"}, {"n": 5}])
        >>> journal.read(21)
        {'n': 5}
        >>> journal.close()
    """

    def __init__(
        self, kind: str, path: Path, opener: Opener | None = None, *, longest: int = LONGEST_LINE
    ) -> None:
        self._longest = longest
        self.path: Path = path
        self.size: int = 0
        self._beginning = f'{{"kind":"{kind}"'.encode()
        self._opener = opener or functools.partial(os.open, path)
        self._descriptor: int | None = None
        self._lock = threading.RLock()

    def open(self) -> bool:
        """Open and lock the file; return False if another process or call has the lock."""
        for _ in range(10):  # others may replace or remove the file at the same time
            descriptor = self._opener(os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if not try_lock(descriptor):
                    return False
                # The process that had the lock before may have replaced or removed the file.
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(descriptor), self.path.stat()):
                        self._descriptor = descriptor
                        return True
            finally:
                if self._descriptor is None:
                    os.close(descriptor)
        return False

    def replay(self) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """Yield where each line begins, and its object; None for a damaged line.

        If the file is not a journal of this kind, that is one damaged line, and nothing is changed.
        Otherwise an incomplete last line is removed. Before `open`, read without the lock: another
        process may write meanwhile, and nothing is removed.
        """
        beginning, self.size = self._beginning, 0
        descriptor = self._opener(os.O_RDONLY, 0) if self._descriptor is None else self._descriptor
        with os.fdopen(descriptor, "rb", closefd=self._descriptor is None) as file:
            file.seek(0)
            while line := file.readline(self._longest):
                if self.size == 0 and line[: len(beginning)] != beginning[: len(line)]:
                    yield 0, None
                    return
                if not line.endswith(b"\n") and len(line) < self._longest:
                    break
                yield self.size, parse_line(line)
                self.size += len(line)
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, self.size)

    def read(self, start: int) -> dict[str, Any] | None:
        """Return the object in a line; it is empty if the line is damaged. None after `close`."""
        with self._lock:
            if self._descriptor is None:
                return None
            with os.fdopen(self._descriptor, "rb", closefd=False) as file:
                file.seek(start)
                return parse_line(file.readline(self._longest)) or {}

    def append(self, value: Mapping[str, Any]) -> int:
        """Write a line, and return where it begins. After `close` nothing is written."""
        line = format_line(value)
        with self._lock:
            start, descriptor = self.size, self._descriptor
            if descriptor is None:
                return start
            os.lseek(descriptor, start, os.SEEK_SET)
            if os.write(descriptor, line) != len(line):
                os.ftruncate(descriptor, start)
                raise OSError(f"the journal {self.path} could not be written: the disk may be full")
            self.size += len(line)
        return start

    def compact(self, values: Iterable[Mapping[str, Any]]) -> None:
        """Replace all lines, durably and in one step. The lock is held all the time."""
        lines = b"".join(map(format_line, values))
        with self._lock, PendingFile(self.path, mode=0o600) as pending:
            pending.write(lines)
            pending.final_mode = 0o600  # whatever the file had that it replaces
            try_lock(pending.fileno())
            pending.commit(close=False)
            self.close()
            self._descriptor = os.dup(pending.fileno())
            self.size = len(lines)

    def close(self, *, remove: bool = False) -> None:
        """Close or remove the file, and release the lock. A second call has no effect."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is None:
                return
            if remove:
                with contextlib.suppress(OSError):  # it is empty, if it cannot be removed
                    os.ftruncate(descriptor, 0)
                    if os.path.samestat(os.fstat(descriptor), self.path.stat()):
                        self.path.unlink()
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


def format_line(value: Mapping[str, Any]) -> bytes:
    """Return a value as a line."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the object in a line; None if there is none."""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(line)
        return value if isinstance(value, dict) else None
    return None
