"""Blocks on disk: small ones are rows of the database, larger ones are files of their own.

A file is written and synchronised under a temporary name. It gets its final name inside the
transaction that inserts its row, and is removed inside the transaction that deletes its row. So an
add and a collection of garbage never interfere. No symbolic link below the store's folder is
followed. Only regular files whose names have a form that is made here are removed: other files are
not the store's.
"""

import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypeVar

from holdfast.content.blocks import MAX_BLOCK
from holdfast.content.cid import CID
from holdfast.content.codecs import links_of
from holdfast.disk.atomic import start_writing
from holdfast.disk.folders import Folder, create
from holdfast.errors import ClientClosedError
from holdfast.forks import ForkAware
from holdfast.repository.database.identity import FOLDER
from holdfast.repository.owners import Owner
from holdfast.repository.rows import BadRowError, cid_of, insert_rows, is_key, rows_of_keys

# Threads that hash, write and synchronise blocks.

THREADS: Final = 8  # most of the time they wait for the disk
AT_ONCE: Final = THREADS + 4  # jobs that run or wait

Result = TypeVar("Result")


class BlockThreads(ForkAware):
    """The threads of one open repository, which all its adds share. They start when needed.

    A job must not wait for a lock, a transaction or another job.
    """

    def __init__(self) -> None:
        self._is_closed = False
        self.after_fork_in_child()
        self.watch_forks()

    def after_fork_in_child(self) -> None:
        """Start again without threads, which a forked child does not have."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._places = threading.Semaphore(AT_ONCE)

    def submit(self, function: Callable[..., Result], *args: object) -> "Future[Result]":
        """Run `function` on a thread.

        Wait while `AT_ONCE` jobs are not done: the blocks that they hold take memory.
        """
        places = self._places
        places.acquire()
        try:  # no context manager: an interrupt before its block would lose a place
            future = self._started().submit(function, *args)
        except BaseException:
            places.release()
            raise
        future.add_done_callback(lambda _: places.release())
        return future

    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._is_closed:
                raise ClientClosedError
            if self._pool is None:
                self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-blocks")
            return self._pool

    def close(self) -> None:
        """Wait for the jobs, and end the threads."""
        with self._lock:
            self._is_closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()


# A folder that several threads have open at the same time.


class SharedFolder(ForkAware):
    """A folder that is opened for its first user and closed after its last one.

    Every system call lets other threads run, and then waits for them. To open a folder takes about
    ten of them.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._users = 0
        self._place: int
        self._open = ExitStack()
        self.watch_forks()

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open the folder, unless it is open already."""
        with self._lock:
            if not self._users:
                self._place = self._open.enter_context(self._folder.opened())
            self._users += 1
        try:
            yield self._place
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._open.close()

    def after_fork_in_child(self) -> None:
        """Use another lock: a thread that the child does not have may hold this one."""
        self._lock = threading.Lock()


FILE_SIZE: Final = 16 << 10  # measured: smaller blocks are faster in SQLite, larger ones in files
SYNC_JOBS: Final = 8  # on which the folders of new files are synchronised
LEFTOVER_SECONDS: Final = 600.0
TEMPORARY: Final = "tmp"
# The name of the owner, and a random number.
TEMPORARY_NAME: Final = re.compile("([0-9a-f]{32})-[0-9a-f]{16}")


Pieces: TypeAlias = Sequence[bytes | memoryview]
"""The bytes of one block."""


class WrittenBlock(NamedTuple):
    """A block that is safe on disk or in memory, but has no row in the database yet."""

    key: bytes
    size: int
    data: bytes | None
    temporary: str | None  # the name of its file in the temporary folder
    children: list[bytes]


class BlockFiles:
    """The blocks of the store in the folder `root`.

    Attributes:
        threads: On which several blocks can be written at a time.
        temporary_folder: Where they are written. Who writes many keeps it open meanwhile.
    """

    def __init__(self, root: Path, owner: Owner, *, read_only: bool = False) -> None:
        self._folder = Folder(root, FOLDER)
        self._owner = owner
        self._temporary = self._folder.below(TEMPORARY)
        self.temporary_folder: SharedFolder = SharedFolder(self._temporary)
        self.threads: BlockThreads = BlockThreads()
        if not read_only:
            self._temporary.make()
            self.remove_leftovers()
        elif self._folder.exists():
            self._temporary.exists()  # raises an error if it is a link

    def path(self, key: bytes) -> Path:
        """Return the path of a block's file. The hash decides in which of 256 folders it is."""
        folder, name = _place(key)
        return self._folder.path / folder / name

    def write(self, cid: CID, data: bytes) -> WrittenBlock:
        """Write a large block to a temporary file, which `insert` only has to rename."""
        children = [link.cid.key for link in links_of(cid, data)]
        if len(data) < FILE_SIZE:
            return WrittenBlock(cid.key, len(data), data, None, children)
        (temporary,) = self._write_files([[data]])
        return WrittenBlock(cid.key, len(data), None, temporary, children)

    def write_leaves(self, leaves: Sequence[tuple[CID, Pieces]]) -> list[WrittenBlock]:
        """Do the same as `write` for leaves, which come in pieces and link to nothing."""
        sizes = [sum(map(len, pieces)) for _, pieces in leaves]
        are_files = [size >= FILE_SIZE for size in sizes]
        large = [pieces for (_, pieces), is_file in zip(leaves, are_files, strict=True) if is_file]
        names = iter(self._write_files(large) if large else ())
        return [
            WrittenBlock(cid.key, size, None, next(names), [])
            if is_file
            else WrittenBlock(cid.key, size, b"".join(pieces), None, [])
            for (cid, pieces), size, is_file in zip(leaves, sizes, are_files, strict=True)
        ]

    def _write_files(self, contents: Sequence[Pieces]) -> list[str]:
        """Write temporary files and make them durable; return their names."""
        names = [f"{self._owner.name}-{secrets.token_hex(8)}" for _ in contents]
        try:
            with ExitStack() as opened, self.temporary_folder.opened() as place:
                descriptors = []
                for name, pieces in zip(names, contents, strict=True):
                    descriptors.append(create(place, name))
                    opened.callback(os.close, descriptors[-1])
                    _write(descriptors[-1], pieces)
                for descriptor in descriptors[1:]:  # so that the first sync does most of the work
                    start_writing(descriptor)
                for descriptor in descriptors:
                    os.fsync(descriptor)
        except BaseException:
            # On a full disk their space is needed.
            for name in names:
                self._temporary.remove(name)
            raise
        return names

    def insert(self, connection: sqlite3.Connection, blocks: Sequence[WrittenBlock]) -> list[int]:
        """Insert the rows of blocks and rename their files; return the ids of the rows.

        No temporary file is left of them. The caller has begun a transaction. Files that were
        renamed stay if it is rolled back, so nothing that may fail should follow.
        """
        ids = _insert_rows(connection, blocks)
        names: dict[str, list[tuple[str, str]]] = {}
        for block in blocks:
            if block.temporary is not None:
                place, name = _place(block.key)
                names.setdefault(place, []).append((block.temporary, name))
        if names:
            with self._folder.opened() as above, self.temporary_folder.opened() as origin:
                for place, pairs in names.items():
                    self._name_files(self._folder.below(place), pairs, above, origin)
                self._sync([self._folder.below(place) for place in names], above)
        return ids

    def _name_files(
        self, folder: Folder, names: list[tuple[str, str]], above: int, origin: int
    ) -> None:
        """Move temporary files into one of the 256 folders, which is made if it is missing.

        A file that has the name already may be damaged; the new one is known to be right.
        """
        try:
            folder.take(origin, names, MAX_BLOCK + 1, above)
        except FileNotFoundError:
            folder.make()
            self._folder.sync()
            folder.take(origin, names, MAX_BLOCK + 1, above)

    def _sync(self, folders: list[Folder], above: int) -> None:
        """Make the names in several folders durable, all at once: their syncs share the work."""
        # Few jobs: to hand one over may take longer than a sync.
        groups = [folders[start::SYNC_JOBS] for start in range(min(SYNC_JOBS, len(folders)))]
        syncs = [self.threads.submit(_sync_all, group, above) for group in groups[1:]]
        try:
            _sync_all(groups[0], above)
        finally:
            wait(syncs)  # none of them may use `above` after it is closed
        for sync in syncs:
            sync.result()

    def discard(self, blocks: Iterable[WrittenBlock]) -> list[bytes]:
        """Remove the temporary files of blocks that were not inserted.

        Return the keys of those that an interrupted transaction has renamed already.
        """
        files = [(block.key, block.temporary) for block in blocks if block.temporary is not None]
        return [key for key, temporary in files if not self._temporary.remove(temporary)]

    def read(self, connection: sqlite3.Connection, cid: CID) -> bytes | None:
        """Return a block without verifying it; None if the store does not have it."""
        sql = "SELECT data FROM blocks WHERE key = ? AND NOT dying"
        row = connection.execute(sql, (cid.key,)).fetchone()
        return None if row is None else self.block_of(cid.key, row[0])

    def block_of(self, key: bytes, data: object) -> bytes | None:
        """Return the block with this `data` in its row; None if that is None and it has no file."""
        if data is None:
            return self.read_file(key)
        if not isinstance(data, bytes):
            raise BadRowError("the bytes of a block in it are of another type")
        return data

    def read_file(self, key: bytes) -> bytes | None:
        """Return the file of a block without verifying it; None if there is none.

        The block need not have a row.
        """
        folder, name = _place(key)
        return self._folder.below(folder).read(name, MAX_BLOCK + 1)

    def has(self, connection: sqlite3.Connection, cid: CID) -> bool:
        """Return whether the store has a block. It is not read."""
        sql = "SELECT data IS NULL FROM blocks WHERE key = ? AND NOT dying"
        row = connection.execute(sql, (cid.key,)).fetchone()
        if row is None or not row[0]:
            return row is not None
        folder, name = _place(cid.key)
        return self._folder.below(folder).is_file(name)

    def remove(self, key: object) -> None:
        """Remove the file of a block, if it has one, in the transaction that deletes its row."""
        folder, name = _place(bytes(cid_of(key)))
        self._folder.below(folder).remove(name)

    def remove_unlisted(self, connection: sqlite3.Connection, keys: Iterable[bytes]) -> None:
        """Remove the files of those blocks that have no row. Nobody else may write meanwhile."""
        for key in keys:
            if not connection.execute("SELECT 1 FROM blocks WHERE key = ?", (key,)).fetchone():
                self.remove(key)

    def all_keys(self) -> Iterator[bytes]:
        """Yield the keys of the blocks that have a file, with or without a row."""
        # A copy of a store, which can only be read, may lack a folder that was empty.
        for name in self._folder.entries().folders if self._folder.exists() else ():
            if name != TEMPORARY:
                for file in self._folder.below(name).entries().files:
                    if _is_block_name(name, file):
                        yield bytes.fromhex(file)

    def foreign_files(self) -> Iterator[Path]:
        """Yield everything among the block files that the store did not make."""
        if not self._folder.exists():
            return
        files, folders, others = self._folder.entries()
        yield from (self._folder.path / name for name in (*files, *others))
        for name in folders:
            folder = self._folder.below(name)
            files, inner, others = folder.entries()
            for file in files:
                is_temporary = name == TEMPORARY and TEMPORARY_NAME.fullmatch(file)
                if not is_temporary and not _is_block_name(name, file):
                    yield folder.path / file
            yield from (folder.path / other for other in (*inner, *others))

    def remove_leftovers(self) -> None:
        """Remove the temporary files of processes that have ended."""
        for name in self._temporary.entries().files:
            match = TEMPORARY_NAME.fullmatch(name)
            # The lock of the owner decides. Where locks do not work, as between some virtual
            # machines, a file in use is young in most cases. If not, its add fails, and no data is
            # lost.
            status = self._temporary.status(name)
            is_old = status is not None and time.time() - status.st_mtime > LEFTOVER_SECONDS
            if is_old and match is not None and not self._owner.is_alive(match[1]):
                self._temporary.remove(name)


def _insert_rows(connection: sqlite3.Connection, blocks: Sequence[WrittenBlock]) -> list[int]:
    """Insert the rows of blocks that the store does not have; return the ids of all."""
    insert_rows(
        connection,
        "blocks (key, size, data)",
        [(block.key, block.size, block.data) for block in blocks],
        otherwise="ON CONFLICT (key) DO UPDATE SET dying = 0, data = excluded.data"
        " WHERE dying OR data IS NOT excluded.data",
    )
    sql = "SELECT key, id FROM blocks WHERE key IN"
    ids = dict(rows_of_keys(connection, sql, [block.key for block in blocks]))
    links = [(ids[block.key], child) for block in blocks for child in block.children]
    insert_rows(connection, "links (parent, child)", links, otherwise="ON CONFLICT DO NOTHING")
    return [ids[block.key] for block in blocks]


def _sync_all(folders: list[Folder], above: int) -> None:
    for folder in folders:
        folder.sync(above)


def _write(descriptor: int, pieces: Pieces) -> None:
    for piece in pieces:
        view = memoryview(piece)
        while view:
            view = view[os.write(descriptor, view) :]


def _place(key: bytes) -> tuple[str, str]:
    """Return the folder and the name of a block's file."""
    name = key.hex()
    return name[-3:-1], name


def _is_block_name(folder: str, name: str) -> bool:
    """Return whether the file `name` in `folder` has the name and the place of a block."""
    return is_key(name) and _place(bytes.fromhex(name)) == (folder, name)
