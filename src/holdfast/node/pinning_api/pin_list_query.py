"""Read the query parameters of `pinList` into a query to the repository.

The service does not have ``search``, ``sortBy`` and ``sortOrder``; the page of the node uses them.
"""

import json
from collections.abc import Mapping
from typing import Final, TypeVar

from holdfast.node.http_server.refusals import bad_request
from holdfast.node.pinning_api.keyvalue_conditions import keyvalues_matcher
from holdfast.node.pinning_api.metadata import parse_time
from holdfast.repository import PinQuery

T = TypeVar("T")

MAX_TEXT = 1000  # characters of a text to search for
DEFAULT_PAGE = 10
MAX_PAGE = 1000
STATUSES: Final[Mapping[str, bool | None]] = {"all": None, "pinned": True, "unpinned": False}
SORTS = {"date_pinned": "created", "name": "name", "size": "size", "mime_type": "type"}
ORDERS = {"ASC": False, "DESC": True}


def read_query(parameters: Mapping[str, str]) -> tuple[PinQuery, bool]:
    """Return the query, and whether the reply has the number of all matches."""
    conditions = parameters.get("metadata[keyvalues]")
    query = PinQuery(
        held=_choice(parameters, "status", STATUSES, "all"),
        cid=_text(parameters, "cid"),
        cid_contains=_text(parameters, "hashContains"),
        name_contains=_text(parameters, "metadata[name]"),
        contains=_text(parameters, "search") or None,
        created_from=_time(parameters, "pinStart"),
        created_to=_time(parameters, "pinEnd"),
        removed_from=_time(parameters, "unpinStart"),
        removed_to=_time(parameters, "unpinEnd"),
        size_min=_number(parameters, "pinSizeMin"),
        size_max=_number(parameters, "pinSizeMax"),
        matches=None if conditions is None else keyvalues_matcher(_json(conditions)),
        sort=_choice(parameters, "sortBy", SORTS, "date_pinned"),
        descending=_choice(parameters, "sortOrder", ORDERS, "DESC"),
        limit=_number(parameters, "pageLimit", default=DEFAULT_PAGE, most=MAX_PAGE),
        offset=_number(parameters, "pageOffset", default=0) or 0,
    )
    return query, parameters.get("includeCount", "true").lower() != "false"


def _text(parameters: Mapping[str, str], name: str) -> str | None:
    text = parameters.get(name)
    if text is not None and len(text) > MAX_TEXT:
        raise bad_request(f"{name} may have at most {MAX_TEXT} characters")
    return text


def _choice(parameters: Mapping[str, str], name: str, choices: Mapping[str, T], default: str) -> T:
    given = parameters.get(name, default)
    if given not in choices:
        raise bad_request(f"{name} must be one of {', '.join(choices)}")
    return choices[given]


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
    """Return the number in `text`; raise a `Refusal` if it is none, or larger than `most`."""
    if not text.isdecimal() or len(text) > 15 or (most is not None and int(text) > most):
        raise bad_request(f"{what} must be a whole number{f' up to {most}' if most else ''}")
    return int(text)


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise bad_request("metadata[keyvalues] must be JSON") from None
    return value
