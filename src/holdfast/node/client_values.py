"""What clients send in JSON, in forms and in queries: read into values of ours, or refused."""

import json
import math
import operator
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, TypeVar

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025, Profile
from holdfast.errors import InvalidCIDError
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.protocol.json_text import refuse_constant
from holdfast.records import same_value
from holdfast.repository import PinQuery

# JSON in requests. Content keeps the spelling of its numbers, so that its CID does not change.

# Parsing a fraction and writing it again may change its spelling. `parse_json` therefore returns a
# fraction as a string with a random mark, which no client can guess.
_MARK = secrets.token_hex(16)
_MARKED = re.compile(f'"{_MARK}:([^"]*)"')
_DECODER = json.JSONDecoder(
    parse_float=lambda number: f"{_MARK}:{number}", parse_constant=refuse_constant
)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def parse_json(text: bytes) -> Any:
    """Return the value of `text`, with fractions as marked strings; raise a `Refusal` if invalid.

    Pass the value to `write_json` or `with_numbers`.
    """
    try:
        return _DECODER.decode(text.decode("utf-8-sig"))
    except RecursionError:
        raise bad_request("The JSON is nested too deeply") from None
    except ValueError as error:
        raise bad_request(f"The body is not JSON: {error}") from None


def write_json(value: Any) -> str:
    """Return a value of `parse_json` as compact JSON, with each fraction as the client wrote it."""
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except RecursionError:
        raise bad_request("The JSON is nested too deeply") from None
    except UnicodeEncodeError:
        raise bad_request("The JSON holds text with a lone surrogate") from None
    except ValueError as error:
        raise bad_request(f"The JSON cannot be stored: {error}") from None
    return _MARKED.sub(r"\1", text) if _MARK in text else text


def with_numbers(value: Any) -> Any:
    """Return a value of `parse_json` with floats for fractions: for metadata, not for content."""
    if value is None:
        return None
    return _NUMBERS.decode(write_json(value))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise bad_request("A number is too large")
    return number


_NUMBERS = json.JSONDecoder(parse_float=_finite)


# Read the metadata and options of a pin, and its times.

MAX_KEYVALUES: Final = 10  # the service's limit
MAX_NAME: Final = 245
MAX_VALUE: Final = 1000  # characters of a key or value


@dataclass(frozen=True, slots=True)
class PinMetadata:
    """The name and the key-values of a pin."""

    name: str = ""
    keyvalues: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PinOptions:
    """The options of a pin: its layout and its group."""

    cid_version: int = 1
    wrap: bool = False
    group_id: str | None = None

    @property
    def profile(self) -> Profile:
        """The profile for the CID version."""
        return UNIXFS_V1_2025 if self.cid_version else UNIXFS_V0_2015


def read_metadata(value: Any) -> PinMetadata:
    """Return the value of ``pinataMetadata``; raise a `Refusal` if it is invalid."""
    if value is None:
        return PinMetadata()
    if not isinstance(value, dict):
        raise bad_request("pinataMetadata must be an object")
    name = value.get("name")
    if not isinstance(name, str | None) or len(name or "") > MAX_NAME:
        raise bad_request(
            f"The name in pinataMetadata must be a string of up to {MAX_NAME} characters"
        )
    return PinMetadata(name or "", read_keyvalues(value.get("keyvalues")))


def read_keyvalues(value: Any) -> dict[str, Any]:
    """Return the key-values of a pin: up to ten strings, numbers, booleans or dates."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request("keyvalues must be an object")
    check_count(value)
    for key, each in value.items():
        if isinstance(each, dict | list):
            raise bad_request("The values in keyvalues must be strings, numbers or booleans")
        if len(key) > MAX_VALUE or is_long(each):
            raise bad_request(
                f"A key or value in keyvalues may have at most {MAX_VALUE} characters"
            )
    return value


def check_count(keyvalues: Mapping[str, Any]) -> None:
    """Raise a `Refusal` if there are more key-values than a pin may have."""
    if len(keyvalues) > MAX_KEYVALUES:
        raise bad_request(f"keyvalues must be an object with at most {MAX_KEYVALUES} members")


def merge_keyvalues(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return key-values after a change. A key with the value None is removed.

    Raise a `Refusal` if there are too many then.
    """
    merged = {**before, **changes}
    left = {key: value for key, value in merged.items() if value is not None}
    check_count(left)
    return left


def is_long(value: Any) -> bool:
    """Return whether a key or value has more than `MAX_VALUE` characters."""
    return len(str(value)) > MAX_VALUE


def read_options(value: Any) -> PinOptions:
    """Return the value of ``pinataOptions``. Unknown members are ignored, as the service does."""
    if value is None:
        return PinOptions()
    if not isinstance(value, dict):
        raise bad_request("pinataOptions must be an object")
    version = value.get("cidVersion", 1)
    if version is None:
        version = 1
    if str(version) not in {"0", "1"} or isinstance(version, bool):
        raise bad_request("cidVersion must be 0 or 1")
    wrap = value.get("wrapWithDirectory", False)
    if not isinstance(wrap, bool | None):
        raise bad_request("wrapWithDirectory must be true or false")
    group = value.get("groupId")
    if not isinstance(group, str | None):
        raise bad_request("groupId must be a string")
    return PinOptions(int(version), bool(wrap), group or None)


def iso_time(milliseconds: int) -> str:
    """Return a time in the service's format."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str, what: str) -> int:
    """Return an ISO 8601 time in milliseconds; raise a `Refusal` if it is invalid."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise bad_request(f"{what} must be an ISO 8601 date") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def read_cid(given: object) -> CID:
    """Return the CID that a request names."""
    try:
        return CID.parse(given if isinstance(given, str) else "")
    except InvalidCIDError as error:
        raise Refusal(400, f"Invalid CID: {error.reason}", reason="INVALID_CID") from None


# The query parameters of `pinList`. The service does not have ``search``, ``sortBy`` and
# ``sortOrder``; the page of the node uses them.

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
