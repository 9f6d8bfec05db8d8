"""What people type out of habit or by mistake: aliases, pointers from other tools, suggestions.

An alias runs our command. What is not ours is an error whose hint names the command to type.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Any, Final

import typer
from typer.core import TyperGroup

from holdfast.cli.exit_codes import UsageError
from holdfast.errors import InvalidCIDError
from holdfast.hints import advise, did_you_mean

# The words that each alias stands for. They are not in `--help`, and named in the reference.
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "add": ("upload",),
    "put": ("upload",),
    "get": ("download",),
    "cat": ("download", "--output", "-"),
    "rm": ("revoke",),
    "unpin": ("revoke",),
    "delete": ("revoke",),
    "exit-codes": ("help", "exit-codes"),
}


def _by_word(pointers: Mapping[str, str]) -> dict[str, str]:
    return {word: pointer for pointer, words in pointers.items() for word in words.split(", ")}


# What to type in place of a command of another tool, by its first word or its first two.
POINTERS: Final = _by_word(
    {
        "`holdfast upload FILE` stores a file or folder": "push, save, upload-file, up, files add",
        "`holdfast retrieve CID` writes a JSON value, `holdfast download CID` gets a file": (
            "pull, fetch, read, show, view, clone, dag get, block get"
        ),
        "`holdfast store JSON` stores a JSON value": "write, json",
        "`holdfast list` shows what is pinned; with --name, what has a text in its name": (
            "pins, search, find, log, pin ls, pin list, files, lsl, lsd, lsf, lsjson"
        ),
        "`holdfast ls CID` lists a folder, `holdfast cat CID` writes a file": (
            "dir, tree, browse, files ls, files read"
        ),
        "`holdfast rm CID` unpins it": "remove, del, purge, pin rm, pin remove, files rm",
        "`holdfast pin CID` pins by a CID": "pin add, pin-add, pin-by-cid",
        "`holdfast update CID --name NAME` gives a pin another name": (
            "pin update, rename, mv, tag, label"
        ),
        "`holdfast url CID` writes a link to share, `holdfast link CID` a private one": (
            "sign, presign, publish"
        ),
        "there is nothing to set up: `holdfast upload FILE`; for a service, `holdfast login`": (
            "init, install, setup"
        ),
        "`holdfast node` runs a node until Ctrl-C; without one, commands use the store": (
            "daemon, start, serve, server, run, gateway, node start, node run"
        ),
        "Ctrl-C ends `holdfast node`": "stop, shutdown, node stop",
        "`holdfast node` runs a node, and writes the address of its page": (
            "web, webui, ui, dashboard, page"
        ),
        "`holdfast status` shows the provider; `holdfast login` saves its token": (
            "whoami, account, auth, key, token, id"
        ),
        "`holdfast config` shows all settings, `holdfast config set KEY VALUE` changes one": (
            "configure, settings, env, config show"
        ),
        "`holdfast status` tests the connection": "ping, test, doctor",
        "`holdfast info CID` shows its kind, size, blocks, and where it is pinned": (
            "stat, size, du, inspect, refs, resolve, files stat, dag stat, block stat, object stat"
        ),
        "`holdfast status` shows the store and the disk": "df, about, stats, repo stat",
        "`holdfast cid FILE` computes a CID, offline": "hash, hashsum, only-hash",
        "`holdfast copy --from CONNECTION --to CONNECTION` copies pins to another provider": (
            "sync, migrate, mirror"
        ),
        "`holdfast upload FILE`, `holdfast download CID`; `holdfast copy` is between providers": (
            "cp, copyto, s3"
        ),
        "`holdfast upload FOLDER` stores a folder with all that is in it": "mkdir",
        "`holdfast connections` lists your connections; --use NAME chooses one": (
            "use, switch, remote, listremotes, profile, providers"
        ),
        "`holdfast upload --encrypt FILE` encrypts what it stores": "encrypt",
        "`holdfast download --decrypt CID` decrypts it": "decrypt",
        "`holdfast verify FILE CID` compares a file or folder with its CID": "diff, compare",
        "`holdfast keygen` makes a key, `holdfast keys` lists them": "key gen, key list, keys list",
        "use the command ipfs: Holdfast publishes no names, and has no peers": (
            "name, ipns, swarm, dht, routing, bootstrap, pubsub"
        ),
        "`holdfast car export CID FILE` writes an archive": "export, dag export",
        "`holdfast car import FILE` reads an archive, `holdfast restore FILE` a backup": (
            "import, dag import, car add"
        ),
        "`holdfast gc` removes what no pin needs": "clean, prune, repo gc",
        "`holdfast check` checks the store": "fsck, repo verify",
        "run the same command again: it continues; `holdfast uploads` lists uploads": "resume",
        "`holdfast send RECIPIENT MESSAGE` stores a message": "message, msg",
        "`holdfast receive CID` writes the message at a CID": "inbox, messages",
        "`pip install '.[all]'` in a newer clone installs that version": "upgrade, self-update",
        "`holdfast --install-completion` turns on completion with TAB": "completion, completions",
        "`holdfast --help` lists all commands": "man, docs, commands, usage",
    }
)

_LOGIN: Final = "the token is asked for; in a pipe: holdfast login pinata < FILE"
_LIST_OPTIONS: Final = ("--name", "--cid", "--keyvalue", "--since", "--until", "--limit", "-n")

# What to type in place of an option of another tool, by the option, perhaps after a command.
OPTION_POINTERS: Final = {
    **{f"ls {option}": f"`holdfast list` takes {option}" for option in _LIST_OPTIONS},
    **_by_word(
        {
            "`holdfast cid FILE` only computes the CID": "upload --only-hash, upload --dry-run",
            "`holdfast upload FOLDER` keeps the names of the files in it": "upload -w",
            "leave it out: it lists one folder; `holdfast download CID FOLDER` gets all of it": (
                "ls -r, ls -R, ls --recursive"
            ),
            _LOGIN: "login --token, login --token-file",
            "leave it out: folders are always included whole": "-r, -R, --recursive",
            "leave it out: no command asks": "-f, --force, -y, --yes",
            "leave it out: only the result is written": "-q, --quiet, -s, --silent, --progress",
            "--include-hidden uploads hidden files": "upload -H, upload -A, upload --all",
            "leave it out: `holdfast store JSON`": "store -d, store --data",
            "write `holdfast share CID RECIPIENT`": "share --to",
            "set HOLDFAST_IDENTITIES=./FILE: the path of a key has a slash in it": "--identity",
            "write `config get KEY`, `config set KEY VALUE`": "config --get, config --global",
            "write `> FILE` after the command; --json writes JSON": "-o, --output, --out",
        }
    ),
}

# Other words for options, in lower case without hyphens.
OTHER_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("out", "outfile", "dest", "target"), ("--output",)),
    **dict.fromkeys(("meta", "metadata", "kv", "tags"), ("--keyvalue",)),
    **dict.fromkeys(("max", "count", "number", "maxitems"), ("--limit",)),
    **dict.fromkeys(("maxage", "newer", "after"), ("--since",)),
    **dict.fromkeys(("format", "outputformat"), ("--json",)),
    **dict.fromkeys(("reverse", "order"), ("--sort",)),
    **dict.fromkeys(("title", "search", "query", "filter"), ("--name",)),
    "label": ("--name", "--keyvalue"),
    **dict.fromkeys(("jwt", "apikey", "auth"), ("--token-file",)),
    **dict.fromkeys(("api", "url", "endpoint"), ("--pin-api-url",)),
    "network": ("--private", "--option"),
    "ignore": ("--exclude",),
}

# What to type where a command gets one argument too many, by the command.
EXTRA_ARGUMENT_POINTERS: Final = {
    "store": '`holdfast store \'{"hello": "world"}\'`: JSON in single quotes is one argument',
    "send": "put the message in quotes",
    "check": "`holdfast verify FILE CID` compares a file or folder with its CID",
    "list": "`holdfast list --name TEXT` lists the pins with a text in the name",
    "retrieve": "`holdfast download CID FILE` writes to a file",
    "download": "download one CID at a time",
    "pin": "pin one CID at a time",
    "login": _LOGIN,
}

# The error of the parser. Newer versions of Typer have their own class of it.
Refused: Any = typer.BadParameter.__base__

# What the parser says about numbers, and what is written in its place.
NUMBERS: Final = {
    "(Input should be|'[^']*' is not) a valid integer.*": "it must be a whole number",
    "(Input should be|'[^']*' is not) a valid (number|float).*": "it must be a number",
    "Input should be greater than or equal to": "it must be at least",
    r"\S+ is not in the range x>=(\d+)\.": r"it must be at least \1",
    r"\S+ is not in the range (\d+)<=x<=(\d+)\.": r"it must be at least \1 and at most \2",
    "Input should be less than or equal to": "it must be at most",
}
EXTRA_ARGUMENT = "unexpected extra argument"  # in the message of the parser


class CommandGroup(TyperGroup):
    """A group of commands that says what an unknown command may have meant.

    Attributes:
        other_names: Names, beside those of its commands, that a misspelt one is compared with.
    """

    other_names: Iterable[str] = ()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that `args` begin with, its name and the other arguments."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            question = did_you_mean(args[0], [*self.list_commands(ctx), *self.other_names])
            wrong = _unknown("command", repr(args[0]), question)
            raise advise(wrong, f"`{ctx.command_path} --help` lists the commands")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands."""
        write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the arguments and options of a command; those that commands share come last."""
    from holdfast.cli.options import SHARED

    sections: dict[str, list[Any]] = {"Arguments": [], "Options": [], SHARED: []}
    for one in command.get_params(ctx):
        is_shared = getattr(one, "rich_help_panel", None) == SHARED
        is_shared |= one.name == "help" and ctx.parent is not None
        title = SHARED if is_shared else f"{one.param_type_name.title()}s"
        sections[title] += filter(None, [one.get_help_record(ctx)])
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _unknown(what: str, name: str, question: str = "") -> UsageError:
    return UsageError(f"unknown {what} {name}" + (f": {question}" if question else ""))


def check_habits(words: Sequence[str], *, is_ours: bool) -> None:
    """Raise UsageError with a pointer for a command of another tool, a CID or a file alone.

    `is_ours` is whether the first word is a command of ours; with the second, as in ``pin add``,
    it may still be one of another tool.
    """
    both, name = " ".join(words[:2]), words[0]
    if len(words) > 1 and both in POINTERS:
        raise advise(_unknown("command", repr(both)), POINTERS[both])
    if name == "keygen" and re.search("\0--passphrase\0[^-]", "\0".join(words)):
        wrong = UsageError("--passphrase takes no value: you are asked for the passphrase")
        raise advise(wrong, "the name of the key comes first: holdfast keygen NAME --passphrase")
    if not is_ours and (pointer := POINTERS.get(name) or _pointer_of_content(name)):
        raise advise(_unknown("command", repr(name)), pointer)


def _pointer_of_content(word: str) -> str | None:
    """Return what to type in place of a CID or a file alone."""
    from holdfast.content.reference import Reference

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
        parameters = error.ctx.command.params if error.ctx else ()
        names = [name for one in parameters for name in (*one.opts, *one.secondary_opts)]
        wrong = _unknown_option(error.option_name, command, names)
    else:
        message = error.format_message()
        for pattern, words in NUMBERS.items():
            message = re.sub(pattern, words, message)
        wrong = UsageError(message)
    is_extra = EXTRA_ARGUMENT in str(wrong)
    if is_extra and command == "login":  # it may be a token
        wrong = UsageError("login takes the name of a provider")
    if is_extra and command in EXTRA_ARGUMENT_POINTERS:
        advise(wrong, EXTRA_ARGUMENT_POINTERS[command])
    return advise(wrong, f"`{where} --help` shows the usage")


def _is_of_commands(option: str) -> bool:
    """Return whether the commands that use a provider have this option."""
    from holdfast.cli.options import CONNECTED, use_options

    shared = (parameter.name for group in (use_options, *CONNECTED) for parameter in group)
    return option.removeprefix("--no-").removeprefix("--").replace("-", "_") in shared


def _unknown_option(option: str, command: str, names: Sequence[str]) -> UsageError:
    """Return the error for an option that the command, which has those of `names`, does not."""
    question = did_you_mean(option, filter(re.compile("--").match, names), OTHER_OPTIONS)
    pointer = OPTION_POINTERS.get(f"{command} {option}")
    pointer = pointer or (None if question else OPTION_POINTERS.get(option))
    if not pointer and _is_of_commands(option):
        after = f"write it after the command, such as `holdfast upload {option} …`"
        pointer = after if command == "holdfast" else f"leave it out: `{command}` does not use it"
    wrong = _unknown("option", option, "" if pointer else question)
    return advise(wrong, pointer) if pointer else wrong
