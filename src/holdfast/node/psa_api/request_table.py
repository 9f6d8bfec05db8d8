"""The requests that are not pins: those under way, those that failed, and second ones for a CID.

Several requests may be for the same content, but the store has one pin for it. That pin belongs to
the first request, and has its id. The other requests are rows here.
"""

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from holdfast.content.cid import CID
from holdfast.node.http_server.refusals import Refusal
from holdfast.node.psa_api.pin_request import PinRequest
from holdfast.node.small_database import SmallDatabase
from holdfast.repository import PinQuery
from holdfast.repository.pins import parse_keyvalues, parse_time
from holdfast.repository.rows import cid_text, text

MAX_REQUESTS: Final = 10_000  # rows; a list looks at all that match
MAX_META: Final = 16 << 20  # characters of the metadata of all rows, which a list has in memory
COLUMNS: Final = "uuid, cid, name, keyvalues, created, waits"


class RequestTable(SmallDatabase):
    """The table. Its columns have the names of those of pins, so that a `PinQuery` finds them."""

    file = "holdfast.requests.sqlite3"
    tables: ClassVar[tuple[str, ...]] = (
        (
            "CREATE TABLE requests (uuid TEXT PRIMARY KEY, cid TEXT NOT NULL, key BLOB NOT NULL,"
            " name TEXT NOT NULL, keyvalues TEXT NOT NULL, created INTEGER NOT NULL,"
            " waits INTEGER NOT NULL)"
        ),
        "CREATE INDEX requests_by_key ON requests (key)",
    )
    without = "unfinished requests of the Pinning Services API are lost"

    def add(self, request: PinRequest) -> None:
        """Add a request; raise a `Refusal` if there are too many."""
        key = CID.parse(request.cid).key
        meta = json.dumps(dict(request.meta))
        row = (request.id, request.cid, key, request.name, meta, request.created, request.waits)
        with self.changing() as connection:
            sql = "SELECT count(*), total(length(keyvalues)) FROM requests"
            count, size = connection.execute(sql).fetchone()
            if count >= MAX_REQUESTS or size > MAX_META:
                raise Refusal(
                    409,
                    f"The node has {count} requests that wait, have failed, or are for content "
                    "that another request has pinned: delete some of them",
                    reason="TOO_MANY_REQUESTS",
                )
            connection.execute("INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def find(self, query: PinQuery) -> list[PinRequest]:
        """Return the requests that fit, the oldest first, whatever the limit of `query`."""
        where, values = query.where()
        with self.using() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM requests WHERE {where} ORDER BY created",  # noqa: S608 - ours
                values,
            )
            found = [_request(row) for row in rows]
        matches = query.matches
        return found if matches is None else [each for each in found if matches(each.meta)]

    def settle(self, *ids: str) -> None:
        """Note that the content of requests was pinned, so that they do not wait any more."""
        self._change("UPDATE requests SET waits = 0 WHERE uuid = ?", ids)

    def remove(self, *ids: str) -> None:
        """Remove requests."""
        self._change("DELETE FROM requests WHERE uuid = ?", ids)

    def _change(self, sql: str, ids: Sequence[str]) -> None:
        if ids:
            with self.changing() as connection:
                connection.executemany(sql, [(each,) for each in ids])


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
