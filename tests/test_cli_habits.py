"""What people type out of habit: it works, or one line says what to type."""

import json
import re
import shlex
import sqlite3
from types import SimpleNamespace

import pytest
import typer

import holdfast
from holdfast import Client
from holdfast.cli import options
from holdfast.cli.app import COMMANDS, TOPICS, app
from holdfast.cli.unknown_words import (
    ALIASES,
    EXTRA_ARGUMENT_POINTERS,
    OPTION_POINTERS,
    POINTERS,
)
from tests.commands import Commands, server_variables
from tests.content import DATA
from tests.support import HELLO_CID, TOKEN

HELLO = b"hello"
OTHER_CID = "bafkqaaa"


@pytest.fixture
def filled(commands):
    """Commands with a file, a JSON file and a folder, and the file in the store."""
    for name in ("hello.txt", "my file"):
        (commands.folder / name).write_bytes(HELLO)
    (commands.folder / "value.json").write_text('{"a": 1}')
    (commands.folder / "folder").mkdir()
    (commands.folder / "folder" / "hello.txt").write_bytes(HELLO)
    assert commands.text("upload", "hello.txt") == HELLO_CID
    return commands


# Commands that work under other names.


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("add hello.txt", HELLO_CID),
        ("put hello.txt", HELLO_CID),
        (f"get {HELLO_CID} copy.txt", "copy.txt"),
        (f"get {HELLO_CID} -o copy.txt", "copy.txt"),
        (f"download {HELLO_CID} --output copy.txt", "copy.txt"),
        (f"cat {HELLO_CID}", "hello"),
        (f"--json get {HELLO_CID} -o copy.txt", None),
        (f"rm {HELLO_CID}", f"revoked {HELLO_CID}"),
        (f"unpin {HELLO_CID}", f"revoked {HELLO_CID}"),
        (f"delete {HELLO_CID}", f"revoked {HELLO_CID}"),
        ("version", f"holdfast {holdfast.__version__}"),
        ("-V", f"holdfast {holdfast.__version__}"),
        ("--version", f"holdfast {holdfast.__version__}"),
        (f"car export {HELLO_CID} -o hello.car", "hello.car"),
        ("store -n five 5", None),
        (f"pin -n again {HELLO_CID}", f"pinned {HELLO_CID}"),
    ],
)
def test_natural_commands_work(filled, typed, written):
    text = filled.text(*shlex.split(typed))
    if written is not None:
        assert text == written


def test_ls_alone_lists_the_pins_and_with_a_cid_its_entries(filled):
    assert filled.text("ls") == filled.text("list")
    assert filled.text("ls", "--json") == filled.text("list", "--json")
    folder = filled.text("add", "folder")
    assert "hello.txt" in filled.text("ls", folder)


def test_a_second_cid_does_not_become_the_name_of_a_file(filled):
    other = filled.text("store", "5")
    for command in ("get", "cat"):
        result = filled.run(command, HELLO_CID, other)
        assert (result.returncode, result.stdout) == (2, b"")
        assert result.stderr.startswith(b"error: download takes one CID at a time\n")
    assert not (filled.folder / other).exists()
    filled.text("get", other)
    assert filled.run("get", HELLO_CID, other).returncode == 2
    assert (filled.folder / other).read_bytes() == b"5"


def test_several_are_revoked_and_one_that_fails_stops_no_other(filled):
    other = filled.text("store", "5")
    result = filled.run("rm", HELLO_CID, "nonsense", other)
    assert result.returncode == 4
    lines = result.stdout.decode().splitlines()
    assert sorted(lines) == sorted([f"revoked {HELLO_CID}", f"revoked {other}"])
    told = result.stderr.decode().splitlines()
    assert told[0] == "error: nonsense: Invalid CID"
    assert told[-1] == "revoked 2 of 3"
    assert filled.text("list") == ""


def test_several_are_revoked_for_machines(filled):
    other = filled.text("store", "5")
    lines = filled.text("revoke", other, HELLO_CID, "--json").splitlines()
    rows = sorted((json.loads(line) for line in lines), key=lambda row: row["cid"])
    assert rows == [{"cid": cid, "revoked": True} for cid in sorted([other, HELLO_CID])]


def test_a_token_that_is_refused_stops_the_others(tmp_path, server):
    commands = Commands(tmp_path, **server_variables(server))
    for _ in range(8):
        server.reply(401, {"error": "expired"})
    result = commands.run("rm", *[HELLO_CID] * 50)
    assert (result.returncode, result.stdout) == (8, b"")
    assert len(server.requests) <= 9
    assert result.stderr.decode().splitlines()[-1] == "revoked 0 of 50"


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


def test_the_number_of_pins_and_a_dry_run_are_n(filled):
    filled.text("store", "5")
    assert len(filled.text("list", "-n", "1").splitlines()) == 1
    other = filled.folder / "other"
    filled.write_user_file(f'[connections.other]\nprovider = "local"\npath = "{other}"\n')
    result = filled.run("copy", "--from", "local", "--to", "other", "-n")
    assert (result.returncode, HELLO_CID in result.stdout.decode()) == (0, True)
    assert filled.text("list", "--use", "other") == ""


# JSON before and after the command; verbose.


@pytest.mark.parametrize("typed", ["list", f"car export {HELLO_CID} out.car", "version"])
def test_json_is_before_or_after_the_command(filled, typed):
    words = typed.split()
    before = filled.text("--json", *words)
    assert before == filled.text(*words, "--json")
    assert before == filled.text(words[0], "--json", *words[1:])
    assert json.loads(before)


def test_json_before_the_command_is_for_errors_too(filled):
    code, (line,) = filled.failure("--json", "retrieve", "nonsense")
    assert (code, json.loads(line)["error"]["name"]) == (4, "InvalidCIDError")
    code, (line,) = filled.failure("--json", "pussh")
    assert (code, json.loads(line)["error"]["exitCode"]) == (2, 2)


@pytest.mark.parametrize("typed", ["-v store 5", "store -v 5", "--verbose store 5"])
def test_verbose_shows_the_log(commands, typed):
    result = commands.run(*typed.split())
    assert (result.returncode, result.stderr) == (0, b"log: store succeeded\n")
    result = commands.run("--json", *typed.split())
    assert json.loads(result.stderr) == {"log": "store succeeded"}
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
    assert commands.json("help", "exit-codes")["14"] == "the bytes do not match the CID"
    assert commands.json("help", "settings") == {"text": TOPICS["settings"]}


def test_help_is_complete_short_and_without_aliases(commands):
    text = commands.text("--help")
    listed = re.findall(r"^  ([a-z][a-z-]*)  ", text, re.MULTILINE)
    assert listed == [*COMMANDS]
    assert not set(listed) & set(ALIASES)
    assert "terminated" not in text
    assert len(text.splitlines()) <= len(COMMANDS) + 25


def test_the_reference_names_every_alias():
    page = (DATA.parent.parent / "docs/reference/cli.md").read_text()
    lines = " ".join(re.findall(r"^Other names: .*$", page, re.MULTILINE))
    for alias, words in ALIASES.items():
        more = f" for `{' '.join(words)}`" if len(words) > 1 else ""
        assert f"`{alias}`{more}" in lines


# Typing errors.


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("uplod x", "'upload'"),
        ("donwload x", "'download'"),
        ("Upload x", "'upload'"),
        ("lst", "'list'"),
        ("stor 1", "'store'"),
        ("verifi x y", "'verify'"),
        ("help uplaod", "'upload'"),
        ("help exitcodes", "'exit-codes'"),
        ("car exprt x y", "'export'"),
        ("list --nmae x", "'--name'"),
        ("list --jsno", "'--json'"),
        ("--jsno list", "'--json'"),
        ("store 1 --provder local", "'--provider'"),
        ("store 1 --use locla", "'local'"),
    ],
)
def test_a_typing_error_is_answered_with_what_may_be_meant(commands, typed, meant):
    code, lines = commands.failure(*typed.split())
    assert code in (2, 3)
    assert len(lines) == 2
    assert f"did you mean {meant}?" in lines[0]
    assert lines[1].startswith("hint: ")


def test_a_group_points_to_its_own_commands(filled):
    code, lines = filled.failure("car", "hello.txt")
    assert (code, lines[1]) == (2, "hint: `holdfast car --help` lists the commands")
    code, lines = filled.failure("car")
    assert (code, lines[0]) == (2, "error: name a command: export or import")


def test_what_is_like_nothing_gets_no_suggestion(commands):
    assert commands.failure("zzzzzz") == (
        2,
        ["error: unknown command 'zzzzzz'", "hint: `holdfast --help` lists the commands"],
    )
    assert commands.failure("list", "--zzzzzz") == (
        2,
        ["error: unknown option --zzzzzz", "hint: `holdfast list --help` shows the usage"],
    )


@pytest.mark.parametrize("option", ["--provider", "--use", "--no-verify", "--token-file", "--path"])
def test_an_option_of_the_commands_belongs_after_them(commands, option):
    code, lines = commands.failure(option, "x", "list")
    hint = f"hint: write it after the command: `holdfast COMMAND {option} …`"
    assert (code, lines) == (2, [f"error: unknown option {option}", hint])


def test_an_option_without_its_value_names_the_help_of_its_command(commands):
    code, lines = commands.failure("upload", "x", "--name")
    assert (code, lines[1]) == (2, "hint: `holdfast upload --help` shows the usage")


def test_hints_of_the_store_on_disk_speak_of_no_gateway(commands):
    (commands.folder / "notes").mkdir()
    folder = commands.text("upload", "notes")
    for arguments, hint in {
        ("retrieve", HELLO_CID): "`holdfast list` shows what is here",
        ("pin", HELLO_CID): "see `holdfast car import`",
        ("download", f"{folder}/a.txt"): "`holdfast ls CID` lists its names",
    }.items():
        code, lines = commands.failure(*arguments)
        assert (code, lines[1:]) == (10, [f"hint: {hint}"])


# Commands and options of other tools.


@pytest.mark.parametrize("typed", POINTERS)
def test_a_command_of_another_tool_gets_one_line_that_points_to_ours(commands, typed):
    code, lines = commands.failure(*typed.split(), "x")
    assert code == 2
    assert lines == [f"error: unknown command {typed!r}", f"hint: {POINTERS[typed]}"]
    assert max(map(len, lines)) <= 100


def test_pointers_name_commands_and_options_that_exist():
    root = typer.main.get_command(app)
    tables = POINTERS, OPTION_POINTERS, EXTRA_ARGUMENT_POINTERS
    for pointer in {pointer for table in tables for pointer in table.values()}:
        for typed in re.findall(r"`holdfast ([^`]*)`", pointer):
            words = shlex.split(typed.partition(" - <")[0])
            command = root
            while words and not words[0].startswith("-") and hasattr(command, "resolve_command"):
                _, command, words = command.resolve_command(typer.Context(command), words)
            known = {"--help", *(flag for each in command.params for flag in each.opts)}
            assert {word for word in words if word[:1] == "-" and word != "-"} <= known, typed


def test_no_pointer_hides_a_command_of_ours():
    assert not {*POINTERS} & {*COMMANDS, *ALIASES}
    assert {words[0] for words in ALIASES.values()} <= {*COMMANDS}


@pytest.mark.parametrize("typed", OPTION_POINTERS)
def test_an_option_of_another_tool_gets_one_line(commands, typed):
    *_, option = words = typed.split() if " " in typed else ["check", typed]
    code, lines = commands.failure(*words, "x")
    hint = f"hint: {OPTION_POINTERS[typed]}"
    assert (code, lines) == (2, [f"error: unknown option {option}", hint])


@pytest.mark.parametrize("command", EXTRA_ARGUMENT_POINTERS)
def test_one_argument_too_many_gets_a_pointer(commands, command):
    code, lines = commands.failure(command, *"abc")
    assert (code, len(lines)) == (2, 2)
    assert lines[1] == f"hint: {EXTRA_ARGUMENT_POINTERS[command]}"


def test_n_uploads_nothing(filled):
    """In ipfs it is a dry run: to take it for the name would publish the next file."""
    code, _ = filled.failure("add", "-n", "value.json", "folder")
    assert code == 2
    assert len(filled.text("list").splitlines()) == 1


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (HELLO_CID, f"`holdfast download {HELLO_CID}` downloads it"),
        (f"ipfs://{HELLO_CID}/a", f"`holdfast download ipfs://{HELLO_CID}/a` downloads it"),
        ("hello.txt", "`holdfast upload hello.txt` stores it"),
        ("'my file'", "`holdfast upload 'my file'` stores it"),
        ("-v", "`holdfast -V` shows the version"),
        ("store hello.txt", "`holdfast store - < hello.txt` stores the JSON in a file"),
        ("store @value.json", "`holdfast store - < value.json` stores the JSON in a file"),
        ("store '@my file'", "`holdfast store - < 'my file'` stores the JSON in a file"),
    ],
)
def test_pointers_of_what_is_typed(filled, typed, hint):
    _, lines = filled.failure(*shlex.split(typed))
    assert lines[1:] == [f"hint: {hint}"]


@pytest.mark.parametrize("value", ["{a: 1}", "{hello: world}", "[a]", "hello", "''"])
def test_json_that_lost_its_quotes(commands, value):
    code, lines = commands.failure("store", value)
    assert (code, len(lines)) == (5, 2)
    assert "quotes" in lines[1]


# TAB.


@pytest.mark.parametrize(
    "words",
    [
        "download ",
        "get bafk",
        "cat ",
        "--json get ",
        "rm ",
        f"rm {OTHER_CID} ",
        "ls ",
        "retrieve b",
        "car export ",
        "list --cid ",
        "copy --from local ",
        "pin --use local ",
    ],
)
def test_tab_completes_cids(filled, words):
    assert filled.complete(words) == [HELLO_CID]


def test_tab_completes_names_and_shows_what_is_what(filled):
    assert filled.complete("list --name he") == ["hello.txt"]
    assert filled.complete("list --name x") == []
    assert filled.complete("get ", "fish") == [f"{HELLO_CID}\thello.txt"]
    assert set(filled.complete("help ")) == {*COMMANDS, *TOPICS}


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


def test_tab_makes_no_store_and_survives_any_settings(commands):
    assert commands.complete("get ") == []
    assert not (commands.folder.parent / "data").exists()
    commands.write_user_file("nonsense")
    assert commands.complete("get ") == []
    assert commands.complete("get --use nothing --provider local ") == []


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
    assert [each for each, _ in options.pinned_cids(context, "")] == [cid]
    monkeypatch.setattr(options, "SECONDS", -1.0)
    assert options.pinned_cids(context, "") == []


@pytest.mark.parametrize("extra", [(), ("--provider", "pinata"), ("--json",)])
def test_a_token_that_is_an_argument_of_login_is_not_shown(commands, extra):
    result = commands.run("login", *extra, "eyJhbGciOiJIUzI1NiJ9")
    assert result.returncode == 2
    assert b"login takes no arguments" in result.stderr
    assert b"in a pipe" in result.stderr
    assert b"eyJ" not in result.stdout + result.stderr


def test_options_of_help_come_last(commands):
    code, lines = commands.failure("help", "-v", "upload")
    assert (code, lines[0]) == (2, "error: write options last: holdfast help upload")


def test_the_name_of_a_topic_is_no_suggestion_for_a_command(commands):
    assert "settings" not in commands.failure("setings")[1][0]


def test_completion_of_what_is_not_text_offers_nothing(filled):
    assert filled.complete("info b\udcff") == []
