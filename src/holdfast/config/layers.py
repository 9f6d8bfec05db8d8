"""The settings of one source, such as a ``holdfast.toml``: checked, each with where it came from.

Nothing is read here. `settings_files` reads files and variables, `connections` combines sources.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.config.fields import FIELDS, unknown_field
from holdfast.config.secret import Secret
from holdfast.config.wrapping import MAX_NAME, wrap_secret, wrap_secrets
from holdfast.errors import ConfigError

USE: Final = "use"
"""The setting that names the connection in use."""
USE_VARIABLE: Final = "HOLDFAST_USE"
CONNECTIONS: Final = "connections"
"""The setting of the user's file that defines connections."""
FOLDER_FIELDS: Final = {name for name, field in FIELDS.items() if field.is_folder}


class Setting(NamedTuple):
    """A checked value and where it came from, or the error that the value there caused."""

    value: Any
    source: str
    error: str = ""


Layer = dict[str, Setting]
"""The settings of one source, by name."""


class Sources(NamedTuple):
    """The settings that were read.

    Attributes:
        own: Those of the user's file, with the connections.
        environment: Those of the ``HOLDFAST_*`` variables.
        theirs: Those of the project's file.
        user_file: The path of the user's file, which may not exist; None without a home folder.
        project_file: The path of the project's file, if there is one.
    """

    own: Layer
    environment: Layer
    theirs: Layer
    user_file: Path | None
    project_file: Path | None


def file_layer(values: Mapping[str, Any], file: Path) -> Layer:
    """Return the settings in a file. Its folder is where relative paths in it begin."""
    return {name: checked(name, values[name], str(file), file.parent) for name in values}


def project_layer(layer: Layer, file: Path, user_file: Path | None) -> Layer:
    """Return the settings of a project's file, with an error for each that it may not set."""
    refusal = "is not allowed in a project's file, which is shared: remove it, and set it in"
    return {
        name: Setting(None, str(file), f"{file}: {name} {refusal} {own_place(name, user_file)}")
        if name in {USE, CONNECTIONS} or (name in FIELDS and FIELDS[name].file == "user")
        else setting
        for name, setting in layer.items()
    }


def own_place(name: str, user_file: Path | None) -> str:
    """Return where a user can set a field without sharing it."""
    variable = FIELDS[name].variable if name in FIELDS and FIELDS[name].read else None
    places = (user_file, USE_VARIABLE if name == USE else variable)
    return " or ".join(str(place) for place in places if place)


def checked(name: str, value: Any, source: str, folder: Path | None = None) -> Setting:
    """Return the setting with its value in the stored form, secrets wrapped, or with the error."""
    try:
        return Setting(_check(name, value, folder), source)
    except ConfigError as error:
        return Setting(None, source, f"{source}: {error}")


def _check(name: str, value: Any, folder: Path | None) -> Any:
    if name == USE:
        return connection_name(USE, value)
    if name == CONNECTIONS:
        return _tables(value)
    if name not in FIELDS:
        raise ConfigError(unknown_field(name))
    if FIELDS[name].file == "none":
        raise ConfigError(f"{name} is for Python programs: remove it")
    if folder is not None and name in FOLDER_FIELDS and isinstance(value, str) and value:
        value = str(path_in(folder, value))
    return wrap_secret(name, FIELDS[name].check(name, value))


def path_in(folder: Path, path: str) -> Path:
    """Return `path`, which is relative to `folder`, or to the home directory after ``~``."""
    try:
        return folder / Path(path).expanduser()
    except RuntimeError:
        raise ConfigError("the path begins with ~, and this user has no home directory") from None


def connection_name(name: str, value: Secret) -> str:
    """Return the name of a connection; a longer text, which may be a token, is a ConfigError."""
    if not isinstance(value.reveal(), str) or not value.reveal().strip():
        raise ConfigError(f"{name} must be the name of a connection")
    if len(value.reveal().strip()) > MAX_NAME:
        raise ConfigError(
            f"{name} must be the name of a connection, of {MAX_NAME} characters or less"
        )
    return value.reveal().strip()


def _tables(value: Any) -> dict[str, Any]:
    """Return the tables of the connections by name, with the secrets in them wrapped."""
    if not isinstance(value.reveal(), Mapping):
        raise ConfigError(f"{CONNECTIONS} must be tables: write [{CONNECTIONS}.NAME]")
    return {
        name: wrap_secrets(table) if isinstance(table, Mapping) else Secret(table)
        for name, table in value.reveal().items()
    }


def merge(*layers: Layer) -> Layer:
    """Return all settings; a later layer wins. Errors stay, so that all of them are reported."""
    merged: Layer = {}
    for layer in layers:
        merged |= {
            name: setting
            for name, setting in layer.items()
            if name not in merged or not merged[name].error
        }
    return merged
