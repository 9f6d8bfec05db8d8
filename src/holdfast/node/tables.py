"""What the APIs of a node know besides blocks and pins, in a small database beside the store.

Its tables are the groups of files, the files that are in a group or expire, and the requests of the
Pinning Services API that are not pins. Without the database no content is lost.
"""

import json
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from holdfast.content.cid import CID
from holdfast.disk.closing import on_error
from holdfast.errors import ConfigError
from holdfast.node.http_server.refusals import Refusal
from holdfast.records import Pin, now_ms
from holdfast.repository import PinQuery
from holdfast.repository.database.errors import read_only_error, typed_errors
from holdfast.repository.database.opening import connect, transaction
from holdfast.repository.pins import Moment, parse_keyvalues, parse_time
from holdfast.repository.rows import cid_text, nanoseconds, natural, rows_of_keys, text

DATABASE: Final = "holdfast.node.sqlite3"
AT_ONCE: Final = 500  # every SQLite takes at least 999 parameters
MAX_REQUESTS: Final = 10_000  # rows; a list looks at all that match
MAX_TABLE_META: Final = 16 << 20  # characters of the metadata of all rows, held during a list
TABLES: Final = (
    "CREATE TABLE files (uuid TEXT PRIMARY KEY, cid TEXT NOT NULL, group_id TEXT, expires INTEGER)",
    "CREATE INDEX files_by_group ON files (group_id) WHERE group_id IS NOT NULL",
    "CREATE INDEX files_by_expiry ON files (expires) WHERE expires IS NOT NULL",
    (
        "CREATE TABLE groups (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE,"
        " name TEXT NOT NULL, is_public INTEGER NOT NULL, created INTEGER NOT NULL)"
    ),
    # Its columns have the names of those of pins, so that a `PinQuery` finds its rows.
    (
        "CREATE TABLE requests (uuid TEXT PRIMARY KEY, cid TEXT NOT NULL, key BLOB NOT NULL,"
        " name TEXT NOT NULL, keyvalues TEXT NOT NULL, created INTEGER NOT NULL,"
        " waits INTEGER NOT NULL)"
    ),
    "CREATE INDEX requests_by_key ON requests (key)",
)

Status: TypeAlias = Literal["queued", "pinning", "pinned", "failed"]


class Details(NamedTuple):
    """The group of a file, and when it expires, in seconds; None for neither."""

    group_id: str | None = None
    expires: int | None = None


class Group(NamedTuple):
    """A group of files. `number` counts groups in the order in which they were made."""

    number: int
    id: str
    name: str
    is_public: bool
    created: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PinRequest:
    """A request to pin `cid`. Each request has an id of its own, also for the same CID."""

    cid: str
    name: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    created: int
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: Status = "queued"
    info: Mapping[str, str] = field(default_factory=dict)
    waits: bool = True  # whether its content is still to be pinned

    @property
    def moment(self) -> Moment:
        """When it was made; its last digits come from the id, so that times differ."""
        return self.created, nanoseconds(self.id)

    @classmethod
    def of(cls, pin: Pin) -> "PinRequest":
        """Return the request of a pin."""
        return cls(
            id=pin.id,
            cid=pin.cid,
            name=pin.name,
            meta=pin.keyvalues,
            created=pin.created_ms or 0,
            status="pinned",
            info={"dag_size": str(pin.size)},
        )


class Tables:
    """The database in the folder of a store, made by the first change. Safe for several threads."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self._folder = folder
        self._read_only = read_only
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._empty: sqlite3.Connection | None = None

    @contextmanager
    def _using(self, *, makes: bool = False) -> Iterator[sqlite3.Connection]:
        """Yield the database. Without one, yield an empty one in memory, unless `makes`."""
        with typed_errors(self._folder), self._lock:
            path = self._folder / DATABASE
            if self._connection is None and (makes or path.exists()):
                self._connection = self._open(path)
            if self._connection is not None:
                yield self._connection
                return
            self._empty = self._empty or _make_empty()
            yield self._empty

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Yield the database in a transaction, which the block completes or undoes."""
        if self._read_only:
            raise read_only_error(self._folder)
        with self._using(makes=True) as connection, transaction(connection):
            yield connection

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            for connection in (self._connection, self._empty):
                if connection is not None:
                    connection.close()
            self._connection = self._empty = None

    def _open(self, path: Path) -> sqlite3.Connection:
        """Open the database and make its tables; raise `ConfigError` if they are not ours."""
        connection = connect(path, "ro" if self._read_only else "rwc")
        with on_error(connection.close):
            if not self._read_only:
                with transaction(connection):
                    if not _statements(connection):
                        _make_tables(connection)
            _check_tables(connection, path)
        return connection

    # Files

    def details_of(self, ids: Sequence[str]) -> dict[str, Details]:
        """Return the details of files by their ids; files without any are left out."""
        sql = "SELECT uuid, group_id, expires FROM files WHERE uuid IN"
        with self._using() as connection:
            return {
                text(id_): Details(
                    None if group is None else text(group),
                    None if expires is None else natural(expires),
                )
                for id_, group, expires in rows_of_keys(connection, sql, ids)
            }

    def put_details(self, id: str, cid: str, details: Details) -> None:
        """Set the details of a file; `Details()` removes them."""
        if details == Details() and not self.details_of([id]):
            return
        with self._changing() as connection:
            connection.execute("DELETE FROM files WHERE uuid = ?", (id,))
            if details != Details():
                connection.execute("INSERT INTO files VALUES (?, ?, ?, ?)", (id, cid, *details))

    def ids_in_group(self, group: str | None) -> list[str]:
        """Return the ids of the files in a group; with None, of those in any group."""
        sql = "SELECT uuid FROM files WHERE group_id IS NOT NULL AND group_id = ifnull(?, group_id)"
        with self._using() as connection:
            return [text(id_) for (id_,) in connection.execute(sql, (group,))]

    def expired(self, now: int) -> list[tuple[str, str]]:
        """Return the id and the CID of some files that have expired."""
        sql = "SELECT uuid, cid FROM files WHERE expires <= ? ORDER BY expires LIMIT ?"
        with self._using() as connection:
            rows = connection.execute(sql, (now, AT_ONCE))
            return [(text(id_), cid_text(cid)) for id_, cid in rows]

    # Groups

    def add_group(self, name: str, *, is_public: bool) -> Group:
        """Make a group."""
        row = (str(uuid.uuid4()), name, is_public, now_ms())
        sql = "INSERT INTO groups (uuid, name, is_public, created) VALUES (?, ?, ?, ?)"
        with self._changing() as connection:
            number = connection.execute(sql, row).lastrowid
        return _group((number, *row))

    def groups(self, conditions: Mapping[str, Any], *, limit: int) -> list[Group]:
        """Return the groups for which all conditions hold, the newest first.

        A condition is SQL with a parameter, and its value. Those without a value do not count.
        """
        chosen = {sql: value for sql, value in conditions.items() if value not in {None, ""}}
        where = " AND ".join(chosen) or "1"
        sql = (
            "SELECT id, uuid, name, is_public, created FROM groups"  # noqa: S608 - ours
            f" WHERE {where} ORDER BY id DESC LIMIT ?"
        )
        with self._using() as connection:
            return [_group(row) for row in connection.execute(sql, (*chosen.values(), limit))]

    def group(self, id: str) -> Group | None:
        """Return a group; None if there is none with this id."""
        return next(iter(self.groups({"uuid = ?": id}, limit=1)), None) if id else None

    def update_group(self, id: str, name: str | None, is_public: bool | None) -> Group | None:  # noqa: FBT001
        """Change what is not None of a group; return None if there is none with this id."""
        sql = (
            "UPDATE groups SET name = coalesce(?, name), is_public = coalesce(?, is_public)"
            " WHERE uuid = ?"
        )
        with self._changing() as connection:
            connection.execute(sql, (name, is_public, id))
        return self.group(id)

    def remove_group(self, id: str) -> bool:
        """Remove a group; return whether it was there. Its files stay, in no group."""
        with self._changing() as connection:
            connection.execute("UPDATE files SET group_id = NULL WHERE group_id = ?", (id,))
            connection.execute("DELETE FROM files WHERE group_id IS NULL AND expires IS NULL")
            return connection.execute("DELETE FROM groups WHERE uuid = ?", (id,)).rowcount > 0

    # Requests that are not pins: under way, failed, or second ones for a CID, whose pin belongs to
    # the first request and has its id.

    def add_request(self, request: PinRequest) -> None:
        """Add a request; raise a `Refusal` if there are too many."""
        key = CID.parse(request.cid).key
        meta = json.dumps(dict(request.meta))
        row = (request.id, request.cid, key, request.name, meta, request.created, request.waits)
        with self._changing() as connection:
            sql = "SELECT count(*), total(length(keyvalues)) FROM requests"
            count, size = connection.execute(sql).fetchone()
            if count >= MAX_REQUESTS or size > MAX_TABLE_META:
                details = (
                    f"The node has {count} requests that wait, have failed, or are for content "
                    "that another request has pinned: delete some of them"
                )
                raise Refusal(409, details, reason="TOO_MANY_REQUESTS")
            connection.execute("INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def requests(self, query: PinQuery) -> list[PinRequest]:
        """Return the requests that fit, the oldest first, whatever the limit of `query`."""
        where, values = query.where()
        with self._using() as connection:
            rows = connection.execute(
                "SELECT uuid, cid, name, keyvalues, created, waits FROM requests"  # noqa: S608 - ours
                f" WHERE {where} ORDER BY created",
                values,
            )
            requests = [_request(row) for row in rows]
        matches = query.matches
        return [request for request in requests if matches is None or matches(request.meta)]

    def settle_requests(self, *ids: str) -> None:
        """Note that the content of requests was pinned, so that they do not wait any more."""
        self._change_each("UPDATE requests SET waits = 0 WHERE uuid = ?", ids)

    def remove_requests(self, *ids: str) -> None:
        """Remove requests."""
        self._change_each("DELETE FROM requests WHERE uuid = ?", ids)

    def _change_each(self, sql: str, ids: Sequence[str]) -> None:
        if ids:
            with self._changing() as connection:
                connection.executemany(sql, [(id_,) for id_ in ids])


def _make_empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _make_tables(connection)
    for name in ("fold", "nanoseconds"):  # there is nothing to compare
        connection.create_function(name, 1, str)
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    for sql in TABLES:
        connection.execute(sql)


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    if _statements(connection) != set(TABLES):
        raise ConfigError(
            f"{path} was not made by this version of Holdfast: if you move it away, files have no "
            "group, and unfinished requests of the Pinning Services API are lost"
        )


def _statements(connection: sqlite3.Connection) -> set[str]:
    sql = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
    return {str(statement) for (statement,) in connection.execute(sql)}


def _group(row: tuple[Any, ...]) -> Group:
    number, id_, name, is_public, created = row
    return Group(natural(number), text(id_), text(name), bool(is_public), parse_time(created))


def _request(row: tuple[Any, ...]) -> PinRequest:
    id_, cid, name, meta, created, waits = row
    return PinRequest(
        id=text(id_),
        cid=cid_text(cid),
        name=text(name),
        meta=parse_keyvalues(meta),
        created=parse_time(created),
        waits=bool(waits),
    )
