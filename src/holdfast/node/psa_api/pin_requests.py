"""The requests of a node: made, found, replaced and removed.

The status of a request follows from where it is::

    a pin of the store                                         pinned
    a row of the table, with a job                             the status of the job
    a row of the table, for content that has another pin       pinned

A row with neither a job nor a pin is removed: another API has cancelled the job or unpinned the
content. If another node over the same store has made the row, it is left alone.
"""

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from holdfast.content.cid import CID
from holdfast.node.http_server.refusals import Refusal
from holdfast.node.pinning_api.metadata import PinMetadata
from holdfast.node.pinning_api.pin_groups import Groups
from holdfast.node.pinning_api.pin_jobs import MAX_JOBS, PinJob, PinJobs
from holdfast.node.psa_api.list_query import RequestQuery
from holdfast.node.psa_api.pin_request import PinRequest, Status, WantedPin
from holdfast.node.small_database import SmallDatabase
from holdfast.protocol.pinning import FAILURES
from holdfast.records import Pin, now_ms
from holdfast.repository import PinQuery, Repository
from holdfast.repository.pin_queries import FETCHED_AT_ONCE, Stopped
from holdfast.repository.pins import parse_keyvalues, parse_time
from holdfast.repository.rows import cid_text, text

# The requests that are not pins: those under way, those that failed, and second ones for a CID.
#
# Several requests may be for the same content, but the store has one pin for it. That pin belongs
# to the first request, and has its id. The other requests are rows here.

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


JOB_STATUSES: Final[dict[str, Status]] = {"prechecking": "queued", "retrieving": "pinning"}


class PinRequests:
    """The requests over `repository`. With `pretend`, content that is not here counts as pinned.

    It waits for the disk: use it on worker threads. One call at a time changes anything.
    """

    def __init__(
        self, repository: Repository, jobs: PinJobs, groups: Groups, *, pretend: bool
    ) -> None:
        self._repository = repository
        self._jobs = jobs
        self._groups = groups
        self._pretend = pretend
        self._table = RequestTable(repository.path.absolute(), read_only=repository.read_only)
        self._lock = threading.RLock()
        self._resumed = False
        self._own: set[str] = set()  # the rows that this node has made, or has resumed
        self._latest = 0

    def resume(self) -> None:
        """Start the jobs of unfinished requests again, once after the node has started."""
        with self._lock:
            if self._resumed or self._repository.read_only:
                return
            self._resumed = True
            rows = self._table.find(PinQuery(held=None))
            self._own.update(row.id for row in rows)
            pinned = self._pins_of(rows)
            self._table.settle(*(row.id for row in rows if _key(row) in pinned))
            waiting = [row for row in rows if row.waits and _key(row) not in pinned]
            for row in waiting[-MAX_JOBS:]:
                self._start(row)

    def add(self, wanted: WantedPin) -> PinRequest:
        """Make a request."""
        with self._lock:
            self.resume()
            # A client that drops the last digits of times can still page through these.
            self._latest = max(now_ms(), self._latest + 1)
            request = PinRequest(
                cid=str(wanted.cid), name=wanted.name, meta=wanted.meta, created=self._latest
            )
            self._table.add(request)
            self._own.add(request.id)
            try:
                self._start(request)
            except BaseException:
                self._remove(request.id)
                raise
            return self._as_made(request)

    def _start(self, request: PinRequest) -> None:
        cid = CID.parse(request.cid)
        if self._pretend and not self._repository.has(cid):
            return
        about = PinMetadata(request.name, request.meta)
        job = PinJob(cid=request.cid, metadata=about, id=request.id, queued=request.created)
        self._jobs.start(job, lambda: self._table.settle(request.id))

    def get(self, id: str, stopped: Stopped | None = None) -> PinRequest | None:
        """Return a request; None if there is none with this id."""
        with self._lock:
            self.resume()
            rows = self._table.find(PinQuery(held=None, id=id))
            if found := self._current(rows):
                return found[0]
        # A row that has become a pin is found here.
        pins = self._repository.pins(PinQuery(id=id, limit=1), stopped)
        return PinRequest.of(pins[0]) if pins else None

    def find(self, query: RequestQuery, stopped: Stopped) -> tuple[list[PinRequest], int]:
        """Return the newest requests that `query` selects, and the number of all of them."""
        with self._lock:
            self.resume()
            rows = self._current(self._table.find(replace(query.pins, held=None)))
        found = {row.id: row for row in rows if row.status in query.statuses}
        count = len(found)
        if "pinned" in query.statuses:
            count += self._repository.count_pins(query.pins, stopped)
            for pin in self._repository.pins(query.pins, stopped):
                count -= pin.id in found  # it became the pin just now
                found[pin.id] = PinRequest.of(pin)
        newest = sorted(found.values(), key=lambda request: request.moment, reverse=True)
        return newest[: query.limit], count

    def remove(self, id: str, stopped: Stopped | None = None) -> bool:
        """Remove a request; return whether it was there.

        If there is another request for the content, that one becomes the pin.
        """
        with self._lock:
            request = self.get(id, stopped)
            if request is None:
                return False
            self._jobs.cancel(id)
            self._remove(id)
            cid = CID.parse(request.cid)
            pin = self._repository.find_pin(cid)
            if pin is not None and pin.id == id:
                others = self._table.find(PinQuery(held=None, cid=request.cid))
                if others:
                    self._make_pin(others[0])
                else:
                    self._repository.unpin(cid)
                self._groups.ungroup(id, cid)
            return True

    def replace(self, id: str, wanted: WantedPin, stopped: Stopped) -> PinRequest | None:
        """Make a request in place of the request `id`; return None if that is not there.

        The new one is made first. Blocks stay until garbage is collected, so what both share is
        not fetched again.
        """
        with self._lock:
            if self.get(id, stopped) is None:
                return None
            request = self.add(wanted)
            self.remove(id, stopped)
            return self._as_made(request)

    def close(self) -> None:
        """Close the table."""
        self._table.close()

    def _make_pin(self, request: PinRequest) -> None:
        """Give the pin of the content to another request for it, which is a row until now."""
        self._repository.update_pin(
            CID.parse(request.cid),
            id=request.id,
            created=request.created,
            name=request.name,
            change=lambda _: request.meta,
        )
        self._remove(request.id)

    def _remove(self, *ids: str) -> None:
        """Remove rows."""
        self._table.remove(*ids)
        self._own.difference_update(ids)

    def _as_made(self, request: PinRequest) -> PinRequest:
        """Return a new request as the reply has it: pinned if it is so already, else queued."""
        if found := self._current([request]):
            return found[0] if found[0].status == "pinned" else request
        pin = self._repository.find_pin(CID.parse(request.cid))
        return PinRequest.of(pin) if pin is not None and pin.id == request.id else request

    def _current(self, rows: list[PinRequest]) -> list[PinRequest]:
        """Return the requests of `rows`, with their status.

        Leave out and remove rows that have become the pin, and those without a job and a pin.
        """
        jobs = self._jobs.by_id() if rows else {}
        pins = self._pins_of(rows)
        found: list[PinRequest] = []
        for row in rows:
            job, pin = jobs.get(row.id), pins.get(_key(row))
            if pin is not None and pin.id == row.id:
                continue
            if job is not None:
                found.append(_with_status(row, job))
            elif pin is not None:
                size = {"dag_size": str(pin.size)}
                found.append(replace(row, status="pinned", info=size))
            elif self._pretend and row.waits:
                found.append(replace(row, status="pinned"))
        if not self._repository.read_only:
            current = {request.id for request in found}
            gone = {row.id for row in rows} - current
            self._remove(*gone & self._own)
        return found

    def _pins_of(self, rows: Iterable[PinRequest]) -> dict[bytes, Pin]:
        """Return the pins that `rows` are for, by the keys of their content."""
        cids = list({row.cid for row in rows})
        batches = (cids[at : at + FETCHED_AT_ONCE] for at in range(0, len(cids), FETCHED_AT_ONCE))
        return {
            CID.parse(pin.cid).key: pin
            for batch in batches
            for pin in self._repository.pins(PinQuery(cids=tuple(batch)))
        }


def _key(row: PinRequest) -> bytes:
    return CID.parse(row.cid).key


def _with_status(row: PinRequest, job: PinJob) -> PinRequest:
    """Return a request with the status of its job; of a failed one, with the reason."""
    status = JOB_STATUSES.get(job.status, "failed")
    info = {"status_details": FAILURES.get(job.status, job.status)} if status == "failed" else {}
    return replace(row, status=status, info=info)
