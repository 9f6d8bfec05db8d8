"""The application: every command by name, imported when it is called."""

import os
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

import holdfast
from holdfast.cli import exit_codes

COMMAND_MODULES: Final = {
    "content": ("store", "retrieve", "upload", "download", "send", "receive", "revoke"),
    "sharing": ("list", "open", "test-connection"),
    "offline": ("cid", "verify"),
    "archives": ("car",),
    "maintenance": ("gc", "check", "repair"),
    "node": ("node",),
    "setup": ("config",),
    "demo": ("demo",),
}
"""The modules here, and the commands in each, in the order of the help."""

EPILOG: Final = f"""\b
Exit codes:
{exit_codes.table()}

\b
A CID may be given as such, with a path behind it, or as a link with /ipfs/ in it.
"-" stands for standard input, or for standard output. Behind "--", what begins with
"-" is no option: holdfast store -- -5
Settings: flags, then HOLDFAST_* variables, then holdfast.toml here or in a folder
above, then holdfast.toml in your folder for settings; `holdfast config` shows them.

\b
--json, behind the name of a command, is for machines: the answer is one line of JSON on
standard output. On standard error, each line is {{"error": {{"name": …, "message": …,
"remedy": …, "exitCode": …}}}} or {{"warning": …}}.
"""

COMPLETION: Final = "_HOLDFAST_COMPLETE"
Refused: Any = typer.BadParameter.__base__
"""What the parser raises; Typer has its own since it carries a parser of its own."""


class Commands(TyperGroup):
    """The commands in `COMMAND_MODULES`: to show the version, none of them is needed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        """The names of all commands."""
        return [name for names in COMMAND_MODULES.values() for name in names]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - as Typer calls it
        """The command of this name, if there is one."""
        for module_name, names in COMMAND_MODULES.items():
            if cmd_name in names:
                module = import_module(f"holdfast.cli.{module_name}")
                return typer.main.get_group(module.commands).commands[cmd_name]
        return None


app = typer.Typer(
    cls=Commands,
    help="Pin JSON and files to IPFS and read them back, every byte proven against its CID.",
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def call(arguments: list[str]) -> int:
    """Do what the `arguments` say; the exit code."""
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
        raise exit_codes.advise(wrong, f"`{where} --help` shows what it takes") from None
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
    """Hold the options of the application itself."""
