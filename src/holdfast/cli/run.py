"""One call of a command: the options that many commands share, and what they amount to."""

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import holdfast
from holdfast.cli import exits, output
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.cli.settings import Setting
    from holdfast.repository import Repository

NEED_TOKEN: Final = frozenset({"pinning", "provider_b", "provider_c"})


class Run:
    """What one call was told, and what it works with.

    Attributes:
        as_json: Whether a machine reads the answer.
        flags: The shared options that were given.
    """

    def __init__(self, *, as_json: bool = False, flags: Mapping[str, Any] | None = None) -> None:
        self.as_json = as_json
        self._flags = dict(flags or {})

    @cached_property
    def settings(self) -> "dict[str, Setting]":
        """What is configured, from all sources; tokens wrapped."""
        from holdfast.cli.settings import gather

        return gather(_fields(self._flags))

    def config(self) -> "holdfast.ClientConfig":
        """The configuration that the settings describe."""
        from holdfast.cli.settings import config_of

        return config_of(self.settings)

    def client(self) -> "holdfast.Client":
        """A client for the configured provider; a missing token is asked for on a terminal."""
        config = self.config()
        if config.provider in NEED_TOKEN and config.provider_token is None:
            config = config.with_options(provider_token=_ask_for_token(config))
        return holdfast.Client.init(config)

    def repository(self, *, make: bool = False) -> "Repository":
        """The embedded store; one that is not there yet is made, or an error."""
        from holdfast.locations import data_folder
        from holdfast.repository import Repository
        from holdfast.repository.store import DATABASE

        path = Path(self.config().path or data_folder()).expanduser()
        if not make and not (path / DATABASE).is_file():
            raise ConfigError(f"there is no store in {path}: name its folder with --path")
        return Repository(path)

    def emit(self, value: Any, text: str) -> None:
        """Answer: with `value` to machines, with `text` to people."""
        if self.as_json:
            output.say_json(value)
        else:
            output.say(text)


def output_options(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """The options of every command."""


def store_options(
    *,
    path: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder of the embedded store.")
    ] = None,
) -> None:
    """The options of commands that look into the embedded store."""


def layout_options(
    *,
    cid_version: Annotated[
        int | None, typer.Option(metavar="0|1", min=0, max=1, help="The version of new CIDs.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="unixfs-v1-2025, unixfs-v0-2015 or kubo-legacy-cidv1."),
    ] = None,
) -> None:
    """The options of commands that make CIDs."""


def connection_options(
    *,
    provider: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="local, pinning, or an installed provider's name."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the provider's token.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="The token itself; better in HOLDFAST_PROVIDER_TOKEN or a file."
        ),
    ] = None,
    pin_api_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The pinning API's address.")
    ] = None,
    gateway_url: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A gateway for reads; repeatable, tried in order."),
    ] = None,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not prove what is read against its CID.")
    ] = False,
    allow_insecure: Annotated[
        bool, typer.Option("--allow-insecure", help="Let a token go over plain HTTP.")
    ] = False,
) -> None:
    """The options of commands that ask a provider."""


CONNECTED: Final = (connection_options, store_options, layout_options)

Command = Callable[..., None]


def group(**about: Any) -> typer.Typer:
    """A place for commands, in the style of all of them."""
    return typer.Typer(rich_markup_mode=None, no_args_is_help=True, add_completion=False, **about)


def command(
    app: typer.Typer, *shared: Callable[..., None], name: str | None = None
) -> Callable[[Command], Command]:
    """Make a function that takes a `Run` a command of `app`, with the `shared` options too."""

    def register(function: Command) -> Command:
        own = list(inspect.signature(function).parameters.values())[1:]
        added = [
            parameter
            for options in (*shared, output_options)
            for parameter in inspect.signature(options).parameters.values()
        ]

        @functools.wraps(function)
        def call(**given: Any) -> None:
            flags = {each.name: given.pop(each.name) for each in added}
            as_json = flags.pop("as_json")
            with _reporting(as_json=as_json):
                function(Run(as_json=as_json, flags=flags), **given)
                sys.stdout.flush()

        call.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in (*own, *added)}
        app.command(name)(call)
        return function

    return register


@contextmanager
def _reporting(*, as_json: bool) -> Iterator[None]:
    """Whatever goes wrong inside ends in a sentence, a remedy and an exit code."""
    warnings.showwarning = lambda message, *_, **__: output.warn(str(message))
    try:
        yield
    except BrokenPipeError as error:
        if isinstance(error, holdfast.errors.ClientError):
            raise typer.Exit(output.report(error, as_json=as_json)) from None
        # Whoever read our output has had enough; Python must not flush into it once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise typer.Exit(exits.BROKEN_PIPE) from None
    except KeyboardInterrupt:
        output.say("interrupted", sys.stderr)
        raise typer.Exit(exits.INTERRUPTED) from None
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:
        if exits.family_of(error) is exits.UNEXPECTED and os.environ.get("HOLDFAST_TRACEBACK"):
            raise
        raise typer.Exit(output.report(error, as_json=as_json)) from None


def _fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags as fields of the configuration; what was not given is left out."""
    from holdfast.secret import Secret

    fields = {name: value for name, value in flags.items() if not _absent(value)}
    if fields.pop("no_verify", False):
        fields["verify"] = False
    if "token" in fields and "token_file" in fields:
        raise typer.BadParameter("--token and --token-file exclude each other")
    if "token" in fields:
        output.warn(
            "a token on the command line can be seen by others and stays in the shell's history; "
            "use HOLDFAST_PROVIDER_TOKEN or --token-file"
        )
        fields["provider_token"] = Secret(fields.pop("token"))
    if "token_file" in fields:
        fields["provider_token"] = _read_token(fields.pop("token_file"))
    return fields


def _absent(value: Any) -> bool:
    """Whether this is what an option that was not given has."""
    return value is None or value is False or value == []


def _read_token(file: Path) -> Any:
    from holdfast.secret import Secret

    try:
        return Secret(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"--token-file: {file} cannot be read: {why}") from None


def _ask_for_token(config: "holdfast.ClientConfig") -> Any:
    """The token, from whoever sits at the terminal."""
    from getpass import getpass

    from holdfast.secret import Secret

    if not sys.stderr.isatty():
        raise ConfigError(
            f"provider {config.provider!r} needs a token: "
            "set HOLDFAST_PROVIDER_TOKEN, or give --token-file"
        )
    try:
        return Secret(getpass(f"Token for {config.pin_api_url}: "))
    except EOFError:
        raise ConfigError("no token was given") from None
