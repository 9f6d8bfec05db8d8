"""Groups of files, and when files expire: what the v3 API knows of a pin besides the pin itself.

It is a small database of its own in the folder of the store. Without it no content is lost: files
are then in no group and do not expire.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from holdfast.node.small_database import SmallDatabase
from holdfast.records import now_ms
from holdfast.repository.pins import parse_time
from holdfast.repository.rows import cid_text, natural, text

DATABASE: Final = "holdfast.files.sqlite3"
AT_ONCE: Final = 500  # every SQLite takes at least 999 parameters
TABLES: Final = (
    "CREATE TABLE files (uuid TEXT PRIMARY KEY, cid TEXT NOT NULL, group_id TEXT, expires INTEGER)",
    "CREATE INDEX files_by_group ON files (group_id) WHERE group_id IS NOT NULL",
    "CREATE INDEX files_by_expiry ON files (expires) WHERE expires IS NOT NULL",
    (
        "CREATE TABLE groups (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE,"
        " name TEXT NOT NULL, is_public INTEGER NOT NULL, created INTEGER NOT NULL)"
    ),
)


class Details(NamedTuple):
    """The group of a file, and when it expires, in seconds; None for neither."""

    group_id: str | None = None
    expires: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of files. `number` counts groups in the order in which they were made."""

    number: int
    id: str
    name: str
    is_public: bool
    created: int


class FileDetails(SmallDatabase):
    """The details of the files of a store."""

    file = DATABASE
    tables: ClassVar[tuple[str, ...]] = TABLES
    without = "files are in no group"

    # Files

    def of(self, ids: Sequence[str]) -> dict[str, Details]:
        """Return the details of files by their ids; files without any are left out."""
        found: dict[str, Details] = {}
        with self.using() as connection:
            for at in range(0, len(ids), AT_ONCE):
                some = ids[at : at + AT_ONCE]
                marks = ",".join("?" * len(some))
                sql = f"SELECT uuid, group_id, expires FROM files WHERE uuid IN ({marks})"  # noqa: S608
                for id_, group, expires in connection.execute(sql, some):
                    found[text(id_)] = Details(
                        None if group is None else text(group),
                        None if expires is None else natural(expires),
                    )
        return found

    def put(self, id: str, cid: str, details: Details) -> None:
        """Set the details of a file; `Details()` removes them."""
        if details == Details() and not self.of([id]):
            return
        with self.changing() as connection:
            connection.execute("DELETE FROM files WHERE uuid = ?", (id,))
            if details != Details():
                row = (id, cid, *details)
                connection.execute("INSERT INTO files VALUES (?, ?, ?, ?)", row)

    def ids_in_group(self, group: str | None) -> list[str]:
        """Return the ids of the files in a group; with None, of those in any group."""
        sql = "SELECT uuid FROM files WHERE group_id IS NOT NULL AND (?1 IS NULL OR group_id = ?1)"
        with self.using() as connection:
            return [text(id_) for (id_,) in connection.execute(sql, (group,))]

    def expired(self, now: int) -> list[tuple[str, str]]:
        """Return the id and the CID of some files that have expired."""
        sql = "SELECT uuid, cid FROM files WHERE expires <= ? ORDER BY expires LIMIT ?"
        with self.using() as connection:
            rows = connection.execute(sql, (now, AT_ONCE))
            return [(text(id_), cid_text(cid)) for id_, cid in rows]

    # Groups

    def add_group(self, name: str, *, is_public: bool) -> Group:
        """Make a group."""
        row = (str(uuid.uuid4()), name, is_public, now_ms())
        sql = "INSERT INTO groups (uuid, name, is_public, created) VALUES (?, ?, ?, ?)"
        with self.changing() as connection:
            number = connection.execute(sql, row).lastrowid
        return _group((number, *row))

    def group(self, id: str) -> Group | None:
        """Return a group; None if there is none with this id."""
        groups = self.groups("uuid = ?", id, limit=1)
        return groups[0] if groups else None

    def groups(self, where: str, *values: Any, limit: int) -> list[Group]:
        """Return the groups for which `where` holds, the newest first."""
        sql = (
            "SELECT id, uuid, name, is_public, created FROM groups"  # noqa: S608 - ours
            f" WHERE {where} ORDER BY id DESC LIMIT ?"
        )
        with self.using() as connection:
            return [_group(row) for row in connection.execute(sql, (*values, limit))]

    def update_group(self, id: str, name: str | None, is_public: bool | None) -> Group | None:  # noqa: FBT001
        """Change what is not None of a group; return None if there is none with this id."""
        sql = (
            "UPDATE groups SET name = coalesce(?, name), is_public = coalesce(?, is_public)"
            " WHERE uuid = ?"
        )
        with self.changing() as connection:
            connection.execute(sql, (name, is_public, id))
        return self.group(id)

    def remove_group(self, id: str) -> bool:
        """Remove a group; return whether it was there. Its files stay, in no group."""
        with self.changing() as connection:
            connection.execute("UPDATE files SET group_id = NULL WHERE group_id = ?", (id,))
            connection.execute("DELETE FROM files WHERE group_id IS NULL AND expires IS NULL")
            return connection.execute("DELETE FROM groups WHERE uuid = ?", (id,)).rowcount > 0


def _group(row: tuple[Any, ...]) -> Group:
    number, id_, name, is_public, created = row
    return Group(
        number=natural(number),
        id=text(id_),
        name=text(name),
        is_public=bool(is_public),
        created=parse_time(created),
    )
