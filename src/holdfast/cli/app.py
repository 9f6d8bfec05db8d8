"""The Typer application: all commands by name, each imported when it is called."""

import os
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

import holdfast
from holdfast.cli import exit_codes

COMMAND_MODULES: Final = {
    "content": ("store", "retrieve", "send", "receive", "revoke"),
    "uploading": ("upload",),
    "unfinished": ("uploads",),
    "downloading": ("download",),
    "listing": ("ls",),
    "inspecting": ("info",),
    "pins": ("pin", "update", "list"),
    "sharing": ("url", "open", "link", "upload-link", "test-connection"),
    "offline": ("cid", "verify"),
    "copying": ("copy",),
    "backups": ("backup", "restore"),
    "archives": ("car",),
    "maintenance": ("gc", "check", "repair"),
    "cache": ("cache",),
    "node": ("node",),
    "login": ("login",),
    "show_status": ("status",),
    "show_config": ("config",),
    "show_connections": ("connections",),
    "demo": ("demo",),
}
"""The modules of commands, and the commands in each, in the order of the help."""

EPILOG: Final = f"""\b
Exit codes:
{exit_codes.table()}

\b
A CID may be followed by a path, or be part of a link with /ipfs/ in it.
"-" is standard input or standard output. After "--", an argument that begins with "-"
is not an option: holdfast store -- -5
Settings come from flags, then the connection that --use, HOLDFAST_USE or a file names, then
HOLDFAST_* variables, then holdfast.toml in this folder or one above it, then holdfast.toml in
your configuration folder; `holdfast config` shows them.

\b
With --json after the name of a command, the result is one line of JSON on standard output;
`ls`, and `upload` of several files, write a line for each. On standard error, each line is
{{"error": {{"name": …, "message": …, "remedy": …, "exitCode": …}}}} or {{"warning": …}}.
"""

COMPLETION: Final = "_HOLDFAST_COMPLETE"
Refused: Any = typer.BadParameter.__base__
"""The error of the parser. Newer versions of Typer have their own class of it."""


class Commands(TyperGroup):
    """The commands in `COMMAND_MODULES`, imported only when they are needed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        """Return the names of all commands."""
        return [name for names in COMMAND_MODULES.values() for name in names]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - as Typer calls it
        """Return the command of this name, or None."""
        for module_name, names in COMMAND_MODULES.items():
            if cmd_name in names:
                module = import_module(f"holdfast.cli.{module_name}")
                return typer.main.get_group(module.commands).commands[cmd_name]
        return None


app = typer.Typer(
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
    parser = typer.main.get_command(app)
    try:
        with parser.make_context("holdfast", arguments or ["--help"]) as context:
            parser.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except Refused as error:
        wrong = exit_codes.UsageError(error.format_message())
        where = error.ctx.command_path if error.ctx else "holdfast"
        raise exit_codes.advise(wrong, f"`{where} --help` shows the usage") from None
    return 0


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - as Typer calls it
    if wanted:
        typer.echo(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Define the options of the application itself."""
