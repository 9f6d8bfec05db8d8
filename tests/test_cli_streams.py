"""The command in hard circumstances: closed or full streams, other encodings, signals."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from holdfast.testing import Scripted, ScriptedServer
from tests.commands import HOLDFAST, install_provider, shell
from tests.support import HELLO_CID, TOKEN

ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


@pytest.mark.parametrize("variables", ASCII, ids=["encoding", "locale"])
def test_what_the_output_cannot_encode_is_escaped(commands, variables):
    cid = commands.text("store", '{"name":"Zoë","wave":"🌊"}', **variables)
    assert commands.text("retrieve", cid, **variables) == (
        '{\n  "name": "Zo\\xeb",\n  "wave": "\\U0001f30a"\n}'
    )
    assert commands.json("retrieve", cid, **variables) == {"name": "Zoë", "wave": "🌊"}
    assert "\\U0001f30a" in commands.text("demo", **variables)


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
    assert len(commands.json("list")) == 3
    assert commands.text("check").startswith("sound: 3 pins")


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
def test_a_full_disk_behind_the_output_is_an_error(commands, arguments):
    commands.command = shell(">/dev/full")
    code, lines = commands.failure(*arguments)
    assert (code, lines[0]) == (1, "error: No space left on device")


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


def test_warnings_are_lines_of_json_too(commands):
    result = commands.run("list", "--provider", "pinning", "--token", "a b", "--json")
    warning, error = map(json.loads, result.stderr.decode().splitlines())
    assert "can be seen by others" in warning["warning"]
    assert (error["error"]["name"], error["error"]["exitCode"]) == ("ConfigError", 3)
