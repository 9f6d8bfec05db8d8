"""Read the filters of a list of requests."""

import json
from dataclasses import dataclass
from typing import Final, cast

from starlette.datastructures import QueryParams

from holdfast.node.http_server.refusals import bad_request
from holdfast.node.pinning_api.pin_list_query import whole_number
from holdfast.node.psa_api.pin_request import (
    MAX_NAME,
    STATUSES,
    Status,
    parse_time,
    read_cid,
    read_meta,
)
from holdfast.records import PinFilter
from holdfast.repository import PinQuery
from holdfast.repository.pin_queries import NAME_MATCHES, Moment

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
    return parse_time(text, name) if text else None


def _read_meta(text: str | None) -> PinFilter | None:
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise bad_request("meta must be a JSON object") from None
    return PinFilter(keyvalues=read_meta(value))
