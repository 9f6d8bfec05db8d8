"""Named connections, and the rules by which the sources of settings combine. Nothing is read here.

A connection is a table ``[connections.NAME]`` in the user's ``holdfast.toml``. It has fields of the
configuration; its tokens may also be in files or in environment variables. The name of a provider
that works without a token is a connection too, unless the user defines one of that name.

Arguments and flags win over the connection in use, it over ``HOLDFAST_*`` variables, these over the
project's ``holdfast.toml``, and that over the user's. While a connection is in use, variables and
files do not set the fields that decide where content and tokens go, so that no token is sent to an
address that it is not for.
"""

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.config import checks
from holdfast.config.fields import FIELDS, MAX_NAME, unknown_field, wrap_secret, wrap_secrets
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.hints import did_you_mean
from holdfast.registry import BUILT_IN, providers_without_token, row_of

# The setting that names the connection in use.
USE: Final = "use"
USE_VARIABLE: Final = "HOLDFAST_USE"
# The setting of the user's file that defines connections.
CONNECTIONS: Final = "connections"
FOLDER_FIELDS: Final = {name for name, field in FIELDS.items() if field.is_folder}
# The keys that say in which file or variable a token is, for each field that is a token.
TOKEN_KEYS: Final = {
    "provider_token": ("token_file", "token_env"),
    "gateway_token": ("gateway_token_file", "gateway_token_env"),
}

# The field with the address that a token is for. Another address does not get the token.
ADDRESSES: Final = {"provider_token": "pin_api_url", "gateway_token": "gateway_url"}

SITE: Final = "site"
# The keys of a connection beside the fields of the configuration.
OWN_KEYS: Final = (*(key for keys in TOKEN_KEYS.values() for key in keys), SITE)


class Setting(NamedTuple):
    """A checked value and where it came from, or the error that the value there caused."""

    value: Any
    source: str
    error: str = ""


# The settings of one source, by name.
Layer = dict[str, Setting]


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


# The connections that the user defines, by name.
Tables = Mapping[str, Any]


class TokenPlace(NamedTuple):
    """Where a token is: a key of the connection, and the file or variable that it names."""

    key: str
    name: Secret


def resolve(sources: Sources, direct: Layer, fields: Collection[str] | None = None) -> Layer:
    """Return the settings that any source has, for these `fields` or for all.

    `direct` are the settings by arguments or flags. The connection in use is returned as ``use``. A
    token that is still to be read is a `TokenPlace`.
    """
    own, environment, theirs, user_file, project_file = sources
    own, environment = _own_gateways(own), _own_gateways(environment)
    theirs = _own_gateways(theirs, is_project=True)
    tables, project = connection_tables(own), str(project_file)
    own = {name: setting for name, setting in own.items() if name != CONNECTIONS or setting.error}
    their_use = theirs.get(USE)  # always an error
    theirs = {name: setting for name, setting in theirs.items() if name != USE}
    use = _choose((direct, environment, theirs, own), tables, user_file)
    named: Layer = {}
    if use is not None and not use.error:
        overridden = {*direct, *(token for token, url in ADDRESSES.items() if url in direct)}
        names = {*(FIELDS if fields is None else fields)} - overridden
        named = _connection_layer(use, tables, names, user_file)
    # Where the user chose a folder, a project's choice has no effect. Elsewhere it is an error, so
    # that nobody believes that the project's folder is used.
    folders = FOLDER_FIELDS & {*own, *environment, *named, *direct}
    theirs = {name: setting for name, setting in theirs.items() if name not in folders}
    settings = merge(own, theirs, environment)
    if use is not None:
        settings = {
            name: setting
            for name, setting in settings.items()
            if not (name in FIELDS and FIELDS[name].endpoint)
            or (setting.error and setting.source == project)
        }
    settings.pop(USE, None)
    settings = merge(settings, named, {name: direct[name] for name in direct if name != USE})
    if fields is not None:
        settings = {
            name: setting
            for name, setting in settings.items()
            if name in fields or setting.source == name
        }
    _refuse_destinations(settings, own, project, user_file)
    _warn_of_another_provider(settings.get("provider"), own, project)
    profile = settings.get("profile")
    if profile is not None and profile.value is not None and "cid_version" not in settings:
        version = checks.PROFILES[profile.value]
        settings["cid_version"] = Setting(version, f"profile, {profile.source}")
    use = settings.get(USE) or their_use or use
    return settings if use is None else {**settings, USE: use}


def _own_gateways(layer: Layer, *, is_project: bool = False) -> Layer:
    """Return `layer`, with gateways for links only unless it sets the provider `local` too.

    Those of a project are always for links only: it cannot make `local` send what the user reads.
    """
    provider = None if is_project or "provider" not in layer else layer["provider"].value
    return {
        name: setting._replace(value=checks.own_gateways(name, setting.value, provider))
        for name, setting in layer.items()
    }


def fields_of(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the fields of the configuration, or raise one error for all errors of `settings`."""
    if messages := [setting.error for setting in settings.values() if setting.error]:
        error = ConfigError(messages[0])
        for message in messages[1:]:
            error.add_note(message)
        raise error
    fields = {name: setting.value for name, setting in settings.items() if name != USE}
    row = row_of(fields.get("provider", ""))
    # Leave out what is for another provider than the one that the user chose.
    for name, fits in (("provider_token", row.takes_token), ("provider_options", row.has_options)):
        if name in fields and not fits and USE not in settings:
            source = settings[name].source
            if not source.startswith("-") and source != name:  # not by a flag or an argument
                del fields[name]
    return fields


def connection_tables(own: Layer) -> Tables:
    """Return the connections in the settings of the user's file; none if they are wrong."""
    return (own[CONNECTIONS].value or {}) if CONNECTIONS in own else {}


def _choose(layers: Sequence[Layer], tables: Tables, user_file: Path | None) -> Setting | None:
    """Return the connection in use with the source that chose it, or with an error; None if none.

    `layers` are the sources of settings, the strongest first. The first of them that names a
    connection or a provider decides.
    """
    deciding = [layer for layer in layers if USE in layer or "provider" in layer]
    if not deciding or USE not in deciding[0]:
        return None
    use, others = deciding[0][USE], deciding[1:2]
    is_usual = others and USE not in others[0] and others[0]["provider"].value == use.value
    error = use.error
    if "provider" in deciding[0]:
        error = two_choices(use.source, deciding[0]["provider"].source)
    elif error:
        pass
    elif use.value in tables:
        if not isinstance(tables[use.value], Mapping):
            error = f"{_place(use, user_file)} is not a table"
    elif is_usual:
        return None  # the name of the provider that is used without a connection
    elif use.value not in providers_without_token():
        error = f"{use.source}: {unknown_connection(use.value, tables, user_file)}"
    return use._replace(error=error)


def two_choices(use: str, provider: str) -> str:
    """Return the error for a connection and a provider that are chosen in the same source."""
    both = f"{use} and {provider}" if use != provider else f"{use}: {USE} and provider"
    return f"{both} both choose where content goes: keep one of them"


def unknown_connection(name: str, defined: Iterable[str], user_file: Path | None) -> str:
    """Return the error for a name that is neither a connection nor a provider."""
    names = sorted({*defined, *providers_without_token()})
    question = did_you_mean(name, names)
    if row_of(name).needs_token:
        question = f"run `holdfast login {name}` first;"
    question += " " if question else ""
    more = f"and you can add [{CONNECTIONS}.{name}] to {user_file}"
    if user_file is None:
        more = "and this user has no home directory for others"
    return f"unknown connection {name!r}: {question}there are {', '.join(names)}, {more}"


def _connection_layer(
    use: Setting, tables: Tables, names: Collection[str], user_file: Path | None
) -> Layer:
    """Return the settings of the connection in use, for the fields in `names`."""
    if use.value not in tables:
        return {"provider": Setting(use.value, use.source)}
    source, table = _place(use, user_file), tables[use.value]
    folder = None if user_file is None else user_file.parent
    layer = {
        name: checked(name, table[name], source, folder)
        if name in FIELDS
        else Setting(None, source, f"{source}: {unknown_field(name, OWN_KEYS)}")
        for name in table
        if name in names or not (name in FIELDS or name in OWN_KEYS)
    }
    if "provider" not in table and "provider" in names:
        layer["provider"] = Setting(None, source, f"{source}: provider is missing")
    for field in filter(names.__contains__, TOKEN_KEYS):
        layer |= _token_layer(field, table, source)
    return layer


def _place(use: Setting, user_file: Path | None) -> str:
    return f"{user_file} [{CONNECTIONS}.{use.value}]"


def _token_layer(field: str, table: Mapping[str, Any], source: str) -> Layer:
    """Return the token `field`, if a key of the connection says where it is."""
    keys = [name for name in (field, *TOKEN_KEYS[field]) if name in table]
    if len(keys) > 1:
        error = f"{source}: {' and '.join(keys)} are given: keep one of them"
        return {field: Setting(None, source, error)}
    if not keys or keys[0] == field:
        return {}
    return {field: Setting(TokenPlace(keys[0], table[keys[0]]), f"{source} {keys[0]}")}


def _refuse_destinations(settings: Layer, own: Layer, project: str, user_file: Path | None) -> None:
    """Turn a project's setting into an error if it decides where a secret of the user is sent."""
    for secret in [*settings]:
        name = FIELDS[secret].sent_to if secret in FIELDS else None
        if name is None or not _is_from(project, settings.get(name)):
            continue
        if name == "provider" and _is_trusted(settings[name].value, own):
            continue
        error = f"{project}: {name} decides where your {secret} is sent: set {name} in "
        settings[name] = settings[name]._replace(error=error + own_place(name, user_file))
    gateway = settings.get("gateway_url")
    if gateway is not None and _is_from(project, gateway) and _signs_links(settings):
        error = f"{project}: gateway_url decides who gets links to your private files: set it in "
        error += own_place("gateway_url", user_file)
        settings["gateway_url"] = gateway._replace(error=error)


def _signs_links(settings: Layer) -> bool:
    """Return whether reads use signed links, which are credentials for the gateway they name."""
    options = settings.get("provider_options")
    return bool(options and options.value and options.value.reveal().get("network") == "private")


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
        return row_of(provider).on_this_machine
    if "provider" not in own:
        return provider in BUILT_IN and not row_of(provider).may_lack_token
    return row_of(provider).on_this_machine or provider == own["provider"].value


def _is_from(project: str, setting: Setting | None) -> bool:
    return setting is not None and setting.source == project and not setting.error
