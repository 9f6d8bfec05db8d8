"""What people see on a real pseudo-terminal: bars, the token prompt, and no stray escapes."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from holdfast.testing import Scripted, ScriptedServer
from tests.commands import (
    HOLDFAST,
    install_provider,
    node_variables,
    plain,
    server_variables,
    shell,
)
from tests.support import HELLO_CID, TOKEN

PROMPT = "Token for "


@pytest.mark.slow
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


def test_the_token_is_asked_for_while_content_comes_through_a_pipe(commands, empty_node):
    code, shown = commands.on_terminal(
        *("store", "-", "--provider", "pinning", "--pin-api-url", empty_node.api_url),
        stdin=b'{"a":1}',
        prompt=PROMPT,
        typed=f"{empty_node.token}\n",
    )
    (pin,) = empty_node.repository.pins()
    assert (code, shown) == (0, f"{PROMPT}{empty_node.api_url}: \n{pin.cid}\n")


@pytest.mark.parametrize(
    ("typed", "code", "words"),
    [
        ("\n", 3, "no token was typed"),
        ("\x04", 3, "no token was typed"),
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
    assert (code, shown.splitlines()[3:]) == (0, ["a\\u001b[2Jb\\u009bc", "d"])
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
    cid = commands.text("cid", "-", stdin=b"hello\n")
    for command in ("cid", "upload"):  # one Ctrl-D ends what is typed
        code, shown = commands.on_terminal(command, "-", typed="hello\n\x04")
        assert (code, shown.splitlines()[-1]) == (0, cid)
    assert "\x1b" not in shown
    assert "waiting for input: type it, then press Ctrl-D on a line of its own\n" in shown


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


# Closed or full streams, other encodings, signals

ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


@pytest.mark.parametrize("variables", ASCII, ids=["encoding", "locale"])
@pytest.mark.slow
def test_what_the_output_cannot_encode_is_escaped(commands, variables):
    cid = commands.text("store", '{"name":"Zoë","wave":"🌊"}', **variables)
    assert commands.text("retrieve", cid, **variables) == (
        '{\n  "name": "Zo\\u00eb",\n  "wave": "\\ud83c\\udf0a"\n}'
    )
    assert commands.json("retrieve", cid, **variables) == {"name": "Zoë", "wave": "🌊"}
    assert "\\U0001f30a" in commands.text("demo", **variables)


@pytest.mark.slow
def test_a_name_that_is_no_text_is_written_and_told(commands):
    cid = commands.text("upload", "-", stdin=b"hello")
    name = os.fsdecode(b"out\xff")
    assert commands.text("download", cid, name, PYTHONIOENCODING="utf-8:strict") == "out\\udcff"
    assert (commands.folder / name).read_bytes() == b"hello"


def test_a_fault_of_encoding_is_no_wrong_usage(commands, tmp_path):
    code = "class Provider:\n    def from_config(config):\n        '\\udcff'.encode()\n"
    variables = install_provider(tmp_path / "site", "clumsy", code)
    code, lines = commands.failure("store", "1", "--provider", "clumsy", **variables)
    assert (code, lines[0][:26]) == (1, "error: UnicodeEncodeError:")


@pytest.mark.slow  # eleven commands
def test_closed_streams(commands):
    (commands.folder / "big").write_bytes(os.urandom(3_000_000))
    cid = commands.text("cid", "big")
    commands.command = shell("2>&-")
    result = commands.run("store", "{bad")
    assert (result.returncode, result.stdout, result.stderr) == (5, b"", b"")
    assert commands.text("upload", "big") == cid
    commands.command = shell(">&-")
    assert commands.text("store", "1") == ""
    commands.command = shell("<&-")
    for arguments in (["upload", "-"], ["store", "-"], ["send", "bob", "-"], ["cid", "-"]):
        code, lines = commands.failure(*arguments)
        words = 'error: standard input is closed: "-" has nothing to read'
        assert (code, lines[0]) == (2, words)
    commands.command = shell("<&- >&- 2>&-")
    commands.text("store", "2")
    commands.command = (HOLDFAST,)
    assert len(commands.rows("list")) == 3
    assert commands.text("check").startswith("sound: 3 pins")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="shows who has which descriptor")  # noqa: PTH112
def test_no_file_of_ours_gets_the_number_of_a_closed_stream(commands, tmp_path):
    """Else whatever is written to the stream would end up in it: the store's database, say."""
    script = (
        "import os\n"
        "class Provider:\n"
        "    def from_config(config):\n"
        f"        os.symlink(os.readlink('/proc/self/fd/2'), {str(tmp_path / 'second')!r})\n"
        "        raise ValueError\n"
    )
    commands.command = shell("2>&-")
    commands.run(
        *("store", "1", "--provider", "nosy"), **install_provider(tmp_path / "site", "nosy", script)
    )
    assert os.readlink(tmp_path / "second") == "/dev/null"  # noqa: PTH115


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["store", "1"], ["demo"]])
@pytest.mark.slow
def test_a_full_disk_behind_the_output_is_an_error(commands, arguments):
    commands.command = shell(">/dev/full")
    code, lines = commands.failure(*arguments)
    assert (code, lines[0]) == (1, "error: No space left on device")
    assert lines[1].startswith("hint: free some space on that disk; `holdfast gc` ")


@pytest.mark.slow
def test_the_exit_code_is_the_same_when_nobody_hears_about_it(commands):
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(  # noqa: S603 - our own command
        [HOLDFAST, "store", "{bad"], stderr=writer, env=commands.environment
    )
    os.close(writer)
    assert process.wait(timeout=120) == 5
    commands.command = shell("2>/dev/full")
    assert commands.run("store", "{bad").returncode == 5


def test_an_early_interrupt_shows_no_traceback(commands, tmp_path):
    commands.command = shell("")  # a new process, not a fork
    (tmp_path / "typer.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(20)\n"
    )
    code, lines = commands.failure("--help", PYTHONPATH=str(tmp_path))
    assert (code, lines) == (130, ["interrupted"])
    (tmp_path / "json.py").write_text((tmp_path / "typer.py").read_text())
    code, lines = commands.failure("--help", PYTHONPATH=str(tmp_path))
    assert (code, lines) == (130, [])


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
@pytest.mark.slow
def test_a_demo_that_is_ended_leaves_nothing_behind(commands, tmp_path, number, code):
    folder = tmp_path / "temporary"
    folder.mkdir()
    process = commands.start("demo", TMPDIR=str(folder))
    while not list(folder.glob("*/*")):  # the node has its store
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode == code
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_a_command_that_is_terminated_gives_the_cursor_back(commands):
    with ScriptedServer(lambda _: Scripted(delay=30)) as silent:
        code, shown = commands.on_terminal(
            *("download", HELLO_CID, "copy", "--provider", "pinning"),
            *("--gateway-url", silent.url),
            signal=signal.SIGTERM,
            prompt="copy ",  # a bar
            HOLDFAST_PROVIDER_TOKEN=TOKEN,
        )
    assert code == 143
    assert re.findall(r"\x1b\[\?25[lh]", shown)[-1] == "\x1b[?25h"
    assert list(commands.folder.iterdir()) == []
