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
    **dict.fromkeys(("add", "put"), ("upload",)),
    "get": ("download",),
    "cat": ("download", "--output", "-"),
    **dict.fromkeys(("rm", "unpin", "delete", "remove", "del"), ("revoke",)),
    "exit-codes": ("help", "exit-codes"),
}


def _by_word(text: str) -> dict[str, str]:
    """Return the pointers in `text` by their words, which stand before them and a colon."""
    pointers = re.findall(r"(?m)^(\S.*?):\s+(.+)$", text)
    return {word: pointer for words, pointer in pointers for word in words.split(", ")}


# What to type in place of a command of another tool, by its first word or its first two.
POINTERS: Final = _by_word("""
push, save, upload-file, up, commit, files add, touch, mkdir, mb:
  `holdfast upload FILE` stores a file or folder
pull, fetch, read, show, view, clone, curl, wget, dag get, block get:
  `holdfast retrieve CID` writes a JSON value, `holdfast download CID` gets a file
write, json: `holdfast store JSON` stores a JSON value
pins, search, find, log, history, pin ls, pin list, files, lsl, lsd, lsf, lsjson, ps, images:
  `holdfast list` shows what is pinned; with --name, what has a text in its name
dir, tree, browse, cd, mount, files ls, files read:
  `holdfast ls CID` lists a folder, `holdfast cat CID` writes a file
head, tail, grep, wc, less, more, jq, tar, unzip:
  `holdfast cat CID` writes a file, or a folder as tar: pipe it into that program
edit, patch: content never changes: `holdfast upload FILE` stores a new version under a new CID
purge, pin rm, pin remove, files rm: `holdfast rm CID` unpins it
pin add, pin-add, pin-by-cid: `holdfast pin CID` pins by a CID
undo, undelete: `holdfast pin CID` pins again what was unpinned, before `holdfast gc`
pin update, rename, mv, tag, label, group, groups:
  `holdfast update CID --name NAME` renames a pin, --keyvalue KEY=VALUE labels it
sign, presign, publish: `holdfast url CID` writes a link to share, `holdfast link CID` a private one
init, install, setup:
  there is nothing to set up: `holdfast upload FILE`; for a service, `holdfast login`
daemon, start, serve, server, run, gateway, node start, node run:
  `holdfast node` runs a node until Ctrl-C; without one, commands use the store
stop, shutdown, node stop: Ctrl-C ends `holdfast node`
web, webui, ui, dashboard, page: `holdfast node` runs a node, and writes the address of its page
whoami, account, auth, key, token, id, ping, test, doctor:
  `holdfast status` shows the provider and tests the connection; `holdfast login` saves a token
configure, settings, env, config show:
  `holdfast config` shows all settings, `holdfast config set KEY VALUE` changes one
stat, size, inspect, refs, resolve, files stat, dag stat, block stat, object stat:
  `holdfast info CID` shows its kind, size, blocks, and where it is pinned
df, du, about, stats, repo stat, space, space ls:
  `holdfast status` shows the store and the disk, `holdfast list` the pins and their sizes
hash, hashsum, only-hash, checksum, sha256, sha256sum, md5sum: `holdfast cid FILE` computes a CID
migrate, mirror: `holdfast copy --from CONNECTION --to CONNECTION` copies pins to another provider
cp, copyto, s3, sync, rsync:
  `holdfast upload FILE`, `holdfast download CID`; `holdfast copy` is between providers
use, switch, remote, listremotes, profile, providers:
  `holdfast connections` lists your connections; --use NAME chooses one
encrypt, decrypt: `holdfast upload --encrypt FILE` and `holdfast download --decrypt CID` do that
diff, compare: `holdfast verify FILE CID` compares a file or folder with its CID
key gen, key generate, key create, key list, keys list:
  `holdfast keygen` makes a key, `holdfast keys` lists them
invite, grant, passwd, rekey, rotate:
  `holdfast keygen NAME` makes another key, `holdfast share CID RECIPIENT` adds a reader
name, ipns, swarm, bitswap, dht, routing, bootstrap, pubsub:
  use the command ipfs: Holdfast publishes no names, and has no peers
cid base32, cid format, cid v1, cid v0, cid codecs, multibase:
  use the command ipfs: Holdfast reads every form of a CID, and converts none
export, dag export: `holdfast car export CID FILE` writes an archive
import, dag import, car add: `holdfast car import FILE`; for a backup, `holdfast restore FILE`
snapshot, backup create: `holdfast backup FILE` writes all pins to a file
clean, prune, repo gc: `holdfast gc` removes what no pin needs
fsck, repo verify: `holdfast check` checks the store
resume: run the same command again: it continues; `holdfast uploads` lists uploads
message, msg: `holdfast send RECIPIENT MESSAGE` stores a message
inbox, messages: `holdfast receive CID` writes the message at a CID
upgrade, self-update: `pip install '.[all]'` in a newer clone installs that version
completion, completions: `holdfast --install-completion` turns on completion with TAB
man, docs, commands, usage: `holdfast --help` lists all commands
""")

_LOGIN: Final = "the token is asked for; in a pipe: holdfast login pinata < FILE"

# What to type in place of an option of another tool, by the option, perhaps after a command.
OPTION_POINTERS: Final = _by_word(f"""
login --token, login --token-file: {_LOGIN}
ls --name, ls --cid, ls --keyvalue, ls --since, ls --until, ls --limit, ls -n:
  `holdfast list` has this option; `holdfast ls CID` lists a folder
upload --only-hash, upload --dry-run: `holdfast cid FILE` only computes the CID
upload -w: `holdfast upload FOLDER` keeps the names of the files in it
ls -r, ls -R, ls --recursive:
  leave it out: it lists one folder; `holdfast download CID FOLDER` gets all of it
list -r, list -R: --sort name, --sort size (largest first) or --sort created (newest first)
-r, -R, --recursive: leave it out: folders are always included whole
-f, --force, -y, --yes: leave it out: no command asks
-q, --quiet, -s, --silent, --progress: leave it out: only the result is written
upload -H, upload -A, upload --all: --include-hidden uploads hidden files
ls -a, ls --all, ls --size, ls -s: leave it out: hidden files are always listed; -l shows sizes
download -O: `-o FILE` names the file; without it, it gets its own name or the CID
download -a, download --archive: `holdfast download CID - > FILE.tar` writes a folder as tar
download -C, download -c, download --continue, download --resume:
  leave it out: the same command again resumes an interrupted download
download -L, download --location, download -k, download --insecure:
  leave it out: redirects are followed, and every byte is verified
--retry, --retries, --timeout, --max-time, download --max-time:
  leave it out, or `holdfast config set KEY NUMBER` with retries.attempts or timeouts.read
upload --pin: leave it out: what is stored is always pinned
upload --to-files: leave it out: --name names the pin, and `holdfast ls name:NAME` lists it
upload --chunker, upload -s, upload --raw-leaves:
  --profile chooses how files are cut into blocks; --cid-version 1 is the default
list -l, list -L, list --long, list --state, list --status:
  --full shows whole CIDs, --json all that is known
list --jq: write `holdfast list --json | jq FILTER`
store -d, store --data: leave it out: `holdfast store JSON`
share --to: write `holdfast share CID RECIPIENT`
--identity: set HOLDFAST_IDENTITIES=./FILE: the path of a key has a slash in it
node -p: `holdfast node --port NUMBER` chooses the port
node -d, node --daemon, node --detach: your system's service manager can run it in the background
config --get, config --global: write `config get KEY`, `config set KEY VALUE`
-o, --output, --out: write `> FILE` after the command; --json writes JSON
""")

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
    **dict.fromkeys(("download", "pin"), "give one CID at a time"),
    "login": _LOGIN,
}

# The same where it gets too few; other commands show their arguments.
MISSING_ARGUMENT_POINTERS: Final = {
    "copy": "`holdfast copy --from local --to NAME`: `holdfast connections` lists what NAME may be",
    "share": "`holdfast share CID RECIPIENT` adds a reader; `holdfast url CID` writes a link",
    "verify": "`holdfast verify FILE CID` compares them; `holdfast download CID` always verifies",
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
        topics: What the hint of ``help`` says about its topics; "" without any.
    """

    other_names: Iterable[str] = ()
    topics: str = ""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that `args` begin with, its name and the other arguments."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            question = did_you_mean(args[0], [*self.list_commands(ctx), *self.other_names])
            topics = self.topics if args[-1] == "--help" else ""
            wrong = _unknown("command or topic" if topics else "command", repr(args[0]), question)
            raise advise(wrong, f"`{ctx.command_path} --help` lists the commands{topics}")
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

    `is_ours` is whether the first word is one of our commands; with the second, as in ``pin add``,
    it may still be one of another tool.
    """
    both, name = " ".join(words[:2]), words[0]
    is_file = name == "cid" and os.path.lexists(words[-1])
    if len(words) > 1 and both in POINTERS and not is_file:
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
    if error.ctx and str(wrong).startswith("Missing "):
        needed = [one for one in error.ctx.command.params if one.required and one.opts[0][0] == "-"]
        usage = [where, *error.ctx.command.collect_usage_pieces(error.ctx)[1:]]
        usage += [f"{one.opts[0]} {one.metavar}" for one in needed]
        advise(wrong, MISSING_ARGUMENT_POINTERS.get(command, f"write `{' '.join(usage)}`"))
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
