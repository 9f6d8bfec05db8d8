"""One add: blocks are written in batches and leased until they are pinned."""

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from holdfast.content.cid import CID
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
        held: The bytes of small blocks, which are in memory until their transaction.
        max_held: How many of them begin a transaction.
    """

    def __init__(self, database: Database, files: BlockFiles, owner: Owner) -> None:
        self._database = database
        self.files = files
        self._owner = owner
        self._process = os.getpid()
        self._pending: list[WrittenBlock] = []
        self._pending_bytes = 0
        self._batch_bytes = BATCH_BYTES
        self.held: int = 0
        self.max_held = BATCH_BYTES
        self._lease: int | None = None
        self._last_id = 0  # of the blocks that the store had before this add

    def put(self, cid: CID, data: bytes) -> None:
        """Add a block. The caller has verified it."""
        self.take(self.files.write(cid, data))

    def take(self, block: WrittenBlock) -> None:
        """Add a block that `files` has written."""
        self._pending.append(block)
        self._pending_bytes += block.size
        self.held += 0 if block.data is None else block.size
        if (
            self.held >= self.max_held
            or self._pending_bytes >= self._batch_bytes
            or len(self._pending) >= BATCH_BLOCKS
        ):
            self.flush()

    def flush(self) -> None:
        """Insert and lease the blocks that were put so far."""
        with self._database.writing(self.held) as connection:
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

    def pin(self, cid: CID, **about: Any) -> tuple[Pin, bool]:
        """Insert the other blocks, pin `cid` and end the add.

        Return the pin, and whether it existed.
        """
        change = self._pin_change(cid, **about)
        self._database.commit(change)
        pinned = change.result()
        self._end()
        return pinned

    def _pin_change(self, cid: CID, **about: Any) -> Change[tuple[Pin, bool]]:
        def apply(connection: sqlite3.Connection) -> tuple[Pin, bool]:
            check_lease(connection, self._lease)
            pinned = add_pin(connection, cid, **about)
            if self._lease is not None:
                end_lease(connection, self._lease)
            self.files.insert(connection, self._pending)  # last: its files stay if it fails later
            return pinned

        return Change(apply, self.held)

    @property
    def is_undone_by_rollback(self) -> bool:
        """Whether it has no lease and no file yet, so that `pin` may be tried again."""
        return self._lease is None and all(block.temporary is None for block in self._pending)

    def _end(self) -> None:
        """Forget the blocks, which are pinned."""
        self._lease = None
        self._clear_pending()

    def _discard_pending(self) -> None:
        self.files.discard(self._pending)
        self._clear_pending()

    def _clear_pending(self) -> None:
        self._pending = []
        self._pending_bytes = self.held = 0

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
    about: Mapping[str, Any]


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
        return add_pins(connection, [(pin.cid, pin.about) for pin in pins])

    change = Change(apply, sum(pin.adding.held for pin in pins))
    first._database.commit(change)  # noqa: SLF001 - all have the same
    return change.result() if change.error is None else None


def _pin_each(pins: Sequence[NewPin]) -> Sequence[tuple[Pin, bool] | Exception]:
    changes = [pin.adding._pin_change(pin.cid, **pin.about) for pin in pins]  # noqa: SLF001
    pins[0].adding._database.commit(*changes)  # noqa: SLF001
    return [change.error or change.result() for change in changes]
