"""The entries of a directory while they wait: in memory while they are few, then on disk."""

import tempfile
from collections.abc import Iterator
from threading import Lock
from typing import Final

from holdfast.content.cid import CID
from holdfast.content.unixfs.directory_nodes import DirectoryEntry

IN_MEMORY: Final = 1 << 18  # bytes for each directory on the way to the current one
LARGEST: Final = (1 << 64) - 1  # of declared sizes, which are not verified


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
        name, cid = entry.name.encode("utf-8", "surrogateescape"), bytes(entry.cid)
        head = b"".join(len(each).to_bytes(4, "big") for each in (name, cid))
        with self._lock:
            self._file.write(head + min(entry.size, LARGEST).to_bytes(8, "big") + name + cid)
            self.count += 1
            self.size += entry.size

    def __iter__(self) -> Iterator[DirectoryEntry]:
        """Start at the first entry again."""
        self._file.seek(0)
        return iter(self.take, None)

    def take(self) -> DirectoryEntry | None:
        """Return the next entry; None at the end."""
        with self._lock:
            head = self._file.read(16)
            if not head:
                return None
            sizes = [int.from_bytes(head[at : at + 4], "big") for at in (0, 4)]
            name, cid = (self._file.read(size) for size in sizes)
        size = int.from_bytes(head[8:], "big")
        return DirectoryEntry(name.decode("utf-8", "surrogateescape"), CID.read(cid)[0], size)

    def close(self) -> None:
        """Remove the entries."""
        self._file.close()
