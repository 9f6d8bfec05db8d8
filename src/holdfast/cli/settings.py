"""The values of the configuration and where they came from.

Flags win over ``HOLDFAST_*`` variables, these over the project's ``holdfast.toml`` (the nearest one
from the current folder upwards), and that over the one in the user's folder for settings.
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

from holdfast.config import checks
from holdfast.config.client_config import CHECKS, ClientConfig, unknown_field
from holdfast.config.environment import READERS, read_environment, variable_of
from holdfast.errors import ConfigError
from holdfast.files.locations import config_folder
from holdfast.registry import BUILT_IN, is_on_this_machine

FILE_NAME: Final = "holdfast.toml"
PROJECT_FIELDS: Final = frozenset(
    {
        *("provider", "gateway_url", "cid_version", "profile", "timeouts", "retries", "rate_limit"),
        *("hedge_after", "max_json_bytes"),
    }
)
"""What a project's file may say. It came with somebody's repository: it holds no secrets, says not
where yours go, switches no check off, and chooses no folder in which files are made and removed."""

FOLDER_FIELDS: Final = frozenset({"path", "cache_path"})
"""The folders, which only the user chooses. Where the user did, a project's choice has no effect;
else it is an error, so that nobody believes that the project's folder is used."""

PROGRAM_FIELDS: Final = frozenset({"on_event", "ssl_context"})
"""What only Python can give."""

_IN_PYTHON: Final = re.compile(r"\b([a-z_]+)=(True|\d+|'[^']*')")


class Setting(NamedTuple):
    """A checked value, and where it came from; or what is wrong with it there."""

    value: Any
    source: str
    fault: str = ""


Named = tuple[str, Setting]


def gather(
    flags: Mapping[str, tuple[Any, str]], fields: Collection[str] | None = None
) -> dict[str, Setting]:
    """What somebody set, of these `fields` or of all; `flags` come with the names of theirs.

    A file that cannot be read stands here under its path, with what is wrong.
    """
    user, project = user_file(), _project_file()
    own = _add({}, _file_layer(user, str(user)) if user is not None and _is_there(user) else ())
    environment = dict(_environment_layer())
    given = {name: _checked(name, *value) for name, value in flags.items()}
    chosen = FOLDER_FIELDS & {*own, *environment, *given}
    found = dict(own)
    if project is not None:
        _add(found, (each for each in _project_layer(project) if each[0] not in chosen))
    _add(found, environment.items())
    _add(found, given.items())
    if fields is not None:
        found = {
            name: each for name, each in found.items() if name in fields or each.source == name
        }
    if project is not None:
        _guard_secrets(found, own.get("provider"), str(project))
        _tell_of_another_provider(found.get("provider"), own.get("provider"), str(project))
    profile = found.get("profile")
    if profile is not None and profile.value is not None and "cid_version" not in found:
        found["cid_version"] = Setting(checks.PROFILES[profile.value], f"profile, {profile.source}")
    return found


def config_of(settings: Mapping[str, Setting]) -> ClientConfig:
    """The configuration that `settings` describe; `ConfigError` that tells all that is wrong."""
    if faults := [each.fault for each in settings.values() if each.fault]:
        error = ConfigError(faults[0])
        for fault in faults[1:]:
            error.add_note(fault)
        raise error
    fields = {name: each.value for name, each in settings.items()}
    token = settings.get("provider_token")
    on_disk = is_on_this_machine(fields.get("provider", ""))
    if on_disk and token is not None and token.source[0] != "-":
        del fields["provider_token"]  # somebody chose to do without the service that it is for
    try:
        return ClientConfig(**fields)
    except ConfigError as error:
        raise ConfigError(_IN_PYTHON.sub(_as_flag, str(error))) from None


def user_file() -> Path | None:
    """The file with the user's own settings, be it there or not; None for a user without a home."""
    folder = config_folder()
    return None if folder is None else folder / FILE_NAME


def _project_file() -> Path | None:
    """The nearest ``holdfast.toml`` from the current folder upwards, unless others may write it."""
    try:
        here = Path.cwd()
    except OSError:  # it was removed
        return None
    candidates = (folder / FILE_NAME for folder in (here, *here.parents))
    found = next(filter(_is_there, candidates), None)
    user = user_file()
    if found is None or (user is not None and found == user.resolve()):
        return None
    if why := _distrust(found):
        warnings.warn(f"{found} is ignored: {why}", UserWarning, stacklevel=2)
        return None
    return found


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # in a folder that this user cannot search
        return False


def _distrust(file: Path) -> str:
    """Why a file that the user did not name is not to be believed."""
    if sys.platform == "win32":
        return ""
    status = file.stat()
    if status.st_uid not in {os.geteuid(), 0}:
        return "it belongs to another user"
    return "anybody may write to it" if status.st_mode & stat.S_IWOTH else ""


def _add(found: dict[str, Setting], layer: Any) -> dict[str, Setting]:
    """Put a layer on top. What is wrong stays: somebody relies on it."""
    for name, setting in layer:
        if name not in found or not found[name].fault:
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
        if name in CHECKS and name not in PROJECT_FIELDS | PROGRAM_FIELDS:
            yield name, Setting(None, setting.source, _for_yourself(name, file))
        else:
            yield name, setting


def _environment_layer() -> Iterator[Named]:
    for name in CHECKS:
        source = variable_of(name)
        try:
            values = read_environment([name])
        except ConfigError as error:
            yield name, Setting(None, source, str(error))
        else:
            yield from ((name, _checked(name, value, source)) for value in values.values())


def _guard_secrets(found: dict[str, Setting], own: Setting | None, project: str) -> None:
    """Mark what a project's file says, if it says where a secret of the user's goes."""
    for name, secret in (
        ("gateway_url", "gateway_token"),
        ("provider", "provider_token"),
        ("provider", "provider_options"),
    ):
        chosen = found.get(name)
        if chosen is None or secret not in found or chosen.source != project or chosen.fault:
            continue
        if name == "provider" and _is_trusted(chosen.value, own):
            continue
        fault = f"{project}: {name} decides where your {secret} goes: set it in {_own_place(name)}"
        found[name] = chosen._replace(fault=fault)


def _tell_of_another_provider(chosen: Setting | None, own: Setting | None, project: str) -> None:
    """Nobody should believe that they pinned to a service when they wrote to their disk."""
    if chosen is None or chosen.source != project or chosen.fault:
        return
    if own is not None and own.value != chosen.value:
        words = f"{project} chooses provider {chosen.value!r} in place of your {own.value!r}"
        warnings.warn(words, UserWarning, stacklevel=2)


def _is_trusted(provider: str, own: Setting | None) -> bool:
    """Whether a project may choose this provider for a user with secrets, and a choice of `own`."""
    if own is None:
        return provider in BUILT_IN
    return is_on_this_machine(provider) or provider == own.value


def _for_yourself(name: str, file: Path) -> str:
    return (
        f"{file}: {name} may not stand in a project's file, which is shared: "
        f"take it out, and set it in {_own_place(name)}"
    )


def _own_place(name: str) -> str:
    """Where a user can set a field without sharing it."""
    variable = variable_of(name) if name in READERS else None
    return " or ".join(str(each) for each in (user_file(), variable) if each)


def _read(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        # A wrong line may hold a token: only words without a name or value in them are repeated.
        reason, _, where = str(error).rpartition(" (")
        said = f"{reason}, {where}" if re.fullmatch(r"[A-Za-z ]+", reason) else where
        raise ConfigError(f"{file} is not TOML ({said.rstrip(')')})") from None
    sealed: dict[str, Any] = checks.seal(values)
    for name in ("path", "cache_path"):
        if isinstance(sealed.get(name), str) and sealed[name]:
            sealed[name] = str(file.parent / Path(sealed[name]).expanduser())
    return sealed


def _checked(name: str, value: Any, source: str) -> Setting:
    try:
        if name not in CHECKS:
            raise ConfigError(unknown_field(name))  # noqa: TRY301 - told like any other fault
        if name in PROGRAM_FIELDS:
            raise ConfigError(f"{name} is for Python programs: leave it out")  # noqa: TRY301
        return Setting(CHECKS[name](name, checks.seal({name: value})[name]), source)
    except ConfigError as error:
        return Setting(None, source, f"{source}: {error}")


def _as_flag(match: re.Match[str]) -> str:
    """``cid_version=0``, as the command line has it."""
    name, value = match.groups()
    flag = f"--{name.replace('_', '-')}"
    return flag if value == "True" else f"{flag} {value.strip(chr(39))}"
