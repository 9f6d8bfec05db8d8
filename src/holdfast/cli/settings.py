"""Collect the values of the configuration from all sources, and where each came from.

Flags win over ``HOLDFAST_*`` variables, these over the project's ``holdfast.toml`` (the nearest one
from the current folder upwards), and that over the user's ``holdfast.toml``.
"""

import os
import re
import stat
import sys
import tomllib
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.config import ClientConfig, checks
from holdfast.config.environment import read_environment
from holdfast.config.fields import FIELDS, unknown_field
from holdfast.config.wrapping import wrap_secret, wrap_secrets
from holdfast.errors import ConfigError
from holdfast.files.locations import config_folder
from holdfast.registry import BUILT_IN, is_on_this_machine, may_lack_token

FILE_NAME: Final = "holdfast.toml"
FOLDER_FIELDS: Final = {name for name, field in FIELDS.items() if field.is_folder}
_IN_PYTHON: Final = re.compile(r"\b([a-z_]+)=(True|\d+|'[^']*')")


class Setting(NamedTuple):
    """A checked value and where it came from, or the error that the value there caused."""

    value: Any
    source: str
    error: str = ""


Named = tuple[str, Setting]


def gather(
    flags: Mapping[str, tuple[Any, str]], fields: Collection[str] | None = None
) -> dict[str, Setting]:
    """Return the settings that any source gives, for these `fields` or for all.

    `flags` holds the value of each field that a flag sets, and the flag. A file that cannot be read
    is returned under its path, with the error.
    """
    user, project = user_file(), _project_file()
    own = _add({}, _file_layer(user, str(user)) if user is not None and _exists(user) else ())
    environment = dict(_environment_layer())
    given = {
        name: _checked(name, wrap_secret(name, value), flag)
        for name, (value, flag) in flags.items()
    }
    found = dict(own)
    if project is not None:
        # Where the user chose a folder, a project's choice has no effect. Elsewhere it is an error,
        # so that nobody believes that the project's folder is used.
        chosen = FOLDER_FIELDS & {*own, *environment, *given}
        _add(found, (each for each in _project_layer(project) if each[0] not in chosen))
    _add(found, environment.items())
    _add(found, given.items())
    if fields is not None:
        found = {
            name: each for name, each in found.items() if name in fields or each.source == name
        }
    if project is not None:
        _refuse_destinations(found, own.get("provider"), str(project))
        _warn_of_another_provider(found.get("provider"), own.get("provider"), str(project))
    profile = found.get("profile")
    if profile is not None and profile.value is not None and "cid_version" not in found:
        found["cid_version"] = Setting(checks.PROFILES[profile.value], f"profile, {profile.source}")
    return found


def config_of(settings: Mapping[str, Setting]) -> ClientConfig:
    """Return the configuration that `settings` describe, or raise one error for all of theirs."""
    if messages := [each.error for each in settings.values() if each.error]:
        error = ConfigError(messages[0])
        for message in messages[1:]:
            error.add_note(message)
        raise error
    fields = {name: each.value for name, each in settings.items()}
    token = settings.get("provider_token")
    on_disk = is_on_this_machine(fields.get("provider", ""))
    if on_disk and token is not None and token.source[0] != "-":
        del fields["provider_token"]  # the user chose not to use the service that it is for
    try:
        return ClientConfig(**fields)
    except ConfigError as error:
        raise ConfigError(_IN_PYTHON.sub(_as_flag, str(error))) from None


def user_file() -> Path | None:
    """Return the path of the user's own file, which may not exist; None without a home folder."""
    folder = config_folder()
    return None if folder is None else folder / FILE_NAME


def _project_file() -> Path | None:
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


def _add(found: dict[str, Setting], layer: Any) -> dict[str, Setting]:
    """Add a layer of settings, which win over those before. Errors stay, so that all are told."""
    for name, setting in layer:
        if name not in found or not found[name].error:
            found[name] = setting
    return found


def _file_layer(file: Path, source: str) -> Iterator[Named]:
    try:
        values = _read(file)
    except ConfigError as error:
        yield source, Setting(None, source, str(error))
        return
    for name, value in values.items():
        yield name, _checked(name, value, source)


def _project_layer(file: Path) -> Iterator[Named]:
    for name, setting in _file_layer(file, str(file)):
        if name in FIELDS and FIELDS[name].file == "user":
            yield name, Setting(None, setting.source, _not_in_project(name, file))
        else:
            yield name, setting


def _environment_layer() -> Iterator[Named]:
    for name, field in FIELDS.items():
        source = field.variable
        try:
            values = read_environment([name])
        except ConfigError as error:
            yield name, Setting(None, source, str(error))
        else:
            yield from ((name, _checked(name, value, source)) for value in values.values())


def _refuse_destinations(found: dict[str, Setting], own: Setting | None, project: str) -> None:
    """Turn a project's setting into an error if it decides where a secret of the user is sent."""
    for secret in found:
        name = FIELDS[secret].sent_to if secret in FIELDS else None
        if name is None or not _is_from(project, found.get(name)):
            continue
        chosen = found[name]
        if name == "provider" and _is_trusted(chosen.value, own):
            continue
        place = _own_place(name)
        error = f"{project}: {name} decides where your {secret} is sent: set {name} in {place}"
        found[name] = chosen._replace(error=error)


def _warn_of_another_provider(chosen: Setting | None, own: Setting | None, project: str) -> None:
    """Warn if the project replaces the user's provider, so that nobody mistakes where data goes."""
    if own and chosen and _is_from(project, chosen) and own.value != chosen.value:
        words = f"{project} chooses provider {chosen.value!r} in place of your {own.value!r}"
        warnings.warn(words, UserWarning, stacklevel=2)


def _is_trusted(provider: str, own: Setting | None) -> bool:
    """Return whether a project may choose this provider for a user with secrets.

    `own` is the user's choice of a provider, if there is one.
    """
    if own is None:
        return provider in BUILT_IN and not may_lack_token(provider)
    return is_on_this_machine(provider) or provider == own.value


def _is_from(project: str, setting: Setting | None) -> bool:
    return setting is not None and setting.source == project and not setting.error


def _not_in_project(name: str, file: Path) -> str:
    return (
        f"{file}: {name} is not allowed in a project's file, which is shared: "
        f"remove it, and set it in {_own_place(name)}"
    )


def _own_place(name: str) -> str:
    """Return where a user can set a field without sharing it."""
    variable = FIELDS[name].variable if FIELDS[name].read else None
    return " or ".join(str(each) for each in (user_file(), variable) if each)


def _read(file: Path) -> dict[str, Any]:
    try:
        values = wrap_secrets(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        # The wrong line may hold a token, so only reasons without a name or value are shown.
        reason, _, where = str(error).rpartition(" (")
        said = f"{reason}, {where}" if re.fullmatch(r"[A-Za-z ]+", reason) else where
        raise ConfigError(f"{file} is not TOML ({said.rstrip(')')})") from None
    for name in FOLDER_FIELDS & values.keys():
        if isinstance(values[name], str) and values[name]:
            values[name] = str(file.parent / Path(values[name]).expanduser())
    return values


def _checked(name: str, value: Any, source: str) -> Setting:
    try:
        if name not in FIELDS:
            raise ConfigError(unknown_field(name))  # noqa: TRY301 - handled like those of checks
        if FIELDS[name].file == "none":
            raise ConfigError(f"{name} is for Python programs: remove it")  # noqa: TRY301
        return Setting(FIELDS[name].check(name, value), source)
    except ConfigError as error:
        return Setting(None, source, f"{source}: {error}")


def _as_flag(match: re.Match[str]) -> str:
    """Return a field and value such as ``cid_version=0`` as the flag that sets it."""
    name, value = match.groups()
    flag = f"--{name.replace('_', '-')}"
    return flag if value == "True" else f"{flag} {value.strip(chr(39))}"
