"""Read the query parameters of `pinList` into a query to the repository.

The service does not have ``search``, ``sortBy`` and ``sortOrder``; the page of the node uses them.
"""

import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from holdfast.node.http_server.refusals import bad_request
from holdfast.node.pinning_api.metadata import MAX_KEYVALUES, MAX_VALUE, is_long, parse_time
from holdfast.records import same_value
from holdfast.repository import PinQuery

# Conditions on the key-values of pins, in the service's shape, matched in bounded time.
#
# Clients cannot use regular expressions: some take exponential time, and Python holds its global
# lock while it matches, so one of them would stop the whole node.

MAX_PATTERN: Final = 200
MAX_SUBJECT: Final = 1000

Check: TypeAlias = Callable[[Any], bool]


def keyvalues_matcher(conditions: Any) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that tells whether key-values meet all `conditions`.

    The conditions have the service's shape: ``{key: {value, op, secondValue}}``.
    """
    if not isinstance(conditions, dict) or len(conditions) > MAX_KEYVALUES:
        raise bad_request(
            f"metadata[keyvalues] must be an object with at most {MAX_KEYVALUES} members"
        )
    checks = [(key, _check(condition)) for key, condition in conditions.items()]

    def matches(keyvalues: Mapping[str, Any]) -> bool:
        return all(key in keyvalues and check(keyvalues[key]) for key, check in checks)

    return matches


def _check(condition: Any) -> Check:
    if not isinstance(condition, dict) or "value" not in condition:
        raise bad_request("A condition in metadata[keyvalues] needs a value and an op")
    name = condition.get("op", "eq")
    value, second = condition["value"], condition.get("secondValue")
    if name in REGULAR_EXPRESSIONS:
        raise bad_request(f"The node has no regular expressions: use like or iLike, not {name}")
    if not isinstance(name, str) or name not in OPERATIONS:
        raise bad_request(f"Unknown op in metadata[keyvalues]; use {', '.join(OPERATIONS)}")
    for each in (value, second):
        if isinstance(each, dict | list):
            raise bad_request("A value in metadata[keyvalues] must be a string, number or boolean")
        if is_long(each):
            raise bad_request(
                f"A value in metadata[keyvalues] may have at most {MAX_VALUE} characters"
            )
    check = OPERATIONS[name](value, second)

    def run(found: Any) -> bool:
        try:
            return check(found)
        except TypeError:
            return False  # text and a number cannot be compared

    return run


def _compared(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Check]:
    return lambda value, _: lambda found: bool(compare(found, value))


def _like(*, ignore_case: bool = False, wanted: bool = True) -> Callable[[Any, Any], Check]:
    def operation(pattern: Any, _: Any) -> Check:
        matches = like(pattern, ignore_case=ignore_case)
        return lambda found: matches(str(found)) is wanted

    return operation


REGULAR_EXPRESSIONS: Final = ("regexp", "iRegexp")
OPERATIONS: Final[Mapping[str, Callable[[Any, Any], Check]]] = {
    "eq": _compared(same_value),
    "ne": _compared(lambda found, value: not same_value(found, value)),
    "gt": _compared(operator.gt),
    "gte": _compared(operator.ge),
    "lt": _compared(operator.lt),
    "lte": _compared(operator.le),
    "between": lambda low, high: lambda found: bool(low <= found <= high),
    "notBetween": lambda low, high: lambda found: not low <= found <= high,
    "like": _like(),
    "notLike": _like(wanted=False),
    "iLike": _like(ignore_case=True),
    "notILike": _like(ignore_case=True, wanted=False),
}


def like(pattern: Any, *, ignore_case: bool = False) -> Callable[[str], bool]:
    """Return a function that tells whether a text matches `pattern`.

    ``%`` matches any number of characters, ``_`` matches one. The parts between the ``%`` are
    searched for in order, each as far to the left as possible. No part is searched for twice, so
    the work is at most the length of the text times that of the pattern. A text of more than
    `MAX_SUBJECT` characters does not match.
    """
    text = str(pattern)
    if len(text) > MAX_PATTERN:
        raise bad_request(
            f"A pattern in metadata[keyvalues] may have at most {MAX_PATTERN} characters"
        )
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    parts = [
        re.compile("".join("." if each == "_" else re.escape(each) for each in part), flags)
        for part in text.split("%")
    ]
    first, *middle = parts
    if not middle:
        return lambda found: len(found) <= MAX_SUBJECT and first.fullmatch(found) is not None
    last = middle.pop()
    last_size = len(text.rpartition("%")[2])

    def matches(found: str) -> bool:
        start = first.match(found) if len(found) <= MAX_SUBJECT else None
        if start is None:
            return False
        position = start.end()
        for part in middle:
            place = part.search(found, position)
            if place is None:
                return False
            position = place.end()
        end = len(found) - last_size
        return end >= position and last.match(found, end) is not None

    return matches


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
