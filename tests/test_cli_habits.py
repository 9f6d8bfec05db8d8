"""What people type out of habit: it works, or one line says what to type."""

import json
import logging
import re
import shlex
import sqlite3
import warnings
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

import holdfast
from holdfast import Client, compute_cid
from holdfast.cli import execution, options
from holdfast.cli.app import COMMANDS, TASKS, TOPICS, app
from holdfast.cli.unknown_words import (
    ALIASES,
    EXTRA_ARGUMENT_POINTERS,
    MISSING_ARGUMENT_POINTERS,
    OPTION_POINTERS,
    POINTERS,
)
from tests.commands import Commands, server_variables
from tests.support import HELLO_CID, TOKEN

HELLO = b"hello"
OTHER_CID = compute_cid(b"other")
VALUE = b'{"a": 1}'
VALUE_CID = compute_cid(VALUE)


@pytest.fixture
def filled(commands):
    """Commands with a file, a JSON file and a folder, and the file in the store."""
    for name in ("hello.txt", "my file", "5"):
        (commands.folder / name).write_bytes(HELLO)
    (commands.folder / "value.json").write_bytes(VALUE)
    (commands.folder / "folder").mkdir()
    (commands.folder / "folder" / "hello.txt").write_bytes(HELLO)
    assert commands.text("upload", "hello.txt") == HELLO_CID
    return commands


@pytest.fixture
def run_here(home, capsys, monkeypatch):
    """A function that runs a command in this process, for its exit code and its error lines."""
    # What the command sets stays in its test.
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    logger = logging.getLogger("holdfast")
    monkeypatch.setattr(logger, "handlers", [*logger.handlers])
    monkeypatch.setattr(logger, "level", logger.level)
    for name in ("hello.txt", "my file", "value.json"):
        Path(name).write_bytes(HELLO)
    Path("notes").mkdir()

    def run_here(typed):
        code = execution.run(shlex.split(typed))
        shown, errors = capsys.readouterr()
        assert shown == ""
        return code, errors.splitlines()

    return run_here


# Commands that work under other names.


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("add hello.txt", HELLO_CID),
        (f"get {HELLO_CID} copy.txt", "copy.txt"),
        (f"download {HELLO_CID} --output copy.txt", "copy.txt"),
        (f"cat {HELLO_CID}", "hello"),
        (f"--json get {HELLO_CID} -o copy.txt", None),
        (f"rm {HELLO_CID}", f"revoked {HELLO_CID}"),
        *((f"{word} {HELLO_CID}", f"revoked {HELLO_CID}") for word in ("unpin", "remove", "del")),
        ("version", f"holdfast {holdfast.__version__}"),
        ("-V", f"holdfast {holdfast.__version__}"),
        (f"car export {HELLO_CID} -o hello.car", "hello.car"),
        ("store -n five 5", None),
        ("store value.json", compute_cid(b'{"a":1}')),
        ("store @value.json", compute_cid(b'{"a":1}')),
        ("store 5", compute_cid(b"5")),  # there is a file of this name: valid JSON wins
        ("upload -r hello.txt", HELLO_CID),
        ("add -R --recursive hello.txt", HELLO_CID),
        (f"get -r {HELLO_CID} copy.txt", "copy.txt"),
        ("upload -n hello.txt hello.txt", HELLO_CID),
        (f"rm -f {HELLO_CID}", f"revoked {HELLO_CID}"),
        (f"rm --force {OTHER_CID}", f"not pinned {OTHER_CID}"),
        ("rm -f name:nosuch", "not pinned name:nosuch"),
        ("rm -rf name:hello.txt", f"revoked {HELLO_CID}  hello.txt"),
        (f"pin -n hello.txt {HELLO_CID}", f"pinned {HELLO_CID}"),
        ("pin name:hello.txt", f"pinned {HELLO_CID}"),
        ("verify 5 name:hello.txt", f"5 is {HELLO_CID}"),
        ("add -q hello.txt value.json", f"{HELLO_CID}\n{VALUE_CID}"),
        ("add -Q value.json hello.txt", HELLO_CID),
        ("add -Q hello.txt --json", f'"{HELLO_CID}"'),
    ],
)
def test_natural_commands_work(filled, typed, written):
    text = filled.text(*shlex.split(typed))
    if written is not None:
        assert text == written


def test_a_second_cid_does_not_become_the_name_of_a_file(filled):
    other = filled.text("store", "5")
    for command, second in product(("get", "cat"), (other, "name:other")):
        code, lines = filled.failure(command, HELLO_CID, second)
        assert (code, lines) == {
            "get": (
                2,
                ["error: download takes one CID at a time", "hint: `-o FILE` names the file"],
            ),
            "cat": (2, ["error: give one CID or name at a time", f"hint: leave {second!r} out"]),
        }[command]
    assert not (filled.folder / other).exists()
    assert not (filled.folder / "name:other").exists()
    filled.text("get", other)
    assert filled.run("get", HELLO_CID, other).returncode == 2
    assert (filled.folder / other).read_bytes() == b"5"


def test_several_are_revoked_and_one_that_fails_stops_no_other(filled):
    other = filled.text("store", "5")
    result = filled.run("rm", HELLO_CID, "nonsense", other, "one")
    assert result.returncode == 4
    assert {*result.stdout.decode().splitlines()} == {f"revoked {HELLO_CID}", f"revoked {other}"}
    lines = [line.partition(": ") for line in result.stderr.decode().splitlines()]
    assert [first for first, _, _ in lines] == ["error", "hint", "error", "revoked 2 of 4"]
    assert {text for first, _, text in lines if first == "error"} == {
        *(f"{word}: Invalid CID" for word in ("nonsense", "one"))
    }
    assert filled.text("list") == ""
    cids = [filled.text("store", number) for number in "56"]
    lines = filled.text("revoke", *cids, "--json").splitlines()
    revoked = {json.loads(line)["cid"]: json.loads(line)["revoked"] for line in lines}
    assert revoked == dict.fromkeys(cids, True)


def test_a_backup_names_its_file_in_two_ways(filled):
    assert filled.run("backup", "-o", "all.car").stdout == b"all.car\n"
    code, lines = filled.failure("backup", "one.car", "-o", "two.car")
    assert (code, lines[0]) == (
        2,
        "error: there are two targets, 'one.car' and 'two.car': give one of them",
    )
    code, lines = filled.failure("backup")
    assert (code, lines[1]) == (2, "hint: `holdfast backup --help` shows the usage")
    assert [path.name for path in filled.folder.glob("*.car")] == ["all.car"]


def test_json_that_is_piped_in_is_stored(filled):
    assert filled.text("store", stdin=b"[1]") == filled.text("store", "-", stdin=b"[1]")
    code, shown = filled.on_terminal("store")
    assert (code, "pipe it in" in shown) == (2, True)


def test_n_is_the_name_everywhere(filled):
    filled.text("store", "5", "-n", "five")
    assert len(filled.text("list", "-n", "five").splitlines()) == 1
    root = typer.main.get_command(app)
    short = {name: root.get_command(None, name) for name in COMMANDS}
    assert {
        (name, parameter.name)
        for name, command in short.items()
        for parameter in command.params
        if "-n" in parameter.opts
    } == {(name, "name") for name in ("store", "upload", "pin", "update", "list", "copy", "share")}


def test_a_number_as_a_name_gets_a_note_about_the_limit(filled):
    result = filled.run("list", "-n", "2")
    assert result.stdout == b""
    words = b"these are the pins with 2 in their name; --limit 2 lists 2 pins\n"
    assert result.stderr == words
    assert filled.text("list", "-n", "2026") == ""


def test_a_dry_run_copies_nothing(filled):
    other = filled.folder / "other"
    filled.write_user_file(f'[connections.other]\nprovider = "local"\npath = "{other}"\n')
    result = filled.run("copy", "--from", "local", "--to", "other", "--dry-run")
    assert (result.returncode, HELLO_CID in result.stdout.decode()) == (0, True)
    assert filled.text("ls") == filled.text("list")
    assert filled.text("list", "--use", "other") == ""


def test_sizes_for_people_are_listed_and_are_not_the_help(filled):
    folder = filled.text("upload", "folder")
    for arguments in ((), (folder,)):
        listed = filled.text("ls", "-l", *arguments)
        assert "hello.txt" in listed
        assert (
            filled.text("ls", "-lh", *arguments) == filled.text("ls", "-hl", *arguments) == listed
        )


# JSON before and after the command; verbose.


@pytest.mark.parametrize("typed", ["list", f"car export {HELLO_CID} out.car --force", "version"])
def test_json_is_before_or_after_the_command(filled, typed):
    words = typed.split()
    before = filled.text("--json", *words)
    assert before == filled.text(*words, "--json")
    assert before == filled.text(words[0], "--json", *words[1:])
    assert json.loads(before)
    code, (line,) = filled.failure("--json", *words, "--bogus")
    assert (code, json.loads(line)["error"]["exitCode"]) == (2, 2)


@pytest.mark.parametrize("typed", ["-v store 5", "store -v 5", "--verbose store 5"])
def test_verbose_shows_the_log(commands, typed):
    result = commands.run(*typed.split())
    assert (result.returncode, result.stderr) == (0, b"log: store: done\n")
    result = commands.run("--json", *typed.split())
    assert json.loads(result.stderr) == {"log": "store: done"}
    assert json.loads(result.stdout)["size"] == 1


def test_verbose_shows_requests_and_no_token(tmp_path, server):
    commands = Commands(tmp_path, **server_variables(server))
    server.reply(503, {"error": f"busy {TOKEN}"})
    server.reply(200, {"message": "hello"})
    result = commands.run("test-connection", "-v")
    assert result.returncode == 0
    lines = result.stderr.decode().splitlines()
    assert all(line.startswith("log: ") for line in lines)
    assert any("503" in line for line in lines)
    assert TOKEN not in result.stderr.decode()


# Help.


def test_the_first_screen_is_short_and_names_commands_that_exist(commands):
    lines = commands.text().splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 80
    named = re.findall(r"^  holdfast ([a-z]+)", "\n".join(lines), re.MULTILINE)
    assert len(named) == 5
    assert set(named) <= set(COMMANDS)
    assert "holdfast --help" in lines[-1]


def test_help_lists_the_commands_by_task_as_the_reference_does(commands):
    lines = commands.text("--help").splitlines()
    headings = [line.removesuffix(":") for line in lines if line[:1].isupper() and line[-1] == ":"]
    assert headings == ["Options", *TASKS]
    page = Path(__file__).parent.parent.joinpath("docs/reference/cli.md").read_text()
    assert re.findall(r"(?m)^## (.+)$", page)[: len(TASKS)] == [*TASKS]


def test_help_names_the_short_words_and_the_names_of_pins(commands):
    text = commands.text("--help")
    assert "`add`, `get`, `cat` and `rm` work too" in text
    assert "you can give name:NAME, the name of a pin" in text


SHARED_BY = {  # the options that only some commands have a use for
    "--gateway-url": "retrieve receive download pin backup test-connection url open share health "
    "drill ls info status config copy login",
    "--verify": "store retrieve send receive upload download restore share status config",
    "--profile": "store send upload restore share config cid",
    "--private": "store retrieve send receive upload download pin update list revoke backup "
    "verify restore test-connection url open share link upload-link ls info status config",
    "--path": "store retrieve send receive upload download pin update list revoke verify gc check "
    "repair node backup restore test-connection url open share ls info status config",
}


@pytest.mark.parametrize("option", SHARED_BY)
def test_a_command_has_only_the_options_that_it_uses(option):
    root = typer.main.get_command(app)
    assert {
        name
        for name in COMMANDS
        if any(option in one.opts for one in root.get_command(None, name).params)
    } == {*SHARED_BY[option].split()}


def test_shared_options_are_one_group_at_the_end_of_the_help(commands):
    for words in (["upload"], ["config"], ["car", "export"]):
        text = commands.text(*words, "--help").partition("\nCommands:")[0]
        own, heading, shared = text.partition("\nOptions that commands share:\n")
        assert heading
        assert re.findall(r"(?m)^  (?:-., )?(--[a-z-]+)", shared)[-3:] == [
            "--json", "--verbose", "--help",
        ]  # fmt: skip
        assert "--use" in shared
        assert not {"--use", "--json"} & {*re.findall("--[a-z]+", own)}


@pytest.mark.parametrize(
    ("typed", "same"),
    [
        ("help", "--help"),
        ("help upload", "upload --help"),
        ("help car export", "car export --help"),
        ("help get", "download --help"),
        ("help help", "help --help"),
        ("exit-codes", "help exit-codes"),
    ],
)
def test_help_is_the_help_of_a_command(commands, typed, same):
    assert commands.text(*typed.split()) == commands.text(*same.split())


def test_topics(commands):
    for topic, text in TOPICS.items():
        assert commands.text("help", topic) == text
    assert commands.json("help", "exit-codes")["16"] == "the content is not encrypted"
    assert commands.json("help", "settings") == {"text": TOPICS["settings"]}


# Typing errors.


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("uplod x", "'upload'"),
        ("Upload x", "'upload'"),
        ("lst", "'list'"),
        ("stor 1", "'store'"),
        ("help uplaod", "'upload'"),
        ("help exitcodes", "'exit-codes'"),
        ("car exprt x y", "'export'"),
        ("list --nmae x", "'--name'"),
        ("--jsno list", "'--json'"),
        ("store 1 --provder local", "'--provider'"),
        ("store 1 --use locla", "'local'"),
        ("upload --keyvalu a=b x", "'--keyvalue'"),
        ("upload --keyvalues a=b x", "'--keyvalue'"),
        ("upload --meta a=b x", "'--keyvalue'"),
        ("upload --ignore x x", "'--exclude'"),
        ("download --out x y", "'--output'"),
        ("backup --outfile x", "'--output'"),
        ("list --max 3", "'--limit'"),
        ("retrieve --gateways 3", "'--gateway-url'"),
        ("upload --network private x", "'--private' or '--option'"),
        ("list --format json", "'--json'"),
        ("pin x --connection y", "'--use'"),
        ("dowload x", "'download'"),
        ("retreive x", "'retrieve'"),
        ("confg", "'config'"),
        ("statsu", "'status'"),
        ("sned x", "'send'"),
        ("pload x", "'upload'"),
        ("odwnload x", "'download'"),
        ("-help", "'--help'"),
        ("-version", "'--version'"),
        ("upload -help", "'--help'"),
        ("list -limit 3", "'--limit'"),
        ("upload --label a x", "'--name' or '--keyvalue'"),
    ],
)
def test_a_typing_error_is_answered_with_what_may_be_meant(run_here, typed, meant):
    code, lines = run_here(typed)
    assert code in (2, 3)
    assert len(lines) == 2
    assert f"did you mean {meant}?" in lines[0]
    assert lines[1].startswith("hint: ")


@pytest.mark.parametrize(
    "typed",
    ["repo x", "api", "stash", "git x", "edit-config", "rev-parse x", "list --region x",
     "store --port 1", "node --sort 1", "upload x --decrypt", "list --min-size 2", "upload x -j"],
)  # fmt: skip
def test_a_word_that_is_not_alike_gets_no_guess(run_here, typed):
    code, lines = run_here(typed)
    assert (code, len(lines)) == (2, 2)
    assert "did you mean" not in lines[0]


# Commands and options of other tools.


@pytest.mark.slow
def test_pointers_name_commands_and_options_that_exist():
    root = typer.main.get_command(app)
    tables = POINTERS, OPTION_POINTERS, EXTRA_ARGUMENT_POINTERS, MISSING_ARGUMENT_POINTERS
    for pointer in {pointer for table in tables for pointer in table.values()}:
        for typed in re.findall(r"`holdfast ([^`]*)`", pointer):
            words = shlex.split(re.split(r" - <| \| | -- ", typed)[0])
            command = root
            while words and not words[0].startswith("-") and hasattr(command, "resolve_command"):
                _, command, words = command.resolve_command(typer.Context(command), words)
            flags = {"--help", *(flag for option in command.params for flag in option.opts)}
            assert {word for word in words if word[:1] == "-" and word != "-"} <= flags, typed


def test_no_pointer_hides_a_command_of_ours():
    assert not {*POINTERS} & {*COMMANDS, *ALIASES}
    assert {words[0] for words in ALIASES.values()} <= {*COMMANDS}


WITH_HINTS = {
    **{f"{typed} x": (f"unknown command {typed!r}", hint) for typed, hint in POINTERS.items()},
    **{
        f"{typed if ' ' in typed else f'check {typed}'} x": (
            f"unknown option {typed.split()[-1]}",
            hint,
        )
        for typed, hint in OPTION_POINTERS.items()
        if typed != "add --token"
    },
    "connections add n --provider kubo --token x": (
        "unknown option --token",
        OPTION_POINTERS["add --token"],
    ),
    **{f"{command} a b c": ("", hint) for command, hint in EXTRA_ARGUMENT_POINTERS.items()},
    **dict.fromkeys(("pin remote add x", "pin remote service ls"), ("", POINTERS["pin remote"])),
    **dict.fromkeys(("key rm x", "keys rm x"), ("", POINTERS["key rm"])),
    "ls A B": ("too many arguments: B", "give one CID at a time"),
    "status a b": ("too many arguments: a b", "`holdfast status --help` shows the usage"),
    "config set timeouts.read -1": ("unknown option -1", OPTION_POINTERS["-1"]),
    "car -xf x": ("unknown command 'car -xf'", POINTERS["car -xf"]),
    "car unpack -C x y": ("unknown option -C", OPTION_POINTERS["-C"]),
    "send -to alice -m hi": ("unknown option -to", OPTION_POINTERS["send -t"]),
    "add --wrap-with-directory x": ("", "`holdfast upload FOLDER` keeps the names"),
    "cat": ("Missing argument 'CID'.", MISSING_ARGUMENT_POINTERS["download"]),
    "unpin": ("Missing argument 'CID'.", MISSING_ARGUMENT_POINTERS["revoke"]),
    "-v --verbose": ("Missing command.", "`holdfast --help` lists the commands"),
    HELLO_CID: ("", f"`holdfast download {HELLO_CID}` downloads it"),
    f"ipfs://{HELLO_CID}/a": ("", f"`holdfast download ipfs://{HELLO_CID}/a` downloads it"),
    "hello.txt": ("", "`holdfast upload hello.txt` stores it"),
    "'my file'": ("", "`holdfast upload 'my file'` stores it"),
    "-v": ("", "`holdfast -V` shows the version"),
    "store hello.txt": (
        "hello.txt: the content is not JSON: Expecting value: line 1 column 1 (char 0)",
        "`holdfast upload hello.txt` stores it as it is",
    ),
    "store '@my file'": ("", "`holdfast upload 'my file'` stores it as it is"),
    "store notes": ("notes is a folder", "`holdfast upload notes` stores it as it is"),
    "store 1 --sort name": ("unknown option --sort", "`holdfast store --help` shows the usage"),
    "list --gateway-url x": (
        "unknown option --gateway-url",
        "leave it out: `list` does not use it",
    ),
    "retrieve x --profile y": (
        "unknown option --profile",
        "leave it out: `retrieve` does not use it",
    ),
    "upload --private x": ("--private is for the provider pinata", "add --provider pinata"),
    "upload --option a x": (
        "'a' is not a provider's option: write --option KEY=VALUE",
        "`holdfast upload --help` shows the usage",
    ),
    "send '' hi": ("", "`holdfast send --help` shows the usage"),
    "list -o json": (
        "unknown option -o",
        "write `> FILE` after the command; --json writes JSON",
    ),
    "keygen --passphrase pw": (
        "--passphrase takes no value: you are asked for the passphrase",
        "the name of the key comes first: holdfast keygen NAME --passphrase",
    ),
    "upload x --keyvalue a=1 --keyvalue a=2": (
        "the key 'a' is set twice: give one --keyvalue for it",
        "`holdfast upload --help` shows the usage",
    ),
    "copy name:x --to y": ("Missing option '--from'.", MISSING_ARGUMENT_POINTERS["copy"]),
    "verify name:x": ("Missing argument 'CID'.", MISSING_ARGUMENT_POINTERS["verify"]),
    "share name:x": ("Missing argument 'RECIPIENT'.", MISSING_ARGUMENT_POINTERS["share"]),
    "send alice": ("Missing argument 'MESSAGE'.", "write `holdfast send RECIPIENT MESSAGE`"),
    "drill": ("Missing option '--without'.", "write `holdfast drill --without MEMBER`"),
    "connections add x": (
        "Missing option '--provider'.",
        "write `holdfast connections add NAME --provider NAME`",
    ),
    "login node": (
        "your own node needs no login",
        "commands use its store; for another: holdfast login pinning --pin-api-url URL",
    ),
    "config gateway-url x": (
        "gateway_url is a setting: name what to do with it",
        "`holdfast config set gateway_url VALUE`",
    ),
    "config provider_token=x": ("", "`holdfast login` asks for the token"),
    "config provider-token x": ("", "`holdfast login` asks for the token"),
    "config timeouts 5": ("", "`holdfast config set timeouts.NAME NUMBER`"),
    "config timeouts.read 5": ("", "`holdfast config set timeouts.read VALUE`"),
    "config retries.cap": ("", "`holdfast config get retries.cap`"),
    "config zzzzzz": ("unknown command 'zzzzzz'", "`holdfast config --help` lists the commands"),
    **{
        f"help {topic}": (
            f"unknown command or topic {topic!r}",
            "`holdfast --help` lists the commands; the topics are exit-codes, settings, json",
        )
        for topic in ("topics", "names", "encryption", "local")
    },
    "car hello.txt": ("", "`holdfast car --help` lists the commands"),
    "car": (
        "name a command: pack, ls, unpack, export or import",
        "`holdfast car --help` shows the usage",
    ),
    "zzzzzz": ("unknown command 'zzzzzz'", "`holdfast --help` lists the commands"),
    "list --zzzzzz": ("unknown option --zzzzzz", "`holdfast list --help` shows the usage"),
    "upload x --name": ("", "`holdfast upload --help` shows the usage"),
    "help -v upload": ("write options last: holdfast help upload", "`holdfast help --help`"),
    "setings": ("unknown command 'setings'", "`holdfast --help` lists the commands"),  # a topic
    **{
        f"{option} x list": (
            f"unknown option {option}",
            f"write it after the command, such as `holdfast upload {option} …`",
        )
        for option in ("--provider", "--use", "--no-verify", "--token-file", "--path")
    },
}


@pytest.mark.parametrize("typed", WITH_HINTS)
def test_what_is_typed_gets_one_line_that_points_to_ours(run_here, typed):
    message, hint = WITH_HINTS[typed]
    code, lines = run_here(typed)
    assert (code, len(lines)) == (5 if "not JSON" in lines[0] else 2, 2)
    assert max(map(len, lines)) <= 110
    assert not message or lines[0] == f"error: {message}"
    assert lines[1].startswith(f"hint: {hint}")


def test_hints_of_the_store_on_disk(filled):
    folder = filled.text("upload", "folder")
    for arguments, hint in {
        ("retrieve", OTHER_CID): "`holdfast list` shows what is here; --gateway-url URL reads the "
        "rest through it",
        ("pin", OTHER_CID): "give --gateway-url URL, or see `holdfast car import`",
        ("download", f"{folder}/a.txt"): "`holdfast ls CID` lists its names",
    }.items():
        code, lines = filled.failure(*arguments)
        assert (code, lines[1:]) == (10, [f"hint: {hint}"])


@pytest.mark.parametrize("name", ["no.json", "@no", "./no", "a/b"])
def test_a_file_of_json_that_is_missing_is_called_missing(run_here, name):
    code, lines = run_here(f"store {name}")
    path = name.removeprefix("@").removeprefix("./")
    assert (code, lines[0]) == (1, f"error: No such file or directory: {path}")


@pytest.mark.parametrize("value", ["{a: 1}", "[a]", "hello", "''"])
def test_json_that_lost_its_quotes(run_here, value):
    code, lines = run_here(f'store "{value}"')
    assert (code, len(lines)) == (5, 2)
    assert "quotes" in lines[1]


# TAB.


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    ["get bafk", "cat ", "--json get ", f"rm {OTHER_CID} ", "ls ", "retrieve b", "car export ",
     "list --cid ", "copy --from local ", "pin --use local "],
)  # fmt: skip
def test_tab_completes_cids(filled, words):
    assert filled.complete(words) == [HELLO_CID]


def test_tab_completes_names_and_shows_what_is_what(filled):
    assert filled.complete("list --name he") == ["hello.txt"]
    assert filled.complete("list --name x") == filled.complete("info b\udcff") == []
    assert filled.complete("get ", "fish") == [f"{HELLO_CID}\thello.txt"]
    assert set(filled.complete("help ")) == {*COMMANDS, *TOPICS}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    ["get --provider pinning ", "get --use service ", "copy --from kubo ", "get --path nowhere "],
)
def test_tab_shows_only_what_the_command_would_find(filled, server, words):
    filled.write_user_file(
        f'[connections.service]\nprovider = "pinning"\npin_api_url = "{server.url}"\n'
        'token_file = "missing"\n'
    )
    assert filled.complete(words) == []
    assert not server.requests
    assert not (filled.folder / "nowhere").exists()
    filled.write_user_file("nonsense")
    assert filled.complete(words) == filled.complete("get --use nothing --provider local ") == []


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_tab_gives_no_shell_anything_to_evaluate(commands, shell):
    names = ["$(touch x)", "`touch x`", "a b", "a;b", "a'b", 'a"b', "x\ny", "*", "-x", "~", "a:b"]
    with Client.init(path=commands.folder.parent / "data/holdfast") as client:
        cids = [client.store([name], name=name).cid for name in (*names, "good", "\x1b[31m")]
    text = "\n".join(commands.complete("get ", shell))
    assert all(cid in text for cid in cids)
    assert ("good" in text) is (shell != "bash")
    assert not any(name in text.replace("good", "") for name in names if name != "*")
    assert "\x1b" not in text
    assert "good" in "\n".join(commands.complete("list --name ", shell))


def test_tab_is_bounded(commands):
    path = commands.folder.parent / "data/holdfast"
    with Client.init(path=path) as client:
        cids = [client.store(number, name=f"n{number}").cid for number in range(120)]
    assert commands.complete("get ") == cids[:-101:-1]


def test_tab_in_a_store_that_is_damaged_or_busy(filled):
    database = filled.folder.parent / "data/holdfast/holdfast.sqlite3"
    other = sqlite3.connect(database, isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        assert filled.complete("get ") == [HELLO_CID]
    finally:
        other.close()
    database.write_bytes(b"nonsense" * 1000)
    assert filled.complete("get ") == []


def test_tab_ends_when_its_time_is_over(tmp_path, monkeypatch):
    with Client.init(path=tmp_path) as client:
        cid = client.store(1).cid
    context = SimpleNamespace(params={"path": str(tmp_path), "provider": "local"})
    monkeypatch.setattr(options, "STEPS", 1)
    assert [pinned for pinned, _ in options.pinned_cids(context, "")] == [cid]
    monkeypatch.setattr(options, "SECONDS", -1.0)
    assert options.pinned_cids(context, "") == []
