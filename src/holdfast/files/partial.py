"""A download on its way, in a cache folder, where what is proven of it survives an interruption."""

import contextlib
import errno
import hashlib
import os
import secrets
import time
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.atomic import PendingFile, check_size, sync_data, sync_folder
from holdfast.content.reference import Reference
from holdfast.locks import try_lock

SUFFIX: Final = ".part"
FORGOTTEN_AFTER: Final = 7 * 24 * 3600  # seconds since it was last written to
WORTH_KEEPING: Final = 1 << 20
COPY_SIZE: Final = 1 << 20


class PartialFile:
    """What has come of `reference` so far, under a name made of it, in `folder`.

    One download at a time has that name; a second one of the same content goes its own way, and
    keeps nothing. What is found was proven when it was written, but not since: prove it again.

    Attributes:
        kept: How many bytes were found.
    """

    def __init__(self, folder: Path, reference: Reference) -> None:
        self._folder = folder
        self._path = folder / (_key(reference) + SUFFIX)
        self._file: BinaryIO | None = None
        self._shared_name = True
        self.kept = 0

    def open(self) -> None:
        """Open the file, or make it; an `OSError` where the folder cannot have it."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget_old(self._folder)
        self._file = _open_locked(self._path)
        if self._file is None:
            self._shared_name = False
            self._path = self._path.with_suffix(f".{secrets.token_hex(8)}{SUFFIX}")
            self._file = _open(self._path, os.O_EXCL)
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
            raise _with_remedy(error, self._folder) from None

    def check_size(self, size: int) -> None:
        """An `OSError` unless the file has `size` bytes."""
        try:
            self._opened().flush()
        except OSError as error:
            raise _with_remedy(error, self._folder) from None
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
        if mode is not None:
            self._path.chmod(mode)
        if os.name == "nt":
            file.close()  # or it cannot be renamed
        try:
            self._path.replace(target)
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
            self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._file.close()

    def _copy_to(self, target: Path) -> None:
        """For a target on another file system: there, too, it appears whole or not at all."""
        with PendingFile(target) as pending, self._path.open("rb") as file:
            while chunk := file.read(COPY_SIZE):
                pending.write(chunk)
            pending.commit()
        self._path.unlink(missing_ok=True)

    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("the file is not open yet")
        return self._file


def _key(reference: Reference) -> str:
    """A file name for the content of `reference`, however its CID was spelt."""
    cid = reference.cid
    content = (cid.codec, cid.hash_code, cid.digest, reference.path)
    return hashlib.sha256(repr(content).encode()).hexdigest()[:40]


def _open(path: Path, flags: int) -> BinaryIO:
    flags |= os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    # Mode 0o666 lets the umask decide: in the end it is a file like any that the user makes.
    return os.fdopen(os.open(path, flags, 0o666), "r+b")


def _open_locked(path: Path) -> BinaryIO | None:
    """The file, locked against other downloads; None where one of them has it."""
    file = _open(path, 0)
    try:
        # Another may have finished in between, and the name be gone with its file.
        if try_lock(file.fileno()) and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return file
    except OSError:
        pass
    file.close()
    return None


def _forget_old(folder: Path) -> None:
    oldest = time.time() - FORGOTTEN_AFTER
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError):  # another process may be at it too
            if path.stat().st_mtime < oldest:
                # The clock may have jumped: the lock says whether a download still has it.
                file = _open_locked(path)
                if file is not None:
                    path.unlink()
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
