"""The Pinning Services API, as a dialect of the node's service: its five calls."""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, cast, get_args

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.content.cid import CID, DAG_PB
from holdfast.content.hashes import SHA2_256
from holdfast.node import client_values as values
from holdfast.node.api_calls import ApiCalls, AuthorizedEndpoint
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.service import Service
from holdfast.node.tables import PinRequest, Status
from holdfast.protocol.pin_api import members
from holdfast.records import PinFilter, value_text
from holdfast.repository import PinQuery
from holdfast.repository.pins import NAME_MATCHES, Moment

# The object ``Pin`` of the specification, which the body of a call has.

MAX_NAME: Final = 255  # the limits of the specification
MAX_ORIGINS: Final = 20
MAX_META: Final = 1000
MAX_META_BYTES: Final = 10_000  # ours: then a page of 1000 pins has 10 MB
MAX_ADDRESS: Final = 1000  # characters of an address in origins


def read_pin(body: Mapping[str, Any]) -> tuple[CID, str, Mapping[str, str]]:
    """Return the CID, the name and the metadata to pin; raise a `Refusal` if they are invalid.

    ``origins`` are checked and not used: the node has no libp2p, and fetches from its gateways.
    """
    cid = values.read_cid(body.get("cid"))
    name = values.read_name(body.get("name"), most=MAX_NAME)
    _check_origins(body.get("origins"))
    return cid, name or "", read_meta(body.get("meta"))


def read_meta(value: Any) -> dict[str, str]:
    """Return the object ``meta``; raise a `Refusal` if it is invalid."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise bad_request("meta must be an object whose values are strings")
    if len(value) > MAX_META:
        raise bad_request(f"meta may have at most {MAX_META} members")
    if len(values.write_json(value).encode()) > MAX_META_BYTES:
        raise bad_request(f"meta may have at most {MAX_META_BYTES} bytes as JSON")
    return value


def _check_origins(value: Any) -> None:
    if value is None:
        return
    is_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
    if not is_list or len(value) > MAX_ORIGINS or len(set(value)) < len(value):
        raise bad_request(f"origins must be a list of up to {MAX_ORIGINS} different addresses")
    if not all(text.startswith("/") and len(text) <= MAX_ADDRESS for text in value):
        raise bad_request("each of origins must be a multiaddr, such as /ip4/203.0.113.1/tcp/4001")


# Times of the specification.

# RFC 3339. Python keeps six digits of a fraction, and drops the others.
TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,30}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
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
    match = TIME.fullmatch(text)
    try:
        day, time, fraction, zone = match.groups("") if match else ("", "", "", "")
        seconds = int(datetime.fromisoformat(f"{day}T{time}{zone.upper()}").timestamp())
    except (ValueError, OverflowError):
        raise bad_request(
            f"{what} must be a time as in RFC 3339, such as 2020-07-27T17:32:28.276Z"
        ) from None
    digits = fraction.ljust(9, "0")[:9]
    return seconds * 1000 + int(digits[:3]), int(digits[3:])


# Read the filters of a list of requests.

MAX_CIDS: Final = 10  # the limit of the specification
STATUSES: Final[tuple[Status, ...]] = get_args(Status)


def read_query(parameters: QueryParams) -> tuple[PinQuery, frozenset[Status]]:
    """Return which requests to list: the query of the pins, and the statuses."""
    cids = _listed(parameters, "cid")
    if len(cids) > MAX_CIDS:
        raise bad_request(f"cid may name at most {MAX_CIDS} CIDs")
    statuses = _listed(parameters, "status") or ["pinned"]
    if not set(statuses) <= set(STATUSES):
        raise bad_request(f"status must be a list of {', '.join(STATUSES)}")
    match = parameters.get("match") or "exact"
    if match not in NAME_MATCHES:
        raise bad_request(f"match must be one of {', '.join(NAME_MATCHES)}")
    name = values.read_name(parameters.get("name"), most=MAX_NAME)
    meta = values.read_parameter(parameters, "meta", values.json_value)
    query = PinQuery(
        cids=tuple(str(values.read_cid(text)) for text in cids) or None,
        name_match=None if name is None else (match, name),
        earlier=values.read_parameter(parameters, "before", parse_moment),
        later=values.read_parameter(parameters, "after", parse_moment),
        matches=PinFilter(keyvalues=read_meta(meta)).fits if parameters.get("meta") else None,
        sort="moment",
        limit=values.page_limit(parameters),
    )
    return query, frozenset(cast("list[Status]", statuses))


def _listed(parameters: QueryParams, name: str) -> list[str]:
    """Return the values of a list, in one parameter with commas or in several parameters."""
    texts = ",".join(parameters.getlist(name)).split(",")
    return list(dict.fromkeys(text for text in texts if text))


# The objects of the specification that a client gets: ``PinStatus`` and ``Failure``.

REASONS: Final[Mapping[int, str]] = {400: "BAD_REQUEST", 401: "UNAUTHORIZED", 404: "NOT_FOUND"}


def pin_status(request: PinRequest, delegates: list[str]) -> dict[str, Any]:
    """Return the object ``PinStatus`` of a request."""
    meta = {key: value_text(value) for key, value in request.meta.items()}
    status = {
        "requestid": request.id,
        "status": request.status,
        "created": write_time(request.moment),
        "pin": members(cid=request.cid, name=request.name or None, meta=meta or None),
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


class PSACalls:
    """The calls of the API."""

    def __init__(self, service: Service, calls: ApiCalls) -> None:
        self._requests = service.requests
        self._calls = calls
        self._store = str(service.public.repository.path.absolute())

    def routes(self) -> list[BaseRoute]:
        """Return the routes below ``/psa``. The last one matches all other paths and methods."""
        pins, pin = f"{PREFIX}/pins", f"{PREFIX}/pins/{{id}}"
        calls = [
            ("GET", pins, self.list, "pinList"),
            ("POST", pins, self.add, "pinByHash"),
            ("GET", pin, self.get, "pinList"),
            ("POST", pin, self.replace, "pinByHash"),
            ("DELETE", pin, self.remove, "unpin"),
        ]
        others = AuthorizedEndpoint(_lacking, error_reply=failure_reply)
        return [*self._calls.routes(calls, failure_reply), Route(f"{PREFIX}/{{path:path}}", others)]

    async def list(self, request: Request) -> Response:
        """List one page of the requests that match, the newest first."""
        query, statuses = read_query(request.query_params)
        find = partial(self._requests.find, query, statuses)
        requests, count = await self._calls.queries.run(request, find)
        delegates = delegates_of(request, self._store)
        results = [pin_status(made, delegates) for made in requests]
        return JSONResponse({"count": count, "results": results})

    async def add(self, request: Request) -> Response:
        """Start to pin a CID."""
        pin = read_pin(await self._calls.bodies.json_object(request))
        made = await run_in_threadpool(self._requests.add, *pin)
        return self._status(request, made, ACCEPTED)

    async def get(self, request: Request) -> Response:
        """Reply with a request and its status."""
        get = partial(self._requests.get, request.path_params["id"])
        return self._status(request, await self._calls.queries.run(request, get))

    async def replace(self, request: Request) -> Response:
        """Pin another CID, or the same with another name, in place of a request."""
        self._calls.authorization.check(request, "unpin")
        pin = read_pin(await self._calls.bodies.json_object(request))
        replace = partial(self._requests.replace, request.path_params["id"], *pin)
        return self._status(request, await self._calls.queries.run(request, replace), ACCEPTED)

    async def remove(self, request: Request) -> Response:
        """Remove a request, and the pin unless another request needs it."""
        remove = partial(self._requests.remove, request.path_params["id"])
        if not await self._calls.queries.run(request, remove):
            raise _no_request(request)
        return Response(status_code=ACCEPTED)

    def _status(self, request: Request, made: PinRequest | None, status: int = 200) -> Response:
        if made is None:
            raise _no_request(request)
        return JSONResponse(pin_status(made, delegates_of(request, self._store)), status)


def _no_request(request: Request) -> Refusal:
    id_ = request.path_params["id"][:100]
    return Refusal(404, f"There is no pin request with the requestid {id_}")


async def _lacking(request: Request) -> Response:
    """Reply to calls that the API does not have."""
    if request.path_params["path"].partition("/")[0] == "pins":
        raise Refusal(405, "This address has no such method")
    raise Refusal(404, f"There is nothing at this address: requests are at {PREFIX}/pins")
