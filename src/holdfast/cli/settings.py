"""The commands `login` and `config`: show each setting, and change the user's file."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import holdfast
from holdfast import registry
from holdfast.cli import tokens
from holdfast.cli.connections import note_reads, test_once
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import CONNECTED, argument, option
from holdfast.cli.run import Run, command, config_of, group
from holdfast.cli.unknown_words import CommandGroup
from holdfast.config import checks, connections
from holdfast.config.connections import USE, Setting
from holdfast.config.fields import FIELDS, read_number, unknown_field, wrap_secret
from holdfast.config.secret import MASK, Secret
from holdfast.config.settings_files import connections as named_connections
from holdfast.config.settings_files import gather, user_file, user_layer
from holdfast.errors import AuthenticationError, ClientError, ConfigError
from holdfast.hints import advise

if TYPE_CHECKING:
    from holdfast.cli.settings_editor import Keys, SettingsFile

commands: Final = group()
USUAL: Final = "pinata"
LOGIN_REMEDY: Final = f"`holdfast login {USUAL}` asks for the token, or reads it from a pipe"
UNVERIFIED: Final = (
    "what you read is no longer checked against its CID: a gateway can send anything"
)
SECONDS: Final = 30.0  # for the test of the token
# The settings that decide, beside the provider, where a token is sent.
DESTINATION: Final = ("pin_api_url", "allow_insecure", "provider_options")


def _services() -> list[str]:

    return [name for name in registry.known_providers() if registry.row_of(name).takes_token]


@command(commands)
def login(
    run: Run,
    service: Annotated[
        str | None, argument("PROVIDER", "The provider.", autocompletion=_services)
    ] = None,
    *,
    provider: Annotated[
        str | None, option("NAME", "Another way to name it.", autocompletion=_services)
    ] = None,
    pin_api_url: Annotated[
        str | None, option("URL", "The address of its API, if it is not the default.")
    ] = None,
    gateway_url: Annotated[str | None, option("URL", "The gateway for reads, saved too.")] = None,
) -> None:
    """Test a provider's token, and save it.

    It asks for the provider and the token, which is not shown. In a pipe, the token is read from
    standard input. Both are saved in your holdfast.toml, and only you can read that file.
    """
    from holdfast.cli.settings_editor import SettingsFile, changing, refuse_moves

    before = SettingsFile()
    path, saved = str(before.path), before.values
    if USE in saved:
        wrong = ConfigError(f"{path} has {USE}, which chooses a connection in place of a login")
        remedy = f"put the token into its token_file, or run `holdfast config unset {USE}` first"
        raise advise(wrong, remedy)
    if service is not None and service not in registry.known_providers():  # it may be a token
        if service == "node":
            words = "commands use its store; for another: holdfast login pinning --pin-api-url URL"
            raise advise(UsageError("your own node needs no login"), words)
        raise advise(UsageError("login takes the name of a provider"), LOGIN_REMEDY)
    name = service or provider or _ask_provider(saved.get("provider"))
    _check_provider(name)
    flags = {"provider": name, "pin_api_url": pin_api_url, "gateway_url": gateway_url}
    changes: dict[str, Any] = {key: value for key, value in flags.items() if value is not None}
    _refuse_other_addresses(saved, changes, path)
    others = {key: value for key, value in saved.items() if key != "provider_token"}
    for key, value in changes.items():
        refuse_moves(before.path, others, (key,), value)
    config = _config(changes, path)
    changes["provider_token"] = _read_token(run, config)
    _test(run, config, changes["provider_token"])
    with changing() as file:
        if not file.agrees(before, (USE, "provider", *DESTINATION, "gateway_url", "gateway_token")):
            wrong = ConfigError(f"{path} was changed during the test; nothing was saved")
            raise advise(wrong, "run `holdfast login` again")
        for key, value in changes.items():
            file.change((key,), value)
    run.emit(
        {"provider": name, "address": config.api_url, "settings": path},
        f"logged in to {name!r}; your settings are in {path}",
    )
    note_reads(run, config)
    _note_stronger(run, list(changes), path)


@command(commands)
def logout(
    run: Run,
    provider: Annotated[
        str | None, argument("PROVIDER", "The provider.", autocompletion=_services)
    ] = None,
) -> None:
    """Remove the token that `login` saved."""
    from holdfast.cli.settings_editor import changing

    with changing() as file:
        name = file.values.get("provider")
        if "provider_token" not in file.values or provider not in (None, name):
            wrong = ConfigError(f"{file.path} has no token for {provider or 'a provider'}")
            raise advise(wrong, "`holdfast config` shows where a token came from")
        file.change(("provider_token",), None)
    _tell(run, file, ("provider_token",), None)
    run.note(f"the provider is still {name!r}: `holdfast config unset provider` uses your disk")
    for left in filter(file.values.__contains__, ("gateway_url", *DESTINATION)):
        run.note(f"{left} stays too: for another provider, run `holdfast config unset {left}`")


def _ask_provider(saved: str | None) -> str:
    """Ask for the name of the provider on the terminal."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        raise UsageError("standard input is not a terminal: name the provider")
    names = _services()
    usual = saved if saved in names else USUAL
    sys.stderr.write(f"Provider ({', '.join(names)}) [{usual}]: ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        raise UsageError("no provider was given")
    return answer.strip() or usual


def _check_provider(name: str) -> None:

    registry.check_provider(checks.provider("provider", wrap_secret("provider", name)))
    if not registry.row_of(name).takes_token:
        raise UsageError(
            f"provider {name!r} needs no token: `holdfast config set provider {name}` chooses it"
        )


def _refuse_other_addresses(saved: dict[str, Any], changes: dict[str, Any], path: str) -> None:
    """Raise ConfigError if settings for another provider decide where the token is sent."""
    before = saved.get("provider")
    if before == changes["provider"]:
        return
    whose = "" if before is None else f" for provider {before!r}"
    if others := [name for name in DESTINATION if name in saved and name not in changes]:
        first = "provider_token" if "provider_token" in saved else others[0]
        names = " and ".join(others)
        wrong = ConfigError(f"{path} has {names}{whose}, so the token could go to another service")
        raise advise(wrong, f"first run `holdfast config unset {first}`")


def _config(changes: dict[str, Any], path: str) -> "holdfast.ClientConfig":
    """Return the configuration of commands after the login, without the token.

    Raise ConfigError if something that is not saved decides where the token is sent: later it may
    be missing, and the token would be sent to another address.
    """
    flags = {name: (value, f"--{name.replace('_', '-')}") for name, value in changes.items()}
    settings = gather(flags)
    settings.pop("provider_token", None)
    for name in DESTINATION:
        if name in settings and name not in changes and settings[name].source != path:
            way = "give --pin-api-url, or " if name == "pin_api_url" else ""
            source = settings[name].source
            wrong = ConfigError(f"{source} sets {name}, which is not saved")
            raise advise(wrong, f"{way}unset {source}")
    return config_of(settings)


def _read_token(run: Run, config: "holdfast.ClientConfig") -> Secret:

    if sys.stdin is not None and sys.stdin.isatty():
        typed = tokens.ask(config.provider, config.api_url, "write it to standard input")
    else:
        typed = tokens.read(run.standard_input(), "standard input")
    checked = checks.token("the token", typed) if typed.reveal().strip() else None
    if checked is None:
        raise advise(ConfigError("no token was given"), LOGIN_REMEDY)
    return checked


def _test(run: Run, config: "holdfast.ClientConfig", token: Secret) -> None:
    try:
        test_once(config.with_options(provider_token=token), SECONDS)
    except ClientError as error:
        run.note("nothing was saved")
        if isinstance(error, AuthenticationError):
            advise(error, "copy the whole token again, or make another one")
        raise


def _note_stronger(run: Run, names: list[str], path: str, *, removed: bool = False) -> None:
    """Write a note for each of these settings that another source than the file sets."""
    settings = gather({})
    if USE in names and USE not in settings:
        names = [*names, "provider"]  # a provider that a stronger source chooses
    for name in filter(settings.__contains__, names):
        source = settings[name].source
        if removed and not source.endswith(path):  # a profile of the file sets cid_version
            run.note(f"{source} still sets {name}")
        elif not removed and source != path:
            run.note(f"{source} sets {name} too, and wins over {path}")


# What `config` shows and changes.


class ConfigCommands(CommandGroup):
    """The commands for settings. For a setting in place of one, the error says what to type."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that `args` begin with, its name and the other arguments."""
        name, equals, _ = args[0].replace("-", "_").partition("=")  # the value may be a secret
        if not ctx.resilient_parsing and (equals or name.partition(".")[0] in {*FIELDS, USE}):
            keys = _keys(name)
            value = " VALUE" if keys[1:] or keys[0] not in TABLES else ".NAME NUMBER"
            to_set = _written_by_hand(keys) or f"`holdfast config set {name}{value}`"
            wrong = UsageError(f"{name} is a setting: name what to do with it")
            raise advise(wrong, to_set if equals or args[1:] else f"`holdfast config get {name}`")
        return super().resolve_command(ctx, args)


config_commands: Final = group(ConfigCommands)
commands.add_typer(config_commands, name="config")

TABLES: Final = ("timeouts", "retries")


def _names() -> list[str]:

    return [name for name, field in FIELDS.items() if field.file != "none" and not field.secret]


def _saved_names() -> list[str]:
    return [name for name in user_layer() if name in FIELDS or name == USE]


def _key(names: Callable[[], list[str]]) -> Any:
    return argument("KEY", "Its name, such as rate_limit or retries.cap.", autocompletion=names)


@command(config_commands, name="set")
def set_value(
    run: Run,
    key: Annotated[str, _key(_names)],
    value: Annotated[str, argument("VALUE", "Its value.")],
) -> None:
    """Change a setting in your holdfast.toml. The rest of the file stays as it is."""
    from holdfast.cli.settings_editor import changing, refuse_moves

    with changing() as file:
        keys, checked = _checked(file, key, value)
        refuse_moves(file.path, file.values, keys, checked)
        file.change(keys, checked)
    _tell(run, file, keys, checked)


@command(config_commands)
def unset(run: Run, key: Annotated[str, _key(_saved_names)]) -> None:
    """Remove a setting from your holdfast.toml."""
    from holdfast.cli.settings_editor import changing, refuse_moves

    with changing() as file:
        if key.split(".")[0] not in file.values:  # any key of the file, also a wrong one
            key = key.replace("-", "_")
        keys, table = tuple(key.split(".")), cast("Any", file.values)
        for part in keys:
            table = table.get(part) if isinstance(table, dict) else None
        if table is None:
            _keys(key)
            wrong = ConfigError(f"{file.path} has no {key}")
            raise advise(wrong, "`holdfast config` shows where each setting came from")
        refuse_moves(file.path, file.values, keys, None)
        file.change(keys, None)
    _tell(run, file, keys, None)


def _tell(run: Run, file: "SettingsFile", keys: "Keys", value: Any) -> None:
    name = ".".join(keys)
    verb = "removed from" if value is None else "saved in"
    words = f"{name}: {verb} {file.path}"
    run.emit({"key": name, "value": value, "settings": str(file.path)}, words)
    _note_stronger(run, [keys[0]], str(file.path), removed=value is None)
    if keys == ("verify",) and value is False:
        run.note(UNVERIFIED)
    try:
        config = config_of(gather({}))
        if keys == ("pin_api_url",):
            note_reads(run, config)
    except ConfigError as error:
        run.note(f"{words}, but now: {error}")


def _keys(key: str) -> "Keys":
    """Return the tables and the name in `key`; raise ConfigError if there is no such setting."""
    # A value after "=" may be a secret.
    first, *rest = key.partition("=")[0].replace("-", "_").split(".")
    if first == USE and not rest:
        return (USE,)
    if first not in FIELDS:
        raise ConfigError(unknown_field(first, [USE], "setting"))
    if FIELDS[first].file == "none":
        raise ConfigError(f"{first} is for Python programs")
    if "=" in key:
        raise ConfigError(f"write holdfast config set {first} VALUE, without =")
    # `_checked` refuses a secret, with or without fields.
    if not FIELDS[first].secret and (len(rest) > (first in TABLES) or not all(rest)):
        raise ConfigError(f"{first} has no fields: write holdfast config set {first} VALUE")
    return (first, *rest)


def _written_by_hand(keys: "Keys") -> str:
    """Return how to set what may be secret, and is not typed on a command line; "" for others."""
    if keys == (USE,) or not FIELDS[keys[0]].secret:
        return ""
    name = f"{keys[0]}{'.NAME' if keys[0] == 'provider_options' else ''}"
    way = f'write {name} = "TEXT" in {user_file()}, above its tables'
    return "`holdfast login` asks for the token" if name == "provider_token" else way


def _checked(file: "SettingsFile", key: str, text: str) -> "tuple[Keys, Any]":
    """Return the keys, and the value that `text` stands for, as it is written to the file."""
    keys = _keys(key)
    key = ".".join(keys)
    if keys == (USE,):
        return keys, _connection(file, text)
    field = FIELDS[keys[0]]
    if field.secret or field.read is None:
        wrong = ConfigError(f"{keys[0]} may be secret, and other users can see the command line")
        raise advise(wrong, _written_by_hand(keys))
    if keys[0] in TABLES:
        if len(keys) == 1:
            raise ConfigError(f"{key} is a table: write holdfast config set {key}.NAME NUMBER")
        number = _whole_if_possible(read_number(key, text))
        table = file.values.get(keys[0])
        field.check(keys[0], {**(table if isinstance(table, dict) else {}), keys[1]: number})
        return keys, number
    if field.is_folder and text and not text.startswith("~"):
        text = str(Path(text).absolute())  # in the file, it would be relative to the file
    value = _whole_if_possible(field.read(key, text))
    if isinstance(value, tuple):
        value = value[0] if len(value) == 1 else list(value)
    field.check(key, wrap_secret(key, value))
    if key == "provider":
        _refuse_two_choices(file, USE)
        registry.check_provider(text)
    return keys, value


def _whole_if_possible(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _connection(file: "SettingsFile", text: str) -> str:
    _refuse_two_choices(file, "provider")
    name, defined = connections.connection_name(USE, Secret(text)), named_connections()
    if name not in {*defined, *registry.providers_without_token()}:
        raise ConfigError(connections.unknown_connection(name, defined, file.path))
    return name


def _refuse_two_choices(file: "SettingsFile", other: str) -> None:
    """Raise ConfigError if the file has the `other` setting that chooses where content goes."""
    if other in file.values:
        wrong = ConfigError(connections.two_choices(str(file.path), str(file.path)))
        raise advise(wrong, f"first run `holdfast config unset {other}`")


WRONG: Final = "(wrong)"
FIRST, SECOND, MAX_LINE = 23, 33, 80  # the columns of a name and of a value, and of a whole line


@command(config_commands, *CONNECTED, is_group=True)
def config(run: Run) -> None:
    """Show each setting and where it came from; change yours."""
    rows = _rows(run)
    lines = "\n".join(line for row in rows.items() for line in _lines(*row))
    run.emit(rows, *lines.split("\n"))
    try:
        run.config()  # the errors are written below the table
    except ConfigError as error:
        raise advise(error, "change it in the place that the table names") from None


command(config_commands, *CONNECTED, name="list")(config)


@command(config_commands, *CONNECTED)
def get(run: Run, key: Annotated[str, _key(_names)]) -> None:
    """Show the value of one setting."""
    name, *parts = _keys(key)
    row = _rows(run).get(name, {"value": None, "source": "default"})
    if "error" in row:
        raise ConfigError(row["error"])
    value = row["value"]
    for part in parts:
        if part not in value:
            raise ConfigError(f"{name} has no {part}: it has {', '.join(value)}")
        value = value[part]
    run.emit({"key": ".".join((name, *parts)), **row, "value": value}, _text(value))


def _rows(run: Run) -> dict[str, dict[str, Any]]:
    """Return the value and the source of each setting, masked if it is secret; errors too."""
    from holdfast.config import ClientConfig
    from holdfast.config.locations import cache_folder, data_folder

    default = {**ClientConfig().to_dict(), "cache_path": cache_folder()}
    provider = run.settings["provider"].value if "provider" in run.settings else registry.DEFAULT
    if provider in registry.BUILT_IN:
        default["gateway_url"] = registry.row_of(provider).gateways or None
        default["pin_api_url"] = registry.BUILT_IN[provider].api_url
    if "path" not in run.settings:
        default["path"] = data_folder()
    fields = [name for name, field in FIELDS.items() if field.file != "none"]
    names = [*([USE] if USE in run.settings else []), *fields, *run.settings]
    shown = {
        name: run.settings[name] if name in run.settings else Setting(default[name], "default")
        for name in names
    }
    return {
        name: {"value": _plain(name, value), "source": source} | ({"error": wrong} if wrong else {})
        for name, (value, source, wrong) in shown.items()
    }


def _lines(name: str, row: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a setting: one for each part of it, and one more for a long source."""
    value, source = WRONG if "error" in row else row["value"], row["source"]
    parts = value if isinstance(value, dict) and value else {"": value}
    for part, text in parts.items():
        line = f"{f'{name}.{part}'.rstrip('.'):<{FIRST}}  {_text(text):<{SECOND}}"
        is_long = len(line) + 2 + len(source) > MAX_LINE
        yield f"{line.rstrip()}\n{'':<{FIRST}}  {source}" if is_long else f"{line}  {source}"


def _plain(name: str, value: Any) -> Any:
    """Return `value` in a form that JSON can hold, masked if it is secret."""
    if name in FIELDS and FIELDS[name].secret and value:
        return MASK
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if value is None or isinstance(value, bool | int | float | dict):
        return value
    return list(value) if isinstance(value, tuple) else str(value)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={_text(part)}" for key, part in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)
