"""Wrap the secrets among configuration values as `Secret`, where the values come in.

Tracebacks and error trackers show the local variables of every frame. So a value that may be a
secret is wrapped before any function that can fail holds it in a variable.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from holdfast.config.fields import FIELDS
from holdfast.config.secret import Secret

Function = TypeVar("Function", bound=Callable[..., Any])

MAX_NAME: Final = 40  # characters; a longer text where a short name belongs may be a credential


def takes_secrets(function: Function) -> Function:
    """Decorate a function that takes configuration values, so that it gets their secrets wrapped.

    Mappings and keyword arguments are wrapped by field name. A plain string or bytes argument is
    wrapped as a whole: it may be a token in the place of a configuration.
    """
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **fields: Any) -> Any:
            args, fields = _wrap_arguments(args, fields)
            return await function(*args, **fields)

        return cast("Function", awaited)

    @functools.wraps(function)
    def call(*args: Any, **fields: Any) -> Any:
        args, fields = _wrap_arguments(args, fields)
        return function(*args, **fields)

    return cast("Function", call)


def wrap_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration `values` by field name, with the secrets among them wrapped."""
    return {name: wrap_secret(name, values[name]) for name in values}


def wrap_secret(name: str, value: Any) -> Any:
    """Return the `value` of the field `name`, wrapped if it is or may be a secret.

    A field that does not exist may be a secret field whose name is mistyped. A URL with a user name
    or a query may hold a credential, and so may a long text where a short name belongs. Checks
    refuse such values later, without showing them.
    """
    if value is None or isinstance(value, Secret):
        return value
    field = _BY_SPELLING.get(_spelling(name))
    if field is None or field.secret:
        return Secret(value)
    if field.is_url and isinstance(value, list | tuple):
        return tuple(wrap_secret(name, each) for each in value)
    if field.is_url:
        is_safe = not (isinstance(value, str) and ("@" in value or "?" in value))
    else:
        is_safe = field.is_folder or not isinstance(value, str | bytes) or len(value) <= MAX_NAME
    return value if is_safe else Secret(value)


def _wrap_arguments(
    args: tuple[Any, ...], fields: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(_wrap_argument, args)), wrap_secrets(fields)


def _wrap_argument(value: Any) -> Any:
    if isinstance(value, Mapping):
        return wrap_secrets(value)
    return Secret(value) if isinstance(value, str | bytes) else value  # type: ignore[arg-type]


def _spelling(name: object) -> str:
    """Return `name` in lower case without underscores, the same for both spellings of a field."""
    return str(name).lower().replace("_", "")


_BY_SPELLING: Final = {_spelling(name): field for name, field in FIELDS.items()}
