"""Undoing an add: removing the blocks that it brought, unless somebody else needs them by now."""

from holdfast.repository.block_files import BlockFiles
from holdfast.repository.database import Database
from holdfast.repository.upkeep.garbage import BATCH, LIVE, remove_marked


def discard(database: Database, files: BlockFiles, lease: int, newest: int) -> None:
    """End `lease` and remove its blocks that were entered after the block `newest`.

    What a pin reaches or another add has leased stays. If the process dies on the way, a
    collection of garbage removes the rest.
    """
    with database.writing() as connection:
        connection.execute(
            f"{LIVE} UPDATE blocks SET dying = 1"  # noqa: S608 - ours
            " WHERE id > ? AND id IN (SELECT block FROM leases WHERE adding = ?)"
            " AND id NOT IN (SELECT block FROM leases WHERE adding <> ?) AND key NOT IN live",
            (newest, lease, lease),
        )
        connection.execute("DELETE FROM leases WHERE adding = ?", (lease,))
        connection.execute("DELETE FROM adds WHERE id = ?", (lease,))
    while remove_marked(database, files, BATCH):
        pass
