"""An add under way: its blocks are safe batch by batch, and leased until they are pinned."""

import sqlite3
import time
from types import TracebackType
from typing import Any, Final, Self

from holdfast.content.cid import CID
from holdfast.errors import ProviderError
from holdfast.records import now_ms
from holdfast.repository.blocks import BlockFiles, Written
from holdfast.repository.database import Database
from holdfast.repository.discarding import discard
from holdfast.repository.pins import Pin, add_pin

BATCH_BYTES: Final = 8 << 20
BATCH_BLOCKS: Final = 1000
RENEW_SECONDS: Final = 600.0


class Adding:
    """Takes blocks by `put`, which fits as an importer's ``emit``; keeps them by `pin`.

    A small add is one transaction. In a large one every block that was put, new or not, is leased:
    a collection of garbage in between leaves it alone.
    """

    def __init__(self, database: Database, files: BlockFiles) -> None:
        self._database = database
        self._files = files
        self._pending: list[Written] = []
        self._pending_bytes = 0
        self._lease: int | None = None
        self._newest = 0  # the last block that was there before this add
        self._renewed = time.monotonic()

    def put(self, cid: CID, data: bytes) -> None:
        """Take a block, whose bytes are known to be right."""
        self._pending.append(self._files.write(cid, data))
        self._pending_bytes += len(data)
        large = self._pending_bytes >= BATCH_BYTES or len(self._pending) >= BATCH_BLOCKS
        # A slow add renews its lease now and then, however little has come.
        if large or time.monotonic() - self._renewed > RENEW_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Enter what was put so far."""
        with self._database.writing() as connection:
            if self._lease is None:
                sql = "SELECT coalesce(max(id), 0) FROM blocks"
                (self._newest,) = connection.execute(sql).fetchone()
            self._extend_lease(connection, self._files.enter(connection, self._pending))
        self._forget_pending()

    def pin(self, cid: CID, **about: Any) -> tuple[Pin, bool]:
        """Enter the rest and pin `cid`; the pin, and whether it was there before. The end."""
        with self._database.writing() as connection:
            self._check_lease(connection)
            self._files.enter(connection, self._pending)
            pinned = add_pin(connection, cid, **about)
            self._end_lease(connection)
        self._lease = None
        self._forget_pending()
        return pinned

    def _forget_pending(self) -> None:
        self._files.discard(self._pending)
        self._pending = []
        self._pending_bytes = 0

    def _check_lease(self, connection: sqlite3.Connection) -> None:
        if self._lease is not None:
            sql = "SELECT 1 FROM adds WHERE id = ?"
            if connection.execute(sql, (self._lease,)).fetchone() is None:
                raise ProviderError("the add stood still for so long that it was given up")

    def _extend_lease(self, connection: sqlite3.Connection, blocks: list[int]) -> None:
        self._check_lease(connection)
        if self._lease is None:
            cursor = connection.execute("INSERT INTO adds (touched) VALUES (?)", (now_ms(),))
            self._lease = cursor.lastrowid
        else:
            sql = "UPDATE adds SET touched = ? WHERE id = ?"
            connection.execute(sql, (now_ms(), self._lease))
        self._renewed = time.monotonic()
        connection.executemany(
            "INSERT OR IGNORE INTO leases VALUES (?, ?)", ((self._lease, block) for block in blocks)
        )

    def _end_lease(self, connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM leases WHERE adding = ?", (self._lease,))
        connection.execute("DELETE FROM adds WHERE id = ?", (self._lease,))

    def discard(self) -> None:
        """End the add and remove the blocks that it brought, unless somebody else needs them."""
        self._forget_pending()
        lease, self._lease = self._lease, None
        if lease is not None:
            discard(self._database, self._files, lease, self._newest)

    def close(self) -> None:
        """End the add; what was not pinned may be collected. After `pin` it does nothing."""
        self._forget_pending()
        if self._lease is not None:
            with self._database.writing() as connection:
                self._end_lease(connection)
            self._lease = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
