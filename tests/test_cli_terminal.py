"""What people see on a real pseudo-terminal: bars, the token prompt, and no stray escapes."""

import json
import os
import re
import sys

import pytest

from tests.commands import node_variables, plain, server_variables
from tests.support import HELLO_CID, TOKEN
from tests.test_cli_settings import MESSAGE

PROMPT = "Token for "


@pytest.mark.parametrize("where", ["local", "pinning"])
def test_transfers_show_bars_with_rate_and_time_left(commands, node, where):
    if where == "pinning":
        commands.environment |= node_variables(node)
    commands.delay = 0
    data = os.urandom(20_000_000)
    (commands.folder / "[red]big.bin").write_bytes(data)
    code, shown = commands.on_terminal("upload", "[red]big.bin")
    cid = commands.text("cid", "[red]big.bin")
    assert code == 0
    assert plain(shown).endswith(f"\n{cid}\n")
    assert_bar(shown, "[red]big.bin")
    code, shown = commands.on_terminal("download", cid, "copy.bin")
    assert code == 0
    assert plain(shown).endswith("\ncopy.bin\n")
    assert_bar(shown, "copy.bin")
    assert (commands.folder / "copy.bin").read_bytes() == data


def assert_bar(shown, label):
    bars = [line for line in re.split(r"[\r\n]", plain(shown)) if line.startswith(f"{label} ━")]
    last = bars[-1]
    assert re.search(r"━+ 19\.1 MiB of 19\.1 MiB  [\d.]+ [KMG]?i?B/s \d:\d\d:\d\d", last), last


def test_a_stream_of_unknown_length_shows_what_went_through(commands):
    """The input does not end before the bar is there."""
    code, shown = commands.on_terminal("upload", "-", stdin=b"x" * 3_000_000, stdin_ends="━")
    assert code == 0
    assert re.search(r"standard input ━.* 2\.86 MiB", plain(shown))


def test_the_token_is_asked_for_and_not_shown(commands, server):
    commands.command = (sys.executable, "-m", "holdfast")  # a new process, not a fork
    server.reply(200, MESSAGE)
    code, shown = commands.on_terminal(
        *("test-connection", "--provider", "pinning", "--pin-api-url", server.url),
        prompt=PROMPT,
        typed=f"{TOKEN}\n",
    )
    assert (code, shown) == (0, f"{PROMPT}{server.url}: \nconnected to 'pinning'\n")
    (request,) = server.requests
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


def test_the_token_is_asked_for_while_content_comes_through_a_pipe(commands, empty_node):
    code, shown = commands.on_terminal(
        *("store", "-", "--provider", "pinning", "--pin-api-url", empty_node.api_url),
        stdin=b'{"a":1}',
        prompt=PROMPT,
        typed=f"{empty_node.token}\n",
    )
    assert code == 0
    (pin,) = empty_node.repository.pins()
    assert shown.splitlines()[-1] == pin.cid


@pytest.mark.parametrize(
    ("typed", "code", "words"),
    [
        ("\n", 3, "no token was given"),
        ("\x04", 3, "no token was given"),
        ("\x03", 130, "interrupted"),
    ],
)
def test_no_token_at_the_prompt(commands, server, typed, code, words):
    exit_code, shown = commands.on_terminal(
        *("test-connection", "--provider", "pinning", "--pin-api-url", server.url),
        prompt=PROMPT,
        typed=typed,
    )
    assert (exit_code, words in shown, "Traceback" in shown) == (code, True, False)
    assert server.requests == []


def test_names_and_messages_cannot_move_the_cursor_or_forge_lines(commands):
    nasty = "a\x1b[2Jb\x9bc\nd"
    cid = commands.text("send", "bob\nSent: never\x1b", nasty)
    code, shown = commands.on_terminal("receive", cid)
    assert (code, shown.splitlines()[3:]) == (0, ["a\\x1b[2Jb\\x9bc", "d"])
    assert shown.startswith("To:   bob\\nSent: never\\x1b\n")
    assert commands.text("receive", cid).splitlines()[0] == "To:   bob\\nSent: never\\x1b"
    assert nasty in commands.text("receive", cid)  # a pipe gets what is there
    code, shown = commands.on_terminal("receive", cid, "--json")
    assert (code, shown.isascii(), "\x1b" in shown) == (0, True, False)
    assert commands.json("receive", cid)["payload"] == nasty
    commands.text("upload", "-", "--name", f"e\x1b]0;\x07\n{HELLO_CID}  5 B\tb", stdin=b"1")
    code, shown = commands.on_terminal("list", "--limit", "1", NO_COLOR="1", COLUMNS="200")
    assert (code, "\x1b" in shown, "e\\x1b]0;\\x07\\n" in shown) == (0, False, True)
    line, _ = commands.text("list").splitlines()
    assert line.endswith(f"e\\x1b]0;\\x07\\n{HELLO_CID}  5 B\\tb")


def test_what_a_provider_says_cannot_either(commands, server):
    server.reply(400, {"error": "\x1b[31mred"})
    variables = server_variables(server)
    code, shown = commands.on_terminal("store", "1", **variables)
    assert (code, shown.splitlines()[0]) == (12, "\x1b[31merror:\x1b[0m \\x1b[31mred")


def test_archives_show_bars_which_end_before_an_error(commands):
    commands.delay = 0
    (commands.folder / "big").write_bytes(os.urandom(20_000_000))
    cid = commands.text("upload", "big")
    code, shown = commands.on_terminal("car", "export", cid, "big.car")
    assert (code, "━ 19.1 MiB  " in plain(shown)) == (0, True)
    broken = bytearray((commands.folder / "big.car").read_bytes())
    broken[15_000_000] ^= 1
    (commands.folder / "big.car").write_bytes(broken)
    code, shown = commands.on_terminal("car", "import", "big.car", "--path", "other")
    lines = plain(shown).replace("\r", "\n").splitlines()
    (error,) = (place for place, line in enumerate(lines) if line.startswith("error: "))
    assert (code, " of 19.1 MiB" in "".join(lines[:error])) == (14, True)
    assert [line[:6] for line in lines[error:] if line] == ["error:", "hint: "]
    code, shown = commands.on_terminal("car", "import", "big.car", "--path", "other", "--json")
    assert json.loads(plain(shown))["error"]["exitCode"] == 14  # in one line, and no bar


def test_what_is_typed_is_not_run_over_by_a_bar(commands):
    code, shown = commands.on_terminal("upload", "-", typed="hello\n\x04\x04")
    assert (code, shown.splitlines()[-1]) == (0, commands.text("cid", "-", stdin=b"hello\n"))
    assert "\x1b" not in shown


def test_cid_and_verify_show_bars(commands):
    (commands.folder / "folder").mkdir()
    (commands.folder / "folder/big").write_bytes(os.urandom(20_000_000))
    commands.delay = 0
    cid = commands.text("cid", "folder/big")
    code, shown = commands.on_terminal("verify", "folder/big", cid)
    assert (code, plain(shown).endswith(f"\nfolder/big is {cid}\n")) == (0, True)
    assert_bar(shown, "big")
    code, shown = commands.on_terminal("cid", "folder")
    assert (code, "19.1 MiB of 19.1 MiB" in plain(shown)) == (0, True)


def test_a_terminal_is_shown_text_and_nothing_else(commands):
    text = commands.text("upload", "-", stdin="Grüße\n\tund mehr\n".encode())
    code, shown = commands.on_terminal("download", text, "-")
    assert (code, plain(shown).endswith("Grüße\n\tund mehr\n")) == (0, True)
    for content in (b"\x1b[2Jgone", os.urandom(2000)):
        cid = commands.text("upload", "-", stdin=content)
        code, shown = commands.on_terminal("download", cid, "-")
        assert code == 2
        assert "error: the content is not plain text" in plain(shown)
        assert "gone" not in shown
    code, shown = commands.on_terminal("car", "export", text, "-")
    assert (code, "error: an archive cannot be shown on a terminal" in plain(shown)) == (2, True)
