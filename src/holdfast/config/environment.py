"""Read fields of the configuration from ``HOLDFAST_*`` environment variables."""

import os
from collections.abc import Iterable
from typing import Any

from holdfast.config.fields import FIELDS, Field
from holdfast.config.wrapping import wrap_secret
from holdfast.errors import ConfigError


def read_environment(names: Iterable[str]) -> dict[str, Any]:
    """Return the values of those fields whose variables are set and not blank, secrets wrapped."""
    return {name: _read(FIELDS[name]) for name in names if _text(FIELDS[name]).strip()}


def _text(field: Field) -> str:
    return os.environ.get(field.variable, "")


def _read(field: Field) -> Any:
    if field.read is None:
        raise ConfigError(f"{field.variable}: {field.name} cannot be set from the environment")
    return wrap_secret(field.name, field.read(field.variable, _text(field)))
