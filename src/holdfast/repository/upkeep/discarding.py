"""Discarding an add that failed: remove the blocks that it brought."""

from holdfast.repository.block_files import BlockFiles
from holdfast.repository.database import Database
from holdfast.repository.leases import end_lease
from holdfast.repository.upkeep.garbage import BATCH, LIVE, remove_marked


def discard(database: Database, files: BlockFiles, lease: int, last_id: int) -> None:
    """End `lease` and remove those of its blocks whose id is larger than `last_id`.

    Blocks that a pin or another lease needs stay. If the process ends before all are removed, a
    collection of garbage removes the others.
    """
    with database.writing() as connection:
        connection.execute(
            f"{LIVE} UPDATE blocks SET dying = 1"  # noqa: S608 - ours
            " WHERE id > ? AND id IN (SELECT block FROM leases WHERE adding = ?)"
            " AND id NOT IN (SELECT block FROM leases WHERE adding <> ?) AND key NOT IN live",
            (last_id, lease, lease),
        )
        end_lease(connection, lease)
    while remove_marked(database, files, BATCH):
        pass
