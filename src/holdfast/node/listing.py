"""The query parameters of `pinList`, as a query to the repository."""

import json
from collections.abc import Mapping

from holdfast.node.metadata import keyvalues_matcher, parse_time
from holdfast.node.replies import bad_request
from holdfast.repository import PinQuery

DEFAULT_PAGE = 10
MAX_PAGE = 1000
STATUSES = {"all": None, "pinned": True, "unpinned": False}


def read_query(parameters: Mapping[str, str]) -> tuple[PinQuery, bool]:
    """What is asked for, and whether to count it all."""
    status = parameters.get("status", "all")
    if status not in STATUSES:
        raise bad_request(f"status must be one of {', '.join(STATUSES)}")
    conditions = parameters.get("metadata[keyvalues]")
    query = PinQuery(
        held=STATUSES[status],
        cid=parameters.get("cid"),
        cid_contains=parameters.get("hashContains"),
        name_contains=parameters.get("metadata[name]"),
        created_from=_time(parameters, "pinStart"),
        created_to=_time(parameters, "pinEnd"),
        removed_from=_time(parameters, "unpinStart"),
        removed_to=_time(parameters, "unpinEnd"),
        size_min=_number(parameters, "pinSizeMin"),
        size_max=_number(parameters, "pinSizeMax"),
        matches=None if conditions is None else keyvalues_matcher(_json(conditions)),
        limit=_number(parameters, "pageLimit", default=DEFAULT_PAGE, most=MAX_PAGE),
        offset=_number(parameters, "pageOffset", default=0) or 0,
    )
    return query, parameters.get("includeCount", "true").lower() != "false"


def _time(parameters: Mapping[str, str], name: str) -> int | None:
    return parse_time(parameters[name], name) if parameters.get(name) else None


def _number(
    parameters: Mapping[str, str],
    name: str,
    *,
    default: int | None = None,
    most: int | None = None,
) -> int | None:
    text = parameters.get(name)
    return whole_number(text, name, most=most) if text else default


def whole_number(text: str, what: str, *, most: int | None = None) -> int:
    """The number that a parameter spells; a `Refusal` where it spells none, or too large a one."""
    if not text.isdecimal() or len(text) > 15 or (most is not None and int(text) > most):
        raise bad_request(f"{what} must be a whole number{f' up to {most}' if most else ''}")
    return int(text)


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise bad_request("metadata[keyvalues] must be JSON") from None
    return value
