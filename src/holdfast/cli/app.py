"""The Typer application: all commands by name, each imported when it is called."""

import os
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer

import holdfast
from holdfast.cli import exit_codes, output
from holdfast.cli.unknown_words import ALIASES, CommandGroup, Refused, check_habits, usage_error
from holdfast.hints import advise

# Texts of the help beside those of the commands: the first screen, and the topics.

# What ``holdfast`` writes without arguments.
FIRST_SCREEN: Final = """\
Holdfast pins JSON and files to IPFS and reads them back, every byte verified
against its CID.

  holdfast upload FILE      store a file or folder; write its CID
  holdfast download CID     get it back, verified
  holdfast store JSON       store a JSON value; `retrieve CID` reads it
  holdfast list             list what is pinned
  holdfast node             run a node, with a page for your browser

By default, everything stays on your disk: no account, no network.
See them all work: holdfast demo. Help for one: holdfast help upload.
All commands: holdfast --help"""

SETTINGS: Final = """\
The first of these that has a setting wins:

  1. flags, such as --provider
  2. the connection that --use, HOLDFAST_USE or a file names
  3. variables: HOLDFAST_PROVIDER, HOLDFAST_PROVIDER_TOKEN, …
  4. holdfast.toml in this folder or one above it
  5. holdfast.toml in your settings folder

`holdfast config` shows each setting, and where it came from. `holdfast config
set` changes the last file, and `holdfast login` saves a token in it. The token
may also be in a variable, in a file that --token-file or a connection names,
or typed at a prompt."""

JSON: Final = """\
With --json before or after the command, the result is JSON on standard output:
one line for a single result, or one line each for several, such as the pins of
`list` or the files of `upload a b`. It is ASCII, whatever your locale is.

On standard error, each line is one of
  {"error": {"name": …, "message": …, "remedy": …, "exitCode": …}}
  {"warning": …}
  {"log": …}, with --verbose"""

# The topics of ``holdfast help``.
TOPICS: Final = {"exit-codes": exit_codes.table(), "settings": SETTINGS, "json": JSON}


# The commands of each task, by their modules, in the order of the help and of the reference.
TASKS: Final = {
    "Try it, and get help": {"help": "demo help version"},
    "Store and read JSON": {"content": "store retrieve"},
    "Upload and download files and folders": {
        "content": "upload download uploads",
        "inspecting": "ls info",
    },
    "Find, label and remove pins": {"pins": "list update pin revoke"},
    "Connect to a provider": {
        "settings": "login logout config",
        "connections": "status connections",
        "sharing": "test-connection",
    },
    "Encrypt, decrypt and share": {"keys": "keygen keys", "sharing": "share"},
    "Share links": {"sharing": "url open link upload-link"},
    "Send and receive messages": {"content": "send receive"},
    "Compute and verify CIDs": {"inspecting": "cid verify"},
    "Move content, and back it up": {"copying": "copy backup restore", "maintenance": "car"},
    "Keep copies on several services": {"copies": "health drill"},
    "Look after the store on your disk": {"maintenance": "gc check repair cache"},
    "Run a node": {"node": "node"},
}

# The module of each command.
COMMANDS: Final = {
    command: module
    for modules in TASKS.values()
    for module, commands in modules.items()
    for command in commands.split()
}

EPILOG: Final = f"""\b
A CID may be followed by a path, or be part of a link with /ipfs/ in it.
"-" is standard input or standard output. After "--", an argument that begins with "-"
is not an option: holdfast store -- -5
`add`, `get`, `cat` and `rm` work too. Instead of a CID, you can give name:NAME, the name of a pin.

\b
More: holdfast help COMMAND, or holdfast help {" | ".join(TOPICS)}
"""

MAX_HELP: Final = 60  # characters of a command's help in the list
COMPLETION: Final = "_HOLDFAST_COMPLETE"


class Commands(CommandGroup):
    """The commands in `COMMANDS`, imported only when they are needed; and their aliases."""

    other_names: Iterable[str] = ALIASES
    topics: str = f"; the topics are {', '.join(TOPICS)}"

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        """Return the names of all commands, without aliases."""
        return [*COMMANDS]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by task."""
        for task, modules in TASKS.items():
            with formatter.section(task):
                names = " ".join(modules.values()).split()
                helps = [self.get_command(ctx, name).get_short_help_str(MAX_HELP) for name in names]
                formatter.write_dl(
                    [(f"{name:<15}", text) for name, text in zip(names, helps, strict=True)]
                )

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - as Typer calls it
        """Return the command of this name, or None."""
        module = COMMANDS.get(cmd_name)
        return None if module is None else _commands_of(module)[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first of `args`, which may be an alias, or ``help COMMAND``."""
        if args[0] == "help" and len(args) > 1 and args[1][:1] != "-" and args[1] not in TOPICS:
            args = [*args[1:], "--help"]
        args = [*ALIASES.get(args[0], args[:1]), *args[1:]]
        if not ctx.resilient_parsing:  # as it is for completion
            check_habits(args, is_ours=self.get_command(ctx, args[0]) is not None)
        return super().resolve_command(ctx, args)


@cache
def _commands_of(module: str) -> Mapping[str, Any]:
    """Return the commands of a module, which take Typer milliseconds to build."""
    return typer.main.get_group(import_module(f"holdfast.cli.{module}").commands).commands


app: Final = typer.Typer(
    cls=Commands,
    help="Pin JSON and files to IPFS and read them back, every byte verified against its CID.",
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def call(arguments: list[str]) -> int:
    """Run the command in `arguments`, and return the exit code."""
    if COMPLETION in os.environ:
        app(prog_name="holdfast")
    if not arguments:
        output.say(*FIRST_SCREEN.splitlines())
        return 0
    if arguments == ["-v"]:  # with many tools, it shows the version
        raise advise(exit_codes.UsageError("-v needs a command"), "`holdfast -V` shows the version")
    parser = typer.main.get_command(app)
    try:
        with parser.make_context("holdfast", list(arguments)) as context:
            parser.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except Refused as error:
        raise usage_error(error, arguments) from None
    return 0


def _show_version(is_asked: bool) -> None:  # noqa: FBT001 - as Typer calls it
    if is_asked:
        typer.echo(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON, for machines. Also after the command.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Log to standard error. Also after the command.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "-V", "--version", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Define the options of the application itself.

    `run.command` reads ``--json`` and ``--verbose`` from the context.
    """
