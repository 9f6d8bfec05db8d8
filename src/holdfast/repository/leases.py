"""Leases: an add leases its blocks, so that no collection of garbage removes them.

A lease is valid while the owner of its add is alive; see `holdfast.repository.owners`. The caller
of each function has begun a transaction.
"""

import secrets
import sqlite3

from holdfast.errors import ProviderError
from holdfast.repository.owners import Owner


def extend_lease(
    connection: sqlite3.Connection, lease: int | None, owner: Owner, blocks: list[int]
) -> int:
    """Add blocks, by their ids, to a lease, or to a new one; return the number of the lease."""
    check_lease(connection, lease)
    if lease is None:
        # Random: a counter could start again, for example after a repair.
        lease = secrets.randbits(63)
        connection.execute("INSERT INTO adds VALUES (?, ?)", (lease, owner.name))
    connection.executemany(
        "INSERT OR IGNORE INTO leases VALUES (?, ?)", ((lease, block) for block in blocks)
    )
    return lease


def check_lease(connection: sqlite3.Connection, lease: int | None) -> None:
    """Raise `ProviderError` if there was a lease, and it has ended."""
    sql = "SELECT 1 FROM adds WHERE id = ?"
    if lease is not None and connection.execute(sql, (lease,)).fetchone() is None:
        raise ProviderError(
            "the upload was given up: a collection of garbage took its process for dead; "
            "upload again"
        )


def end_lease(connection: sqlite3.Connection, lease: int | None) -> None:
    """End a lease, if there is one. A collection of garbage may then remove its blocks."""
    connection.execute("DELETE FROM leases WHERE adding = ?", (lease,))
    connection.execute("DELETE FROM adds WHERE id = ?", (lease,))


def end_dead_leases(connection: sqlite3.Connection, owner: Owner) -> None:
    """End the leases of all owners that are dead."""
    for (name,) in connection.execute("SELECT DISTINCT owner FROM adds").fetchall():
        if not (isinstance(name, str) and owner.is_alive(name)):
            connection.execute("DELETE FROM adds WHERE owner = ?", (name,))
    connection.execute("DELETE FROM leases WHERE adding NOT IN (SELECT id FROM adds)")
