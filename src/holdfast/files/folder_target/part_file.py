"""One file of a directory while it is written. It gets its name when all of it is verified."""

import contextlib
import errno
import os
from typing import BinaryIO, Final

from holdfast.files.atomic import check_size
from holdfast.files.folder_target.limits import Usage
from holdfast.files.folder_target.names import EntryPath
from holdfast.files.folder_target.tree import TargetTree

WORTH_KEEPING: Final = 1 << 20  # verified bytes from which on an interrupted file is saved


class PartFile:
    """A sink for the bytes of one file, at `part` until `commit` moves it to `target`.

    Args:
        tree: Both paths are in it.
        part: The path while the file is incomplete.
        target: The path when all is verified.
        usage: Counts the bytes before they are written, and refuses too many.
        continues: Whether the bytes of an earlier download may be used. They must be verified
            again.
    """

    def __init__(
        self,
        tree: TargetTree,
        part: EntryPath,
        target: EntryPath,
        usage: Usage,
        *,
        continues: bool,
    ) -> None:
        self._tree = tree
        self._part = part
        self._target = target
        self._usage = usage
        self._known = 0  # bytes that the file has at least, and that are counted
        self._continues = continues
        self._file: BinaryIO | None = None
        self.verified = 0
        self.saved_size: int = 0
        self.size: int = 0

    def open(self) -> None:
        """Open the file of an earlier download, or make one."""
        if self._continues:
            self._file = self._tree.open(self._part, os.O_RDWR)
        else:
            self._tree.remove(self._part)
        if self._file is None:
            self._file = self._tree.create(self._part)
        self.saved_size = self.size = self._file.seek(0, os.SEEK_END)
        self._count(self.size, self.size)

    def expect(self, size: int, *, is_claim: bool = False) -> None:
        """Raise an error if a file of `size` bytes is too large for the disk or for the user."""
        if not is_claim:
            self._count(max(size, self.size), 0)

    def write(self, data: bytes) -> None:
        """Append `data`."""
        self._count(max(self._known, self.size + len(data)), len(data))
        try:
            self._opened().write(data)
        except OSError as error:
            raise self._explained(error) from None
        self.size += len(data)

    def read_saved(self, start: int, size: int) -> bytes:
        """Return some of the bytes that an earlier download saved."""
        self._opened().seek(start)
        return self._opened().read(min(size, self.saved_size - start))

    def restart(self, size: int = 0) -> None:
        """Remove what was written, apart from the first `size` bytes."""
        self._opened().seek(size)
        self._opened().truncate()
        self._count(size, size - self.size)
        self.size = size
        self.saved_size = min(self.saved_size, size)

    def commit(self) -> None:
        """Give the file its name. All bytes are verified."""
        file = self._opened()
        try:
            file.flush()
        except OSError as error:
            raise self._explained(error) from None
        check_size(file, self.size)
        file.close()
        self._tree.move(self._part, self._target)

    def discard(self) -> None:
        """Close the file, and save its verified bytes if they are many. Not after `commit`."""
        file, self._file = self._file, None
        if file is None or file.closed:
            return
        self._count(0, -self.size)
        with contextlib.suppress(OSError):  # a full disk, for example
            keep = self._continues and self.verified >= WORTH_KEEPING
            if keep:
                file.truncate(self.verified)
            file.close()
            if not keep:
                self._tree.remove(self._part)
        with contextlib.suppress(OSError):
            file.close()

    def _count(self, size: int, written: int) -> None:
        """Count the file as one of `size` bytes, of which `written` more are on the disk."""
        more, self._known = size - self._known, size
        self._usage.add_bytes(more, written)

    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("the file is not open")
        return self._file

    def _explained(self, error: OSError) -> OSError:
        """Return the error of a full disk with advice; any other error as it is."""
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            return error
        return no_space("the disk is full", self._target)


def no_space(why: str, target: EntryPath) -> OSError:
    """Return the error for a file that the disk has no space for."""
    words = f"{why}: free some space and call again; what is verified is kept"
    return OSError(errno.ENOSPC, words, "/".join(target[1:]))
