"""The commands beside the client's operations, and what holds for the application as a whole."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

import holdfast
from holdfast import Client, compute_cid
from holdfast.cli.app import COMMANDS
from tests.commands import Commands
from tests.content import DATA
from tests.support import HELLO_CID

NAMES = [name for name in COMMANDS if name != "car"]
ALL_COMMANDS = [*([name] for name in NAMES), ["car", "export"], ["car", "import"]]


def test_cid_and_verify(commands):
    (commands.folder / "hello").write_bytes(b"hello")
    assert commands.text("cid", "hello") == HELLO_CID
    assert commands.json("cid", "-", given=b"hello") == {
        "cid": HELLO_CID,
        "profile": "unixfs-v1-2025",
    }
    assert commands.text("cid", ".") == compute_cid(commands.folder)
    assert commands.text("verify", "hello", HELLO_CID) == f"hello is {HELLO_CID}"
    assert commands.json("verify", "-", HELLO_CID, given=b"hello") == {
        "cid": HELLO_CID,
        "verified": True,
    }
    code, lines = commands.failure("verify", "-", HELLO_CID, given=b"w0rld")
    assert (code, lines[-1]) == (
        14,
        f"hint: `holdfast download {HELLO_CID}` gets what the CID names",
    )
    code, lines = commands.failure("verify", HELLO_CID, "hello")
    assert (code, lines[-1]) == (4, "hint: the file comes first: holdfast verify FILE CID")


def test_cid_and_verify_with_hidden_files(commands):
    (commands.folder / ".hidden").write_bytes(b"hello")
    everything = compute_cid(commands.folder, include_hidden=True)
    assert commands.text("cid", ".") != everything
    assert commands.text("cid", ".", "--include-hidden") == everything
    assert commands.text("verify", ".", everything, "--include-hidden") == f". is {everything}"
    assert commands.failure("verify", ".", everything)[0] == 13
    # Nothing is kept or asked for.
    assert not (commands.folder.parent / "data").exists()


def test_archives_go_out_and_in(commands):
    archive = (DATA / "subdir-with-mixed-block-files.car").read_bytes()
    (root,) = commands.json("car", "import", "-", given=archive)["roots"]
    assert commands.text("download", f"{root}/subdir/hello.txt") == "hello.txt"
    result = commands.run("car", "export", root, "-")
    assert (result.returncode, result.stdout, result.stderr) == (0, archive, b"")
    told = commands.json("car", "export", f"ipfs://{root}", "copy.car")
    assert told == {"cid": root, "path": "copy.car", "size": len(archive)}
    assert (commands.folder / "copy.car").read_bytes() == archive
    assert commands.text("car", "import", "copy.car", "--path", "other") == root
    assert [pin["cid"] for pin in commands.json("list", "--path", "other")] == [root]


def test_a_broken_archive_is_not_taken_in_and_a_missing_block_not_written(commands):
    archive = (DATA / "subdir-with-mixed-block-files.car").read_bytes()
    (commands.folder / "broken.car").write_bytes(archive[:-10])
    assert commands.failure("car", "import", "broken.car")[0] == 14
    assert commands.json("list") == []
    assert commands.failure("car", "export", HELLO_CID, "out.car")[0] == 13
    assert not (commands.folder / "out.car").exists()


def test_gc_removes_what_was_revoked_and_check_finds_damage(commands):
    kept = commands.text("upload", "-", given=os.urandom(100_000))
    gone = commands.text("upload", "-", given=os.urandom(200_000))
    commands.text("revoke", gone)
    assert commands.json("gc") == {"blocks": 1, "size": 200_000}
    assert commands.text("gc") == "removed 0 blocks, 0 B"
    assert commands.text("check") == "sound: 1 pin, 97.7 KiB"
    assert commands.json("check") == {"pins": 1, "size": 100_000, "damage": [], "foreign": []}
    folder = commands.folder.parent / "data/holdfast/blocks"
    (file,) = (path for path in folder.rglob("*") if path.is_file())
    file.write_bytes(bytes(each ^ 1 for each in file.read_bytes()))
    result = commands.run("check", "--json")
    assert result.returncode == 14
    (damage,) = json.loads(result.stdout)["damage"]
    assert damage["cid"] == kept
    assert json.loads(result.stderr)["error"]["message"] == "1 block is damaged or missing"
    # After a repair its file has no row, and its pin needs it: still one block.
    commands.text("repair")
    damage = commands.run("check")
    assert b"error: 1 block is damaged or missing" in damage.stderr
    assert len(damage.stdout.splitlines()) == 2
    commands.text("revoke", kept)
    commands.text("gc")
    assert f"it is of no use, remove {file}".encode() in commands.run("check").stdout


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_the_node_runs_until_it_is_interrupted(commands, flags):
    process = commands.start("node", "--port", "0", "--path", "store", *flags)
    try:
        if flags:
            told = json.loads(process.stdout.readline())
        else:
            lines = [process.stdout.readline() for _ in range(4)]
            labels = ["pinApiUrl", "gatewayUrl", "path", "providerToken"]
            told = {label: line.split()[-1] for label, line in zip(labels, lines, strict=True)}
        assert told["path"] == "store"
        told.pop("pageUrl", None)
        with Client.init({"provider": "pinning", **told}) as client:
            record = client.store({"a": 1})
            assert client.retrieve(record.cid) == {"a": 1}
    finally:
        process.send_signal(signal.SIGINT)
        try:
            _, words = process.communicate(timeout=120)
        finally:
            process.kill()
    if flags:
        words = json.loads(words)["error"]["message"] + "\n"
    assert (process.returncode, words) == (130, "interrupted\n")
    assert commands.text("retrieve", record.cid, "--json", "--path", "store") == '{"a": 1}'


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_node_ends_in_order_when_it_is_told_to(commands, number, code):
    process = commands.start("node", "--port", "0", "--path", "store")
    for _ in range(5):
        process.stdout.readline()
    process.send_signal(number)
    try:
        _, words = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, words) == (code, "")


def test_a_node_by_python_is_as_careful(commands):
    for arguments, words in (
        (["--path", ""], "must not be empty"),
        (["--rate-limit", "0"], "--rate-limit must be 1 or more"),
    ):
        result = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "holdfast.node", "--port=0", *arguments],
            cwd=commands.folder,
            env=commands.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (result.returncode, words in result.stderr) == (2, True)
    assert list(commands.folder.iterdir()) == []


def test_an_archive_that_is_not_there_makes_no_store(commands):
    code, _ = commands.failure("car", "import", "missing.car", "--path", "new")
    assert code == 1
    assert list(commands.folder.iterdir()) == []


def test_a_node_that_cannot_start_says_why(commands):
    code, lines = commands.failure("node", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert code == 3
    assert "give a token of your own" in lines[0]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, lines = commands.failure("node", "--port", taken.getsockname()[1])
    assert (code, "in use" in lines[0], "--port" in lines[1]) == (3, True, True)
    code, lines = commands.failure("node", "--port", "0", "--gateway", "nonsense")
    assert (code, lines[0][:24]) == (3, "error: --gateway must be")
    code, lines = commands.failure("node", "--port", "0", HOLDFAST_NODE_TOKEN="a b")
    assert (code, lines[0][:33]) == (3, "error: HOLDFAST_NODE_TOKEN holds ")
    (commands.folder / "tokens").write_bytes(b"\xff\xfe")
    code, lines = commands.failure("node", "--port", "0", "--token-file", "tokens")
    assert (code, "tokens cannot be read: it is not UTF-8 text" in lines[0]) == (3, True)


def test_the_demo_shows_every_operation_and_leaves_nothing_behind(commands, tmp_path):
    for each in tmp_path.iterdir():
        each.rmdir()
    lines = commands.text("demo", cwd=tmp_path, TMPDIR=str(tmp_path)).splitlines()
    steps = [
        *("test_connection", "store", "retrieve", "upload", "download", "send", "receive"),
        *("revoke", "revoke again", "caught"),
    ]
    assert [re.split("  +", line)[1] for line in lines if line.startswith("  ")] == steps
    told = commands.json("demo", cwd=tmp_path, TMPDIR=str(tmp_path))
    results = {each["step"]: each["result"] for each in told}
    assert list(results) == steps
    assert results["download"].endswith("the same bytes")
    assert results["caught"].startswith("VerificationError: ")
    assert list(tmp_path.iterdir()) == []


def test_a_demo_with_other_bytes_fails(tmp_path):
    """A client that reads wrongly, put in before the command begins."""
    code = """
from holdfast import Blob, Client
from holdfast.cli.main import main
Client.download = lambda self, cid, *, to: Blob(b"other", name="copy.png")
main()
"""
    commands = Commands(tmp_path, command=(sys.executable, "-c", code))
    result = commands.run("demo")
    assert result.returncode == 14
    assert result.stderr.startswith(b"error: the download returned other bytes")


def test_version_and_help(commands):
    assert commands.text("--version") == f"holdfast {holdfast.__version__}"
    text = commands.text("--help", COLUMNS="80")
    assert text == commands.text("-h", COLUMNS="80")
    listed = re.findall(r"^  ([a-z][a-z-]+)  +[A-Z]", text, re.MULTILINE)
    assert listed == [*COMMANDS]
    assert not any(line.endswith("...") for line in text.splitlines()[1:])


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=" ".join)
def test_every_command_has_help_and_json(commands, command):
    text = commands.text(*command, "--help")
    assert text.startswith(f"Usage: holdfast {' '.join(command)} ")
    assert re.search(r"--json +Write JSON, for machines\.", text)
    assert not set("{}") & set(text.splitlines()[0])
    assert "<str>" not in text
    assert "<list" not in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("re", ["retrieve", "receive", "revoke", "restore", "repair"]),
        ("car ", ["export", "import"]),
        ("store --prov", ["--provider"]),
        ("store --provider p", ["pinata", "pinning", "psa"]),
        ("cid --profile unixfs-v1", ["unixfs-v1-2025"]),
    ],
)
def test_completion(commands, words, expected):
    assert commands.complete(words) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_completion_is_shown(commands, shell):
    text = commands.text(_HOLDFAST_COMPLETE=f"source_{shell}")
    assert "_HOLDFAST_COMPLETE" in text


def test_starting_up_imports_nothing_that_a_command_alone_needs():
    """The time that it takes is measured by `make bench`."""
    code = """
import sys
sys.argv = ["holdfast", {}]
from holdfast.cli.main import main
try:
    main()
except SystemExit:
    pass
unwanted = {{"urllib3", "ssl", "sqlite3", "rich", "asyncio", "starlette", "uvicorn"}}
print(sorted(unwanted & set(sys.modules)))
"""
    for argument in ("--version", "--help"):
        result = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code.format(repr(argument))],
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_a_command_ends_after_sigterm_also_if_its_exception_is_ignored():
    """Python ignores exceptions in callbacks of garbage collection and of imports."""
    code = """
import time, weakref
from holdfast.cli import execution, main
class Content: pass
def run(arguments):
    content = Content()
    watch = weakref.ref(content, lambda _: (print("ready", flush=True), time.sleep(60)))
    del content
    time.sleep(60)
execution.run = run
main.CLEANUP_SECONDS = 0.2
main.main()
"""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert "Exception ignored" in errors
    assert process.returncode == 128 + signal.SIGTERM
