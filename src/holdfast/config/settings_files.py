"""Read the user's ``holdfast.toml``, a project's, the ``HOLDFAST_*`` variables, and token files.

What may be a secret is wrapped when it is read, and no error shows it.
"""

import os
import re
import stat
import tomllib
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from holdfast.config import connections as rules
from holdfast.config.fields import (
    FIELDS,
    read_environment,
    unknown_field,
    unknown_variable,
    wrap_secret,
    wrap_secrets,
)
from holdfast.config.locations import config_folder
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.registry import row_of

FILE_NAME: Final = "holdfast.toml"
TOOLS: Final = ("AGE", "CADDY", "CHROMIUM", "CLUSTER", "HAPROXY", "KUBO", "NGINX")  # of our tests
OTHER_VARIABLES: Final = {f"HOLDFAST_{name}" for name in ("NODE_TOKEN", "TRACEBACK", *TOOLS)}
MAX_FILE: Final = 1 << 20
MAX_TOKEN: Final = 64 << 10
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLEARLY_A_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,39}")  # and not a token by mistake


def connections() -> list[str]:
    """Return the names of the connections in the user's ``holdfast.toml``.

    Raise ConfigError if the file cannot be read.

    Example:
        >>> from holdfast import Client, connections
        >>> connections()
        ['archive', 'disk']
        >>> with Client.connect("disk") as client:
        ...     client.retrieve(client.store([1, 2, 3]).cid)
        [1, 2, 3]
    """
    own = user_layer()
    for name in (str(user_file()), rules.CONNECTIONS):
        if name in own and own[name].error:
            raise ConfigError(own[name].error)
    return list(rules.connection_tables(own))


def connection_fields(name: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the connection `name` with `changes`, secrets wrapped.

    The rules are those of ``--use`` on the command line, without the file of any project.
    """
    name = rules.connection_name("name", name if isinstance(name, Secret) else Secret(name))
    direct = {rules.USE: rules.Setting(name, "connect")}
    for field in changes:
        if field not in FIELDS:
            raise ConfigError(unknown_field(field))
        check = FIELDS[field].check  # no variable for the value: a traceback would show it
        direct[field] = rules.Setting(wrap_secret(field, check(field, changes[field])), field)
    sources = rules.Sources(user_layer(), _environment_layer(), {}, user_file(), None)
    settings = _read_tokens(rules.resolve(sources, direct))
    fields = rules.fields_of(settings)
    provider = fields.get("provider", "")
    if rules.USE in settings and row_of(provider).needs_token and "provider_token" not in fields:
        raise ConfigError(
            f"provider {provider!r} needs a token: set token_file or token_env of the "
            f"connection {name!r}, or give provider_token"
        )
    return fields


def connection_site(name: str) -> str:
    """Return the `site` of a connection; "" if it names none."""
    table = rules.connection_tables(user_layer()).get(name)
    if not isinstance(table, Mapping) or rules.SITE not in table:
        return ""
    site = table[rules.SITE].reveal()
    if not isinstance(site, str) or not site.strip():
        raise ConfigError(f"connection {name!r}: {rules.SITE} must be the name of a place")
    return site.strip()


def gather(
    flags: Mapping[str, tuple[Any, str]], fields: Collection[str] | None = None
) -> dict[str, rules.Setting]:
    """Return the settings that any source has, for these `fields` or for all.

    `flags` holds the value of each field that a flag sets, and the flag. A file that cannot be read
    is returned under its path, with the error. The connection in use is returned as ``use``.
    """
    direct = {
        name: rules.checked(name, wrap_secret(name, value), flag)
        for name, (value, flag) in flags.items()
    }
    user, project = user_file(), project_file()
    theirs = {} if project is None else rules.project_layer(_read_layer(project), project, user)
    sources = rules.Sources(user_layer(), _environment_layer(), theirs, user, project)
    return _read_tokens(rules.resolve(sources, direct, fields))


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
    file = next(filter(_exists, candidates), None)
    user = user_file()
    if file is None or (user is not None and file == user.resolve()):
        return None
    if reason := _reason_to_ignore(file):
        warnings.warn(f"{file} is ignored: {reason}", UserWarning, stacklevel=2)
        return None
    return file


def is_from_project(setting: rules.Setting) -> bool:
    """Return whether the file of a project gave this setting."""
    return Path(setting.source).name == FILE_NAME and setting.source != str(user_file())


def user_layer() -> rules.Layer:
    """Return the settings of the user's file, and its connections."""
    file = user_file()
    return {} if file is None or not _exists(file) else _read_layer(file)


def _read_layer(file: Path) -> rules.Layer:
    """Return the settings of a file. One that cannot be read is an error under its path."""
    try:
        return rules.file_layer(parse_text(file, read_text(file)), file)
    except ConfigError as error:
        return {str(file): rules.Setting(None, str(file), str(error))}


def _environment_layer() -> rules.Layer:
    """Return the settings of the ``HOLDFAST_*`` variables."""
    layer = {}
    for name, field in FIELDS.items():
        try:
            for value in read_environment([name]).values():
                layer[name] = rules.checked(name, value, field.variable)
        except ConfigError as error:
            layer[name] = rules.Setting(None, field.variable, str(error))
    use = Secret(os.environ.get(rules.USE_VARIABLE, ""))
    if use.reveal().strip():
        layer[rules.USE] = rules.checked(rules.USE, use, rules.USE_VARIABLE)
    return layer


def warn_of_unknown_variables() -> None:
    """Warn of each ``HOLDFAST_*`` variable that nothing reads."""
    ours = {*(field.variable for field in FIELDS.values()), rules.USE_VARIABLE, *OTHER_VARIABLES}
    unknown = [name for name in os.environ if name.startswith("HOLDFAST_") and name not in ours]
    tables = rules.connection_tables(user_layer()).values() if unknown else ()
    places = [table for table in tables if isinstance(table, Mapping)]
    tokens = [table[key].reveal() for table in places for key in table if key.endswith("_env")]
    for name in unknown:
        if name not in tokens:
            warnings.warn(unknown_variable(name), UserWarning, stacklevel=2)


def read_text(file: Path) -> Secret:
    """Return the text of a file, which may hold tokens; raise ConfigError if that fails."""
    try:
        with file.open("rb") as opened:
            text = Secret(opened.read(MAX_FILE + 1).decode())
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "is not TOML (it is not UTF-8 text)"
    else:
        if len(text.reveal()) <= MAX_FILE:
            return text
        reason = f"has more than {MAX_FILE} bytes"
    raise ConfigError(f"{file} {reason}")  # not above: an error of Unicode holds the text


def parse_text(file: Path, text: Secret) -> dict[str, Any]:
    """Return the settings in the text of a file, with the secrets wrapped."""
    try:
        return wrap_secrets(tomllib.loads(text.reveal()))
    except RecursionError:
        reason = "nested too deep"
    except ValueError as error:
        # The wrong line may hold a token, so only reasons without a name or value are shown.
        reason, _, place = str(error).rstrip(")").rpartition(" (")
        reason = f"{reason}, {place}" if re.fullmatch(r"[A-Za-z ]+", reason) else place
    raise ConfigError(f"{file} is not TOML ({reason})")


def _exists(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # in a folder that this user cannot search
        return False


def _reason_to_ignore(file: Path) -> str:
    """Return why a file that the user did not name is not trusted, or ""."""
    status = file.stat()
    if status.st_uid not in {os.geteuid(), 0}:
        return "it belongs to another user"
    return "every user may write to it" if status.st_mode & stat.S_IWOTH else ""


def _read_tokens(settings: rules.Layer) -> rules.Layer:
    """Return the settings with the tokens that the connection in use names a place for."""
    return {
        name: _read_token(name, setting.value, setting.source)
        if isinstance(setting.value, rules.TokenPlace)
        else setting
        for name, setting in settings.items()
    }


# A user may write the token itself where its place belongs. So no error shows a path, or a name
# that may not be that of a variable.


def _read_token(field: str, place: rules.TokenPlace, source: str) -> rules.Setting:
    try:
        read = _token_in_file if place.key.endswith("_file") else _token_in_variable
        return rules.checked(field, read(place.name, source), source)
    except ConfigError as error:
        return rules.Setting(None, source, f"{source}: {error}")


def _token_in_file(path: Secret, source: str) -> Secret:
    """Return the token in a regular file; warn if every user can read the file."""
    if not isinstance(path.reveal(), str) or not path.reveal():
        raise ConfigError("name a file that holds the token")
    try:
        folder = (user_file() or Path()).parent
        with open(rules.path_in(folder, path.reveal()), "rb", opener=_open_at_once) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigError("it is not a regular file")
            token = read_token(file)
    except (OSError, ValueError) as error:
        reason = reason_of(error)
    else:
        if mode & stat.S_IROTH:
            words = f"{source}: every user of this machine can read the file: chmod 600 protects it"
            warnings.warn(words, UserWarning, stacklevel=2)
        return token
    raise ConfigError(f"the file cannot be read: {reason}")


def _token_in_variable(name: Secret, _: str) -> Secret:
    if not isinstance(name.reveal(), str) or not _VARIABLE.fullmatch(name.reveal()):
        raise ConfigError("name an environment variable that holds the token")
    if not os.environ.get(name.reveal(), "").strip():
        shown = f" {name.reveal()}" if _CLEARLY_A_VARIABLE.fullmatch(name.reveal()) else ""
        raise ConfigError(f"the variable{shown} is not set")
    return Secret(os.environ[name.reveal()])


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for a writer, if it is a named pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_token(file: BinaryIO) -> Secret:
    """Return the token in a file, which holds nothing else."""
    try:
        token = Secret(file.read(MAX_TOKEN + 1).decode())
    except UnicodeDecodeError:
        raise ConfigError("it is not text") from None
    if len(token.reveal()) > MAX_TOKEN:
        raise ConfigError(f"it has more than {MAX_TOKEN} bytes")
    if not token.reveal().strip():
        raise ConfigError("it is empty")
    return token


def reason_of(error: Exception) -> str:
    """Return why a file cannot be read, without its name."""
    return str(getattr(error, "strerror", None) or error)
