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
    facts = {"cid": HELLO_CID, "profile": "unixfs-v1-2025"}
    assert commands.json("cid", "-", stdin=b"hello") == facts
    assert commands.text("verify", "hello", HELLO_CID) == f"hello is {HELLO_CID}"
    facts = {"cid": HELLO_CID, "verified": True}
    assert commands.json("verify", "-", HELLO_CID, stdin=b"hello") == facts
    code, lines = commands.failure("verify", "-", HELLO_CID, stdin=b"w0rld")
    hint = f"hint: `holdfast download {HELLO_CID}` gets what the CID names"
    assert (code, lines[-1]) == (14, hint)
    code, lines = commands.failure("verify", HELLO_CID, "hello")
    assert (code, lines[-1]) == (4, "hint: the file comes first: holdfast verify FILE CID")
    (commands.folder / ".hidden").write_bytes(b"hello")
    everything = compute_cid(commands.folder, include_hidden=True)
    assert commands.text("cid", ".") == compute_cid(commands.folder) != everything
    assert commands.text("cid", ".", "--include-hidden") == everything
    assert commands.text("verify", ".", everything, "--include-hidden") == f". is {everything}"
    assert commands.failure("verify", ".", everything)[0] == 13
    # Nothing is stored or asked for.
    assert not (commands.folder.parent / "data").exists()


def test_archives_go_out_and_in(commands):
    archive = (DATA / "subdir-with-mixed-block-files.car").read_bytes()
    (root,) = commands.json("car", "import", "-", stdin=archive)["roots"]
    assert commands.text("download", f"{root}/subdir/hello.txt") == "hello.txt"
    result = commands.run("car", "export", root, "-")
    assert (result.returncode, result.stdout, result.stderr) == (0, archive, b"")
    facts = commands.json("car", "export", f"ipfs://{root}", "copy.car")
    assert facts == {"cid": root, "path": "copy.car", "size": len(archive)}
    assert (commands.folder / "copy.car").read_bytes() == archive
    assert commands.text("car", "import", "copy.car", "--path", "other") == root
    assert [pin["cid"] for pin in commands.json("list", "--path", "other")] == [root]


def test_a_broken_archive_is_not_taken_in_and_a_missing_block_not_written(commands):
    assert commands.failure("car", "import", "missing.car", "--path", "new")[0] == 1
    assert list(commands.folder.iterdir()) == []
    archive = (DATA / "subdir-with-mixed-block-files.car").read_bytes()
    assert commands.failure("car", "import", "-", stdin=archive[:-10])[0] == 14
    assert commands.json("list") == []
    assert commands.failure("car", "export", HELLO_CID, "out.car")[0] == 13
    assert not (commands.folder / "out.car").exists()


def test_gc_removes_what_was_revoked_and_check_finds_damage(commands):
    cid = commands.text("upload", "-", stdin=os.urandom(100_000))
    commands.text("revoke", commands.text("upload", "-", stdin=os.urandom(200_000)))
    assert commands.json("gc") == {"blocks": 1, "size": 200_000}
    assert commands.text("gc") == "removed 0 blocks, 0 B"
    assert commands.text("check") == "sound: 1 pin, 97.7 KiB"
    assert commands.json("check") == {"pins": 1, "size": 100_000, "damage": [], "foreign": []}
    folder = commands.folder.parent / "data/holdfast/blocks"
    (file,) = (path for path in folder.rglob("*") if path.is_file())
    file.write_bytes(bytes(byte ^ 1 for byte in file.read_bytes()))
    result = commands.run("check", "--json")
    assert result.returncode == 14
    (damage,) = json.loads(result.stdout)["damage"]
    assert damage["cid"] == cid
    assert json.loads(result.stderr)["error"]["message"] == "1 block is damaged or missing"
    # After a repair its file has no row, and its pin needs it: still one block.
    commands.text("repair")
    damage = commands.run("check")
    assert b"error: 1 block is damaged or missing" in damage.stderr
    assert len(damage.stdout.splitlines()) == 2
    commands.text("revoke", cid)
    commands.text("gc")
    assert f"it is of no use, remove {file}".encode() in commands.run("check").stdout


def ended(process, number):
    """Send a signal to a process; return its exit code, and what it writes on the side."""
    process.send_signal(number)
    try:
        _, words = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, words


def test_the_node_runs_until_it_is_interrupted(commands):
    process = commands.start("node", "--port", "0", "--path", "store", "--json")
    node = json.loads(process.stdout.readline())
    assert node["path"] == "store"
    del node["pageUrl"]
    with Client.init({"provider": "pinning", **node}) as client:
        record = client.store({"a": 1})
        assert client.retrieve(record.cid) == {"a": 1}
    code, words = ended(process, signal.SIGINT)
    assert (code, json.loads(words)["error"]["message"]) == (130, "interrupted")
    assert commands.text("retrieve", record.cid, "--json", "--path", "store") == '{"a": 1}'


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (signal.SIGTERM, (143, "")),
        (signal.SIGHUP, (129, "")),
        (signal.SIGINT, (130, "interrupted\n")),
    ],
)
def test_the_node_ends_in_order_when_it_is_told_to(commands, number, expected):
    process = commands.start("node", "--port", "0", "--path", "store")
    labels = [process.stdout.readline().split()[0] for _ in range(5)]
    assert labels == ["Pinning", "Gateway", "Store", "Token", "Page"]
    assert ended(process, number) == expected


def test_a_node_that_cannot_start_says_why(commands):
    (commands.folder / "tokens").write_bytes(b"\xff\xfe")
    node = ("node", "--port", "0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, lines = commands.failure("node", "--port", port)
    assert (code, lines[0].startswith(f"error: cannot listen on 127.0.0.1:{port}: ")) == (3, True)
    words = "another program listens there, perhaps a node: give another --port"
    assert lines[1] == f"hint: {words}"
    for arguments, variables, words in (
        (["--host", "0.0.0.0"], {}, "give a token of your own"),  # noqa: S104
        (["--gateway", "nonsense"], {}, "error: --gateway must be"),
        ([], {"HOLDFAST_NODE_TOKEN": "a b"}, "error: HOLDFAST_NODE_TOKEN holds "),
        (["--token-file", "tokens"], {}, "tokens cannot be read: it is not UTF-8 text"),
    ):
        code, lines = commands.failure(*node, *arguments, **variables)
        assert (code, words in lines[0]) == (3, True), lines
    commands.command = (sys.executable, "-m", "holdfast.node", "--port=0")
    for arguments, words in (
        (["--path", ""], "must not be empty"),
        (["--rate-limit", "0"], "--rate-limit must be 1 or more"),
    ):
        code, lines = commands.failure(*arguments)
        assert (code, words in lines[-1]) == (2, True)
    assert [path.name for path in commands.folder.iterdir()] == ["tokens"]


def test_the_demo_shows_every_operation_and_leaves_nothing_behind(commands, tmp_path):
    commands.folder.rmdir()
    lines = commands.text("demo", cwd=tmp_path, TMPDIR=str(tmp_path)).splitlines()
    steps = [
        *("test_connection", "store", "retrieve", "upload", "download", "send", "receive"),
        *("revoke", "revoke again", "caught"),
    ]
    assert [re.split("  +", line)[1] for line in lines if line.startswith("  ")] == steps
    rows = commands.json("demo", cwd=tmp_path, TMPDIR=str(tmp_path))
    results = {row["step"]: row["result"] for row in rows}
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
    assert "_HOLDFAST_COMPLETE" in commands.text(_HOLDFAST_COMPLETE="source_bash")


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
