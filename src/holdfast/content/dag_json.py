"""dag-json: values of the IPLD data model as JSON, and the links in them.

A link is ``{"/": "CID"}``, bytes are ``{"/": {"bytes": "base64"}}`` without padding. We write no
spaces, and the keys of a map in the order of their bytes. We read any order, white space and
padding, as Kubo does. Plain JSON, the codec ``json``, has neither links nor bytes.

A value may be nested `MAX_DEPTH` deep. `json` is recursive, and Python's usual limit of 1000 calls
leaves room for that.
"""

import json
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from holdfast.content import dag_cbor
from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError, MalformedError, SerializationError

MAX_DEPTH: Final = 512
_TOKENS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_INT_LIMIT: Final = 1 << 64
_MAX_DIGITS: Final = 21  # of a number below the limit, with its sign


def decode(block: bytes, *, strict: bool = True) -> Any:
    """Return the value in `block`; `strict` is dag-json, with links as `CID` and bytes as `bytes`.

    Raise `MalformedError` if it is not exactly one value.

    Example:
        >>> decode(b'{"a": [1, {"/": {"bytes": "aGk"}}]}')
        {'a': [1, b'hi']}
    """
    try:
        text = block.decode()
        if _is_too_deep(text):
            raise MalformedError(f"JSON: nested more than {MAX_DEPTH} deep")
        value = json.loads(
            text,
            object_pairs_hook=_read_map if strict else _unique,
            parse_int=_read_int,
            parse_float=_read_float,
            parse_constant=_refuse_constant,
        )
        if _SURROGATE.search(text):  # a pair is one character; a single one is none
            json.dumps(value, default=as_json, ensure_ascii=False).encode()
        return value
    except UnicodeError:
        raise MalformedError("JSON: the text is not UTF-8") from None
    except RecursionError:  # with little of Python's stack left
        raise MalformedError("JSON: nested too deep") from None
    except json.JSONDecodeError as error:
        raise MalformedError(f"JSON: {error}") from None


def encode(value: Any) -> bytes:
    """Return the dag-json of `value`; raise `SerializationError` if it has none.

    Example:
        >>> encode({"b": b"hi", "a": [1]})
        b'{"a":[1],"b":{"/":{"bytes":"aGk"}}}'
    """
    dag_cbor.encode(value)  # what it refuses has no form here either
    for item in nested(value):
        if isinstance(item, dict) and _stands_for_other(item) is not None:
            raise SerializationError(
                'a map with the only key "/" means a link or bytes in dag-json'
            )
    try:
        text = json.dumps(
            value, default=as_json, ensure_ascii=False, sort_keys=True, separators=(",", ":")
        )
    except RecursionError:
        raise SerializationError("the value is nested too deep") from None
    if _is_too_deep(text):
        raise SerializationError(f"the value is nested more than {MAX_DEPTH} deep")
    return text.encode()


def links(block: bytes) -> list[CID]:
    """Return the links in a block of dag-json, in their order."""
    return [item for item in nested(decode(block)) if isinstance(item, CID)]


def nested(value: Any) -> Iterator[Any]:
    """Yield `value` and everything inside its lists and maps, in order."""
    pending = [value]
    while pending:
        item = pending.pop()
        yield item
        if isinstance(item, dict):
            pending += reversed(item.values())
        elif isinstance(item, list | tuple):
            pending += reversed(item)


def _is_too_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = 0
    for token in _TOKENS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > MAX_DEPTH:
            return True
    return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise MalformedError("JSON: a map has the same key twice")
    return entries


def _read_map(pairs: list[tuple[str, Any]]) -> Any:
    entries = _unique(pairs)
    match _stands_for_other(entries):
        case str() as text:
            try:
                return CID.parse(text)
            except InvalidCIDError as error:
                raise MalformedError(f"JSON: the CID of a link is wrong: {error.reason}") from None
        case {"bytes": text}:
            if _BASE64.fullmatch(text) is None:
                raise MalformedError("JSON: the bytes are not base64")
            try:
                text = text.rstrip("=")
                return b64decode(text + "=" * (-len(text) % 4), validate=True)
            except ValueError:
                raise MalformedError("JSON: the bytes are not base64") from None
    return entries


def _stands_for_other(entries: dict[str, Any]) -> "str | dict[str, str] | None":
    """Return what a map means that stands for a link or bytes; None for any other map."""
    match entries:
        case {"/": str() as text} if len(entries) == 1:
            return text
        case {"/": {"bytes": str() as text} as inner} if len(entries) == len(inner) == 1:
            return {"bytes": text}
    return None


def as_json(value: Any) -> Any:
    """Return the form of a link or of bytes in dag-json: the `default` for `json.dumps`."""
    match value:
        case CID():
            return {"/": str(value)}
        case bytes():
            return {"/": {"bytes": b64encode(value).rstrip(b"=").decode()}}
    raise TypeError(f"a {type(value).__name__}")


def _read_int(digits: str) -> int:
    number = int(digits) if len(digits) <= _MAX_DIGITS else _INT_LIMIT
    if not -_INT_LIMIT <= number < _INT_LIMIT:
        raise MalformedError("JSON: an integer has more than 64 bits")
    return number


def _read_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise MalformedError("JSON: a number is too large")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedError(f"JSON: {name} is not a number")
