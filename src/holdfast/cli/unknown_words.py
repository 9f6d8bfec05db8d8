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
    """Return the pointers in `text` by their words, which stand before them and a colon.

    An option belongs to the command before it, as -b does in ``ls -a, -b``.
    """
    pointers = {}
    for words, pointer in re.findall(r"(?m)^(\S.*?):\s+(.+)$", text):
        command = ""
        for word in words.split(", "):
            command = command if word[0] == "-" else word.partition("-")[0]
            pointers[command + word.removeprefix(command)] = pointer
    return pointers


# What to type in place of a command of another tool, by its first word or its first two.
POINTERS: Final = _by_word("""
push, save, upload-file, up, commit, files add, touch, mkdir, mb, create, apply, rcat:
  `holdfast upload FILE` stores a file or folder
pull, fetch, read, show, view, clone, checkout, curl, wget, dag get, block get:
  `holdfast retrieve CID` writes a JSON value, `holdfast download CID` gets a file
write, json, dag put: `holdfast store JSON` stores a JSON value
pins, search, find, log, logs, history, pin ls, pin list, repo list, files, ps, images, image ls:
  `holdfast list` shows what is pinned; with --name, what has a text in its name
dir, tree, cd, mount, files ls: `holdfast ls CID` lists a folder, `holdfast cat CID` writes a file
head, tail, grep, sed, wc, less, more, jq, tar, unzip: pipe `holdfast cat CID` into that program
edit, patch: content never changes: `holdfast upload FILE` stores a new version under a new CID
purge, unlink, rmdir, shred, pin rm, pin remove, files rm: `holdfast rm CID` unpins it
pin add, pin-add, pin-by-cid: `holdfast pin CID` pins by a CID
pin remote: `holdfast pin CID --use NAME` pins there; `holdfast connections` lists the names
pin update: `holdfast pin NEW`, then `holdfast rm OLD`; `holdfast update CID --name NAME` renames
undo, undelete: `holdfast pin CID` pins again what was unpinned, before `holdfast gc`
rename, mv, move, tag, label, annotate, group: `holdfast update CID`, with --name or --keyvalue
sign, presign, publish: `holdfast url CID` writes a link to share, `holdfast link CID` a private one
init, install, setup: nothing is needed: `holdfast upload FILE`; for a service, `holdfast login`
daemon, start, stop, serve, run, gateway, node start, node stop: `holdfast node` runs until Ctrl-C
web, webui, ui, dashboard, page: `holdfast node` runs a node, and writes the address of its page
whoami, auth, token, id, ping, test, doctor: `holdfast status` tests, `holdfast login` saves a token
configure, settings, env, config show, config edit, config ls, config rm, config delete:
  `holdfast config` shows all; `config set KEY VALUE` changes one, `config unset KEY` removes it
stat, size, inspect, describe, refs, resolve, dag stat, block stat: `holdfast info CID` shows it
df, du, about, stats, repo stat, pwd, node status: `holdfast status` shows store, disk and node
hash, hashsum, sum, only-hash, checksum, sha256, sha256sum: `holdfast cid FILE` computes a CID
migrate, mirror: `holdfast copy --from CONNECTION --to CONNECTION` copies pins to another provider
cp, s3, sync, rsync: `holdfast upload FILE`, `holdfast download CID`; between providers, `copy`
use, switch, remote, profile, providers: `holdfast connections` lists yours; --use NAME chooses one
encrypt, decrypt: `holdfast upload --encrypt FILE` and `holdfast download --decrypt CID` do that
diff, compare: `holdfast verify FILE CID` compares a file or folder with its CID
key, genkey, keys list: `holdfast keygen` makes a key, `holdfast keys` lists them
key rm, key remove, key delete, keys rm: `holdfast keys` lists them: delete the file of that key
invite, grant, rekey, rotate: `holdfast keygen NAME`, then `holdfast share CID RECIPIENT`
name, ipns, swarm, bitswap, dht, pubsub, cid format, cid base32: use the command ipfs for that
export, dag export: `holdfast car export CID FILE` writes an archive
zip, car create, car -cf: `holdfast car pack FILE ARCHIVE` writes an archive
car verify, car extract, car -tf, -xf: `holdfast car ls FILE`, or `holdfast car unpack FILE`
import, load, dag import, car add: `holdfast car import FILE`; for a backup, `holdfast restore FILE`
snapshot, backup create: `holdfast backup FILE` writes all pins to a file
clean, clear, prune, repo gc, system prune: `holdfast gc` removes what no pin needs
cache clear, cache clean, cache rm: `holdfast cache --clear` removes what is in it
fsck, recover, repo verify, pin verify: `holdfast check`; if it finds errors, `holdfast repair`
resume: run the same command again: it continues; `holdfast uploads` lists uploads
message, msg, inbox: `holdfast send RECIPIENT MESSAGE` sends one, `holdfast receive CID` reads it
upgrade, self-update: `pip install '.[all]'` in a newer clone installs that version
completion, completions: `holdfast --install-completion` turns on completion with TAB
""")

_LOGIN: Final = "the token is asked for; in a pipe: holdfast login pinata < FILE"

# What to type in place of an option of another tool, by the option, perhaps after a command.
OPTION_POINTERS: Final = _by_word(f"""
login --token, --token-file: {_LOGIN}
node --token: --token-file FILE, or the variable HOLDFAST_NODE_TOKEN
add --token: --token-file FILE, or --token-env VARIABLE
login -u, --user, --username: leave it out: only the token is asked for
ls -n, --name, --cid, --keyvalue, --since, --until, --limit: `holdfast list` has this option
upload --only-hash, --dry-run: `holdfast cid FILE` only computes the CID
upload -w, --wrap-with-directory: `holdfast upload FOLDER` keeps the names of the files in it
ls -r, -R, --recursive: it lists one folder: `holdfast download CID FOLDER` gets all of it
list -r, -R, --reverse, --order, ls -t, -S, --sort: `holdfast list --sort name`, size or created
-r, -R, --recursive: leave it out: folders are always included whole
-f, --force, -y, --yes, revoke -i: leave it out: no command asks
-q, --quiet, -s, --silent, --progress: leave it out: only the result is written
upload -e, store -e: --encrypt encrypts it, with the key that `holdfast keygen` made
upload --public: leave it out: only --encrypt keeps content secret
upload -H, -A, --all: --include-hidden uploads hidden files
ls -a, --all, -1, -d, -s, --size, --human-readable: leave it out: all are listed; -l shows sizes
download -n, --no-clobber: leave it out: only --force replaces a file
download -H, --header: leave it out: the setting gateway_token is sent to your gateway
download -O, --output-document: `-o FILE` names the file; the default is its own name, or the CID
-C, download -P, -d, --directory-prefix: `-o FOLDER` puts it in a folder that exists
download --offset, --length, --range: `holdfast cat CID | tail -c +11 | head -c 5` skips 10 bytes
download -a, --archive: `holdfast download CID - > FILE.tar` writes a folder as tar
download -C, -c, --continue, --resume: leave it out: the same command again resumes a download
download -L, --location, -k, --insecure, --no-check-certificate: leave it out: bytes are verified
--retry, --retries: leave it out, or `holdfast config set retries.attempts NUMBER`
--timeout, --max-time, download --max-time: `holdfast config set timeouts.read SECONDS`
upload --pin, --nocopy, --hash: leave it out: content is copied, pinned, and hashed with sha2-256
upload --chunker, -s, --raw-leaves, --trickle: --profile chooses how files are cut into blocks
upload -F, -d, -T, --file, --data-binary: leave it out: `holdfast upload FILE`
upload -t, --tag: --keyvalue KEY=VALUE labels the pin, --name TEXT names it
list -l, -L, --long, --no-trunc, --state, --status: --full shows whole CIDs, --json everything
list -a, --all: leave it out: all pins are listed
store -d, --data, -f, --file, -F: leave it out: `holdfast store JSON`, or `holdfast store FILE`
share --to: write `holdfast share CID RECIPIENT`
send -t, -to, -m, --message: write `holdfast send RECIPIENT MESSAGE`
--identity: set HOLDFAST_IDENTITIES=./FILE: the path of a key has a slash in it
node -p: `holdfast node --port NUMBER` chooses the port
node -d, --daemon, --detach: your system's service manager can run it in the background
config --get, --set, --unset: write `config get KEY`, `config set KEY VALUE`, `config unset KEY`
config -l, --list: leave it out: `holdfast config` shows all settings
revoke -a, --all: `holdfast list -q | xargs holdfast rm` unpins all
revoke -n, --name: `holdfast rm name:NAME` unpins by name
revoke --dry-run: `holdfast info CID` shows the pin that `holdfast rm CID` removes
check --fix, --repair: `holdfast repair` rebuilds the database of the store
gc -n, --prune: leave it out; --dry-run only says how much would be removed
restore --dry-run, --list, -l: `holdfast car unpack FILE pins.json -o -` shows its pins
-1, -2, -3, -4, -5, -6, -7, -8, -9: before such a value, write --, as in `holdfast store -- -5`
-o, --output, --out: write `> FILE` after the command; --json writes JSON
""")

# Other words for options, in lower case without hyphens.
OTHER_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("out", "outfile", "dest", "target", "to"), ("--output",)),
    **dict.fromkeys(("meta", "metadata", "kv", "tags"), ("--keyvalue",)),
    **dict.fromkeys(("max", "count", "number", "maxitems"), ("--limit",)),
    **dict.fromkeys(("maxage", "newer", "after"), ("--since",)),
    **dict.fromkeys(("format", "outputformat"), ("--json",)),
    **dict.fromkeys(("connection", "remote"), ("--use",)),
    **dict.fromkeys(("title", "search", "query", "filter"), ("--name",)),
    "label": ("--name", "--keyvalue"),
    **dict.fromkeys(("jwt", "apikey", "auth"), ("--token-file",)),
    **dict.fromkeys(("api", "apiurl", "url", "endpoint"), ("--pin-api-url",)),
    "network": ("--private", "--option"),
    "ignore": ("--exclude",),
}

# What to type where a command gets one argument too many, by the command.
EXTRA_ARGUMENT_POINTERS: Final = {
    "store": '`holdfast store \'{"hello": "world"}\'`: JSON in single quotes is one argument',
    "send": "put the message in quotes",
    "update": "`holdfast update CID --name NAME` renames the pin, --keyvalue KEY=VALUE labels it",
    "keys": "it lists all your keys; `holdfast keygen NAME` makes one",
    "check": "`holdfast verify FILE CID` compares a file or folder with its CID",
    "list": "`holdfast list --name TEXT` finds pins by name, `holdfast info CID` shows a CID",
    "retrieve": "`holdfast retrieve CID | jq .KEY` picks a value, `> FILE` writes to a file",
    "download": "give one CID, and one file or folder to write to",
    **dict.fromkeys(("ls", "pin"), "give one CID at a time"),
    "login": _LOGIN,
}

# The same where it gets too few; other commands show their arguments.
MISSING_ARGUMENT_POINTERS: Final = {
    "holdfast": "`holdfast --help` lists the commands",
    "download": "`holdfast download CID` gets a file or folder, `holdfast cat CID` writes it",
    "revoke": "`holdfast rm CID` unpins it",
    "copy": "`holdfast copy --from local --to NAME`: `holdfast connections` lists what NAME may be",
    "share": "`holdfast share CID RECIPIENT` adds a reader; `holdfast url CID` writes a link",
    "verify": "`holdfast verify FILE CID` compares them; `holdfast download CID` always verifies",
}

# The error of the parser. Newer versions of Typer have their own class of it.
Refused: Any = typer.BadParameter.__base__

# What the parser says, and what is written in its place.
REWORDED: Final = {
    "(Input should be|'[^']*' is not) a valid integer.*": "it must be a whole number",
    "(Input should be|'[^']*' is not) a valid (number|float).*": "it must be a number",
    "Input should be greater than or equal to": "it must be at least",
    r"\S+ is not in the range x>=(\d+)\.": r"it must be at least \1",
    r"\S+ is not in the range (\d+)<=x<=(\d+)\.": r"it must be at least \1 and at most \2",
    "Input should be less than or equal to": "it must be at most",
    r"(?s)Got unexpected extra argument\S* \((.*)\)": r"too many arguments: \1",
}


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


def usage_error(error: Any, words: Sequence[str]) -> UsageError:
    """Return the error for what the parser refuses in the `words` of the command line.

    `error` is Click's, or Typer's copy of it.
    """
    where = error.ctx.command_path if error.ctx else "holdfast"
    command = error.ctx.info_name if error.ctx else ""
    if hasattr(error, "possibilities"):  # NoSuchOption
        parameters = error.ctx.command.get_params(error.ctx) if error.ctx else ()
        names = [name for one in parameters for name in (*one.opts, *one.secondary_opts)]
        # The parser reads -help as -h -e -l -p, and says that -e is unknown.
        short = (word for word in words if word[:1] == "-" and f"-{word}" in names)
        wrong = _unknown_option(next(short, error.option_name), command, names)
    else:
        message = error.format_message()
        for pattern, new in REWORDED.items():
            message = re.sub(pattern, new, message)
        wrong = UsageError(message)
    is_extra = str(wrong).startswith("too many arguments")
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
