"""The commands ``help`` and ``version``."""

from typing import Annotated, Final

import typer

import holdfast
from holdfast.cli import exit_codes
from holdfast.cli.app import TOPICS
from holdfast.cli.run import Run, command, group

commands: Final = group()


def _topics() -> list[str]:
    """Return what ``help`` takes, for completion."""
    from holdfast.cli.app import COMMAND_MODULES

    return [*(name for names in COMMAND_MODULES.values() for name in names), *TOPICS]


@command(commands, name="help")
def show_help(
    run: Run,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC",
            autocompletion=_topics,
            help=f"A command, or {', '.join(TOPICS)}; else all commands.",
        ),
    ] = None,
) -> None:
    """Show the help of a command, or of a topic."""
    # The application replaces `help COMMAND` by `COMMAND --help`: see `app.Commands`.
    if topic is not None and topic not in TOPICS:
        raise exit_codes.UsageError(f"write options last: holdfast help {topic}")
    text = _help_of_all() if topic is None else TOPICS[topic]
    value = exit_codes.meanings() if topic == "exit-codes" else {"text": text}
    run.emit(value, *text.splitlines())


def _help_of_all() -> str:
    """Return what ``holdfast --help`` writes."""
    from holdfast.cli.app import app

    parser = typer.main.get_command(app)
    return parser.make_context("holdfast", [], resilient_parsing=True).get_help()


@command(commands)
def version(run: Run) -> None:
    """Show the version."""
    run.emit({"version": holdfast.__version__}, f"holdfast {holdfast.__version__}")
