"""How commands fail: an exit code for each family, one sentence and a remedy, no traceback."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from holdfast import errors
from holdfast.cli import exit_codes
from holdfast.testing import Scripted, ScriptedServer
from tests.commands import HOLDFAST, Commands, install_provider, server_variables
from tests.content import DATA
from tests.psa import results, row
from tests.support import EMPTY_DIRECTORY_V0, HELLO_CID, TOKEN, closed_port_url

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
    told = json.loads(line)["error"]
    assert (told["name"], told["exitCode"]) == (name, code)
    assert words in told["message"] or words in told["details"]
    assert people[1][-1] == f"hint: {told['remedy']}"
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
        (400, {"error": "wrong field"}, (12, "ProviderError", "wrong field")),
        (500, b"<html>", (12, "ProviderError", "HTTP error 500")),
    ],
)
def test_refusals_of_the_provider(scripted, server, status, body, expected):
    result = both(scripted, "store", "1", before=lambda: server.reply(status, body))
    check(result, *expected)


def test_details_of_a_401_and_the_wait_of_a_429_are_told(scripted, server):
    server.reply(401, {"error": {"details": "the key has expired"}})
    _, lines = scripted.failure("store", "1")
    assert lines[0] == "error: HTTP error 401 (the key has expired)"
    server.reply(429, {"error": "slow down"}, headers={"Retry-After": "30"})
    _, lines = scripted.failure("store", "1")
    assert lines == ["error: slow down", "hint: wait 30 seconds, and try again"]
    server.reply(429, {"error": "slow down"}, headers={"Retry-After": "1"})
    _, lines = scripted.failure("store", "1")
    assert lines == ["error: slow down", "hint: wait a second, and try again"]


def test_a_reason_is_told_once(scripted, server):
    server.reply(200, results())
    server.reply(202, row(status="failed", info={"status_details": "the disk is full"}))
    _, lines = scripted.failure("pin", HELLO_CID, "--provider", "psa")
    assert lines == [
        f"error: the provider could not pin {HELLO_CID}: the disk is full",
        "hint: `holdfast config` shows the address of the provider, `holdfast list` its pins",
    ]


def test_the_token_that_a_provider_echoes_is_not_shown(scripted, server):
    server.reply(400, {"error": f"bad token {TOKEN}"})
    _, lines = scripted.failure("store", "1")
    assert lines[0] == "error: bad token ********"


def test_network_errors(scripted):
    url = closed_port_url()
    check(
        both(scripted, "store", "1", "--pin-api-url", url),
        6,
        "NetworkError",
        url.removeprefix("http://"),
    )


def test_wrong_bytes(scripted, server):
    result = both(
        scripted,
        *("download", HELLO_CID, "copy"),
        before=lambda: server.reply(200, b"w0rld"),
    )
    check(result, 14, "VerificationError", HELLO_CID)
    assert not (scripted.folder / "copy").exists()


def test_the_embedded_stores_errors(commands):
    (commands.folder / "dir.car").write_bytes((DATA / "dir-with-files.car").read_bytes())
    (root,) = commands.text("car", "import", "dir.car").splitlines()
    check(both(commands, "retrieve", root), 7, "NotAFileError", "directory")
    check(both(commands, "download", f"{root}/nothing"), 10, "NotFoundError", "nothing")
    check(both(commands, "download", HELLO_CID), 10, "NotFoundError", HELLO_CID)
    check(both(commands, "revoke", HELLO_CID), 10, "NotFoundError", HELLO_CID)


def test_arguments_that_cannot_be(commands):
    check(both(commands, "retrieve", "nonsense"), 4, "InvalidCIDError", "Invalid CID")
    check(both(commands, "store", "{bad"), 5, "SerializationError", "not JSON")
    check(both(commands, "store", "-", given=b"\xff"), 5, "SerializationError", "UTF-8")
    check(both(commands, "send", "bob", "-", given=b"\xff"), 5, "SerializationError", "UTF-8")
    check(both(commands, "upload", "nothing"), 1, "FileNotFoundError", "nothing")
    check(both(commands, "send", " ", "hi"), 2, "ValueError", "recipient")
    check(both(commands, "store", "1", "--provider", "nope"), 3, "ConfigError", "nope")
    check(both(commands, "check", "--path", "elsewhere"), 3, "ConfigError", "no store")
    check(both(commands, "verify", ".", EMPTY_DIRECTORY_V0[:-1]), 4, "InvalidCIDError", "Invalid")


@pytest.mark.parametrize(
    "arguments",
    [
        ["bogus"],
        ["store"],
        ["store", "1", "2"],
        ["store", "1", "--bogus"],
        ["store", "1", "--cid-version", "2"],
        ["list", "--limit", "0"],
        ["node", "--port", "70000"],
        ["list", "--limit", "x"],
        ["car"],
        ["car", "export"],
        ["cid", ""],
        ["upload", ""],
        ["download", HELLO_CID, ""],
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


@pytest.mark.parametrize("arguments", [["download", HELLO_CID], ["car", "export", HELLO_CID]])
def test_json_and_content_do_not_share_standard_output(commands, arguments):
    code, (line,) = commands.failure(*arguments, "-", "--json")
    told = json.loads(line)["error"]
    assert (code, told["name"]) == (2, "UsageError")
    assert "both write to standard output" in told["message"]


def test_json_before_a_double_dash_only_is_the_option(commands):
    code, lines = commands.failure("store", "--", "--json")
    assert (code, lines[0][:7]) == (5, "error: ")


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
        kinds = (each for each in kind.__subclasses__() if each.__module__ == errors.__name__)
        return [kind, *(leaf for each in kinds for leaf in leaves(each))]

    codes = {
        each.__name__: exit_codes.family_of(each.__new__(each)).code
        for each in leaves(errors.ClientError)
    }
    assert codes == {
        "ClientError": 1,
        "ClientClosedError": 1,
        "ConfigError": 3,
        "UnsupportedError": 3,
        "InvalidCIDError": 4,
        "SerializationError": 5,
        "NetworkError": 6,
        "RequestTimeoutError": 6,
        "NotAFileError": 7,
        "AuthenticationError": 8,
        "PermissionDeniedError": 9,
        "NotFoundError": 10,
        "NotAFolderError": 10,
        "RateLimitError": 11,
        "ProviderError": 12,
        "UnprovenError": 13,
        "VerificationError": 14,
        "MalformedError": 14,
        "TooLargeError": 15,
    }


def test_the_help_and_the_reference_list_every_exit_code(commands):
    text = commands.text("help", "exit-codes")
    listed = dict(re.findall(r"^ *(\d+)  (\S.*)$", text, re.MULTILINE))
    assert {int(code) for code in listed} == {
        *(0, 1, 2, 129, 130, 141, 143),
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
    shown = subprocess.run(  # noqa: S603 - our own command
        [HOLDFAST, *options],
        env={**commands.environment, **variables, "HOLDFAST_TRACEBACK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 1
    assert "Traceback" in shown.stderr


def test_an_interrupt_ends_it_with_130_and_leaves_no_file(scripted):
    with ScriptedServer(lambda _: Scripted(delay=30)) as silent:
        process = scripted.start("download", HELLO_CID, "copy", "--gateway-url", silent.url)
        while not silent.requests:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, words = process.communicate(timeout=120)
    assert (process.returncode, output, words) == (130, "", "interrupted\n")
    assert not (scripted.folder / "copy").exists()


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
    [("typer", ["--help"], "cli"), ("starlette", ["demo"], "node"), ("uvicorn", ["node"], "node")],
)
def test_without_its_extra_a_command_says_what_to_install(tmp_path, missing, arguments, extra):
    """The finder of modules overlooks one."""
    commands = Commands(tmp_path, command=(sys.executable, "-m", "holdfast"))
    (tmp_path / "sitecustomize.py").write_text(f"""
import sys
from importlib.machinery import PathFinder
class Hidden(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "{missing}" else super().find_spec(name, path, target)
sys.meta_path = [Hidden if finder is PathFinder else finder for finder in sys.meta_path]
""")
    code, lines = commands.failure(*arguments, PYTHONPATH=str(tmp_path))
    assert (code, lines[-1]) == (3, f"hint: pip install 'holdfast[{extra}]'")
    assert missing in lines[0]
    assert "No module" not in lines[0]
    code, (line,) = commands.failure(*arguments, "--json", PYTHONPATH=str(tmp_path))
    assert json.loads(line)["error"]["name"] == "ConfigError"


def test_json_that_is_no_message_can_be_had_otherwise(commands):
    cid = commands.text("store", "[1]")
    code, lines = commands.failure("receive", cid)
    assert (code, "`holdfast retrieve`" in lines[1]) == (5, True)


def test_a_key_for_v3_is_told_which_provider_to_use(scripted, server):
    words = "This key does not have the required scopes associated with it"
    server.reply(403, {"error": {"reason": "NO_SCOPES_FOUND", "details": words}})
    code, lines = scripted.failure("store", "1")
    assert (code, lines[0]) == (9, f"error: {words}")
    assert lines[-1] == "hint: the key may be for the service's v3 API: use --provider pinata"
