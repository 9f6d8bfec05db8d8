"""The page of the command line: scripts/cli_reference.md, with what the commands say of themselves.

The page is written by task. A line `::: upload` in it becomes the usage, the words and the options
of that command and of the commands under it. `problems` names the commands that no task has.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from holdfast.cli import exit_codes, options
from holdfast.cli.app import TASKS, app
from holdfast.cli.unknown_words import ALIASES

TEXT: Final = Path(__file__).with_suffix(".md")
MARK: Final = re.compile(r"(?m)^::: (.+)$")
SHARED: Final = {
    "Connection options": options.use_options,
    "Provider options": options.connection_options,
    "Gateway options": options.gateway_options,
    "Verification options": options.verify_options,
    "Store options": options.store_options,
    "Layout options": options.layout_options,
    "Output options": options.output_options,
}
"""The options that many commands have, by heading."""


def cli_page() -> str:
    """Return the page of the commands."""
    text = TEXT.read_text(encoding="utf-8")
    commands = top_level()
    more = "".join(f"::: {name}\n" for name in commands if name not in MARK.findall(text))
    parts = {
        "TASKS": tasks(text),
        "MORE": f"## More commands\n\n{more}" if more else "",
        "SHARED": shared_options(commands.values()),
        "EXIT_CODES": exit_code_table(),
    }
    for word, part in parts.items():
        text = text.replace(f"\n{word}\n", f"\n{part}")
    text = MARK.sub(
        lambda match: entries(match[1], commands[match[1]]) if match[1] in commands else "", text
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def problems() -> list[str]:
    """Return what is wrong with the tasks: each command belongs to one."""
    marked = MARK.findall(TEXT.read_text(encoding="utf-8"))
    commands = top_level()
    where = f"scripts/{TEXT.name}"
    written = {title: {*names} for title, names in sections(TEXT.read_text(encoding="utf-8"))}
    in_help = {title: {*" ".join(task.values()).split()} for title, task in TASKS.items()}
    return [
        *(
            f"{where} and the help differ: {title}"
            for title in {*written, *in_help}
            if written.get(title) != in_help.get(title)
        ),
        *(
            f"`holdfast {name}` belongs to no task: write `::: {name}` into {where}"
            for name in commands
            if name not in marked
        ),
        *(
            f"there is no `holdfast {name}`, which {where} names"
            for name in {*marked} - {*commands}
        ),
        *(f"{where} names `{name}` twice" for name in {*marked} if marked.count(name) > 1),
    ]


def top_level() -> dict[str, Any]:
    """Return the commands that the help shows, by name."""
    root = typer.main.get_command(app)
    return {name: command for name, command in children(root) if not command.hidden}


def children(command: Any) -> Iterator[tuple[str, Any]]:
    """Return the names and the commands right under `command`."""
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield name, command.get_command(None, name)


def tasks(text: str) -> str:
    """Return the table of tasks, and the commands of each."""
    rows = [
        [link_to(title), ", ".join(f"[`{name}`](#{name})" for name in names)]
        for title, names in sections(text)
    ]
    return table(["to…", "use"], rows)


def sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Return the title of each task, and its commands."""
    for section in re.split(r"(?m)^## ", text)[1:]:
        if names := MARK.findall(section):
            yield section.partition("\n")[0], names


def link_to(title: str) -> str:
    """Return a link to a heading of this page, for the middle of a sentence."""
    anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
    return f"[{title[0].lower()}{title[1:]}](#{anchor})"


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def entries(name: str, command: Any, level: int = 3) -> str:
    """Return the part of the page about `command` and about all commands under it."""
    below = [entries(f"{name} {word}", child, level + 1) for word, child in children(command)]
    return "\n".join([entry(name, command, level), *below])


def entry(name: str, command: Any, level: int) -> str:
    """Return the usage of a command, what it says of itself, and the table of its options."""
    context = command.context_class(command, info_name=f"holdfast {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    words = re.sub(r"(?<!\n)\n(?!\n)", " ", command.help or "")
    own, shared = [], {}
    for parameter in parameters(command):
        if heading := heading_of(parameter):
            shared[heading] = link_to(heading)
        else:
            own.append(row(parameter, context))
    return "\n".join(
        [
            f"\n{'#' * level} {name}\n",
            f"```text\nholdfast {name} {usage}\n```\n",
            f"{words}\n",
            other_names(name),
            table(["argument or option", "meaning"], own) if own else "",
            f"Also: {', '.join(shared.values())}.\n" if shared else "",
        ]
    )


def other_names(name: str) -> str:
    """Return the sentence about the aliases of a command."""
    aliases = {alias: words for alias, words in ALIASES.items() if words[0] == name}
    shown = [
        f"`{alias}`" if words == (name,) else f"`{alias}` for `{' '.join(words)}`"
        for alias, words in aliases.items()
    ]
    return f"Other names: {', '.join(shown)}.\n" if shown else ""


def parameters(command: Any) -> list[Any]:
    """Return the arguments and options of a command, but for its help and what is hidden."""
    return [
        parameter
        for parameter in command.params
        if parameter.name != "help" and not getattr(parameter, "hidden", False)
    ]


def heading_of(parameter: Any) -> str | None:
    """Return the heading of the shared options to which `parameter` belongs, if any.

    The help counts too: `--token-file` of `node` is another option than that of `store`.
    """
    for heading, group in SHARED.items():
        for option in group:
            declaration = option.annotation.__metadata__[0]
            if (option.name, declaration.help) == (parameter.name, parameter.help):
                return heading
    return None


def shared_options(commands: Iterable[Any]) -> str:
    """Return a table for each group of shared options."""
    rows: dict[str, dict[str, list[str]]] = {heading: {} for heading in SHARED}
    for command in commands:
        for parameter in parameters(command):
            if heading := heading_of(parameter):
                context = command.context_class(command)
                rows[heading][parameter.name] = row(parameter, context)
    return "\n".join(
        f"## {heading}\n\n{table(['option', 'meaning'], options.values())}"
        for heading, options in rows.items()
    )


EXTRAS: Final[Mapping[str, str]] = {
    r"default: (.*)": r"Default: `\1`.",
    r"required": "Required.",
    r"x>=(.*)": r"At least \1.",
    r"(.*)<=x<=(.*)": r"From \1 to \2.",
}
"""What the help writes in brackets, and how the page says it."""


def row(parameter: Any, context: Any) -> list[str]:
    """Return the cells of an argument or an option."""
    shown, words = parameter.get_help_record(context)
    if match := re.search(r" *\[([^\]]*)\]$", words):
        words = words[: match.start()]
        for extra in match[1].split("; "):
            if parameter.param_type_name == "argument" and extra == "required":
                continue  # the usage says it
            pattern = next((regex for regex in EXTRAS if re.fullmatch(regex, extra)), None)
            words += f" {re.sub(pattern, EXTRAS[pattern], extra)}" if pattern else f" ({extra})"
    flags = ", ".join(f"`{name}`" for name in re.split(r", | / ", shown))
    return [flags.replace("|", r"\|"), words.strip().replace("|", r"\|")]


def exit_code_table() -> str:
    """Return the exit codes as a table."""
    rows = [line.split(maxsplit=1) for line in exit_codes.table().splitlines()]
    return table(["exit code", "meaning"], rows)
