"""Errors for commands and options that do not exist: what the user may have meant."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from holdfast.cli.exit_codes import UsageError
from holdfast.cli.other_names import EXTRA_ARGUMENT_POINTERS, OPTION_POINTERS, POINTERS
from holdfast.hints import advise, did_you_mean

Refused: Any = typer.BadParameter.__base__
"""The error of the parser. Newer versions of Typer have their own class of it."""

EXTRA_ARGUMENT = "unexpected extra argument"  # in the message of the parser


class CommandGroup(TyperGroup):
    """A group of commands that says what an unknown command may have meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that `args` begin with, its name and the other arguments."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            raise unknown_command(args[0], self.known_names(ctx), ctx.command_path)
        return super().resolve_command(ctx, args)

    def known_names(self, ctx: Any) -> list[str]:
        """Return the names that a misspelt one is compared with."""
        return self.list_commands(ctx)


def unknown_command(name: str, known: Iterable[str], where: str) -> UsageError:
    """Return the error for a word that is not a command of `where`."""
    question = did_you_mean(name, known)
    error = UsageError(f"unknown command {name!r}" + (f": {question}" if question else ""))
    return advise(error, f"`{where} --help` lists the commands")


def check_habits(words: Sequence[str], *, is_known: bool) -> None:
    """Raise UsageError with a pointer for a command of another tool, a CID or a file alone.

    `is_known` is whether the first word is a command of ours; with the second, as in ``pin add``,
    it may still be one of another tool.
    """
    both, name = " ".join(words[:2]), words[0]
    if len(words) > 1 and both in POINTERS:
        raise advise(UsageError(f"unknown command {both!r}"), POINTERS[both])
    if not is_known and (pointer := POINTERS.get(name) or _pointer_of_content(name)):
        raise advise(UsageError(f"unknown command {name!r}"), pointer)


def _pointer_of_content(word: str) -> str | None:
    """Return what to type in place of a CID or a file alone."""
    from shlex import quote

    from holdfast.content.reference import Reference
    from holdfast.errors import InvalidCIDError

    try:
        Reference.parse(word)
    except InvalidCIDError:
        return f"`holdfast upload {quote(word)}` stores it" if os.path.lexists(word) else None
    return f"`holdfast download {quote(word)}` downloads it"


def usage_error(error: Any) -> UsageError:
    """Return the error for what the parser refuses; `error` is Click's, or Typer's copy of it."""
    where = error.ctx.command_path if error.ctx else "holdfast"
    command = error.ctx.info_name if error.ctx else ""
    if hasattr(error, "possibilities"):  # NoSuchOption
        wrong = _unknown_option(error.option_name, command, error.possibilities or ())
    else:
        wrong = UsageError(error.format_message())
    is_extra = EXTRA_ARGUMENT in str(wrong)
    if is_extra and command == "login":  # it may be a token
        wrong = UsageError("login takes no arguments")
    if is_extra and command in EXTRA_ARGUMENT_POINTERS:
        advise(wrong, EXTRA_ARGUMENT_POINTERS[command])
    return advise(wrong, f"`{where} --help` shows the usage")


def _is_of_commands(option: str) -> bool:
    """Return whether the commands that use a provider have this option."""
    from holdfast.cli.options import CONNECTED, use_options

    shared = (each.name for group in (use_options, *CONNECTED) for each in group)
    return option.removeprefix("--no-").removeprefix("--").replace("-", "_") in shared


def _unknown_option(option: str, command: str, similar: Iterable[str]) -> UsageError:
    """Return the error for an option that the command does not have."""
    pointer = OPTION_POINTERS.get((command, option)) or OPTION_POINTERS.get(("", option))
    if command == "holdfast" and _is_of_commands(option):
        pointer = f"write it after the command: `holdfast COMMAND {option} …`"
    question = "" if pointer else did_you_mean(option, similar)
    wrong = UsageError(f"unknown option {option}" + (f": {question}" if question else ""))
    return advise(wrong, pointer) if pointer else wrong
