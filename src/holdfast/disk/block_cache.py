"""The cache folder: verified blocks, which processes share; what is in it, and how it is cleared.

Each block is a file under `blocks` in the cache folder, named by its hash. A file is written under
another name and then renamed, so that a process that is killed leaves no incomplete block. Nothing
in the folder is trusted: a block is verified again when it is read, and removed if it is wrong.
"""

import contextlib
import heapq
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.content.blocks import MAX_BLOCK, check_block, inline_block
from holdfast.content.cid import CID
from holdfast.disk.atomic import PARTIAL, SAVED, TEMPORARY, open_locked
from holdfast.disk.closing import on_error
from holdfast.disk.folders import Folder
from holdfast.errors import ConfigError, VerificationError
from holdfast.events import logger
from holdfast.forks import ForkAware

BLOCKS: Final = "blocks"
SHARE: Final = 16  # a process looks at the whole folder when it has added this part of the limit
DISK_UNIT: Final = 4096  # bytes of disk: each file takes a multiple of them, and at least one
CANDIDATES: Final = 10_000  # files that are considered for removal at a time, to limit memory
PENDING: Final = ".tmp"
NAME: Final = re.compile(r"[0-9a-f]+-[0-9a-f]+|[0-9a-f]{16}\.tmp")  # other files are not ours
FORGOTTEN_AFTER: Final = 3600  # seconds after which an incomplete file was left by a killed process


class CachedFile(NamedTuple):
    """A file of the cache. The one that was used longest ago is the smallest."""

    used: float
    size: int
    group: str
    name: str


class DiskBlockCache(ForkAware):
    """The most recently used verified blocks, in files that take up to `limit` bytes of disk.

    All methods may be called by several threads. The limit is exact for one process; each further
    one that writes at the same time may exceed it by a sixteenth. If the folder cannot be used,
    the cache has nothing and keeps nothing.

    Example:
        >>> import tempfile
        >>> cache = DiskBlockCache(Path(tempfile.mkdtemp()), limit=1 << 20)
        >>> cache.put(CID.of_raw(b"hello"), b"hello")
        >>> cache.get(CID.of_raw(b"hello")), cache.get(CID.of_raw(b"other"))
        (b'hello', None)
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._files = CachedFiles(folder)
        self._limit = limit
        self._room = 0  # bytes that may be added before the folder is looked at
        self._warned = False
        self.after_fork_in_child()
        self.watch_forks()

    def after_fork_in_child(self) -> None:
        """Replace the lock, which a thread of the parent may hold."""
        self._lock = threading.Lock()

    def get(self, cid: CID) -> bytes | None:
        """Return the block of `cid`, verified; None if it is not here."""
        try:
            return self._files.read(cid)
        except (OSError, ConfigError) as error:
            self._warn(error)
            return None

    def put(self, cid: CID, block: bytes) -> None:
        """Keep `block`, which must be verified; remove those that were used longest ago."""
        size = size_on_disk(len(block))
        if inline_block(cid) is not None or size > self._limit:
            return
        try:
            with self._lock:  # for the writing too: else it is not counted by the next thread
                if size > self._room:
                    share = max(size, self._limit // SHARE)
                    self._files.evict(self._limit - share)
                    self._room = share
                self._room -= size
                self._files.write(cid, block)
        except (OSError, ConfigError) as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("the cache of blocks cannot be used: %s", error)


class CachedFiles:
    """The files of the cache in `folder`.

    Every method raises `OSError`, or `ConfigError` where the folder is not one to be used: a
    symbolic link, or a folder of another user.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = Folder(folder, BLOCKS)

    def read(self, cid: CID) -> bytes | None:
        """Return the block of `cid` and note that it was used; None if it is not here."""
        group, name = self._place(cid)
        block = group.read(name, MAX_BLOCK + 1)
        if block is None:
            return None
        try:
            check_block(cid, block)
        except VerificationError:
            group.remove(name)
            return None
        with contextlib.suppress(OSError), group.opened() as folder:  # a read-only folder
            os.utime(name, dir_fd=folder)
        return block

    def write(self, cid: CID, block: bytes) -> None:
        """Add a block, or replace its file."""
        group, name = self._place(cid)
        pending = secrets.token_hex(8) + PENDING
        try:
            file = group.create(pending, 0o600)
        except FileNotFoundError:
            group.make(0o700)
            file = group.create(pending, 0o600)
        with on_error(partial(group.remove, pending)):
            with file:
                file.write(block)
            with group.opened() as folder:
                os.replace(pending, name, src_dir_fd=folder, dst_dir_fd=folder)

    def files(self) -> Iterator[CachedFile]:
        """Yield all files. Those that another process removes meanwhile are left out."""
        if not self._folder.exists():
            return
        for group in self._folder.entries().folders:
            folder = self._folder.below(group)
            for name in filter(NAME.fullmatch, folder.entries().files):
                status = folder.status(name)
                if status is not None:
                    yield CachedFile(status.st_mtime, size_on_disk(status.st_size), group, name)

    def evict(self, limit: int) -> None:
        """Remove the files that were used longest ago, until the others take at most `limit`."""
        size = sum(file.size for file in self.files())
        while size > limit:
            oldest = heapq.nsmallest(CANDIDATES, self.files())
            if not oldest:
                return
            for file in oldest:
                if size <= limit:
                    break
                self.remove(file)
                size -= file.size

    def remove(self, file: CachedFile) -> bool:
        """Remove a file; return whether it was there. One that is being written stays."""
        is_new = file.used > time.time() - FORGOTTEN_AFTER
        if file.name.endswith(PENDING) and is_new:
            return False
        return self._folder.below(file.group).remove(file.name)

    def _place(self, cid: CID) -> tuple[Folder, str]:
        """Return the folder and the name for the block of `cid`, the same for all its codecs."""
        name = f"{cid.hash_code:x}-{cid.digest.hex()}"
        return self._folder.below(name[-2:]), name


def size_on_disk(size: int) -> int:
    """Return the bytes of disk that a file of `size` bytes takes.

    Example:
        >>> size_on_disk(1), size_on_disk(4096)
        (4096, 4096)
    """
    return max(1, -(-size // DISK_UNIT)) * DISK_UNIT


class Amount(NamedTuple):
    """A number of files, and the bytes of disk that they take."""

    files: int
    size: int


class CacheContent(NamedTuple):
    """What is in the cache folder, or was removed from it.

    Attributes:
        blocks: Verified blocks.
        downloads: The verified bytes of interrupted downloads.
    """

    blocks: Amount
    downloads: Amount


def cache_content(folder: Path, *, clear: bool = False) -> CacheContent:
    """Return what is in the cache folder; with `clear`, remove that, and return what was removed.

    Downloads that are under way, and files that are not ours, stay.

    Example:
        >>> import tempfile
        >>> cache_content(Path(tempfile.mkdtemp())).blocks
        Amount(files=0, size=0)
    """
    sizes: list[int] = []
    downloads: list[int] = []
    if folder.exists():
        blocks, parts = CachedFiles(folder), Folder(folder, PARTIAL)
        sizes += [file.size for file in blocks.files() if not clear or blocks.remove(file)]
        for name in parts.entries().files if parts.exists() else ():
            is_ours = SAVED.fullmatch(name) or TEMPORARY.fullmatch(name)
            status = parts.status(name) if is_ours else None
            if status is not None and (not clear or _remove_download(parts, name)):
                downloads.append(size_on_disk(status.st_size))
    return CacheContent(*(Amount(len(files), sum(files)) for files in (sizes, downloads)))


def _remove_download(parts: Folder, name: str) -> bool:
    """Remove the file of a download, unless it is under way; return whether it was removed."""
    with parts.opened() as folder:
        file = open_locked(folder, name)
    if file is None:
        return False
    with file:
        return parts.remove(name)
