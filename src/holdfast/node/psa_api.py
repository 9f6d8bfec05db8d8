"""The Pinning Services API: its five calls, and the requests that they make, find and remove.

The status of a request follows from where it is::

    a pin of the store                                         pinned
    a row of the table, with a job                             the status of the job
    a row of the table, for content that has another pin       pinned

A row with neither a job nor a pin is removed: another API has cancelled the job or unpinned the
content. If another node over the same store has made the row, it is left alone.
"""

import hashlib
import json
import re
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.content.cid import CID, DAG_PB
from holdfast.content.hashes import SHA2_256
from holdfast.errors import ClientError, InvalidCIDError
from holdfast.node.api_calls import AuthorizedEndpoint, Endpoint
from holdfast.node.client_values import PinMetadata, whole_number, write_json
from holdfast.node.http_server.refusals import Refusal, bad_request, store_refusal
from holdfast.node.pin_jobs import MAX_JOBS, Groups, PinJob, PinJobs
from holdfast.node.pinning_api import PinningEndpoints
from holdfast.node.settings import NodeSettings
from holdfast.node.tables import SmallDatabase
from holdfast.protocol.pinning import FAILURES
from holdfast.records import Pin, PinFilter, now_ms, value_text
from holdfast.repository import PinQuery, Repository
from holdfast.repository.pin_queries import FETCHED_AT_ONCE, NAME_MATCHES, Moment, Stopped
from holdfast.repository.pins import parse_keyvalues, parse_time
from holdfast.repository.rows import cid_text, nanoseconds, text

# A pin request of the Pinning Services API, its time, and how it is read from the body of a call:
# the object ``Pin`` of the specification.

MAX_NAME: Final = 255  # the limits of the specification
MAX_ORIGINS: Final = 20
MAX_META: Final = 1000
MAX_META_BYTES: Final = 10_000  # ours: then a page of 1000 pins has 10 MB
MAX_ADDRESS: Final = 1000  # characters of an address in origins


@dataclass(frozen=True, slots=True)
class WantedPin:
    """What a client asks to pin."""

    cid: CID
    name: str
    meta: Mapping[str, str]


def read_pin(body: Mapping[str, Any]) -> WantedPin:
    """Return what to pin; raise a `Refusal` if the body is invalid.

    ``origins`` are checked and not used: the node has no libp2p, and fetches from its gateways.
    """
    cid = read_cid(body.get("cid"))
    name = body.get("name")
    if not isinstance(name, str | None) or len(name or "") > MAX_NAME:
        raise bad_request(f"name must be a string of up to {MAX_NAME} characters")
    _check_origins(body.get("origins"))
    return WantedPin(cid, name or "", read_meta(body.get("meta")))


def read_cid(value: Any) -> CID:
    """Return a CID; raise a `Refusal` if it is invalid."""
    try:
        return CID.parse(value if isinstance(value, str) else "")
    except InvalidCIDError as error:
        raise bad_request(f"cid is not a valid CID: {error.reason}") from None


def read_meta(value: Any) -> dict[str, str]:
    """Return the object ``meta``; raise a `Refusal` if it is invalid."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise bad_request("meta must be an object whose values are strings")
    if len(value) > MAX_META:
        raise bad_request(f"meta may have at most {MAX_META} members")
    if len(write_json(value).encode()) > MAX_META_BYTES:
        raise bad_request(f"meta may have at most {MAX_META_BYTES} bytes as JSON")
    return value


def _check_origins(value: Any) -> None:
    if value is None:
        return
    is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
    if not is_list or len(value) > MAX_ORIGINS or len(set(value)) < len(value):
        raise bad_request(f"origins must be a list of up to {MAX_ORIGINS} different addresses")
    if not all(each.startswith("/") and len(each) <= MAX_ADDRESS for each in value):
        raise bad_request("each of origins must be a multiaddr, such as /ip4/203.0.113.1/tcp/4001")


Status: TypeAlias = Literal["queued", "pinning", "pinned", "failed"]
STATUSES: Final[tuple[Status, ...]] = ("queued", "pinning", "pinned", "failed")
# RFC 3339. Python keeps six digits of a fraction, and drops the others.
TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,30}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


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
            created=pin.created or 0,
            status="pinned",
            info={"dag_size": str(pin.size)},
        )


def write_time(moment: Moment) -> str:
    """Return a moment as RFC 3339, with nanoseconds.

    Example:
        >>> write_time((1700000000123, 42))
        '2023-11-14T22:13:20.123000042Z'
    """
    milliseconds, nanos = moment
    seconds = datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{seconds}.{milliseconds % 1000:03}{nanos:06}Z"


def parse_moment(text: str, what: str) -> Moment:
    """Return the moment of an RFC 3339 time; raise a `Refusal` if it is invalid.

    Example:
        >>> parse_moment("2023-11-14T23:13:20.123000042+01:00", "before")
        (1700000000123, 42)
    """
    found = TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError("another form")  # noqa: TRY301 - all are one error
        day, time, fraction, zone = found.groups()
        moment = datetime.fromisoformat(f"{day}T{time}{zone.upper()}")
        seconds = int(moment.timestamp())
    except (ValueError, OverflowError):
        raise bad_request(
            f"{what} must be a time as in RFC 3339, such as 2020-07-27T17:32:28.276Z"
        ) from None
    digits = (fraction or "").ljust(9, "0")[:9]
    return seconds * 1000 + int(digits[:3]), int(digits[3:])


# Read the filters of a list of requests.

MAX_CIDS: Final = 10  # the limits of the specification
DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 1000


@dataclass(frozen=True, slots=True)
class RequestQuery:
    """Which requests to return. `pins` has all conditions but the one on the status."""

    pins: PinQuery
    statuses: frozenset[Status]
    limit: int


def read_query(parameters: QueryParams) -> RequestQuery:
    """Return the query of a list; raise a `Refusal` if a parameter is invalid."""
    limit = parameters.get("limit") or str(DEFAULT_LIMIT)
    most = whole_number(limit, "limit", most=MAX_LIMIT)
    if not most:
        raise bad_request(f"limit must be a whole number from 1 to {MAX_LIMIT}")
    wanted = _read_meta(parameters.get("meta"))
    pins = PinQuery(
        cids=_read_cids(parameters),
        name_match=_read_name(parameters),
        earlier=_read_time(parameters, "before"),
        later=_read_time(parameters, "after"),
        matches=None if wanted is None else wanted.fits,
        sort="moment",
        limit=most,
    )
    return RequestQuery(pins, _read_statuses(parameters), most)


def _listed(parameters: QueryParams, name: str) -> list[str]:
    """Return the values of a list, in one parameter with commas or in several parameters."""
    values = ",".join(parameters.getlist(name)).split(",")
    return list(dict.fromkeys(value for value in values if value))


def _read_cids(parameters: QueryParams) -> tuple[str, ...] | None:
    texts = _listed(parameters, "cid")
    if len(texts) > MAX_CIDS:
        raise bad_request(f"cid may name at most {MAX_CIDS} CIDs")
    return tuple(str(read_cid(text)) for text in texts) or None


def _read_statuses(parameters: QueryParams) -> frozenset[Status]:
    texts = _listed(parameters, "status") or ["pinned"]
    if not set(texts) <= set(STATUSES):
        raise bad_request(f"status must be a list of {', '.join(STATUSES)}")
    return frozenset(cast("list[Status]", texts))


def _read_name(parameters: QueryParams) -> tuple[str, str] | None:
    match = parameters.get("match") or "exact"
    if match not in NAME_MATCHES:
        raise bad_request(f"match must be one of {', '.join(NAME_MATCHES)}")
    name = parameters.get("name")
    if name is None:
        return None
    if len(name) > MAX_NAME:
        raise bad_request(f"name may have at most {MAX_NAME} characters")
    return match, name


def _read_time(parameters: QueryParams, name: str) -> Moment | None:
    text = parameters.get(name)
    return parse_moment(text, name) if text else None


def _read_meta(text: str | None) -> PinFilter | None:
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise bad_request("meta must be a JSON object") from None
    return PinFilter(keyvalues=read_meta(value))


# The requests that are not pins: those under way, those that failed, and second ones for a CID.
#
# Several requests may be for the same content, but the store has one pin for it. That pin belongs
# to the first request, and has its id. The other requests are rows here.

MAX_REQUESTS: Final = 10_000  # rows; a list looks at all that match
MAX_TABLE_META: Final = (
    16 << 20
)  # characters of the metadata of all rows, which a list has in memory
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
            if count >= MAX_REQUESTS or size > MAX_TABLE_META:
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


# The objects of the specification that a client gets: ``PinStatus`` and ``Failure``.

REASONS: Final[Mapping[int, str]] = {
    400: "BAD_REQUEST",
    401: "UNAUTHORIZED",
    404: "NOT_FOUND",
}


def pin_status(request: PinRequest, delegates: list[str]) -> dict[str, Any]:
    """Return the object ``PinStatus`` of a request."""
    pin: dict[str, Any] = {"cid": request.cid}
    if request.name:
        pin["name"] = request.name
    if request.meta:
        pin["meta"] = {key: value_text(value) for key, value in request.meta.items()}
    status = {
        "requestid": request.id,
        "status": request.status,
        "created": write_time(request.moment),
        "pin": pin,
        "delegates": delegates,
    }
    return {**status, "info": dict(request.info)} if request.info else status


def delegates_of(request: Request, store: str) -> list[str]:
    """Return what the specification wants: an address of the node that ends with a peer ID.

    The node has no libp2p: the address is that of its gateway, and the peer ID is made up.
    """
    host, port = request.scope.get("server") or ("127.0.0.1", None)
    try:
        address = f"/ip{ip_address(host).version}/{host}"
    except ValueError:
        address = f"/dns/{host}"
    peer = CID(0, DAG_PB, SHA2_256, hashlib.sha256(store.encode()).digest())
    return [f"{address}/tcp/{port or 80}/http/p2p/{peer}"]


def failure_reply(refusal: Refusal) -> Response:
    """Return the object ``Failure`` of a refusal."""
    usual = "INTERNAL_SERVER_ERROR" if refusal.status >= 500 else "REFUSED"
    reason = REASONS.get(refusal.status) or refusal.reason or usual
    error = {"reason": reason, "details": refusal.details}
    return JSONResponse({"error": error}, refusal.status, headers=refusal.headers)


PREFIX: Final = "/psa"
ACCEPTED: Final = 202


class PSAEndpoints:
    """The API over the repository of a node. It shares limits, tokens and jobs with `api`."""

    def __init__(
        self, repository: Repository, settings: NodeSettings, api: PinningEndpoints
    ) -> None:
        self._api = api
        self._store = str(repository.path.absolute())
        self._requests = PinRequests(
            repository, api.jobs, api.groups, pretend=settings.pretend_pinned
        )

    def routes(self) -> list[BaseRoute]:
        """Return the routes below ``/psa``. The last one matches all other paths and methods."""
        pins, pin = f"{PREFIX}/pins", f"{PREFIX}/pins/{{id}}"
        return [
            self._route("GET", pins, self.list, "pinList"),
            self._route("POST", pins, self.add, "pinByHash"),
            self._route("GET", pin, self.get, "pinList"),
            self._route("POST", pin, self.replace, "pinByHash"),
            self._route("DELETE", pin, self.remove, "unpin"),
            Route(
                f"{PREFIX}/{{path:path}}", AuthorizedEndpoint(_lacking, error_reply=failure_reply)
            ),
        ]

    def _route(self, method: str, path: str, endpoint: Endpoint, scope: str) -> Route:
        async def refusing(request: Request) -> Response:
            try:
                return await endpoint(request)
            except (ClientError, OSError) as error:
                raise store_refusal(error) from error

        authorization = self._api.authorization
        call = AuthorizedEndpoint(refusing, authorization, scope, error_reply=failure_reply)
        return Route(path, call, methods=[method])

    async def list(self, request: Request) -> Response:
        """List one page of the requests that match, the newest first."""
        query = read_query(request.query_params)

        def find(stopped: Stopped) -> tuple[list[PinRequest], int]:
            return self._requests.find(query, stopped)

        found, count = await self._api.queries.run(request, find)
        delegates = delegates_of(request, self._store)
        results = [pin_status(each, delegates) for each in found]
        return JSONResponse({"count": count, "results": results})

    async def add(self, request: Request) -> Response:
        """Start to pin a CID."""
        wanted = read_pin(await self._api.bodies.json_object(request))
        made = await run_in_threadpool(self._requests.add, wanted)
        return self._status(request, made, ACCEPTED)

    async def get(self, request: Request) -> Response:
        """Reply with a request and its status."""

        def find(stopped: Stopped) -> PinRequest | None:
            return self._requests.get(request.path_params["id"], stopped)

        return self._status(request, await self._api.queries.run(request, find))

    async def replace(self, request: Request) -> Response:
        """Pin another CID, or the same with another name, in place of a request."""
        self._api.authorization.check(request, "unpin")
        wanted = read_pin(await self._api.bodies.json_object(request))

        def replace(stopped: Stopped) -> PinRequest | None:
            return self._requests.replace(request.path_params["id"], wanted, stopped)

        return self._status(request, await self._api.queries.run(request, replace), ACCEPTED)

    async def remove(self, request: Request) -> Response:
        """Remove a request, and the pin unless another request needs it."""

        def remove(stopped: Stopped) -> bool:
            return self._requests.remove(request.path_params["id"], stopped)

        if not await self._api.queries.run(request, remove):
            raise _no_request(request)
        return Response(status_code=ACCEPTED)

    def _status(self, request: Request, found: PinRequest | None, status: int = 200) -> Response:
        if found is None:
            raise _no_request(request)
        return JSONResponse(pin_status(found, delegates_of(request, self._store)), status)

    def resume(self) -> None:
        """Start unfinished requests again."""
        with suppress(ClientError, OSError):  # the next request says what is wrong with the store
            self._requests.resume()

    def close(self) -> None:
        """Close what was opened besides the repository."""
        self._requests.close()


def _no_request(request: Request) -> Refusal:
    id_ = request.path_params["id"][:100]
    return Refusal(404, f"There is no pin request with the requestid {id_}")


async def _lacking(request: Request) -> Response:
    """Reply to calls that the API does not have."""
    if request.path_params["path"].partition("/")[0] == "pins":
        raise Refusal(405, "This address takes another method")
    raise Refusal(404, f"There is nothing at this address: requests are at {PREFIX}/pins")
