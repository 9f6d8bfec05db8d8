"""Fields of the configuration out of the environment: each by its variable, from its text."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from holdfast.config.secret import Secret
from holdfast.errors import ConfigError

PREFIX: Final = "HOLDFAST_"
MAX_DIGITS: Final = 30  # Python itself refuses thousands
FLAGS: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def variable_of(field: str) -> str:
    """The variable of a field: ``HOLDFAST_`` and its name in capitals."""
    return PREFIX + field.upper()


def read_environment(fields: Iterable[str]) -> dict[str, Any]:
    """The values of those `fields` whose variables are set, and not to nothing."""
    return {
        field: _read(field, variable_of(field))
        for field in fields
        if os.environ.get(variable_of(field), "").strip()
    }


def _read(field: str, variable: str) -> Any:
    reader = READERS.get(field)
    if reader is None:
        raise ConfigError(f"{variable}: {field} cannot be set from the environment")
    return reader(variable, os.environ[variable])


def _text(_: str, text: str) -> str:
    return text.strip()


def _secret(_: str, text: str) -> Secret:
    return Secret(text)


def _several(_: str, text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _flag(variable: str, text: str) -> bool:
    if text.strip().lower() not in FLAGS:
        raise ConfigError(f"{variable} must be true or false")
    return FLAGS[text.strip().lower()]


def _whole(variable: str, text: str) -> int:
    if not text.strip().isdecimal() or len(text) > MAX_DIGITS:
        raise ConfigError(f"{variable} must be a whole number")
    return int(text)


def _number(variable: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{variable} must be a number") from None


def _numbers(variable: str, text: str) -> dict[str, float]:
    """``attempts=6, cap=5`` as a mapping."""
    pairs = [each.partition("=") for each in text.split(",") if each.strip()]
    try:
        return {
            name.strip(): int(value) if value.strip().isdecimal() else float(value)
            for name, _, value in pairs
        }
    except ValueError:
        raise ConfigError(f"{variable} must be numbers by name, such as name=5") from None


READERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "provider": _text,
    "provider_token": _secret,
    "gateway_url": _several,
    "gateway_token": _secret,
    "pin_api_url": _text,
    "cid_version": _whole,
    "profile": _text,
    "verify": _flag,
    "timeouts": _numbers,
    "retries": _numbers,
    "rate_limit": _number,
    "hedge_after": _number,
    "max_json_bytes": _whole,
    "max_unverified_bytes": _whole,
    "path": _text,
    "cache_path": _text,
    "proxy": _secret,
    "trust_env": _flag,
    "allow_insecure": _flag,
}
