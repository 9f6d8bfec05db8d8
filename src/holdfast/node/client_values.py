"""What clients send in JSON, in forms and in queries: read into values of ours, or refused."""

import json
import math
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.protocol.json_text import refuse_constant
from holdfast.records import merged_keyvalues

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
    return None if value is None else _NUMBERS.decode(write_json(value))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise bad_request("A number is too large")
    return number


_NUMBERS = json.JSONDecoder(parse_float=_finite)


# Names, key-values, times and CIDs.

MAX_KEYVALUES: Final = 10  # the service's limit
MAX_NAME: Final = 245
MAX_VALUE: Final = 1000  # characters of a key or value


def read_name(value: Any, what: str = "name", most: int = MAX_NAME) -> str | None:
    """Return the name of a pin, a file or a group."""
    if not isinstance(value, str | None) or len(value or "") > most:
        raise bad_request(f"{what} must be a string of up to {most} characters")
    return value


def read_keyvalues(value: Any) -> dict[str, Any]:
    """Return the key-values of a pin: up to ten strings, numbers, booleans or dates."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request("keyvalues must be an object")
    check_count(value)
    for key, member in value.items():
        if isinstance(member, dict | list):
            raise bad_request("The values in keyvalues must be strings, numbers or booleans")
        if len(key) > MAX_VALUE or is_long(member):
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
    merged = merged_keyvalues(before, changes)
    check_count(merged)
    return merged


def is_long(value: Any) -> bool:
    """Return whether a key or value has more than `MAX_VALUE` characters."""
    return len(str(value)) > MAX_VALUE


def read_cid(value: object) -> CID:
    """Return the CID that a request names."""
    try:
        return CID.parse(value if isinstance(value, str) else "")
    except InvalidCIDError as error:
        raise Refusal(400, f"Invalid CID: {error.reason}", reason="INVALID_CID") from None


# Query parameters. Each kind has a function of a text and of the parameter's name.

T = TypeVar("T")

MAX_TEXT: Final = 1000  # characters of a text to search for
DEFAULT_PAGE: Final = 10
MAX_PAGE: Final = 1000
ORDERS: Final = {"ASC": False, "DESC": True}


def read_parameter(
    parameters: Mapping[str, str], name: str, read: Callable[[str, str], T]
) -> T | None:
    """Return what `read` makes of a parameter; None if it is missing or empty."""
    text = parameters.get(name)
    return read(text, name) if text else None


def short_text(text: str, what: str) -> str:
    """Return a text that is not too long to search for."""
    if len(text) > MAX_TEXT:
        raise bad_request(f"{what[:40]} may have at most {MAX_TEXT} characters")
    return text


def choice(parameters: Mapping[str, str], name: str, choices: Mapping[str, T], default: str) -> T:
    """Return the value of one of `choices`."""
    word = parameters.get(name, default)
    if word not in choices:
        raise bad_request(f"{name} must be one of {', '.join(choices)}")
    return choices[word]


def whole_number(text: str, what: str, *, most: int | None = None) -> int:
    """Return the number in `text`; raise a `Refusal` if it is none, or larger than `most`."""
    if not text.isdecimal() or len(text) > 15 or (most is not None and int(text) > most):
        raise bad_request(f"{what} must be a whole number{f' up to {most}' if most else ''}")
    return int(text)


def page_size(text: str, what: str) -> int:
    """Return how many items a page has."""
    return whole_number(text, what, most=MAX_PAGE)


def page_limit(parameters: Mapping[str, str]) -> int:
    """Return the parameter ``limit``, which is not 0."""
    limit = read_parameter(parameters, "limit", page_size)
    if limit == 0:
        raise bad_request(f"limit must be a whole number from 1 to {MAX_PAGE}")
    return limit or DEFAULT_PAGE


def json_value(text: str, what: str) -> Any:
    """Return the value of a JSON text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise bad_request(f"{what} must be JSON") from None
