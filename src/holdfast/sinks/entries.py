"""The entries of a directory that is written to disk: how many it may have, and where they wait.

A DAG of a few kilobytes can stand for any number of files, because links may be shared.
"""

import errno
import json
import os
import tempfile
from array import array
from collections.abc import Iterator
from itertools import groupby
from threading import Lock
from typing import Final

from holdfast.content.cid import CID
from holdfast.content.codecs import is_node
from holdfast.content.unixfs.directory_nodes import DirectoryEntry
from holdfast.disk.disk_space import DiskSpace
from holdfast.errors import MalformedError
from holdfast.sinks.names import EntryPath, refused
from holdfast.sinks.sinks import check_limit

MAX_ENTRIES: Final = 1_000_000  # files and folders; the names of so many take 100 MiB at most
MAX_DEPTH: Final = 128  # folders in folders; each is opened on the way to a file
MAX_PATH: Final = 4095  # bytes of a path, beyond which programs on Linux cannot use it
MAX_BYTES: Final = 16 << 40  # of all files: as much as one file on ext4
IN_MEMORY: Final = 1 << 18  # bytes of waiting entries, for each directory on the way to the current


class DiskUsage:
    """Counts what a directory has so far, and raises an error above a limit.

    Args:
        space: The disk that it is written to.
        max_bytes: The limit of the user for the bytes of all files.

    Attributes:
        space: The disk.
        entries: The files and folders so far.
        size: The bytes of all files whose size is known, and those that were written of the others.
        written: How many of them are on the disk.
        below: How many entries each directory has that is complete, with those below it.
        places: At how many places each directory is that is known and not listed yet.
        lock: For what several threads count.
    """

    def __init__(self, space: DiskSpace, max_bytes: int | None = None) -> None:
        self.space = space
        self._max_bytes = max_bytes
        self.lock: Lock = Lock()
        self._total = 0
        self.below: dict[int, int] = {}
        self.places: dict[int, int] = {}
        self.entries: int = 0
        self.size: int = 0
        self.written: int = 0

    def add_entry(self, path: EntryPath) -> None:
        """Count an entry that is to be written at `path`."""
        self.entries += 1
        if len(path) > MAX_DEPTH or len(os.fsencode("/".join(path))) > MAX_PATH:
            why = f"{MAX_DEPTH} levels and paths of {MAX_PATH} bytes are the limit"
            raise refused(path[-3:], why, errno.ENAMETOOLONG)

    def add_bytes(self, size: int, written: int) -> None:
        """Count more bytes that files have, and more that are about to be written.

        Negative numbers take bytes back, which never raises an error.
        """
        with self.lock:
            self.size += size
            self.written += written
            left = self.size - self.written
        if size <= 0 and written <= 0:
            return
        check_limit(self.size, self._max_bytes)
        if self.size > MAX_BYTES:
            raise MalformedError(
                f"the directory has more than {MAX_BYTES} bytes; download parts of it"
            )
        if size > written:
            self.space.require(left)
        else:
            self.space.spend(written, left)

    def is_directory(self, cid: CID) -> bool:
        """Return whether `cid` is known to be a directory."""
        key = _key(cid)
        return key in self.below or key in self.places

    def add_entries(self, count: int) -> None:
        """Count entries that the directory has in all, as far as its blocks are known."""
        self._total += count
        if self._total > MAX_ENTRIES:
            raise MalformedError(
                f"the directory has more than {MAX_ENTRIES} entries; download parts of it"
            )


class DirectoryCount:
    """Counts the entries of a directory that is listed now, and of those below it, for all places.

    A few blocks can stand for very many entries: a directory with two links to another, which has
    two links to another, and so on. So the entries of a directory count as often as it is known to
    occur when its blocks first arrive, not when they are written at each of these places.
    """

    def __init__(self, usage: DiskUsage, cid: CID) -> None:
        self._usage = usage
        self._key = _key(cid)
        self._is_new = self._key not in usage.below
        self._places = usage.places.pop(self._key, 1)
        self._own = 0
        self._linked = array("Q")  # what may be a directory, in 8 bytes each
        self._repeated: dict[int, int] = {}
        self._inner: dict[int, int] = {}  # the directories in it, and how often each is there

    def add(self, cid: CID) -> None:
        """Count an entry."""
        if self._is_new:
            self._own += 1
            self._usage.add_entries(self._places)
            if is_node(cid):
                self._linked.append(_key(cid))

    def end_list(self) -> None:
        """Find the entries that are the same, when all are counted."""
        for key, same in groupby(sorted(self._linked)):
            count = sum(1 for _ in same)
            if count > 1:
                self._repeated[key] = count
        del self._linked[:]

    def add_directory(self, cid: CID) -> None:
        """Count what is below the entry `cid`, a directory; once for all entries that are it."""
        key, usage = _key(cid), self._usage
        with usage.lock:
            if not self._is_new or key in self._inner:
                return
            count = self._inner[key] = self._repeated.get(key, 1)
            if key in usage.below:
                usage.add_entries(usage.below[key] * count * self._places)
            else:
                usage.places[key] = usage.places.get(key, 0) + count * self._places

    def leave(self) -> None:
        """Remember how many entries it has in all, when all directories in it are complete."""
        if self._is_new:
            below = self._usage.below
            inner = sum(count * below[key] for key, count in self._inner.items())
            below[self._key] = self._own + inner


def _key(cid: CID) -> int:
    """Return a number of 64 bits that is the same for all forms of a CID."""
    return hash(cid.key) & 0xFFFF_FFFF_FFFF_FFFF


class EntrySpool:
    """Entries that are added first, and then taken in the same order, by several threads.

    Attributes:
        count: How many entries were added.
        size: Their declared size in all.

    Example:
        >>> spool = EntrySpool()
        >>> spool.add(DirectoryEntry("a", CID.of_raw(b"x"), 1))
        >>> [entry.name for entry in spool]
        ['a']
        >>> spool.close()
    """

    def __init__(self) -> None:
        # It has no name, or the system removes it when it is closed.
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - see `close`
        self._lock = Lock()
        self.count: int = 0
        self.size: int = 0

    def add(self, entry: DirectoryEntry) -> None:
        """Add an entry at the end."""
        line = json.dumps([entry.name, bytes(entry.cid).hex(), entry.size])
        with self._lock:
            self._file.write(line.encode() + b"\n")
            self.count += 1
            self.size += entry.size

    def __iter__(self) -> Iterator[DirectoryEntry]:
        """Start at the first entry again."""
        self._file.seek(0)
        return iter(self.take, None)

    def take(self) -> DirectoryEntry | None:
        """Return the next entry; None at the end."""
        with self._lock:
            line = self._file.readline()
        if not line:
            return None
        name, cid, size = json.loads(line)
        return DirectoryEntry(name, CID.read(bytes.fromhex(cid))[0], size)

    def close(self) -> None:
        """Remove the entries."""
        self._file.close()
