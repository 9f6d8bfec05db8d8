"""The options and arguments that commands share. Those for configuration derive from `FIELDS`."""

import errno
import json
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from holdfast import registry
from holdfast.cli.exit_codes import UsageError
from holdfast.config import checks
from holdfast.config.connections import USE, fields_of
from holdfast.config.fields import FIELDS, read_flag, read_list, read_number, read_text, read_whole
from holdfast.config.locations import store_folder
from holdfast.config.settings_files import connections, gather
from holdfast.errors import ClientError, ConfigError
from holdfast.hints import advise
from holdfast.readable_size import parse_size

# Completion of CIDs and names with TAB: from the pins of the store on this machine.
#
# It reads settings and the database. It uses no network and no token, and makes no store. It ends
# soon, whatever the store holds, because the user waits for the shell.
#
# Shells insert what they are given as it is, and some evaluate it. A pin may have any name, and
# others may have chosen it. So only texts are offered that mean the same in every shell.

SECONDS: Final = 1.0
MOST: Final = 100  # completions; nobody reads more
STEPS: Final = 1000  # of SQLite's virtual machine between two looks at the clock
PLAIN: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.+@%/-]{0,199}")
CIDS: Final = "SELECT cid, name FROM pins WHERE removed IS NULL AND substr(cid, 1, ?) = ?"
NAMES: Final = "SELECT name, cid FROM pins WHERE removed IS NULL AND substr(name, 1, ?) = ?"
NEWEST_FIRST: Final = "ORDER BY created DESC, id DESC"


def pinned_cids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the CIDs of pins that begin with `incomplete`, each with the name of the pin."""
    return _completions(ctx, CIDS, incomplete)


def pin_names(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the names of pins that begin with `incomplete`, each with the CID of the pin."""
    return _completions(ctx, NAMES, incomplete)


def _completions(ctx: typer.Context, query: str, incomplete: str) -> list[tuple[str, str]]:
    import sqlite3

    completions: dict[str, str] = {}
    # The command itself will tell what is wrong. What was read before an error is offered.
    with (
        suppress(ClientError, UsageError, OSError, ValueError, sqlite3.Error),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        for text, other in _rows(_store_in_use(ctx.params), query, incomplete):
            if _is_plain(text):
                completions.setdefault(text, other if _is_plain(other) else "")
            if len(completions) == MOST:
                break
    return list(completions.items())


def _is_plain(text: Any) -> bool:
    return isinstance(text, str) and PLAIN.fullmatch(text) is not None


def _store_in_use(params: dict[str, Any]) -> Path | None:
    """Return the folder of the store that the command would use; None if it uses another place."""
    from holdfast.config.client_config import ClientConfig

    names = ["use", "provider", "path"]
    flags = {name: params[name] for name in names if name in params}
    if params.get("source") is not None:  # of `copy`
        flags["use"] = params["source"]
    values = {name: (value, f"--{name}") for name, value in flags.items() if value is not None}
    fields = {*names} if "use" in values else {*flags, "path"}
    config = ClientConfig(**fields_of(gather(values, fields)))
    return store_folder(config.path) if registry.row_of(config.provider).on_this_machine else None


def _rows(folder: Path | None, query: str, incomplete: str) -> Iterator[tuple[Any, Any]]:
    """Yield what `query` finds in the database of the store, until the time is over."""
    import sqlite3

    from holdfast.repository.database.identity import DATABASE
    from holdfast.repository.database.opening import read_only_uri
    from holdfast.repository.database.trust import check_files, check_tables, harden

    if folder is None or not (folder / DATABASE).is_file():
        return
    check_files(folder / DATABASE)
    end = time.monotonic() + SECONDS
    uri = read_only_uri(folder / DATABASE)
    with closing(sqlite3.connect(uri, uri=True, timeout=SECONDS)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > end, STEPS)
        harden(connection)
        check_tables(connection)
        values = len(incomplete), incomplete
        yield from connection.execute(f"{query} {NEWEST_FIRST}", values)


# A group of options: parameters, as Typer reads them from the signature of a command.
Options = tuple[Parameter, ...]


def option(metavar: str, text: str, *flags: str, **more: Any) -> Any:
    """Return the declaration of an option with a value."""
    return typer.Option(*flags, metavar=metavar, help=text, **more)


def flag(text: str, *flags: str) -> Any:
    """Return the declaration of an option without a value."""
    return typer.Option(*flags, help=text)


def argument(metavar: str, text: str, **more: Any) -> Any:
    """Return the declaration of an argument."""
    return typer.Argument(metavar=metavar, help=text, **more)


def file_argument(text: str, metavar: str = "FILE") -> Any:
    """Return the declaration of an argument for a path, or several."""
    return argument(metavar, text, callback=not_empty)


def not_empty(value: Any) -> Any:
    """Refuse an empty path, which the system would take for the current folder."""
    if value == "" or (isinstance(value, list | tuple) and "" in value):
        raise typer.BadParameter("it is empty")
    return value


def _check_version(value: Any) -> Any:
    if value not in (None, 0, 1):
        raise typer.BadParameter("it must be 0 or 1")
    return value


def _read_size(text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if size < 1:
        raise typer.BadParameter("it must be at least one byte")
    return size


def one_target(argument: str | None, option: str | None) -> str | None:
    """Return the file to write to, which is an argument or ``--output``, not both."""
    if argument is not None and option is not None:
        raise UsageError(f"there are two targets, {argument!r} and {option!r}: give one of them")
    return argument if option is None else option


def required_target(argument: str | None, option: str | None, *, force: bool) -> str:
    """Return the file to write to; raise an error for none and, without `force`, for an old one."""
    target = one_target(argument, option)
    if target is None:
        raise UsageError('name the file to write, or "-" for standard output')
    if target != "-":
        check_new(target, force=force)
    return target


def check_new(target: str | Path, *, force: bool) -> None:
    """Raise FileExistsError if `target` is a file, unless the user wants to replace it."""
    if not force and Path(target).is_file():
        taken = FileExistsError(errno.EEXIST, "the file exists", str(target))
        raise advise(taken, "add --force to replace it, or name another file")


def parse_keyvalues(texts: list[str] | None) -> dict[str, str] | None:
    """Return the key-values of the options, as texts; None without any."""
    return _pairs(texts or (), "key-value", "--keyvalue") or None


def parse_options(texts: Iterable[str]) -> dict[str, Any]:
    """Return the provider's options in ``--option``: JSON values, or else texts."""
    values: dict[str, Any] = _pairs(texts, "provider's option", "--option")
    for name, text in values.items():
        with suppress(ValueError):
            values[name] = json.loads(text)
    return values


def _pairs(texts: Iterable[str], what: str, flag: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"{text!r} is not a {what}: write {flag} KEY=VALUE")
        if key in pairs:
            raise UsageError(f"the key {key!r} is set twice: give one {flag} for it")
        pairs[key] = value
    return pairs


# The shell completes it.
cid_argument: partial[Any] = partial(argument, "CID", autocompletion=pinned_cids)
PATH_ARGUMENT = Annotated[str, cid_argument("A CID, a path under one, a link, or name:NAME.")]
PIN_ARGUMENT = Annotated[str, cid_argument("A CID, a link to one, or name:NAME.")]
NAME = Annotated[str | None, option("NAME", "The name of the pin.", "-n", "--name")]
QUIET = Annotated[bool, flag("Write only the CIDs.", "-q", "--quiet")]
RECURSIVE = Annotated[bool, flag("Not needed: it is always recursive.", "-r", "-R", "--recursive")]
FORCE = Annotated[bool, flag("Replace a file that exists.", "-f", "--force")]
OUTPUT = Annotated[
    str | None,
    option("FILE", "Another way to name the target.", "-o", "--output", callback=not_empty),
]
KEYVALUES = Annotated[
    list[str] | None, option("KEY=VALUE", "A key-value of the pin. Repeatable.", "--keyvalue")
]
NAME_FILTER = Annotated[
    str | None,
    option(
        "TEXT", "Only pins with this text in the name.", "-n", "--name", autocompletion=pin_names
    ),
]
MAX_SIZE = Annotated[
    int | None,
    option(
        "SIZE", "Refuse more bytes than this, such as 500M or 2G.", "--max-size", parser=_read_size
    ),
]
INCLUDE_HIDDEN = Annotated[bool, flag("Include hidden files.", "--include-hidden")]
EXCLUDE = Annotated[
    list[str] | None,
    option("PATTERN", "Leave out names in folders that match PATTERN. Repeatable.", "--exclude"),
]
NO_IGNORE = Annotated[bool, flag("Do not read the patterns in .ipfsignore.", "--no-ignore")]
ENCRYPT = Annotated[bool, flag("Encrypt the content; only its readers can read it.", "--encrypt")]
READERS = Annotated[
    list[str] | None, option("RECIPIENT", "One more reader, with --encrypt. Repeatable.", "--to")
]
DECRYPT = Annotated[bool, flag("Decrypt it with your identities.", "--decrypt")]
_OPTION: Final = "One of the provider's own options, such as group=ID. Repeatable."
OPTION = Annotated[list[str] | None, option("NAME=VALUE", _OPTION, "--option")]
TEST_TIMEOUT = Annotated[float, option("SECONDS", "Time limit for all tests.", min=0.1, max=3600.0)]


def connection_names() -> list[str]:
    """Return what ``--use`` takes, for completion."""
    names = set(registry.providers_without_token())
    with suppress(ConfigError):  # the command itself will tell
        names.update(connections())
    return sorted(names)


CALLBACKS: Final = {"path": not_empty, "cache_path": not_empty, "cid_version": _check_version}
COMPLETIONS: Final[dict[str, Callable[[], list[str]]]] = {
    "provider": registry.known_providers,
    "profile": lambda: list(checks.PROFILES),
}
# The type of an option, by the reader of its field's environment variable.
TYPES: Final[dict[Any, Any]] = {
    read_flag: bool,
    read_number: float,
    read_list: list[str],
    read_text: str,
    read_whole: int,
}


SHARED: Final = "Options that commands share"  # where the help shows those below


def _parameter(name: str, kind: Any, *flags: str, default: Any = None, **more: Any) -> Parameter:
    declared = typer.Option(*flags, show_default=False, rich_help_panel=SHARED, **more)
    annotation = Annotated[kind, declared]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _group(name: str) -> Options:
    """Return the options of the fields of a group."""
    options = []
    for field in FIELDS.values():
        if field.option is not None and field.option.group == name:
            kind = TYPES[field.read]
            declared = _parameter(
                field.name,
                kind | None,
                *filter(None, [field.option.flags]),
                metavar=field.option.metavar,
                help=f"{field.summary}{' Repeatable.' if kind == list[str] else ''}",
                callback=CALLBACKS.get(field.name),
                autocompletion=COMPLETIONS.get(field.name),
            )
            options.append(declared)
    return tuple(options)


_token_file = _parameter(
    "token_file",
    str | None,
    metavar="FILE",
    callback=not_empty,
    help='A file with the provider\'s token, or "-".',
)
_token = _parameter(
    "token",
    str | None,
    metavar="TEXT",
    help="The token itself. HOLDFAST_PROVIDER_TOKEN or a file is safer.",
)
_option = _parameter("option", list[str] | None, "--option", metavar="NAME=VALUE", help=_OPTION)
_private = _parameter(
    "private", bool | None, "--private", help="With pinata, work in its private network."
)

_provider, *_others = _group("connection")

# The options of every command.
output_options: Options = (
    _parameter("as_json", bool, "--json", default=False, help="Write JSON, for machines."),
    _parameter("verbose", bool, "-v", "--verbose", default=False, help="Log to standard error."),
)

# The options of every command that reads settings.
use_options: Options = (
    _parameter(
        USE,
        str | None,
        metavar="CONNECTION",
        callback=not_empty,
        autocompletion=connection_names,
        help="A connection of your holdfast.toml, with all its settings.",
    ),
)

# The options of commands that open the embedded store.
store_options: Options = _group("store")

# The options of commands that make CIDs.
layout_options: Options = _group("layout")

# The options of the command for the cache folder.
cache_options: Options = _group("cache")

# The options of commands that use a provider.
connection_options: Options = (_provider, _token_file, _token, *_others, _option)

# The option of those that work with content in a private network too.
private_options: Options = (_private,)

# The options of commands that read content or link to it, and that may verify it or not.
gateway_options: Options = _group("gateway")
verify_options: Options = _group("verify")

# What commands take that neither store nor read content, read it and always verify it, read it, or
# store it.
PINS: Final = (connection_options, private_options, store_options)
LOOKS: Final = (*PINS, gateway_options)
READS: Final = (*LOOKS, verify_options)
WRITES: Final = (*PINS, verify_options, layout_options)

# All options that describe a client.
CONNECTED: Final = (*READS, layout_options)
