"""The settings of one source: a ``holdfast.toml`` or the ``HOLDFAST_*`` variables."""

import os
import re
import stat
import sys
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.cli.options import USE
from holdfast.config.environment import read_environment
from holdfast.config.fields import FIELDS, unknown_field
from holdfast.config.locations import config_folder
from holdfast.config.secret import Secret
from holdfast.config.wrapping import MAX_NAME, wrap_secrets
from holdfast.errors import ConfigError

FILE_NAME: Final = "holdfast.toml"
MAX_FILE: Final = 1 << 20
FOLDER_FIELDS: Final = {name for name, field in FIELDS.items() if field.is_folder}
USE_VARIABLE: Final = "HOLDFAST_USE"
CONNECTIONS: Final = "connections"
"""The setting of the user's file that defines connections."""


class Setting(NamedTuple):
    """A checked value and where it came from, or the error that the value there caused."""

    value: Any
    source: str
    error: str = ""


Layer = dict[str, Setting]
"""The settings of one source, by name."""


def user_file() -> Path | None:
    """Return the path of the user's own file, which may not exist; None without a home folder."""
    folder = config_folder()
    return None if folder is None else folder / FILE_NAME


def project_file() -> Path | None:
    """Return the nearest ``holdfast.toml`` from the current folder upwards, if it is trusted."""
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed
        return None
    candidates = (folder / FILE_NAME for folder in (here, *here.parents))
    found = next(filter(_exists, candidates), None)
    user = user_file()
    if found is None or (user is not None and found == user.resolve()):
        return None
    if reason := _reason_to_ignore(found):
        warnings.warn(f"{found} is ignored: {reason}", UserWarning, stacklevel=2)
        return None
    return found


def is_from_project(setting: Setting) -> bool:
    """Return whether the file of a project gave this setting."""
    return Path(setting.source).name == FILE_NAME and setting.source != str(user_file())


def user_layer() -> Layer:
    """Return the settings of the user's file, and its connections."""
    file = user_file()
    return {} if file is None or not _exists(file) else dict(_file_settings(file))


def project_layer(file: Path | None) -> Layer:
    """Return the settings of a project's file; an error for each that it may not set."""
    found = {} if file is None else dict(_file_settings(file))
    for name in found:
        if name == CONNECTIONS or (name in FIELDS and FIELDS[name].file == "user"):
            found[name] = Setting(None, str(file), _not_in_project(name, file))
    return found


def environment_layer() -> Layer:
    """Return the settings of the ``HOLDFAST_*`` variables."""
    found = {}
    for name, field in FIELDS.items():
        try:
            for value in read_environment([name]).values():
                found[name] = checked(name, value, field.variable)
        except ConfigError as error:
            found[name] = Setting(None, field.variable, str(error))
    if os.environ.get(USE_VARIABLE, "").strip():
        found[USE] = checked(USE, Secret(os.environ[USE_VARIABLE]), USE_VARIABLE)
    return found


def checked(name: str, value: Any, source: str) -> Setting:
    """Return the setting with its value in the stored form, or with the error."""
    try:
        return Setting(_check(name, value), source)
    except ConfigError as error:
        return Setting(None, source, f"{source}: {error}")


def _check(name: str, value: Any) -> Any:
    if name == USE:
        return connection_name(value)
    if name == CONNECTIONS:
        return _tables(value)
    if name not in FIELDS:
        raise ConfigError(unknown_field(name))
    if FIELDS[name].file == "none":
        raise ConfigError(f"{name} is for Python programs: remove it")
    return FIELDS[name].check(name, value)


def connection_name(value: Secret) -> str:
    """Return the name of a connection; a longer text, which may be a token, is a ConfigError."""
    if not isinstance(value.reveal(), str) or not value.reveal().strip():
        raise ConfigError(f"{USE} must be the name of a connection")
    if len(value.reveal().strip()) > MAX_NAME:
        raise ConfigError(
            f"{USE} must be the name of a connection, of {MAX_NAME} characters or less"
        )
    return str(value.reveal().strip())


def _tables(value: Any) -> dict[str, Any]:
    """Return the tables of the connections by name, with the secrets in them wrapped."""
    if not isinstance(value.reveal(), Mapping):
        raise ConfigError(f"{CONNECTIONS} must be tables: write [{CONNECTIONS}.NAME]")
    return {
        name: wrap_secrets(table) if isinstance(table, Mapping) else Secret(table)
        for name, table in value.reveal().items()
    }


def _file_settings(file: Path) -> Iterator[tuple[str, Setting]]:
    """Yield the settings of a file. One that cannot be read is an error under its path."""
    source = str(file)
    try:
        values = parse_text(file, read_text(file))
    except ConfigError as error:
        yield source, Setting(None, source, str(error))
        return
    for name, value in in_folder(values, file.parent).items():
        yield name, checked(name, value, source)


def in_folder(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return `values` with the paths of folders relative to `folder`."""
    return {
        name: str(folder / Path(value).expanduser())
        if name in FOLDER_FIELDS and isinstance(value, str) and value
        else value
        for name, value in values.items()
    }


def read_text(file: Path) -> Secret:
    """Return the text of a file, which may hold tokens; raise ConfigError if that fails."""
    try:
        with file.open("rb") as opened:
            content = Secret(opened.read(MAX_FILE + 1).decode())
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not TOML (it is not UTF-8 text)") from None
    if len(content.reveal()) > MAX_FILE:
        raise ConfigError(f"{file} has more than {MAX_FILE} bytes")
    return content


def parse_text(file: Path, text: Secret) -> dict[str, Any]:
    """Return the settings in the text of a file, with the secrets wrapped."""
    try:
        return wrap_secrets(tomllib.loads(text.reveal()))
    except RecursionError:
        raise ConfigError(f"{file} is not TOML (nested too deep)") from None
    except ValueError as error:
        # The wrong line may hold a token, so only reasons without a name or value are shown.
        reason, _, where = str(error).rpartition(" (")
        said = f"{reason}, {where}" if re.fullmatch(r"[A-Za-z ]+", reason) else where
        raise ConfigError(f"{file} is not TOML ({said.rstrip(')')})") from None


def _exists(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # in a folder that this user cannot search
        return False


def _reason_to_ignore(file: Path) -> str:
    """Return why a file that the user did not name is not trusted, or ""."""
    if sys.platform == "win32":
        return ""
    status = file.stat()
    if status.st_uid not in {os.geteuid(), 0}:
        return "it belongs to another user"
    return "anybody may write to it" if status.st_mode & stat.S_IWOTH else ""


def _not_in_project(name: str, file: Path | None) -> str:
    return (
        f"{file}: {name} is not allowed in a project's file, which is shared: "
        f"remove it, and set it in {own_place(name)}"
    )


def own_place(name: str) -> str:
    """Return where a user can set a field without sharing it."""
    variable = FIELDS[name].variable if name in FIELDS and FIELDS[name].read else None
    return " or ".join(str(each) for each in (user_file(), variable) if each)
