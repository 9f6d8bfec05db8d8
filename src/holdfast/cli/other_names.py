"""Names that people type out of habit: aliases of commands, and pointers from other tools to ours.

An alias runs our command. What is not ours is an error whose hint names the command to type.
"""

from collections.abc import Mapping
from typing import Final

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
"""The words that each alias stands for. They are not in `--help`, and named in the reference."""

_CONNECTIONS: Final = "`holdfast connections` lists your connections; --use NAME chooses one"
_INFO: Final = "`holdfast info CID` shows its kind, size, blocks, and where it is pinned"
_LIST: Final = "`holdfast list` shows what is pinned; with --name, what has a text in its name"
_LOGIN: Final = "the token is asked for; in a pipe: holdfast login --provider NAME < FILE"
_LOOK: Final = "`holdfast ls CID` lists a folder, `holdfast cat CID` writes a file"
_NODE: Final = "`holdfast node` runs a node until Ctrl-C; without one, commands use the store"
_NOTHING_TO_SET_UP: Final = (
    "there is nothing to set up: `holdfast upload FILE`; for a service, `holdfast login`"
)
_PROVIDER: Final = "`holdfast status` shows the provider; `holdfast login` saves its token"
_REMOVE: Final = "`holdfast rm CID` unpins it"
_RENAME: Final = "`holdfast update CID --name NAME` gives a pin another name"
_RESTORE: Final = "`holdfast car import FILE` reads an archive, `holdfast restore FILE` a backup"
_SETTINGS: Final = (
    "`holdfast config` shows all settings, `holdfast config set KEY VALUE` changes one"
)
_SHARE: Final = "`holdfast url CID` writes a link to share, `holdfast link CID` a private one"
_SYNC: Final = "`holdfast copy --from CONNECTION --to CONNECTION` copies pins to another provider"
_UPLOAD: Final = "`holdfast upload FILE` stores a file or folder"
_VALUE: Final = "`holdfast retrieve CID` writes a JSON value, `holdfast download CID` gets a file"
_WEB: Final = "`holdfast node` runs a node, and writes the address of its page"

POINTERS: Final = {
    **dict.fromkeys(("push", "save", "upload-file", "up", "files add"), _UPLOAD),
    **dict.fromkeys(("pull", "fetch", "read", "show", "dag get", "block get"), _VALUE),
    **dict.fromkeys(("write", "json"), "`holdfast store JSON` stores a JSON value"),
    **dict.fromkeys(("pins", "search", "find", "pin ls", "pin list", "files"), _LIST),
    **dict.fromkeys(("dir", "tree", "browse", "files ls", "files read"), _LOOK),
    **dict.fromkeys(("remove", "del", "pin rm", "pin remove", "files rm"), _REMOVE),
    **dict.fromkeys(("pin add", "pin-add", "pin-by-cid"), "`holdfast pin CID` pins by a CID"),
    **dict.fromkeys(("pin update", "rename", "mv", "tag", "label"), _RENAME),
    **dict.fromkeys(("share", "sign", "publish"), _SHARE),
    **dict.fromkeys(("init", "install", "setup"), _NOTHING_TO_SET_UP),
    **dict.fromkeys(("daemon", "start", "serve", "server", "run", "gateway"), _NODE),
    **dict.fromkeys(("node start", "node run"), _NODE),
    **dict.fromkeys(("stop", "shutdown", "node stop"), "Ctrl-C ends `holdfast node`"),
    **dict.fromkeys(("web", "webui", "ui", "dashboard", "page"), _WEB),
    **dict.fromkeys(("whoami", "account", "auth", "key", "keys", "token", "id"), _PROVIDER),
    "logout": "`holdfast config unset provider_token` removes the token that `login` saved",
    **dict.fromkeys(("configure", "settings", "env"), _SETTINGS),
    **dict.fromkeys(("config show", "config list", "config get"), _SETTINGS),
    **dict.fromkeys(("ping", "test", "doctor"), "`holdfast status` tests the connection"),
    **dict.fromkeys(("stat", "size", "du", "inspect", "files stat"), _INFO),
    **dict.fromkeys(("df", "stats", "repo stat"), "`holdfast status` shows the store and the disk"),
    **dict.fromkeys(("hash", "only-hash"), "`holdfast cid FILE` computes a CID, offline"),
    **dict.fromkeys(("sync", "migrate", "mirror"), _SYNC),
    "cp": "`holdfast upload FILE`, `holdfast download CID`; `holdfast copy` is between providers",
    "mkdir": "`holdfast upload FOLDER` stores a folder with all that is in it",
    **dict.fromkeys(("use", "switch", "remote", "profile", "providers"), _CONNECTIONS),
    **dict.fromkeys(("encrypt", "decrypt"), "Holdfast encrypts nothing: use another tool first"),
    **dict.fromkeys(("export", "dag export"), "`holdfast car export CID FILE` writes an archive"),
    **dict.fromkeys(("import", "dag import", "car add"), _RESTORE),
    **dict.fromkeys(("clean", "prune", "repo gc"), "`holdfast gc` removes what no pin needs"),
    **dict.fromkeys(("fsck", "repo verify"), "`holdfast check` checks the store"),
    "resume": "run the same command again: it continues; `holdfast uploads` lists uploads",
    **dict.fromkeys(("message", "msg"), "`holdfast send RECIPIENT MESSAGE` stores a message"),
    **dict.fromkeys(("inbox", "messages"), "`holdfast receive CID` writes the message at a CID"),
    **dict.fromkeys(
        ("upgrade", "self-update"), "`pip install --upgrade holdfast` installs the newest version"
    ),
    **dict.fromkeys(
        ("completion", "completions"),
        "`holdfast --install-completion` turns on completion with TAB",
    ),
    **dict.fromkeys(("man", "docs", "commands", "usage"), "`holdfast --help` lists all commands"),
}
"""What to type in place of a command of another tool, by its first word or its first two."""

_LIST_OPTIONS: Final = ("--name", "--cid", "--keyvalue", "--since", "--until", "--limit", "-n")

OPTION_POINTERS: Final = {
    ("upload", "-n"): "write --name NAME; `holdfast cid FILE` computes a CID and sends nothing",
    ("upload", "--only-hash"): "`holdfast cid FILE` computes a CID and sends nothing",
    ("upload", "-w"): "`holdfast upload FOLDER` keeps the names of the files in it",
    **{("ls", option): f"`holdfast list` takes {option}" for option in _LIST_OPTIONS},
    **dict.fromkeys(
        (("ls", "-r"), ("ls", "-R"), ("ls", "--recursive")),
        "leave it out: it lists one folder; `holdfast download CID FOLDER` gets all of it",
    ),
    **dict.fromkeys((("login", "--token"), ("login", "--token-file")), _LOGIN),
    **dict.fromkeys(
        (("", "-r"), ("", "-R"), ("", "--recursive")),
        "leave it out: a folder is always taken whole",
    ),
    **dict.fromkeys(
        (("", "-f"), ("", "--force"), ("", "-y"), ("", "--yes")), "leave it out: no command asks"
    ),
    **dict.fromkeys((("", "-q"), ("", "--quiet")), "leave it out: only the result is written"),
    **dict.fromkeys((("", "-o"), ("", "--output")), "write `> FILE` after the command"),
}
"""What to type in place of an option of another tool, by the command, or "" for any, and option."""

EXTRA_ARGUMENT_POINTERS: Final = {
    "store": '`holdfast store \'{"hello": "world"}\'`: JSON in single quotes is one argument',
    "send": "put the message in quotes",
    "list": "`holdfast list --name TEXT` lists the pins with a text in the name",
    "retrieve": "`holdfast download CID FILE` writes to a file",
    "download": "download one CID at a time",
    "pin": "pin one CID at a time",
    "login": _LOGIN,
}
"""What to type where a command gets one argument too many, by the command."""
