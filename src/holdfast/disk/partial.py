"""The file of an unfinished download, in a cache folder, from which a later download continues.

On Linux the file has no name until it holds enough verified bytes, so bytes that are not verified
never outlive the process. On other systems it has a temporary name until then, and a later download
removes such files of processes that have ended.
"""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import time
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.content.reference import Reference
from holdfast.disk.atomic import (
    OPEN_FILES,
    PendingFile,
    WorkFile,
    open_unnamed,
    sync_name,
)
from holdfast.disk.folders import Folder, check_owner
from holdfast.disk.locks import try_lock
from holdfast.errors import ConfigError

PARTIAL: Final = "partial"  # the folder, in the cache folder
SUFFIX: Final = ".part"
NAME: Final = re.compile(r"[0-9a-f]{40}(?P<own>\.[0-9a-f]{16})?\.part")
FORGOTTEN_AFTER: Final = 7 * 24 * 3600  # seconds since the last write
OWN_FORGOTTEN_AFTER: Final = 3600  # the same for a temporary name
WORTH_KEEPING: Final = 1 << 20  # verified bytes from which on an interrupted download is saved


class PartialFile(WorkFile):
    """The bytes of `reference` that were downloaded so far, in `folder`.

    `keep` gives the file a name that is made from the reference. Only one download at a time uses
    this name. Another download of the same content at the same time writes to a file of its own,
    and saves nothing. The bytes of an earlier download were verified when they were written. The
    caller must verify them again. A symbolic link, a hard link or a file of another user under this
    name is not used and not changed.

    Attributes:
        saved_size: How many bytes an earlier download saved.
    """

    def __init__(self, folder: Path, reference: Reference) -> None:
        self._folder = Folder(folder.parent, folder.name)
        self._shared_name = _key(reference) + SUFFIX
        self._name: str | None = None  # the current name of the file, if it has one
        self._may_keep = True
        self.saved_size: int = 0

    @property
    def folder(self) -> Path:
        """The folder that it is in."""
        return self._folder.path

    def open(self) -> None:
        """Open the file of an earlier download, or make one; raise `OSError` if neither works."""
        try:
            self._folder.make(0o700)
            _remove_old(self._folder)
            exists = self._folder.status(self._shared_name) is not None
            self._file = open_locked(self._folder, self._shared_name) if exists else None
            if self._file is None:
                self._may_keep = not exists
                self._make()
            else:
                self._name = self._shared_name
        except ConfigError as error:  # a symbolic link, or a folder of another user
            raise OSError(errno.EPERM, str(error)) from None
        file = self._opened()
        self.saved_size = os.fstat(file.fileno()).st_size
        file.seek(0, os.SEEK_END)

    def _make(self) -> None:
        """Make an empty file, without a name if the system can do that."""
        self._name = None
        with self._folder.opened() as place:
            if place.dir_fd is not None:
                self._file = open_unnamed(Path(OPEN_FILES, str(place.dir_fd)))
        if self._file is None or self._file.closed:
            self._name = self._own_name()
            self._file = self._folder.create(self._name)
        try:
            locked = try_lock(self._file.fileno())
        except OSError:  # a file system without locks
            locked = False
        self._file.seek(0)
        self._may_keep = self._may_keep and locked

    def keep(self) -> None:
        """Give the file its final name, so that a later download finds it.

        All bytes in it must be verified, and all that are written later too. If another download
        has the name, the file goes on without it.
        """
        if not self._may_keep or self._name == self._shared_name:
            return
        try:
            self._opened().flush()
            self._link(self._shared_name)
        except OSError:  # another download has the name, or the system cannot do it
            self._may_keep = False

    def _link(self, name: str) -> None:
        """Give the file `name`, which must not exist, instead of its current name."""
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
                    follow_symlinks=before is None,  # the link of the system to the open file
                )
        self._name = name
        if before is not None:
            self._folder.remove(before)

    def _own_name(self) -> str:
        return f"{self._shared_name.removesuffix(SUFFIX)}.{secrets.token_hex(8)}{SUFFIX}"

    def read(self, start: int, size: int) -> bytes:
        """Return some of the bytes that an earlier download saved."""
        file = self._opened()
        file.seek(start)
        return file.read(min(size, self.saved_size - start))

    def truncate(self, size: int) -> None:
        """Remove all but the first `size` bytes. The next bytes are written after them.

        If so few remain that they are not worth keeping, the file loses its final name, because the
        next bytes may not be verified.
        """
        if self._name == self._shared_name and size < WORTH_KEEPING:
            data = self.read_all().read(size)
            self._remove()
            self._make()
            self._opened().write(data)
        else:
            super().truncate(size)
        self.saved_size = min(self.saved_size, size)

    def commit(self, target: Path, mode: int | None) -> None:
        """Make the bytes durable, then move the file to `target` in one step."""
        file = self._opened()
        file.flush()
        os.fsync(file.fileno())
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        if self._name is None:
            self._link(self._own_name())
        name = str(self._name)
        try:
            self._folder.move_out(name, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy_to(name, target)
        file.close()
        sync_name(target)

    def close(self, *, verified: int) -> None:
        """Save the first `verified` bytes for a later download if they are worth it, and close.

        After `commit` this does nothing.
        """
        if self._file is None or self._file.closed:
            return
        if self._may_keep and verified >= WORTH_KEEPING:
            # A full disk, for example: the saved bytes are verified later anyway.
            with contextlib.suppress(OSError):
                self.truncate(verified)
                self.keep()
        if self._name == self._shared_name and verified >= WORTH_KEEPING:
            with contextlib.suppress(OSError):
                self._file.close()
        else:
            self._remove()

    def _remove(self) -> None:
        """Close the file, and remove its name if it has one."""
        file, name = self._opened(), self._name
        if name is not None:
            self._folder.remove(name)
            self._name = None
        with contextlib.suppress(OSError):  # a full disk, for example: its bytes are not needed
            file.close()

    def _copy_to(self, name: str, target: Path) -> None:
        """Copy the file to a target on another file system, where it appears in one step too."""
        with os.fdopen(self._folder.open(name), "rb") as file, PendingFile(target) as pending:
            pending.copy_from(file)
            pending.commit()
        self._folder.remove(name)

    def explained(self, error: OSError) -> OSError:
        """Return the error of a full disk with advice; any other error as it is."""
        if error.errno != errno.ENOSPC:
            return error
        return OSError(
            errno.ENOSPC,
            "No space left for the download in the cache folder; free some, or set cache_path to a "
            "folder on a larger disk",
            str(self._folder.path),
        )


def _key(reference: Reference) -> str:
    """Return a file name for the content of `reference`, the same for all forms of its CID."""
    cid = reference.cid
    content = (cid.key, reference.path)
    return hashlib.sha256(repr(content).encode()).hexdigest()[:40]


def open_locked(folder: Folder, name: str) -> BinaryIO | None:
    """Open the file and lock it against other downloads; return None if that is impossible.

    Another download may use it, or it may be a file that Holdfast did not make.
    """
    try:
        file = os.fdopen(folder.open(name, os.O_RDWR), "r+b")
    except (ConfigError, FileNotFoundError):
        return None
    try:
        status = os.fstat(file.fileno())
        check_owner(status, folder.path / name)
        locked = try_lock(file.fileno())
        # Another download may have finished in between, and moved the file away.
        named = folder.status(name)
        has_name = named is not None and (named.st_ino, named.st_nlink) == (status.st_ino, 1)
        if locked and has_name:
            return file
    except (OSError, ConfigError):
        pass
    file.close()
    return None


def _remove_old(folder: Folder) -> None:
    """Remove the files of downloads that nobody continued for a long time."""
    now = time.time()
    for match in filter(None, map(NAME.fullmatch, folder.entries().files)):
        name = match.string
        oldest = now - (OWN_FORGOTTEN_AFTER if match["own"] else FORGOTTEN_AFTER)
        with contextlib.suppress(OSError):  # another process may remove it at the same time
            status = folder.status(name)
            if status is not None and status.st_mtime < oldest:
                # The clock may have jumped, so only the lock shows whether a download uses it.
                file = open_locked(folder, name)
                if file is not None:
                    folder.remove(name)
                    file.close()
