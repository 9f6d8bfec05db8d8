"""Collect the values of the configuration from all sources, and where each came from.

Flags win over the connection in use, it over ``HOLDFAST_*`` variables, these over the project's
``holdfast.toml`` (the nearest one from the current folder upwards), and that over the user's
``holdfast.toml``. While a connection is in use, variables and files do not set the fields that
decide where content and tokens go, so that no token is sent to an address that it is not for.
"""

import re
import warnings
from collections.abc import Collection, Mapping
from typing import Any, Final

from holdfast.cli.named_connections import (
    ADDRESSES,
    PROJECTS,
    Tables,
    choose,
    connection_layer,
    may_be_chosen_by_projects,
    take_tables,
)
from holdfast.cli.options import USE
from holdfast.cli.setting_layers import (
    CONNECTIONS,
    FOLDER_FIELDS,
    Layer,
    Setting,
    checked,
    environment_layer,
    own_place,
    project_file,
    project_layer,
    user_file,
    user_layer,
)
from holdfast.config import ClientConfig, checks
from holdfast.config.fields import FIELDS
from holdfast.config.wrapping import wrap_secret
from holdfast.errors import ConfigError
from holdfast.registry import BUILT_IN, is_on_this_machine, may_lack_token

_IN_PYTHON: Final = re.compile(r"\b([a-z_]+)=(True|\d+|'[^']*')")


def connection(name: str, flag: str = "--use") -> ClientConfig:
    """Return the configuration of the connection `name`, which the user chose with `flag`."""
    return config_of(gather({USE: (name, flag)}))


def gather(
    flags: Mapping[str, tuple[Any, str]], fields: Collection[str] | None = None
) -> dict[str, Setting]:
    """Return the settings that any source gives, for these `fields` or for all.

    `flags` holds the value of each field that a flag sets, and the flag. A file that cannot be read
    is returned under its path, with the error. The connection in use is returned as ``use``.
    """
    project = project_file()
    own, theirs, environment = user_layer(), project_layer(project), environment_layer()
    given = {
        name: checked(name, wrap_secret(name, value), flag) for name, (value, flag) in flags.items()
    }
    tables = take_tables(own)
    use = choose((given, environment, theirs, own), tables)
    if use is not None and use.source == str(project):
        use = _check_choice_of_project(use, own, given, tables)

    def is_wanted(name: str) -> bool:
        is_given = name in given or ADDRESSES.get(name) in given
        return not is_given and (fields is None or name in fields)

    named = {} if use is None or use.error else connection_layer(use, tables, is_wanted)
    # Where the user chose a folder, a project's choice has no effect. Elsewhere it is an error, so
    # that nobody believes that the project's folder is used.
    chosen = FOLDER_FIELDS & {*own, *environment, *named, *given}
    theirs = {name: each for name, each in theirs.items() if name not in chosen}
    found = _merged(own, theirs, environment)
    found.pop(USE, None)
    if use is not None:
        found = {
            name: each
            for name, each in found.items()
            if not _is_endpoint(name) or (each.error and each.source == str(project))
        }
    found = _merged(found, named, {name: each for name, each in given.items() if name != USE})
    if fields is not None:
        found = {
            name: each for name, each in found.items() if name in fields or each.source == name
        }
    _refuse_destinations(found, own, str(project))
    _warn_of_another_provider(found.get("provider"), own, str(project))
    profile = found.get("profile")
    if profile is not None and profile.value is not None and "cid_version" not in found:
        found["cid_version"] = Setting(checks.PROFILES[profile.value], f"profile, {profile.source}")
    return found if use is None else {**found, USE: found.get(USE, use)}


def config_of(settings: Mapping[str, Setting]) -> ClientConfig:
    """Return the configuration that `settings` describe, or raise one error for all of theirs."""
    if messages := [each.error for each in settings.values() if each.error]:
        error = ConfigError(messages[0])
        for message in messages[1:]:
            error.add_note(message)
        raise error
    fields = {name: each.value for name, each in settings.items() if name != USE}
    token = settings.get("provider_token")
    on_disk = is_on_this_machine(fields.get("provider", ""))
    if on_disk and token is not None and token.source[0] != "-" and USE not in settings:
        del fields["provider_token"]  # the user chose not to use the service that it is for
    try:
        return ClientConfig(**fields)
    except ConfigError as error:
        raise ConfigError(_IN_PYTHON.sub(_as_flag, str(error))) from None


def _merged(*layers: Layer) -> Layer:
    """Return all settings; a later layer wins. Errors stay, so that all are told."""
    found: Layer = {}
    for layer in layers:
        found |= {
            name: each for name, each in layer.items() if name not in found or not found[name].error
        }
    return found


def _is_endpoint(name: str) -> bool:
    return name in FIELDS and FIELDS[name].endpoint


def _check_choice_of_project(use: Setting, own: Layer, given: Layer, tables: Tables) -> Setting:
    """Return `use`, which a project's file chose, or an error if the user does not allow it."""
    if use.value is None or use.error:
        return use
    if USE in own and own[USE].value == use.value:
        return own[USE]
    if not may_be_chosen_by_projects(use.value, tables):
        table = f"[{CONNECTIONS}.{use.value}]"
        return use._replace(
            error=f"{use.source}: {USE} names the connection {use.value!r}: to allow that, write "
            f"{PROJECTS} = true below {table} in {user_file()}; else give --use or --provider"
        )
    secret = next((name for name in given if name in FIELDS and FIELDS[name].secret), None)
    if secret is not None:
        error = f"{use.source}: {USE} decides where your {secret} is sent: give --use {use.value}"
        return use._replace(error=error)
    words = f"{use.source} chooses your connection {use.value!r}"
    warnings.warn(words, UserWarning, stacklevel=3)
    return use


def _refuse_destinations(found: Layer, own: Layer, project: str) -> None:
    """Turn a project's setting into an error if it decides where a secret of the user is sent."""
    for secret in found:
        name = FIELDS[secret].sent_to if secret in FIELDS else None
        if name is None or not _is_from(project, found.get(name)):
            continue
        chosen = found[name]
        if name == "provider" and _is_trusted(chosen.value, own):
            continue
        place = own_place(name)
        error = f"{project}: {name} decides where your {secret} is sent: set {name} in {place}"
        found[name] = chosen._replace(error=error)
    gateway = found.get("gateway_url")
    if gateway is not None and _is_from(project, gateway) and _signs_links(found):
        place = own_place("gateway_url")
        error = f"{project}: gateway_url decides who gets links to your private files: set it in "
        found["gateway_url"] = gateway._replace(error=error + place)


def _signs_links(found: Layer) -> bool:
    """Return whether reads use signed links, which are credentials for the gateway they name."""
    options = found.get("provider_options")
    return options is not None and (options.value or {}).get("network") == "private"


def _warn_of_another_provider(chosen: Setting | None, own: Layer, project: str) -> None:
    """Warn if the project replaces the user's choice, so that nobody mistakes where data goes."""
    if chosen is None or not _is_from(project, chosen):
        return
    if USE in own:
        mine = f"connection {own[USE].value!r}"
    elif "provider" in own and own["provider"].value != chosen.value:
        mine = f"{own['provider'].value!r}"
    else:
        return
    words = f"{project} chooses provider {chosen.value!r} in place of your {mine}"
    warnings.warn(words, UserWarning, stacklevel=2)


def _is_trusted(provider: str, own: Layer) -> bool:
    """Return whether a project may choose this provider for a user with secrets."""
    if USE in own:
        return is_on_this_machine(provider)
    if "provider" not in own:
        return provider in BUILT_IN and not may_lack_token(provider)
    return is_on_this_machine(provider) or provider == own["provider"].value


def _is_from(project: str, setting: Setting | None) -> bool:
    return setting is not None and setting.source == project and not setting.error


def _as_flag(match: re.Match[str]) -> str:
    """Return a field and value such as ``cid_version=0`` as the flag that sets it."""
    name, value = match.groups()
    flag = f"--{name.replace('_', '-')}"
    return flag if value == "True" else f"{flag} {value.strip(chr(39))}"
