"""Named connections: which one is in use, and the settings that it has.

A connection is a table ``[connections.NAME]`` in the user's ``holdfast.toml``. It has fields of the
configuration; its tokens may also be in files or in environment variables. The name of a provider
that works without a token is a connection too, unless the user defines one of that name.
"""

import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.cli import tokens
from holdfast.cli.options import USE
from holdfast.cli.setting_layers import (
    CONNECTIONS,
    Layer,
    Setting,
    checked,
    in_folder,
    user_file,
    user_layer,
)
from holdfast.config.fields import FIELDS, unknown_field
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.hints import did_you_mean
from holdfast.registry import providers_without_token

PROJECTS: Final = "projects"
"""The key by which the user lets the files of projects choose a connection."""

TOKEN_KEYS: Final = {
    "provider_token": ("token_file", "token_env"),
    "gateway_token": ("gateway_token_file", "gateway_token_env"),
}
"""The keys that say in which file or variable a token is, for each field that is a token."""

ADDRESSES: Final = {"provider_token": "pin_api_url", "gateway_token": "gateway_url"}
"""The field with the address that a token is for. Another address does not get the token."""

OWN_KEYS: Final = (PROJECTS, *(key for keys in TOKEN_KEYS.values() for key in keys))
"""The keys of a connection beside the fields of the configuration."""

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLEARLY_A_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,39}")  # and not a token by mistake

Tables = Mapping[str, Any]
"""The connections that the user defines, by name."""


def take_tables(own: Layer) -> Tables:
    """Remove the connections from the settings of the user's file, and return them."""
    if CONNECTIONS not in own or own[CONNECTIONS].error:
        return {}
    tables: Tables = own.pop(CONNECTIONS).value
    return tables


def known_connections() -> list[str]:
    """Return the names of the connections that the user defines, or raise ConfigError."""
    own = user_layer()
    for name in (str(user_file()), CONNECTIONS):
        if name in own and own[name].error:
            raise ConfigError(own[name].error)
    return list(take_tables(own))


def choose(layers: Sequence[Layer], tables: Tables) -> Setting | None:
    """Return the connection in use with the source that chose it, or with an error; None if none.

    `layers` are the sources of settings, the strongest first. The first of them that names a
    connection or a provider decides.
    """
    deciding = [layer for layer in layers if USE in layer or "provider" in layer]
    if not deciding or USE not in deciding[0]:
        return None
    use, others = deciding[0][USE], deciding[1:2]
    is_usual = others and USE not in others[0] and others[0]["provider"].value == use.value
    if "provider" in deciding[0]:
        error = two_choices(use.source, deciding[0]["provider"].source)
    elif use.error:
        error = use.error
    elif use.value in tables:
        error = "" if isinstance(tables[use.value], Mapping) else f"{_place(use)} is not a table"
    elif is_usual:
        return None  # the name of the provider that is used without a connection
    else:
        known = providers_without_token()
        error = (
            "" if use.value in known else f"{use.source}: {unknown_connection(use.value, tables)}"
        )
    return use._replace(error=error)


def two_choices(use: str, provider: str) -> str:
    """Return the error for a connection and a provider that are chosen in the same source."""
    both = f"{use} and {provider}" if use != provider else f"{use}: {USE} and provider"
    return f"{both} both choose where content goes: keep one of them"


def unknown_connection(name: str, defined: Iterable[str]) -> str:
    """Return the error for a name that is neither a connection nor a provider."""
    known = sorted({*defined, *providers_without_token()})
    question = did_you_mean(name, known)
    question += " " if question else ""
    return (
        f"unknown connection {name!r}: {question}there are {', '.join(known)}, "
        f"and you can add [{CONNECTIONS}.{name}] to {user_file()}"
    )


def may_be_chosen_by_projects(name: str, tables: Tables) -> bool:
    """Return whether the user lets the files of projects choose this connection."""
    table = tables.get(name)
    return isinstance(table, Mapping) and PROJECTS in table and table[PROJECTS].reveal() is True


def connection_layer(use: Setting, tables: Tables, is_wanted: Callable[[str], bool]) -> Layer:
    """Return the settings of the connection in use, for the fields that are wanted."""
    if use.value not in tables:
        return {"provider": Setting(use.value, use.source)}
    source, table = _place(use), tables[use.value]
    folder = (user_file() or Path()).parent
    found = {
        name: _checked(name, value, source)
        for name, value in in_folder(table, folder).items()
        if name not in OWN_KEYS and (name not in FIELDS or is_wanted(name))
    }
    if "provider" not in table and is_wanted("provider"):
        found["provider"] = Setting(None, source, f"{source}: provider is missing")
    if PROJECTS in table and not isinstance(table[PROJECTS].reveal(), bool):
        found[PROJECTS] = Setting(None, source, f"{source}: {PROJECTS} must be true or false")
    for name in filter(is_wanted, TOKEN_KEYS):
        found |= _token_layer(name, table, source)
    return found


def _place(use: Setting) -> str:
    return f"{user_file()} [{CONNECTIONS}.{use.value}]"


def _checked(name: str, value: Any, source: str) -> Setting:
    if name not in FIELDS:
        return Setting(None, source, f"{source}: {unknown_field(name, OWN_KEYS)}")
    return checked(name, value, source)


def _token_layer(field: str, table: Mapping[str, Any], source: str) -> Layer:
    """Return the token `field`, if a key of the connection says where it is."""
    given = [name for name in (field, *TOKEN_KEYS[field]) if name in table]
    if len(given) > 1:
        wrong = f"{source}: {' and '.join(given)} are given: keep one of them"
        return {field: Setting(None, source, wrong)}
    if not given or given[0] == field:
        return {}
    where = f"{source} {given[0]}"
    try:
        read = _token_in_file if given[0].endswith("_file") else _token_in_variable
        return {field: checked(field, read(table[given[0]], where), where)}
    except ConfigError as error:
        return {field: Setting(None, where, f"{where}: {error}")}


# A user may write the token itself where its place belongs. So no error shows a path, or a name
# that may not be that of a variable.


def _token_in_file(path: Secret, where: str) -> Secret:
    if not isinstance(path.reveal(), str) or not path.reveal():
        raise ConfigError("name a file that holds the token")
    folder = (user_file() or Path()).parent
    token, is_open = tokens.read_private(folder / Path(path.reveal()).expanduser())
    if is_open:
        words = f"{where}: every user of this machine can read the file: chmod 600 protects it"
        warnings.warn(words, UserWarning, stacklevel=2)
    return token


def _token_in_variable(name: Secret, _: str) -> Secret:
    if not isinstance(name.reveal(), str) or not _VARIABLE.fullmatch(name.reveal()):
        raise ConfigError("name an environment variable that holds the token")
    if not os.environ.get(name.reveal(), "").strip():
        shown = f" {name.reveal()}" if _CLEARLY_A_VARIABLE.fullmatch(name.reveal()) else ""
        raise ConfigError(f"the variable{shown} is not set")
    return Secret(os.environ[name.reveal()])
