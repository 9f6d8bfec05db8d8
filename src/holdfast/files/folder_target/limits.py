"""How large a directory may be that is written to disk.

A DAG of a few kilobytes can stand for any number of files, because links may be shared.
"""

import errno
import os
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from holdfast.errors import MalformedError
from holdfast.files.folder_target.names import EntryPath, refused

MAX_ENTRIES: Final = 1_000_000  # files and folders; the names of so many take 100 MiB at most
MAX_DEPTH: Final = 128  # folders in folders; each is opened on the way to a file
MAX_PATH: Final = 4095  # bytes of a path, beyond which programs on Linux cannot use it
MAX_BYTES: Final = 16 << 40  # of all files: as much as one file on ext4


@dataclass
class Usage:
    """Counts what a directory has so far, and raises an error above a limit."""

    entries: int = 0
    size: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add_entry(self, path: EntryPath) -> None:
        """Count an entry."""
        self.entries += 1
        if self.entries > MAX_ENTRIES:
            raise MalformedError(
                f"the directory has more than {MAX_ENTRIES} entries; download parts of it"
            )
        if len(path) > MAX_DEPTH or len(os.fsencode("/".join(path))) > MAX_PATH:
            why = f"{MAX_DEPTH} levels and paths of {MAX_PATH} bytes are possible, not more"
            raise refused(path[-3:], why, errno.ENAMETOOLONG)

    def add_bytes(self, count: int) -> None:
        """Count bytes of files."""
        with self._lock:
            self.size += count
        if self.size > MAX_BYTES:
            raise MalformedError(
                f"the directory has more than {MAX_BYTES} bytes; download parts of it"
            )
