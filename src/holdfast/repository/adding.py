"""One add: blocks are written in batches and leased until they are pinned; and files in it."""

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import Any, Final, NamedTuple, Self, TypeAlias

from holdfast.content.cid import CID
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.files import Part, Tree, hash_leaf, leaf_frame
from holdfast.records import Pin
from holdfast.repository.block_files import BlockFiles, WrittenBlock
from holdfast.repository.database import Database
from holdfast.repository.database.group_commit import Change
from holdfast.repository.owners import Owner
from holdfast.repository.pins import add_pin, add_pins
from holdfast.repository.upkeep.garbage import check_lease, discard, end_lease, extend_lease

BATCH_BYTES: Final = 8 << 20  # of the first transaction; each has twice as many as the one before
MAX_BATCH_BYTES: Final = 256 << 20
BATCH_BLOCKS: Final = 1000


class Adding:
    """Takes blocks with `put`, which can be the ``emit`` of an importer; keeps them with `pin`.

    A small add is one transaction. A large add leases every block that was put, new or not: while
    `owner` is alive, garbage collection does not remove leased blocks. `pin` fails if the lease is
    gone, so no add succeeds after its blocks may have been removed. No two adds have a lease of the
    same number.

    Attributes:
        files: Writes the blocks.
        small_bytes: The bytes of small blocks, which are in memory until their transaction.
        max_small_bytes: How many of them begin a transaction.
    """

    def __init__(self, database: Database, files: BlockFiles, owner: Owner) -> None:
        self._database = database
        self.files = files
        self._owner = owner
        self._process = os.getpid()
        self._pending: list[WrittenBlock] = []
        self._pending_bytes = 0
        self._batch_bytes = BATCH_BYTES
        self.small_bytes: int = 0
        self.max_small_bytes = BATCH_BYTES
        self._lease: int | None = None
        self._last_id = 0  # of the blocks that the store had before this add

    def put(self, cid: CID, data: bytes) -> None:
        """Add a block. The caller has verified it."""
        self.take(self.files.write(cid, data))

    def put_missing(self, blocks: Sequence[tuple[CID, bytes]]) -> None:
        """Insert and lease blocks, already verified. Those in the store are not written again."""
        with self._database.reading() as connection:
            here = {cid for cid, _ in blocks if self.files.has(connection, cid)}
        if here and not self.lease(here):
            here.clear()  # one was removed just now
        for cid, data in blocks:
            if cid not in here:
                self.put(cid, data)
        if self._pending:
            self.flush()

    def take(self, block: WrittenBlock) -> None:
        """Add a block that `files` has written."""
        self._pending.append(block)
        self._pending_bytes += block.size
        self.small_bytes += 0 if block.data is None else block.size
        if (
            self.small_bytes >= self.max_small_bytes
            or self._pending_bytes >= self._batch_bytes
            or len(self._pending) >= BATCH_BLOCKS
        ):
            self.flush()

    def flush(self) -> None:
        """Insert and lease the blocks that were put so far."""
        with self._database.writing(self.small_bytes) as connection:
            if self._lease is None:
                sql = "SELECT coalesce(max(id), 0) FROM blocks"
                (self._last_id,) = connection.execute(sql).fetchone()
            check_lease(connection, self._lease)
            blocks = self.files.insert(connection, self._pending)
            lease = extend_lease(connection, self._lease, self._owner, blocks)
        self._lease = lease
        self._clear_pending()
        # A large add needs few transactions, and a small one holds little without a lease.
        self._batch_bytes = min(2 * self._batch_bytes, MAX_BATCH_BYTES)

    def lease(self, cids: Iterable[CID]) -> bool:
        """Lease blocks that are in the store; return False if one is missing, and lease none."""
        sql = "SELECT id FROM blocks WHERE key = ? AND NOT dying"
        with self._database.writing() as connection:
            rows = [connection.execute(sql, (cid.key,)).fetchone() for cid in cids]
            blocks = [row[0] for row in rows if row is not None]
            if len(blocks) < len(rows):
                return False
            check_lease(connection, self._lease)
            lease = extend_lease(connection, self._lease, self._owner, blocks)
        self._lease = lease
        return True

    def pin(self, cid: CID, **fields: Any) -> tuple[Pin, bool]:
        """Insert the other blocks, pin `cid` and end the add.

        Return the pin, and whether it existed.
        """
        change = self._pin_change(cid, **fields)
        self._database.commit(change)
        pinned = change.result()
        self._end()
        return pinned

    def _pin_change(self, cid: CID, **fields: Any) -> Change[tuple[Pin, bool]]:
        def apply(connection: sqlite3.Connection) -> tuple[Pin, bool]:
            check_lease(connection, self._lease)
            pinned = add_pin(connection, cid, **fields)
            if self._lease is not None:
                end_lease(connection, self._lease)
            self.files.insert(connection, self._pending)  # last: its files stay if it fails later
            return pinned

        return Change(apply, self.small_bytes)

    @property
    def is_undone_by_rollback(self) -> bool:
        """Whether it has no lease and no file yet, so that `pin` may be tried again."""
        return self._lease is None and all(block.temporary is None for block in self._pending)

    def _end(self) -> None:
        """Forget the blocks, which are pinned."""
        self._lease = None
        self._clear_pending()

    def _discard_pending(self) -> None:
        """Remove the files of the blocks that are not inserted."""
        named = self.files.discard(self._pending)
        self._clear_pending()
        if named:  # in a transaction, so that nobody else may be about to insert their rows
            self._database.freeing(lambda connection: self.files.remove_unlisted(connection, named))

    def _clear_pending(self) -> None:
        self._pending = []
        self._pending_bytes = self.small_bytes = 0

    def discard(self) -> None:
        """End the add and remove its new blocks, unless a pin or another add needs them.

        In a forked child it does nothing, as `close`.
        """
        if self._process != os.getpid():
            return
        self._discard_pending()
        lease, self._lease = self._lease, None
        if lease is not None:
            discard(self._database, self.files, lease, self._last_id)

    def close(self) -> None:
        """End the add. Garbage collection may remove blocks that were not pinned.

        After `pin` it does nothing. In a forked child it does nothing either, because the add
        belongs to the parent.
        """
        if self._process != os.getpid():
            return
        self._discard_pending()
        if self._lease is not None:
            self._database.freeing(lambda connection: end_lease(connection, self._lease))
            self._lease = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NewPin(NamedTuple):
    """An add that has all its blocks, the root to pin, and the fields of the pin."""

    adding: Adding
    cid: CID
    fields: Mapping[str, Any]


def pin_together(pins: Sequence[NewPin]) -> Sequence[tuple[Pin, bool] | Exception]:
    """Pin several adds of one repository in one transaction, and end them.

    Return what `Adding.pin` would return or raise for each. One that fails does not fail the
    others.
    """
    outcomes = _pin_as_one(pins) or _pin_each(pins)
    for pin, outcome in zip(pins, outcomes, strict=True):
        if not isinstance(outcome, Exception):
            pin.adding._end()  # noqa: SLF001
        pin.adding.close()
    return outcomes


def _pin_as_one(pins: Sequence[NewPin]) -> Sequence[tuple[Pin, bool]] | None:
    """Pin small adds by few statements; return None if that is not possible or has failed."""
    if not all(pin.adding.is_undone_by_rollback for pin in pins):
        return None
    first = pins[0].adding
    blocks = [block for pin in pins for block in pin.adding._pending]  # noqa: SLF001

    def apply(connection: sqlite3.Connection) -> list[tuple[Pin, bool]]:
        first.files.insert(connection, blocks)
        return add_pins(connection, [(pin.cid, pin.fields) for pin in pins])

    change = Change(apply, sum(pin.adding.small_bytes for pin in pins))
    first._database.commit(change)  # noqa: SLF001 - all have the same
    return change.result() if change.error is None else None


def _pin_each(pins: Sequence[NewPin]) -> Sequence[tuple[Pin, bool] | Exception]:
    changes = [pin.adding._pin_change(pin.cid, **pin.fields) for pin in pins]  # noqa: SLF001
    pins[0].adding._database.commit(*changes)  # noqa: SLF001
    return [change.error or change.result() for change in changes]


# One file of an add: its leaves are hashed, written and synchronised on several threads.
#
# The caller cuts the bytes into leaves. Threads make the blocks of several leaves at a time, while
# the caller receives the next bytes. The small leaves of one piece go to a thread together, as one
# job. The tree over the leaves grows in their order::
#
#     caller    cut 1 | cut 2 | cut 3 | cut 4 | tree 1 | cut 5 ...
#     thread            1: hash, write, sync    | 3 ...
#     thread                    2: hash, write, sync      | 4 ...

DEPTH: Final = 8  # jobs of one file that are being done
JOB_SIZE: Final = 1 << 20  # bytes of the leaves of a job: to hand it over takes time
MAX_PIECES: Final = 64  # of one leaf, before they are joined

Leaf: TypeAlias = "tuple[list[bytes | memoryview], int]"  # its pieces, and its size
MadeLeaf: TypeAlias = tuple[Part, WrittenBlock]


class FileAdding:
    """Makes the DAG of a file, which comes in pieces, and puts its blocks into `adding`.

    It is a `FileImporter` with threads. A file of one leaf needs none of them. `on_leaf` is called
    with each leaf, in order, once `adding` has its block.

    Attributes:
        leaf_bytes: The bytes that wait for the rest of their leaf.
    """

    def __init__(
        self, adding: Adding, profile: Profile, on_leaf: Callable[[Part], None] | None = None
    ) -> None:
        self._adding = adding
        self._on_leaf = on_leaf
        self._profile = profile
        self._tree = Tree(profile, adding.put)
        self._pieces: list[bytes | memoryview] = []  # of the current leaf
        self.leaf_bytes: int = 0
        self._count = 0
        self._leaves: list[Leaf] = []  # of the next job; only while a piece is added
        self._jobs: deque[Future[list[MadeLeaf]]] = deque()
        self._folder = ExitStack()  # keeps it open from the first leaf that a thread makes
        self._is_open = False

    def update(self, piece: bytes) -> None:
        """Add the next bytes."""
        start = 0
        view = memoryview(piece)
        while len(piece) - start >= (missing := self._profile.chunk_size - self.leaf_bytes):
            self._append(view[start : start + missing])
            start += missing
            self._end_leaf()
        self._submit()
        if start < len(piece):
            # Copied: the rest of a leaf may wait for long, and a view would hold the whole piece.
            self._append(piece[start:])

    def _append(self, piece: bytes | memoryview) -> None:
        self._pieces.append(piece)
        self.leaf_bytes += len(piece)
        if len(self._pieces) > MAX_PIECES:
            self._pieces = [b"".join(self._pieces)]

    def _end_leaf(self) -> None:
        self._leaves.append((self._pieces, self.leaf_bytes))
        self._pieces, self.leaf_bytes = [], 0
        self._count += 1
        if len(self._leaves) * self._profile.chunk_size >= JOB_SIZE:
            self._submit()

    def _submit(self) -> None:
        if self._leaves:
            if len(self._jobs) >= DEPTH:
                self._take(self._jobs.popleft().result())
            if not self._is_open:
                self._folder.enter_context(self._adding.files.temporary_folder.opened())
                self._is_open = True
            leaves, self._leaves = self._leaves, []
            self._jobs.append(self._adding.files.threads.submit(self._make, leaves))

    def _make(self, leaves: list[Leaf]) -> list[MadeLeaf]:
        made = []
        for pieces, size in leaves:
            head, tail = leaf_frame(self._profile, size)
            leaf = hash_leaf(self._profile, pieces, size)
            made.append((leaf, [head, *pieces, tail]))
        blocks = self._adding.files.write_leaves([(leaf.cid, parts) for leaf, parts in made])
        return [(leaf, block) for (leaf, _), block in zip(made, blocks, strict=True)]

    def _take_all(self) -> None:
        while self._jobs:
            self._take(self._jobs.popleft().result())

    def _take(self, made: list[MadeLeaf]) -> None:
        for leaf, block in made:
            self._adding.take(block)
            self._tree.add(leaf)
            if self._on_leaf is not None:
                self._on_leaf(leaf)

    def resume(self, leaves: Iterable[Part], rest: bytes) -> None:
        """Begin after `leaves`, which are in the store, and the bytes `rest` of the next leaf."""
        for leaf in leaves:
            self._tree.add(leaf)
            self._count += 1
        self.update(rest)

    def settle(self) -> bytes:
        """Wait for the threads; return the bytes that wait for the rest of their leaf."""
        self._take_all()
        self._pieces = [b"".join(self._pieces)]
        return bytes(self._pieces[0])

    def finish(self) -> Part:
        """Return the DAG of the file."""
        self._take_all()
        if self.leaf_bytes or not self._count:
            self._take(self._make([(self._pieces, self.leaf_bytes)]))
        self._pieces, self.leaf_bytes = [], 0
        self._folder.close()
        return self._tree.root()

    def close(self) -> None:
        """Give up a file that is not finished, and remove what was written of it."""
        self._pieces, self.leaf_bytes = [], 0
        while self._jobs:
            with suppress(Exception):  # the error of the file is already known
                made = self._jobs.popleft().result()
                self._adding.files.discard([block for _, block in made])
        self._folder.close()
