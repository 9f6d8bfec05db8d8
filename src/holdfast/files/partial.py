"""A download on its way, in a cache folder, where what is verified of it survives an interruption.

On Linux the file has no name until there are verified bytes worth keeping, so bytes that are not
verified never outlive the process. On other systems it has a name of its own until then, and a
later download removes what an ended process has left. On Windows it has its final name at once.
"""

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

from holdfast.content.reference import Reference
from holdfast.errors import ConfigError
from holdfast.files.atomic import (
    OPEN_FILES,
    PendingFile,
    check_size,
    open_unnamed,
    sync_data,
    sync_folder,
)
from holdfast.files.folders import Folder, check_owner
from holdfast.files.locks import try_lock

SUFFIX: Final = ".part"
NAME: Final = re.compile(r"[0-9a-f]{40}(?P<own>\.[0-9a-f]{16})?\.part")
FORGOTTEN_AFTER: Final = 7 * 24 * 3600  # seconds since it was last written to
OWN_FORGOTTEN_AFTER: Final = 3600  # the same for a name that only one download has used
WORTH_KEEPING: Final = 1 << 20
COPY_SIZE: Final = 1 << 20


class PartialFile:
    """What has come of `reference` so far, in `folder`; `keep` names it after the reference.

    One download at a time has that name. A second one of the same content writes a file of its own,
    and keeps nothing. What is found was verified when it was written, but not since: verify it
    again. A symbolic or hard link, or a file of another user, under that name is left alone.

    Attributes:
        kept: How many bytes were found.
    """

    def __init__(self, folder: Path, reference: Reference) -> None:
        self._folder = Folder(folder.parent, folder.name)
        self._shared_name = _key(reference) + SUFFIX
        self._file: BinaryIO | None = None
        self._name: str | None = None  # what the file is called now, if anything
        self._may_keep = True
        self.kept = 0

    def open(self) -> None:
        """Open what an earlier download left, or make a file; `OSError` where that cannot be."""
        try:
            self._folder.make(0o700)
            _forget_old(self._folder)
            there = self._folder.status(self._shared_name) is not None
            self._file = _open_locked(self._folder, self._shared_name) if there else None
            if self._file is None:
                self._may_keep = not there
                self._begin()
            else:
                self._name = self._shared_name
        except ConfigError as error:  # a symbolic link, or a folder of another user
            raise OSError(errno.EPERM, str(error)) from None
        file = self._opened()
        self.kept = os.fstat(file.fileno()).st_size
        file.seek(0, os.SEEK_END)

    def _begin(self) -> None:
        """Make an empty file: without a name where the system can do that."""
        self._name = None
        with self._folder.opened() as place:
            if place.dir_fd is not None:
                self._file = open_unnamed(Path(OPEN_FILES, str(place.dir_fd)))
        if self._file is None or self._file.closed:
            # Windows cannot rename an open file.
            has_it = os.name == "nt" and self._may_keep
            name = self._shared_name if has_it else self._own_name()
            self._file = self._folder.create(name)
            self._name = name
        try:
            locked = try_lock(self._file.fileno())
        except OSError:  # a file system without locks
            locked = False
        self._file.seek(0)
        self._may_keep = self._may_keep and locked

    def keep(self) -> None:
        """Name the file so that a later download finds it, unless another has that name.

        All that is written by then, and later, must be verified.
        """
        if not self._may_keep or self._name == self._shared_name:
            return
        try:
            self._opened().flush()
            self._link(self._shared_name)
        except OSError:  # another download was first; or the system cannot do it
            self._may_keep = False

    def _link(self, name: str) -> None:
        """Give the file `name`, which must be free, instead of the one that it has, if any."""
        before = self._name
        with self._folder.opened() as place:
            source = f"{OPEN_FILES}/{self._opened().fileno()}" if before is None else before
            source_folder = None if before is None else place.dir_fd
            if place.dir_fd is None:
                os.link(f"{place.prefix}{source}", f"{place.prefix}{name}")
            else:
                os.link(
                    source,
                    name,
                    src_dir_fd=source_folder,
                    dst_dir_fd=place.dir_fd,
                    follow_symlinks=before is None,  # the system's link to an open file
                )
        self._name = name
        if before is not None:
            self._folder.remove(before)

    def _own_name(self) -> str:
        return f"{self._shared_name.removesuffix(SUFFIX)}.{secrets.token_hex(8)}{SUFFIX}"

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
        """Keep the first `size` bytes, and go on behind them.

        Where too few are left to be worth a name, the file loses it: what comes next may not be
        verified.
        """
        file = self._opened()
        if self._name == self._shared_name and size < WORTH_KEEPING:
            file.seek(0)
            data = file.read(size)
            self._remove()
            self._begin()
            self._opened().write(data)
        else:
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
        if self._name is None:
            self._link(self._own_name())
        name = str(self._name)
        if os.name == "nt":
            file.close()  # or it cannot be renamed
        try:
            self._folder.move_out(name, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy_to(name, target)
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
        if self._may_keep and proven >= WORTH_KEEPING:
            with contextlib.suppress(OSError):  # a full disk, say: what is kept is checked anyway
                self.truncate(proven)
                self.keep()
        if self._name == self._shared_name and proven >= WORTH_KEEPING:
            with contextlib.suppress(OSError):
                self._file.close()
        else:
            self._remove()

    def _remove(self) -> None:
        """Close the file, and remove its name if it has one."""
        file, name = self._opened(), self._name
        if os.name == "nt":
            file.close()  # or it cannot be removed
        if name is not None:
            self._folder.remove(name)
            self._name = None
        with contextlib.suppress(OSError):  # a full disk, say: it is of no use any more
            file.close()

    def _copy_to(self, name: str, target: Path) -> None:
        """For a target on another file system: there, too, it appears whole or not at all."""
        with os.fdopen(self._folder.open(name), "rb") as file, PendingFile(target) as pending:
            while chunk := file.read(COPY_SIZE):
                pending.write(chunk)
            pending.commit()
        self._folder.remove(name)

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
    """Open the file and lock it against other downloads; return None where that cannot be.

    Another download may have it, or it may be nothing that a download of ours has left.
    """
    try:
        file = os.fdopen(folder.open(name, os.O_RDWR), "r+b")
    except (ConfigError, FileNotFoundError):
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
    now = time.time()
    for match in filter(None, map(NAME.fullmatch, folder.entries().files)):
        name = match.string
        oldest = now - (OWN_FORGOTTEN_AFTER if match["own"] else FORGOTTEN_AFTER)
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
