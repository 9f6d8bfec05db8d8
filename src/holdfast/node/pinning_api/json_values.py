"""JSON in requests. Content keeps the spelling of its numbers, so that its CID does not change."""

import json
import math
import re
import secrets
from typing import Any

from holdfast.node.http_server.refusals import bad_request
from holdfast.protocol.json_text import refuse_constant

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
