"""One run of a command, with its settings, client and output; and the decorator for commands."""

import functools
import inspect
import io
import logging
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import typer
from typer.core import TyperCommand

import holdfast
from holdfast import registry
from holdfast.cli import options, output, tokens
from holdfast.cli.exit_codes import USAGE, UsageError, family_of
from holdfast.cli.options import Options, connection_options, output_options, use_options
from holdfast.cli.unknown_words import CommandGroup, Refused, write_options
from holdfast.config.connections import USE, Setting, fields_of
from holdfast.config.fields import wrap_secret
from holdfast.config.locations import store_folder
from holdfast.config.settings_files import gather, warn_of_unknown_variables
from holdfast.errors import ConfigError, UnsupportedError
from holdfast.events import logger
from holdfast.hints import advise
from holdfast.single_line import short, without_queries

if TYPE_CHECKING:
    from holdfast.repository import Repository

Command = Callable[..., None]
IN_PYTHON: Final = re.compile(r"\b([a-z_]+)=(True|\d+|'[^']*')")
NO_BRACES: Final = str.maketrans("", "", "{}")
CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


class _Terminal(io.FileIO):
    """A terminal as standard input. Nothing is read after its end: that would need Ctrl-D again."""

    _is_ended = False

    def readinto(self, buffer: Any) -> int | None:
        """Read into `buffer`; return how many bytes."""
        count = 0 if self._is_ended else super().readinto(buffer)
        self._is_ended = count == 0
        return count


class Run:
    """One run of a command.

    Attributes:
        as_json: Whether the result is written as JSON.
        verbose: Whether the log is written too.
    """

    def __init__(
        self,
        flags: Mapping[str, Any],
        *,
        as_json: bool,
        fields: Collection[str] | None,
        verbose: bool = False,
    ) -> None:
        """Keep the flags. `fields` are the configuration fields that are read; None for all."""
        self.as_json = as_json
        self.verbose = verbose
        self._last_hint = ""  # for one of several items
        self._flags = _set_flags(flags)
        self._fields = fields
        self._input_taken = False

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """The settings from all sources; tokens are wrapped in `Secret`."""
        warn_of_unknown_variables()
        flags = self._flag_values()
        chosen = options.parse_options(flags.pop("option", ((), ""))[0])
        is_private = flags.pop("private", None)
        settings = self._for_path(gather(flags, self._fields), flags)
        if is_private and ("provider" not in settings or settings["provider"].value != "pinata"):
            raise advise(
                UsageError("--private is for the provider pinata"), "add --provider pinata"
            )
        chosen |= {"network": "private"} if is_private else {}
        if chosen:
            values = settings["provider_options"].value if "provider_options" in settings else None
            merged = {**(values.reveal() if values else {}), **chosen}
            wrapped = wrap_secret("provider_options", merged)
            settings["provider_options"] = Setting(wrapped, "--option")
        return settings

    def _for_path(
        self, settings: dict[str, Setting], flags: Mapping[str, Any]
    ) -> dict[str, Setting]:
        """Return `settings`; with --path, those of its store, unless a flag chose the provider."""
        if "path" not in flags or "provider" not in settings:
            return settings
        name, chosen = settings["provider"].value, {USE, "provider"} & {*flags}
        if (row := registry.row_of(name)).uses_path and (chosen or not row.over_others):
            return settings
        if chosen:
            wrong = UsageError(f"--path is the folder of a store, and provider {name!r} has none")
            raise advise(wrong, f"leave out --path or {' and '.join(f'--{one}' for one in chosen)}")
        return gather({**flags, "provider": (registry.DEFAULT, "--path")}, self._fields)

    def config(self) -> "holdfast.ClientConfig":
        """Return the configuration that the settings describe."""
        return config_of(self.settings)

    def profile(self) -> str:
        """Return the name of the profile that the settings choose."""
        from holdfast.content.profiles import profile_for

        config = self.config()
        return profile_for(config.profile, config.cid_version).name

    def client(self, *, is_source: bool = False, reads: bool = False) -> "holdfast.Client":
        """Return a client for the configured provider; prompt for a missing token.

        With `is_source`, all its content is wanted: a store that is missing is a ConfigError. If
        the command only `reads`, that is so where --path names a store without gateways.
        """
        remedy = "name its folder with --path" if is_source else None
        if reads and "path" in self._flags and not self.config().reads_through:
            remedy = "check --path; the first upload makes a store there"
        return _client(self.settings, remedy)

    @contextmanager
    def view(
        self, *, encrypted: bool = True, readers: Sequence[str] | None = None, reads: bool = False
    ) -> "Iterator[holdfast.Client]":
        """Open a client; yield it, or its view with your keys and those of `readers`.

        Passphrases of key files are asked for. If it only `reads`, the recipients do not matter.
        """
        if readers and not encrypted:
            raise UsageError("--to names readers of encrypted content: add --encrypt")
        with self.client(reads=reads) as client:
            if not encrypted:
                yield client
                return
            from holdfast.content.age.keyring import Keyring
            from holdfast.disk.key_files import load_keys

            config, ask = client.config, tokens.ask_passphrase
            own, identities = load_keys(config.recipients or (), config.identities, ask)
            own = own or [identity.recipient for identity in identities]
            others = load_keys(readers, None, ask)[0] if readers else []
            write_only = reads or (bool(others) and not identities)
            keys = Keyring([*own, *others], identities, write_only=write_only)
            yield client._encrypted(keys)  # noqa: SLF001 - our own

    def copies(self) -> "holdfast.Client":
        """Return a client of provider copies; raise UnsupportedError for another provider."""
        provider = self.config().provider
        if not registry.row_of(provider).over_others:
            wrong = UnsupportedError(f"provider {provider!r} has no copies at several members")
            raise advise(wrong, "choose a connection of provider copies with --use")
        return self.client()

    def connect(
        self, name: str, flag: str, *, is_source: bool = False, gateway_url: Any = None
    ) -> "holdfast.Client":
        """Return a client for the connection `name`, chosen with `flag`, as `client` does.

        With `gateway_url`, it reads through these gateways. With `is_source`, `name` may also be
        the path of an archive.
        """
        if is_source and name.endswith(".car"):
            return holdfast.Client.init(provider=registry.ARCHIVE, path=name)
        remedy = f"change the path of {name!r}, or give another {flag}"
        flags: dict[str, tuple[Any, str]] = {USE: (name, flag)}
        if gateway_url:
            flags["gateway_url"] = (gateway_url, "--gateway-url")
        return _client(gather(flags), remedy if is_source else None)

    def store_path(self) -> Path:
        """Return the folder of the embedded store."""
        chosen = self._flags.get(USE)
        if chosen is not None:
            provider = gather({USE: (chosen, "--use")}, {"provider"}).get("provider")
            if provider is not None and not registry.row_of(provider.value).on_this_machine:
                wrong = f"provider {provider.value!r} has no store on this machine"
                raise UsageError(f"--use {chosen}: {wrong}")
        return store_folder(self.config().path)

    def repository(self, *, make: bool = False) -> "Repository":
        """Return the embedded store; create it with `make`, else raise ConfigError if missing."""
        from holdfast.repository import Repository
        from holdfast.repository.database.identity import is_store

        path = self.store_path()
        if not make and not is_store(path):
            raise _no_store(path, "name its folder with --path")
        return Repository(path)

    def standard_input(self) -> BinaryIO:
        """Return standard input for "-"; raise UsageError if it is closed or used already."""
        if sys.stdin is None:
            raise UsageError('standard input is closed: "-" has nothing to read')
        if self._input_taken:
            raise UsageError('standard input can be read only once: give "-" once')
        self._input_taken = True
        if sys.stdin.isatty():
            self.note("waiting for input: type it, then press Ctrl-D on a line of its own")
            return io.BufferedReader(_Terminal(sys.stdin.fileno(), closefd=False))
        return sys.stdin.buffer

    def standard_output(self, what: str = "") -> BinaryIO:
        """Return standard output for "-"; raise UsageError with --json, which writes there too.

        If it is for `what`, which is not text, a terminal is a UsageError as well.
        """
        if what and sys.stdout.isatty():
            raise UsageError(f"{what} cannot be shown on a terminal: name a file, or use > FILE")
        if self.as_json:
            raise UsageError('--json and "-" both write to standard output: give one of them')
        return sys.stdout.buffer

    def progress_bar(
        self, label: str, *, unit: str | None = None, hidden: bool = False
    ) -> AbstractContextManager[output.ProgressBar | None]:
        """Show a progress bar, in bytes or in `unit`; not with --json or --verbose."""
        if hidden or self.as_json or self.verbose or not output.moves_cursor(sys.stderr):
            return nullcontext()
        return output.ProgressBar(label, unit)

    def emit(self, value: Any, *lines: str) -> None:
        """Write the result: `value` with --json, else `lines`."""
        if self.as_json:
            output.say_json(value)
        else:
            output.say(*lines)

    def note(self, text: str) -> None:
        """Write a sentence that is not a result to standard error, after the results so far."""
        sys.stdout.flush()
        if self.as_json:
            output.write_error_json({"warning": text})
        else:
            output.write_error(text)

    def write_failure(self, kind: str, item: str, report: dict[str, Any]) -> None:
        """Write the error of one item; with --json, `kind` is the name of the field for the item.

        A hint is written once for all items in a row that have it.

        `report` comes from `exit_codes.describe`. Errors that are held for later would hold much
        more: their tracebacks refer to all that was being read.
        """
        item = short(without_queries(item)) if kind == "cid" else without_queries(item)
        if self.as_json:
            output.write_error_json({"error": {**report, kind: item}})
            return
        message, hint = report["message"], report["remedy"]
        where = "" if item in message else f"{item}: "
        hints = [] if hint == self._last_hint else [f"hint: {hint}"]
        output.write_error(f"error: {where}{message}", *hints)
        self._last_hint = hint

    def _flag_values(self) -> "dict[str, tuple[Any, str]]":
        """Return the flags as configuration fields, each with the name of its flag."""
        values = {name: (value, _flag(name, value)) for name, value in self._flags.items()}
        for one, other in ((USE, "provider"), ("token", "token_file")):
            if one in values and other in values:
                raise UsageError(f"{values[one][1]} and {values[other][1]} cannot be used together")
        if "token" in values:
            values["provider_token"] = (tokens.wrap(values.pop("token")[0]), "--token")
        if "token_file" in values:
            name, flag = values.pop("token_file")
            source = self.standard_input() if name == "-" else Path(name)
            values["provider_token"] = (tokens.read(source, f"{flag}: {name}"), flag)
        return values


def config_of(settings: Mapping[str, Setting]) -> "holdfast.ClientConfig":
    """Return the configuration that `settings` describe, or raise one error for all of theirs.

    The error is in the words of the command line.
    """
    fields = fields_of(settings)
    try:
        return holdfast.ClientConfig(**fields)
    except ConfigError as error:
        raise ConfigError(IN_PYTHON.sub(_as_flag, str(error))) from None


def _as_flag(match: re.Match[str]) -> str:
    """Return a field and value such as ``cid_version=0`` as the flag that sets it."""
    name, value = match.groups()
    flag = f"--{name.replace('_', '-')}"
    return flag if value == "True" else f"{flag} {value.strip(chr(39))}"


def _no_store(path: Path, remedy: str) -> ConfigError:
    what = f"{path} is a file" if path.is_file() else f"there is no store in {path}"
    return advise(ConfigError(what), remedy)


def _client(settings: Mapping[str, Setting], remedy: str | None) -> "holdfast.Client":
    """Return a client; with a `remedy`, raise ConfigError for an embedded store that is missing."""
    from holdfast.repository.database.identity import is_store

    config = config_of(settings)
    if not config.verify and (source := settings["verify"].source)[:2] != "--":
        words = f"{source} turns verification off: what is read is not checked against its CID"
        warnings.warn(words, UserWarning, stacklevel=2)
    if remedy is not None and registry.row_of(config.provider).on_this_machine:
        path = store_folder(config.path)
        if not is_store(path):
            raise _no_store(path, remedy)
    if registry.row_of(config.provider).needs_token and config.provider_token is None:
        ways = tokens.OTHER_WAYS
        if USE in settings:
            ways = f"set token_file or token_env of the connection {settings[USE].value!r}"
        token = tokens.ask(config.provider, config.api_url, ways)
        config = config.with_options(provider_token=token)
    return holdfast.Client.init(config)


def _flag(name: str, value: Any) -> str:
    return f"--{'no-' if value is False else ''}{name.replace('_', '-')}"


def _set_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value not in (None, [])}


def _refuse_flags(context: typer.Context, flags: Mapping[str, Any]) -> None:
    """Raise UsageError if a flag stands before a command of the group, which does not take it."""
    for name, value in _set_flags(flags).items():
        called = f"{context.command_path} {context.invoked_subcommand}"
        wrong = UsageError(f"`{called}` does not take {_flag(name, value)}: leave it out")
        raise advise(wrong, f"`{called} --help` shows the usage")


def _is_given(context: Any, flag: str) -> bool:
    """Return whether `flag` is given to the command, or before its name."""
    while context is not None and not context.params.get(flag):
        context = context.parent
    return context is not None


class _LogHandler(logging.Handler):
    """Writes each record of the log to standard error, as a line or as an object."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        """Write the message of `record`. It holds no secret: see `holdfast.events`."""
        output.write_aside("log", record.getMessage(), as_json=self._as_json)


def group(kind: type[CommandGroup] = CommandGroup) -> typer.Typer:
    """Return a group of commands, with the settings that all groups share."""
    return typer.Typer(cls=kind, rich_markup_mode=None, add_completion=False)


class PlainCommand(TyperCommand):
    """A command whose help shows its arguments as other tools do: without types and braces."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda **_: None  # type: ignore[attr-defined]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. An error says to which command they were given."""
        try:
            return super().parse_args(ctx, args)
        except Refused as error:
            error.ctx = error.ctx or ctx
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line; Typer writes ``{FILE}`` for a required argument."""
        return [piece.translate(NO_BRACES) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options; those that all commands share come last."""
        write_options(self, ctx, formatter)


def _check_values(context: typer.Context) -> None:
    """Refuse the name of an option as the value of another one, whose value was forgotten."""
    parameters = context.command.params
    names = {name for one in parameters for name in (*one.opts, *one.secondary_opts)}
    for one in parameters:
        value = context.params.get(one.name or "")
        for text in value if isinstance(value, list | tuple) else [value]:
            if one.opts[0].startswith("-") and isinstance(text, str) and text in names:
                raise UsageError(f"{one.opts[-1]} has no value: {text} is an option, too")


def command(
    app: typer.Typer, *shared: Options, name: str | None = None, is_group: bool = False
) -> Callable[[Command], Command]:
    """Return a decorator that makes a function of a `Run` a command of `app`.

    The command gets the `shared` options too, ``--use`` with them, and `output_options`. It reads
    only the configuration fields that it has options for; a command with `connection_options` reads
    all, because a provider may need any. With `is_group`, it is what `app` does where none of its
    commands is named.
    """

    def register(function: Command) -> Command:
        own = list(inspect.signature(function).parameters.values())[1:]
        groups = (use_options, *shared) if shared else ()
        settings = [parameter for group in groups for parameter in group]
        reads_all = connection_options in shared or not any(shared)
        fields = None if reads_all else {option.name for option in settings}
        parameters = [*own, *settings, *output_options, CONTEXT]

        @functools.wraps(function)
        def call(context: typer.Context, **values: Any) -> None:
            flags = {option.name: values[option.name] for option in settings}
            if is_group and context.invoked_subcommand is not None:
                _refuse_flags(context, flags)
                return
            _check_values(context)
            how = {option.name: _is_given(context, option.name) for option in output_options}
            if how["verbose"]:
                logger.addHandler(_LogHandler(as_json=how["as_json"]))
                logger.setLevel(logging.DEBUG)
            run = Run(flags, fields=fields, **how)
            try:
                function(run, **{option.name: values[option.name] for option in own})
            except Exception as error:
                is_typed = context.info_name == "set" or str(error).startswith("--")
                if family_of(error).code == USAGE or (is_typed and isinstance(error, ConfigError)):
                    advise(error, f"`{context.command_path} --help` shows the usage")
                raise

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {option.name: option.annotation for option in parameters}
        if is_group:
            app.callback(invoke_without_command=True)(call)
        else:
            app.command(name, cls=PlainCommand)(call)
        return function

    return register
