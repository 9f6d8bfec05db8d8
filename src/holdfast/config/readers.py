"""Readers: each turns the text of an environment variable into the value of a field.

Each takes the name of the variable and its text, and returns the value or raises a `ConfigError`
that names the variable. The field's check then applies to the value.
"""

import json
from typing import Any, Final

from holdfast.config.secret import Secret
from holdfast.errors import ConfigError

MAX_DIGITS: Final = 30  # Python itself refuses thousands
FLAGS: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def text(_: str, value: str) -> str:
    """Return the text without outer whitespace."""
    return value.strip()


def secret(_: str, value: str) -> Secret:
    """Wrap a credential."""
    return Secret(value)


def several(_: str, value: str) -> tuple[str, ...]:
    """Split a list at its commas."""
    return tuple(each.strip() for each in value.split(",") if each.strip())


def flag(variable: str, value: str) -> bool:
    """Read ``true``, ``yes``, ``on`` or ``1``, or one of their opposites."""
    if value.strip().lower() not in FLAGS:
        raise ConfigError(f"{variable} must be true or false")
    return FLAGS[value.strip().lower()]


def whole(variable: str, value: str) -> int:
    """Read a whole number."""
    if not value.strip().isdecimal() or len(value) > MAX_DIGITS:
        raise ConfigError(f"{variable} must be a whole number")
    return int(value)


def number(variable: str, value: str) -> float:
    """Read a number."""
    try:
        return float(value)
    except ValueError:
        raise ConfigError(f"{variable} must be a number") from None


def numbers(variable: str, value: str) -> dict[str, float]:
    """Read numbers by name, such as ``attempts=6, cap=5``."""
    pairs = [each.partition("=") for each in value.split(",") if each.strip()]
    try:
        return {
            name.strip(): int(number) if number.strip().isdecimal() else float(number)
            for name, _, number in pairs
        }
    except ValueError:
        raise ConfigError(f"{variable} must be numbers by name, such as name=5") from None


def options(variable: str, value: str) -> dict[str, Any]:
    """Read a JSON object, such as ``{"network": "private"}``. Its values may be secret."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    del value, found
    raise ConfigError(f'{variable} must be a JSON object, such as {{"name": "value"}}')
