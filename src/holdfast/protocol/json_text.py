"""Write JSON compactly and read it strictly. What JSON cannot express is an error."""

import json
from pathlib import PurePath
from typing import Any, Final, NoReturn

from holdfast.content.media_types import AGE_MARK
from holdfast.errors import SerializationError
from holdfast.hints import advise

BYTE_ORDER_MARK: Final = "\ufeff"  # allowed before the text; the codec utf-8-sig is slow


def refuse_constant(constant: str) -> NoReturn:
    """Raise `ValueError` for NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(f"{constant} is not JSON")


# Made once: `json.dumps` and `json.loads` make new ones for other than their default options.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER: Final = json.JSONDecoder(parse_constant=refuse_constant)
_CONTAINERS: Final = (dict, list, tuple)
_FILES: Final = (bytes, bytearray, memoryview, PurePath)


def to_text(value: Any) -> str:
    """Return the JSON text of `value`: no spaces, non-ASCII as it is, keys in the caller's order.

    Example:
        >>> to_text({"name": "Zoë", "tags": ("a", 1)})
        '{"name":"Zoë","tags":["a",1]}'
    """
    try:
        text = _ENCODER.encode(value)
        _check_keys(value)
        text.encode()
    except UnicodeEncodeError:
        raise SerializationError("the value holds text with a lone surrogate") from None
    except RecursionError:
        raise SerializationError("the value is nested too deeply for JSON") from None
    except (TypeError, ValueError) as error:
        wrong = SerializationError(f"the value cannot be written as JSON: {error}")
        if isinstance(value, _FILES) or hasattr(value, "read"):
            advise(wrong, "for files and bytes, use `upload`", "use `holdfast upload`")
        elif "Object of type" in str(error):
            advise(wrong, "convert it first: `.isoformat()`, `list(…)`, `dataclasses.asdict(…)`")
        raise wrong from None
    return text


def from_text(data: bytes | bytearray) -> Any:
    """Return the value of the JSON text `data`, which must be UTF-8."""
    try:
        return _DECODER.decode(data.decode().removeprefix(BYTE_ORDER_MARK))
    except UnicodeDecodeError:
        raise SerializationError("the content is not JSON: it is not UTF-8 text") from None
    except RecursionError:
        raise SerializationError("the JSON is nested too deeply to be read") from None
    except ValueError as error:
        raise SerializationError(f"the content is not JSON: {error}") from None


def value_of(data: bytes | bytearray) -> Any:
    """Return the value of the JSON text `data`; None if it is something else."""
    try:
        return from_text(data)
    except SerializationError:
        return None


def text_at(value: Any, name: str) -> str:
    """Return the text that the JSON object `value` has under `name`; "" if there is none."""
    text = value.get(name) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


def from_content(data: bytes | bytearray) -> Any:
    """Return the value of the JSON text `data`, which a user asked for."""
    try:
        return from_text(data)
    except SerializationError as error:
        if data.startswith(AGE_MARK):
            words = "the content is encrypted: use {}"
            advise(error, words.format("`client.encrypted(…)`"), words.format("--decrypt"))
        words = "for content that is not JSON, use `{}download`"
        raise advise(error, words.format(""), words.format("holdfast ")) from None


def _check_keys(value: Any) -> None:
    """Raise `TypeError` for a key that is not a string: `json` converts numbers and None."""
    pending = [value]
    while pending:
        container = pending.pop()
        if isinstance(container, dict):
            for key, member in container.items():
                if not isinstance(key, str):
                    raise TypeError(f"keys must be strings, not {type(key).__name__}")
                if isinstance(member, _CONTAINERS):
                    pending.append(member)
        elif isinstance(container, _CONTAINERS):
            pending += [member for member in container if isinstance(member, _CONTAINERS)]
