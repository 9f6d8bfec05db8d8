"""The configuration of a command, with errors in the words of the command line."""

import re
from collections.abc import Mapping
from typing import Final

from holdfast.config import ClientConfig
from holdfast.config.connections import fields_of
from holdfast.config.layers import Setting
from holdfast.errors import ConfigError

_IN_PYTHON: Final = re.compile(r"\b([a-z_]+)=(True|\d+|'[^']*')")


def config_of(settings: Mapping[str, Setting]) -> ClientConfig:
    """Return the configuration that `settings` describe, or raise one error for all of theirs."""
    fields = fields_of(settings)
    try:
        return ClientConfig(**fields)
    except ConfigError as error:
        raise ConfigError(_IN_PYTHON.sub(_as_flag, str(error))) from None


def _as_flag(match: re.Match[str]) -> str:
    """Return a field and value such as ``cid_version=0`` as the flag that sets it."""
    name, value = match.groups()
    flag = f"--{name.replace('_', '-')}"
    return flag if value == "True" else f"{flag} {value.strip(chr(39))}"
