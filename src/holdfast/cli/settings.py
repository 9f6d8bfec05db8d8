"""The values of the configuration and where they came from.

Flags win over ``HOLDFAST_*`` variables, these over the project's ``holdfast.toml`` (the nearest one
from the current folder upwards), and that over the one in the user's folder for settings.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast import checks
from holdfast.config import CHECKS, ClientConfig, environment_fields, unknown_field
from holdfast.environment import variable_of
from holdfast.errors import ConfigError
from holdfast.locations import config_folder

FILE_NAME: Final = "holdfast.toml"
PROJECT_FIELDS: Final = frozenset(
    {
        *("provider", "gateway_url", "cid_version", "profile", "timeouts", "retries", "rate_limit"),
        *("hedge_after", "max_json_bytes", "path", "cache_path"),
    }
)
"""What a project's file may say. It came with somebody's repository: it holds no secrets, says not
where yours go, and switches no check off."""


class Setting(NamedTuple):
    """A checked value, and where it came from."""

    value: Any
    source: str


def gather(flags: Mapping[str, Any]) -> dict[str, Setting]:
    """The fields that somebody set; `ConfigError` that names the source of a wrong one."""
    found: dict[str, Setting] = {}
    for name, value, source in _all_layers(flags):
        found[name] = Setting(_checked(name, value, source), source)
    project = project_file()
    if "gateway_token" in found and project is not None:
        gateway = found.get("gateway_url")
        if gateway is not None and gateway.source == str(project):
            raise ConfigError(
                f"{project}: gateway_url decides where your gateway_token goes: "
                f"set it in {_own_place('gateway_url')}"
            )
    profile = found.get("profile")
    if profile is not None and profile.value is not None and "cid_version" not in found:
        found["cid_version"] = Setting(checks.PROFILES[profile.value], f"profile, {profile.source}")
    return found


def config_of(settings: Mapping[str, Setting]) -> ClientConfig:
    """The configuration that `settings` describe."""
    return ClientConfig(**{name: each.value for name, each in settings.items()})


def user_file() -> Path | None:
    """The file with the user's own settings, be it there or not; None for a user without a home."""
    folder = config_folder()
    return None if folder is None else folder / FILE_NAME


def project_file() -> Path | None:
    """The nearest ``holdfast.toml``, from the current folder upwards."""
    here = Path.cwd()
    candidates = (folder / FILE_NAME for folder in (here, *here.parents))
    found = next((path for path in candidates if path.is_file()), None)
    user = user_file()
    return None if user is not None and found == user.resolve() else found


def flag_of(name: str) -> str:
    """The flag that sets a field."""
    return "--no-verify" if name == "verify" else f"--{name.replace('_', '-')}"


def _own_place(name: str) -> str:
    """Where a user can set a field without sharing it."""
    return " or ".join(str(each) for each in (user_file(), variable_of(name)) if each)


def _all_layers(flags: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Each field that is set, with its value and source: the last one counts."""
    user, project = user_file(), project_file()
    if user is not None and user.is_file():
        yield from ((name, value, str(user)) for name, value in _read(user).items())
    if project is not None:
        for name, value in _read(project).items():
            if name in CHECKS and name not in PROJECT_FIELDS:
                raise ConfigError(
                    f"{project}: {name} may not stand in a project's file, which is shared: "
                    f"set it in {_own_place(name)}"
                )
            yield name, value, str(project)
    for name, value in environment_fields().items():
        yield name, value, variable_of(name)
    for name, value in flags.items():
        if value is not None:
            yield name, value, flag_of(name)


def _read(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        # A wrong line may hold a token; the position is enough to find it.
        where = str(error).rpartition("(")[2].rstrip(")")
        raise ConfigError(f"{file} is not TOML ({where})") from None
    sealed: dict[str, Any] = checks.seal(values)
    for name in ("path", "cache_path"):
        if isinstance(sealed.get(name), str):
            sealed[name] = str(file.parent / Path(sealed[name]).expanduser())
    return sealed


def _checked(name: str, value: Any, source: str) -> Any:
    if name not in CHECKS:
        raise ConfigError(f"{source}: {unknown_field(name)}")
    try:
        return CHECKS[name](name, checks.seal({name: value})[name])
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
