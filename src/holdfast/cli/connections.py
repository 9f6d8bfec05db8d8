"""The commands `status` and `connections`: what commands work with, and whether it answers.

Connections are tested in the background, so that no command waits longer than it says.
"""

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Final, Generic, NoReturn, TypeVar
from urllib.parse import urlsplit

import typer

import holdfast
from holdfast import registry
from holdfast.cli import exit_codes, options, output
from holdfast.cli.options import READS, TEST_TIMEOUT, argument, connection_names, option
from holdfast.cli.run import Run, command, config_of, group
from holdfast.cli.unknown_words import CommandGroup
from holdfast.config import connections as rules
from holdfast.config.checks import is_loopback
from holdfast.config.connections import CONNECTIONS, USE, Setting, connection_name
from holdfast.config.locations import store_folder
from holdfast.config.secret import Secret
from holdfast.config.settings_files import connections as named_connections
from holdfast.config.settings_files import gather, user_file
from holdfast.errors import ConfigError, RequestTimeoutError
from holdfast.hints import advise

commands: Final = group()
METAVAR: Final = "CONNECTION"
NODE: Final = "127.0.0.1", 5080  # the usual address of `holdfast node`
USUAL_NODE: Final = "http://{}:{}".format(*NODE)
TITLE: Final = b"<title>Holdfast</title>"
MAX_PAGE: Final = 64 << 10
Value = TypeVar("Value")


class Probe(threading.Thread, Generic[Value]):
    """A function that runs in the background. A process that ends does not wait for it.

    Attributes:
        value: What the function returned; None before that.
        error: The error that it raised; before its end, that it takes too long.
    """

    def __init__(self, function: Callable[[], Value], seconds: float) -> None:
        super().__init__(name="holdfast-probe", daemon=True)
        self._function = function
        self.value: Value | None = None
        self.error: Exception | None = RequestTimeoutError(f"no answer within {seconds:g} seconds")
        self.start()

    def run(self) -> None:
        """Keep the result of the function."""
        try:
            self.value = self._function()
        except Exception as error:  # noqa: BLE001 - also of providers that others wrote
            self.error = error
        else:
            self.error = None


def wait_for(probes: Iterable[Probe[Any]], seconds: float) -> None:
    """Wait until all have ended, for `seconds` at most."""
    end = time.monotonic() + seconds
    for probe in probes:
        probe.join(max(0.0, end - time.monotonic()))


def try_connection(settings: Mapping[str, Setting], seconds: float) -> None:
    """Raise an error unless the provider of these settings answers and accepts the token."""
    from holdfast.config.client_config import token_source
    from holdfast.repository.database.identity import is_store

    config = config_of(settings)
    row = registry.row_of(config.provider)
    if row.needs_token and config.provider_token is None:
        way = "set token_file" if USE in settings else "`holdfast login` saves one"
        wrong = ConfigError(f"provider {config.provider!r} needs a token: {way}")
        raise advise(wrong, token_source(config.api_url))
    if row.on_this_machine and not is_store(Path(address_of(settings))):
        raise advise(ConfigError("there is no store yet"), "the first upload makes it")
    test_once(config, seconds)


def test_once(config: "holdfast.ClientConfig", seconds: float) -> None:
    """Raise an error unless the provider answers within `seconds`. Nothing is sent twice."""
    _ask_once(config, seconds, "test_connection")


def _ask_once(config: "holdfast.ClientConfig", seconds: float, question: str) -> Any:
    from holdfast.config import Retries, Timeouts

    limits = Timeouts(**dict.fromkeys(("connect", "read", "write", "total"), seconds))
    with holdfast.Client.init(config, timeouts=limits, retries=Retries(attempts=1)) as client:
        return getattr(client, question)()


def _usage(settings: Mapping[str, Setting], seconds: float) -> dict[str, int | None] | None:
    """Return how much a service keeps, if it says that; the store is shown anyway."""
    config = config_of(settings)
    is_here = registry.row_of(config.provider).on_this_machine
    return None if is_here else asdict(_ask_once(config, seconds, "usage"))


def address_of(settings: Mapping[str, Setting]) -> str:
    """Return where the content is: a folder or an address."""
    provider = value_of(settings, "provider")
    row = registry.row_of(provider)
    if row.on_this_machine:
        return str(store_folder(value_of(settings, "path")))
    if row.over_others:
        return ", ".join(map(str, _member_names(settings))) or "-"
    usual = row.usual_api_url if provider in registry.BUILT_IN else "-"
    address = value_of(settings, "pin_api_url") or usual
    if row.reads_only:
        address = value_of(settings, "path" if row.reads_path else "gateway_url") or row.gateways
    return address if isinstance(address, str) else ", ".join(address)


def _member_names(settings: Mapping[str, Setting]) -> list[Any]:
    """Return the connections that keep the copies."""
    chosen = value_of(settings, "provider_options")
    names = chosen.reveal().get(CONNECTIONS) if chosen else None
    return names if isinstance(names, list) else []


def value_of(settings: Mapping[str, Setting], name: str) -> Any:
    """Return the value of a setting; "" if it is not set."""
    return settings[name].value if name in settings else ""


@command(commands, *READS)
def status(run: Run, timeout: TEST_TIMEOUT = 5.0) -> None:
    """Show the provider, the store, the node and the disk.

    It tests the connection to the provider; if that fails, the exit code says how.
    """
    settings = {"provider": Setting(registry.DEFAULT, "default"), **run.settings}
    row = registry.row_of(settings["provider"].value)
    folder = store_folder("" if row.reads_path or row.over_others else value_of(settings, "path"))
    connection: Probe[bool | None] = Probe(partial(_connect, settings, folder, timeout), timeout)
    store: Probe[dict[str, Any]] = Probe(partial(_look_at_store, folder), timeout)
    node: Probe[str] = Probe(partial(_running_node, folder, timeout), timeout)
    usage: Probe[dict[str, int | None] | None] = Probe(partial(_usage, settings, timeout), timeout)
    wait_for([connection, store, node, usage], timeout)

    error = connection.error
    trouble = None if store.error is None else exit_codes.describe(store.error)
    value = {
        "version": holdfast.__version__,
        "provider": settings["provider"].value,
        "source": settings["provider"].source,
        "use": settings[USE].value if USE in settings else None,
        "address": address_of(settings),
        "readsThrough": _reads_through(settings),
        "verify": value_of(settings, "verify") is not False,
        "connected": connection.value if error is None else False,
        "usage": usage.value,
        **({} if error is None else {"error": exit_codes.describe(error)}),
        "store": {"path": str(folder), **(store.value or {"exists": None, "error": trouble})},
        "node": {"url": node.value or USUAL_NODE, "running": bool(node.value)},
    }
    if run.as_json:
        output.say_json(value)
    else:
        colour = {True: "green", False: "red", None: ""}[value["connected"]]
        output.say_facts(12, _facts(value), Connection=colour)
        if error is not None:
            run.note(f"hint: {value['error']['remedy']}")
    if error is not None:
        raise typer.Exit(value["error"]["exitCode"])


def _reads_through(settings: Mapping[str, Setting]) -> list[str]:
    """Return the gateways for reads of a service; of `local`, for what its store lacks."""
    try:
        config = config_of(settings)
    except ConfigError:  # shown as the error of the connection
        return []
    row = registry.BUILT_IN.get(config.provider)  # an installed provider reads as it likes
    is_through = row and (config.reads_through if row.on_this_machine else row.gateways)
    return list(config.gateway_urls) if row and is_through and not row.reads_only else []


def note_reads(run: Run, config: "holdfast.ClientConfig", flag: str = "") -> None:
    """If the API has a custom address, say which gateways reads use.

    An API on this machine may be that of a node, which is a gateway too: say how to read from it,
    by a setting or by this `flag`.
    """
    row = registry.BUILT_IN.get(config.provider)
    if row and row.gateways and config.gateway_url is None and config.api_url != row.usual_api_url:
        gateways, api = config.gateway_urls, urlsplit(config.api_url)
        words = "--gateway-url, or the setting gateway_url, changes that"
        if is_loopback(api.hostname) and not is_loopback(urlsplit(gateways[0]).hostname):
            way = flag or "holdfast config set gateway_url"
            words = f"to read from a node there: `{way} {api.scheme}://{api.netloc}/ipfs`"
        run.note(f"reads go to {' and '.join(gateways)}; {words}")


def _connect(settings: dict[str, Setting], folder: Path, seconds: float) -> bool | None:
    """Return True if the provider answers; None if it is a store that the first upload makes."""
    from holdfast.repository.database.identity import is_store

    if registry.row_of(config_of(settings).provider).on_this_machine and not is_store(folder):
        return None
    try_connection(settings, seconds)
    return True


def _look_at_store(folder: Path) -> dict[str, Any]:
    """Return what is in the store, and how much room there is on its disk."""
    from holdfast.repository import Repository
    from holdfast.repository.database.identity import is_store

    existing = next(path for path in (folder, *folder.parents) if path.exists())
    disk = shutil.disk_usage(existing)
    facts = {"exists": is_store(folder), "free": disk.free, "disk": disk.total}
    if facts["exists"]:
        with Repository(folder) as repository:
            facts |= repository.totals()._asdict()
    return facts


def _running_node(folder: Path, seconds: float) -> str:
    """Return the address of the node of this store, or of one at the usual address, or ""."""
    from http.client import HTTPConnection, HTTPException

    from holdfast.repository.owners import node_url

    if (url := node_url(folder)) is not None:
        return url
    connection = HTTPConnection(*NODE, timeout=seconds)
    try:
        connection.request("GET", "/")
        return USUAL_NODE if TITLE in connection.getresponse().read(MAX_PAGE) else ""
    except (OSError, HTTPException):
        return ""
    finally:
        connection.close()


def _facts(value: dict[str, Any]) -> list[tuple[str, str]]:
    store, url = value["store"], value["node"]["url"]
    if store["exists"]:
        content = f"{output.count_text(store['pins'], 'pin')}, {output.size_text(store['size'])}"
    elif store["exists"] is None:
        content = f"error: {store['error']['message']}"
    else:
        content = "none yet: the first upload makes it"
    chosen = f"connection {value['use']!r}, " if value["use"] else ""
    connection = "not needed" if value["connected"] is None else "connected"
    if "error" in value:
        connection = f"error: {value['error']['message']}"
    free, disk = (output.size_text(store.get(name)) for name in ("free", "disk"))
    is_elsewhere, through = value["address"] != store["path"], value["readsThrough"]
    return [
        ("Version", value["version"]),
        ("Provider", f"{value['provider']}  ({chosen}{value['source']})"),
        *([("Address", value["address"])] if is_elsewhere else []),
        ("Connection", connection),
        *([("Usage", _usage_text(**value["usage"]))] if value["usage"] else []),
        *([("Gateways", f"reads through {', '.join(through)}")] if through else []),
        *([] if value["verify"] else [("Verify", "off: reads are not checked against their CID")]),
        ("Store", f"{store['path']}  ({content})"),
        ("Disk", f"{free} free of {disk}"),
        ("Node", url if value["node"]["running"] else f"not running at {url}"),
    ]


def _usage_text(pins: int | None, bytes: int | None, limit: int | None) -> str:
    most = "" if limit is None else f" of {output.size_text(limit)}"
    size = "" if bytes is None else f"{output.size_text(bytes)}{most}"
    return ", ".join(filter(None, ["" if pins is None else output.count_text(pins, "pin"), size]))


class ConnectionCommands(CommandGroup):
    """The commands for connections. Without the name of one, it is `list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; some commands have another word too."""
        words = {"rm": "remove", "delete": "remove", "ls": "list", "test": "list"}
        args = [words.get(word, word) for word in args[:1]] + args[1:]
        if args[:1] not in (["-h"], ["--help"]) and self.commands.keys().isdisjoint(args[:1]):
            args = ["list", *args]
        return super().parse_args(ctx, args)


connection_commands: Final = group(ConnectionCommands)
commands.add_typer(connection_commands, name="connections")
SAVED_NAME = Annotated[str, argument("NAME", "Its name, for --use.")]


@command(connection_commands, is_group=True)
def connections(_: Run) -> None:
    """List and test your connections; add and remove them."""


@command(connection_commands)
def add(
    run: Run,
    name: SAVED_NAME,
    *,
    provider: Annotated[
        str, option("NAME", "Its provider.", autocompletion=registry.known_providers)
    ],
    path: Annotated[str | None, option("FOLDER", "The folder of its store.")] = None,
    pin_api_url: Annotated[
        list[str] | None, option("URL", "The address of its API, if not the default. Repeatable.")
    ] = None,
    gateway_url: Annotated[list[str] | None, option("URL", "Its gateways. Repeatable.")] = None,
    token_file: Annotated[str | None, option("FILE", "The file with its token.")] = None,
    token_env: Annotated[str | None, option("VARIABLE", "The variable with its token.")] = None,
    site: Annotated[str | None, option("NAME", "Where it is: one site is one copy.")] = None,
    provider_option: options.OPTION = None,
) -> None:
    """Add a connection to your holdfast.toml. The rest of the file stays as it is."""
    from holdfast.cli.settings_editor import changing

    folder, file_of_token = (text and str(Path(text).absolute()) for text in (path, token_file))
    values: dict[str, Any] = {"provider": provider, "path": folder, "gateway_url": gateway_url}
    chosen = options.parse_options(provider_option or ())
    values |= {"pin_api_url": pin_api_url, "provider_options": chosen}
    registry.check_provider(provider)
    registry.check_options(provider, chosen)
    members = (chosen.get(CONNECTIONS) or None) if registry.row_of(provider).over_others else []
    if not isinstance(members, list) or len({*map(str, members)}) < len(members):
        words = f"provider {provider!r} needs different connections, which keep the copies"
        remedy = f'name them: --option \'{CONNECTIONS}=["NAME", "OTHER"]\''
        raise advise(exit_codes.UsageError(words), remedy)
    config = config_of({field: Setting(value, field) for field, value in values.items() if value})
    with changing() as file:
        if connection_name("NAME", Secret(name)) in named_connections():
            wrong = ConfigError(f"{file.path} has a connection {name!r} already")
            raise advise(wrong, f"`holdfast connections remove {quote(name)}` removes it")
        for member in members:
            fields = rules.fields_of(gather({USE: (member, "--option")}, ["provider"]))
            if registry.row_of(fields.get("provider", "")).over_others:
                raise ConfigError(f"--option: {member!r} has provider copies: name others")
        values |= {"token_file": file_of_token, "token_env": token_env, rules.SITE: site}
        for field in filter(values.get, values):
            file.change((CONNECTIONS, name, field), values[field])
    words = f"added {name!r} to {file.path}; `holdfast connections {quote(name)}` tests it"
    run.emit({"name": name, "settings": str(file.path)}, words)
    note_reads(run, config, "--gateway-url")


@command(connection_commands)
def remove(run: Run, name: SAVED_NAME) -> None:
    """Remove a connection from your holdfast.toml. Its content stays where it is."""
    from holdfast.cli.settings_editor import changing

    with changing() as file:
        defined = named_connections()
        if name not in defined:
            wrong = ConfigError(f"{file.path} has no connection {name!r}")
            raise advise(wrong, f"there are: {', '.join(defined) or 'none'}")
        if file.values.get(USE) == name:
            wrong = ConfigError(f"{file.path} uses the connection {name!r}")
            raise advise(wrong, f"first run `holdfast config unset {USE}`")
        # Without the last one, the table of all would be left.
        file.change((CONNECTIONS, name) if len(defined) > 1 else (CONNECTIONS,), None)
    run.emit({"name": name, "settings": str(file.path)}, f"removed {name!r} from {file.path}")
    for other in named_connections():
        if name in _member_names(gather({USE: (other, METAVAR)}, ["provider_options"])):
            run.note(f"{other!r} keeps copies at {name!r}: add that again, or remove {other!r} too")


@command(connection_commands, name="list")
def list_connections(
    run: Run,
    names: Annotated[
        list[str] | None,
        argument(METAVAR, "Connections to test; by default all.", autocompletion=connection_names),
    ] = None,
    timeout: TEST_TIMEOUT = 10.0,
) -> None:
    """List your connections, and test each.

    The exit code is that of the first test that failed.
    """
    names = names or named_connections()
    tests = [_begin(name, timeout) for name in names]
    wait_for([probe for _, probe in tests], timeout)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "provider": value_of(settings, "provider") or "-",
            "address": address_of(settings),
            "connected": probe.error is None,
            **({} if probe.error is None else {"error": exit_codes.describe(probe.error)}),
        }
        for name, (settings, probe) in zip(names, tests, strict=True)
    ]
    for row, line in zip(rows, _lines(rows), strict=True):
        run.emit(row, line)
    if not rows:
        run.note(f"there are no connections: `holdfast connections add` adds one to {user_file()}")
    if failed := [row["error"]["exitCode"] for row in rows if "error" in row]:
        raise typer.Exit(failed[0])


def _begin(name: str, seconds: float) -> tuple[dict[str, Setting], Probe[None]]:
    """Return the settings of a connection, and its test, under way."""
    try:
        settings = gather({USE: (name, "connect")})  # a word that `describe` leaves out
    except Exception as error:  # noqa: BLE001 - shown in the row of this connection
        return {}, Probe(partial(_raise, error), seconds)
    return settings, Probe(partial(try_connection, settings, seconds), seconds)


def _raise(error: Exception) -> NoReturn:
    raise error


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    columns = ("name", "provider", "address")
    widths = {column: max((len(row[column]) for row in rows), default=0) for column in columns}
    lines = []
    for row in rows:
        cells = [f"{row[column]:<{width}}" for column, width in widths.items()]
        state = f"error: {row['error']['message']}" if "error" in row else "connected"
        lines.append("  ".join([*cells, state]))
    return lines
