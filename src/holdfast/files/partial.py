"""A download on its way, in a cache folder, where what is proven of it survives an interruption."""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import sys
import time
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.atomic import PendingFile, check_size, sync_data, sync_folder
from holdfast.content.reference import Reference
from holdfast.errors import ConfigError
from holdfast.folders import Folder, check_owner
from holdfast.locks import try_lock

SUFFIX: Final = ".part"
NAME: Final = re.compile(r"[0-9a-f]{40}(?:\.[0-9a-f]{16})?\.part")
FORGOTTEN_AFTER: Final = 7 * 24 * 3600  # seconds since it was last written to
WORTH_KEEPING: Final = 1 << 20
COPY_SIZE: Final = 1 << 20


class PartialFile:
    """What has come of `reference` so far, under a name made of it, in `folder`.

    One download at a time has that name; a second one of the same content goes its own way, and
    keeps nothing. What is found was proven when it was written, but not since: prove it again.
    A symbolic or hard link, or a file of another user, under that name is left alone.

    Attributes:
        kept: How many bytes were found.
    """

    def __init__(self, folder: Path, reference: Reference) -> None:
        self._folder = Folder(folder.parent, folder.name)
        self._name = _key(reference) + SUFFIX
        self._file: BinaryIO | None = None
        self._shared_name = True
        self.kept = 0

    def open(self) -> None:
        """Open the file, or make it; an `OSError` where the folder cannot have it."""
        try:
            self._folder.make(0o700)
            _forget_old(self._folder)
            self._file = _open_locked(self._folder, self._name)
            if self._file is None:
                self._shared_name = False
                self._name = f"{self._name.removesuffix(SUFFIX)}.{secrets.token_hex(8)}{SUFFIX}"
                self._file = self._folder.create(self._name)
        except ConfigError as error:  # a symbolic link, or a folder of another user
            raise OSError(errno.EPERM, str(error)) from None
        self.kept = os.fstat(self._file.fileno()).st_size
        self._file.seek(0, os.SEEK_END)

    def read(self, start: int, size: int) -> bytes:
        """Some of the bytes that were found."""
        file = self._opened()
        file.seek(start)
        return file.read(min(size, self.kept - start))

    def write(self, data: bytes) -> None:
        """Append `data`."""
        try:
            self._opened().write(data)
        except OSError as error:
            raise _with_remedy(error, self._folder.path) from None

    def check_size(self, size: int) -> None:
        """An `OSError` unless the file has `size` bytes."""
        try:
            self._opened().flush()
        except OSError as error:
            raise _with_remedy(error, self._folder.path) from None
        check_size(self._opened(), size)

    def sync(self) -> None:
        """Bring to the disk what was written so far; another thread may go on writing."""
        sync_data(self._opened())

    def truncate(self, size: int) -> None:
        """Keep the first `size` bytes, and go on behind them."""
        file = self._opened()
        file.seek(size)
        file.truncate()
        self.kept = min(self.kept, size)

    def commit(self, target: Path, mode: int | None) -> None:
        """Make the bytes durable, then give them the name `target` in one step."""
        file = self._opened()
        file.flush()
        os.fsync(file.fileno())
        if sys.platform != "win32" and mode is not None:
            os.fchmod(file.fileno(), mode)
        if os.name == "nt":
            file.close()  # or it cannot be renamed
        try:
            self._folder.move_out(self._name, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy_to(target)
        file.close()
        # The file has its name; a file system that cannot promise more is no reason to fail.
        with contextlib.suppress(OSError):
            sync_folder(target.parent)

    def close(self, *, proven: int) -> None:
        """Leave: keep the first `proven` bytes for another time, where they are worth it.

        Does nothing after `commit`.
        """
        if self._file is None or self._file.closed:
            return
        if self._shared_name and proven >= WORTH_KEEPING:
            with contextlib.suppress(OSError):  # a full disk, say: what is kept is checked anyway
                self.truncate(proven)
        else:
            self._folder.remove(self._name)
        with contextlib.suppress(OSError):
            self._file.close()

    def _copy_to(self, target: Path) -> None:
        """For a target on another file system: there, too, it appears whole or not at all."""
        descriptor = self._folder.open(self._name)
        with os.fdopen(descriptor, "rb") as file, PendingFile(target) as pending:
            while chunk := file.read(COPY_SIZE):
                pending.write(chunk)
            pending.commit()
        self._folder.remove(self._name)

    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("the file is not open yet")
        return self._file


def _key(reference: Reference) -> str:
    """A file name for the content of `reference`, however its CID was spelt."""
    cid = reference.cid
    content = (cid.codec, cid.hash_code, cid.digest, reference.path)
    return hashlib.sha256(repr(content).encode()).hexdigest()[:40]


def _open_locked(folder: Folder, name: str) -> BinaryIO | None:
    """The file, locked against other downloads; None where it is not to be had.

    Another download may have it, or it may be nothing that a download of ours has left.
    """
    try:
        # Mode 0o666 lets the umask decide: in the end it is a file like any that the user makes.
        file = os.fdopen(folder.open(name, os.O_RDWR | os.O_CREAT), "r+b")
    except ConfigError:
        return None
    try:
        status = os.fstat(file.fileno())
        check_owner(status, folder.path / name)
        locked = try_lock(file.fileno())
        # Another may have finished in between, and the name be gone with its file.
        there = folder.status(name)
        is_there = there is not None and (there.st_ino, there.st_nlink) == (status.st_ino, 1)
        if locked and is_there:
            return file
    except (OSError, ConfigError):
        pass
    file.close()
    return None


def _forget_old(folder: Folder) -> None:
    oldest = time.time() - FORGOTTEN_AFTER
    for name in filter(NAME.fullmatch, folder.entries().files):
        with contextlib.suppress(OSError):  # another process may be at it too
            status = folder.status(name)
            if status is not None and status.st_mtime < oldest:
                # The clock may have jumped: the lock says whether a download still has it.
                file = _open_locked(folder, name)
                if file is not None:
                    folder.remove(name)
                    file.close()


def _with_remedy(error: OSError, folder: Path) -> OSError:
    if error.errno != errno.ENOSPC:
        return error
    return OSError(
        errno.ENOSPC,
        "No space left for the download in the cache folder; free some, or set cache_path to a "
        "folder on a larger disk",
        str(folder),
    )
