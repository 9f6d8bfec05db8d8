"""An add under way: its blocks are safe batch by batch, and leased until they are pinned."""

import os
import secrets
import sqlite3
from typing import Any, Final, Self

from holdfast.content.cid import CID
from holdfast.errors import ProviderError
from holdfast.records import Pin
from holdfast.repository.blocks import BlockFiles, Written
from holdfast.repository.database import Database
from holdfast.repository.discarding import discard
from holdfast.repository.owners import Owner
from holdfast.repository.pins import add_pin

BATCH_BYTES: Final = 8 << 20
BATCH_BLOCKS: Final = 1000


class Adding:
    """Takes blocks by `put`, which fits as an importer's ``emit``; keeps them by `pin`.

    A small add is one transaction. In a large one every block that was put, new or not, is leased:
    a collection of garbage in between leaves it alone for as long as `owner` is alive. `pin` fails
    if the lease is gone, and no lease has the number of another: nothing is acknowledged that a
    collection may have removed.
    """

    def __init__(self, database: Database, files: BlockFiles, owner: Owner) -> None:
        self._database = database
        self._files = files
        self._owner = owner
        self._process = os.getpid()
        self._pending: list[Written] = []
        self._pending_bytes = 0
        self._lease: int | None = None
        self._newest = 0  # the last block that was there before this add

    def put(self, cid: CID, data: bytes) -> None:
        """Take a block, whose bytes are known to be right."""
        self._pending.append(self._files.write(cid, data))
        self._pending_bytes += len(data)
        if self._pending_bytes >= BATCH_BYTES or len(self._pending) >= BATCH_BLOCKS:
            self.flush()

    def flush(self) -> None:
        """Enter what was put so far."""
        with self._database.writing(self._small_bytes()) as connection:
            if self._lease is None:
                sql = "SELECT coalesce(max(id), 0) FROM blocks"
                (self._newest,) = connection.execute(sql).fetchone()
            lease = self._extend_lease(connection, self._files.enter(connection, self._pending))
        self._lease = lease
        self._forget_pending()

    def pin(self, cid: CID, **about: Any) -> tuple[Pin, bool]:
        """Enter the rest and pin `cid`; the pin, and whether it was there before. The end."""
        with self._database.writing(self._small_bytes()) as connection:
            self._check_lease(connection)
            self._files.enter(connection, self._pending)
            pinned = add_pin(connection, cid, **about)
            self._end_lease(connection)
        self._lease = None
        self._forget_pending()
        return pinned

    def _small_bytes(self) -> int:
        """How many bytes go into the database, and not into files."""
        return sum(len(block.data) for block in self._pending if block.data is not None)

    def _forget_pending(self) -> None:
        self._files.discard(self._pending)
        self._pending = []
        self._pending_bytes = 0

    def _check_lease(self, connection: sqlite3.Connection) -> None:
        if self._lease is not None:
            sql = "SELECT 1 FROM adds WHERE id = ?"
            if connection.execute(sql, (self._lease,)).fetchone() is None:
                raise ProviderError(
                    "the upload was given up: a collection of garbage found its process dead"
                )

    def _extend_lease(self, connection: sqlite3.Connection, blocks: list[int]) -> int:
        self._check_lease(connection)
        lease = self._lease
        if lease is None:
            # Random: no counter can fall back, whatever becomes of the database.
            lease = secrets.randbits(63)
            connection.execute("INSERT INTO adds VALUES (?, ?)", (lease, self._owner.name))
        connection.executemany(
            "INSERT OR IGNORE INTO leases VALUES (?, ?)", ((lease, block) for block in blocks)
        )
        return lease

    def _end_lease(self, connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM leases WHERE adding = ?", (self._lease,))
        connection.execute("DELETE FROM adds WHERE id = ?", (self._lease,))

    def discard(self) -> None:
        """End the add and remove the blocks that it brought, unless somebody else needs them.

        It does nothing in a forked child, as `close`.
        """
        if self._process != os.getpid():
            return
        self._forget_pending()
        lease, self._lease = self._lease, None
        if lease is not None:
            discard(self._database, self._files, lease, self._newest)

    def close(self) -> None:
        """End the add; what was not pinned may be collected. After `pin` it does nothing.

        Nor does it in a forked child: the add is still the parent's.
        """
        if self._process != os.getpid():
            return
        self._forget_pending()
        if self._lease is not None:
            self._database.freeing(self._end_lease)
            self._lease = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
