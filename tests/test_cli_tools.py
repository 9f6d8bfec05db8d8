"""The commands beside the client's operations, and what holds for the application as a whole."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

import holdfast
from holdfast import Client, compute_cid
from holdfast.cli.app import COMMANDS
from holdfast.repository import Repository
from holdfast.repository.owners import announced, node_url
from holdfast.testing import Scripted, ScriptedServer
from tests.commands import Commands, node_variables
from tests.content import DATA
from tests.support import HELLO_CID, TOKEN

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
    (commands.folder / ".ipfsignore").write_text("hello")
    rest = compute_cid(commands.folder)
    note = "left out by patterns of --exclude and .ipfsignore: 1\n"
    for arguments in (("cid", "."), ("verify", ".", rest), ("cid", ".", "--exclude", "hell*")):
        result = commands.run(*arguments)
        assert (result.returncode, result.stderr.decode()) == (0, note)
        assert rest in result.stdout.decode()
    assert commands.text("cid", ".", "--no-ignore") == compute_cid(
        commands.folder, ignore_file=None
    )
    code, shown = commands.failure("cid", ".", "--exclude", "[")
    assert (code, shown[0][:44]) == (2, "error: the pattern '[' can match nothing: cl")
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
    assert [pin["cid"] for pin in commands.rows("list", "--path", "other")] == [root]


def test_a_broken_archive_is_not_taken_in_and_a_missing_block_not_written(commands):
    assert commands.failure("car", "import", "missing.car", "--path", "new")[0] == 1
    assert list(commands.folder.iterdir()) == []
    archive = (DATA / "subdir-with-mixed-block-files.car").read_bytes()
    assert commands.failure("car", "import", "-", stdin=archive[:-10])[0] == 14
    assert commands.rows("list") == []
    assert commands.failure("car", "export", HELLO_CID, "out.car")[0] == 13
    assert not (commands.folder / "out.car").exists()


def test_car_import_keeps_blocks_without_a_pin_until_gc(commands):
    archive = DATA / "file-3k-and-3-blocks-missing-block.car"
    code, lines = commands.failure("car", "import", archive)
    assert (code, lines[0].endswith(" is missing")) == (13, True)
    roots = [commands.text("car", "import", "--blocks-only", archive)]
    assert commands.json("car", "import", archive, "--blocks-only") == {"roots": roots}
    assert commands.text("list") == ""
    assert commands.json("gc")["blocks"] == 3


def test_gc_removes_what_was_revoked_and_check_finds_damage(commands):
    cid = commands.text("upload", "-", stdin=os.urandom(100_000))
    commands.text("revoke", commands.text("upload", "-", stdin=os.urandom(200_000)))
    assert commands.text("gc", "--dry-run") == "would remove 1 block, 195 KiB"
    assert commands.json("gc", "--dry-run") == {"blocks": 1, "size": 200_000}
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_links_lead_to_a_running_node_of_the_same_store(commands):
    """Also if it listens on all addresses; not after it was killed."""
    cid = commands.text("upload", "-", stdin=b"hello")
    process = commands.start(
        *("node", "--port", "0", "--host", "0.0.0.0"),  # noqa: S104
        HOLDFAST_NODE_TOKEN="secret",
    )
    try:
        port = process.stdout.readline().rpartition(":")[2].strip()
        link = f"http://127.0.0.1:{port}/ipfs/{cid}"
        assert commands.text("url", cid) == commands.text("open", "--show", cid) == link
        with urllib.request.urlopen(link) as reply:
            assert reply.read() == b"hello"
        assert commands.json("status")["node"] == {
            "url": f"http://127.0.0.1:{port}",
            "running": True,
        }
        assert commands.text("open", "--show", cid, "--path", "other") == f"ipfs://{cid}"
    finally:
        process.kill()
        process.communicate()
    assert commands.text("open", "--show", cid) == f"ipfs://{cid}"


def test_a_node_is_found_by_its_store(tmp_path):
    with Repository(tmp_path):
        assert node_url(tmp_path) is None
        with announced(tmp_path, "http://127.0.0.1:1"):
            with announced(tmp_path, "http://127.0.0.1:2"):
                assert node_url(tmp_path) == "http://127.0.0.1:1"
            assert node_url(tmp_path) == "http://127.0.0.1:1"
        assert node_url(tmp_path) is None
        with announced(tmp_path, "http://127.0.0.1:3"):
            assert node_url(tmp_path) == "http://127.0.0.1:3"
    assert node_url(tmp_path / "missing") is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.slow
def test_the_node_ends_in_order_when_it_is_told_to(commands, number, code):
    process = commands.start("node", "--port", "0", "--path", "store")
    labels = [process.stdout.readline().split()[0] for _ in range(5)]
    assert labels == ["Pinning", "Gateway", "Store", "Token", "Page"]
    assert ended(process, number) == (code, "")


def test_a_node_that_cannot_start_says_why(commands):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, lines = commands.failure("node", "--port", port, "--path", "new")
        assert not (commands.folder / "new").exists()
    assert (code, lines[0].startswith(f"error: cannot listen on 127.0.0.1:{port}: ")) == (3, True)
    words = "another program is listening there, perhaps a node: give another --port"
    assert lines[1] == f"hint: {words}"
    for arguments, variables, words in (
        (["--host", "0.0.0.0"], {}, "give a token of your own"),  # noqa: S104
        (["--gateway", "nonsense"], {}, "error: --gateway must be"),
        ([], {"HOLDFAST_NODE_TOKEN": "a b"}, "error: HOLDFAST_NODE_TOKEN holds "),
    ):
        code, lines = commands.failure("node", "--port", "0", *arguments, **variables)
        assert (code, words in lines[0]) == (3, True), lines
    assert list(commands.folder.iterdir()) == []


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
        ("re", ["retrieve", "revoke", "receive", "restore", "repair"]),
        ("car ", ["pack", "ls", "unpack", "export", "import"]),
        ("store --prov", ["--provider"]),
        ("store --provider p", ["pinata", "pinning", "psa"]),
        ("cid --profile unixfs-v1", ["unixfs-v1-2025"]),
    ],
)
def test_completion(commands, words, expected):
    assert commands.complete(words) == expected
    assert "_HOLDFAST_COMPLETE" in commands.text(_HOLDFAST_COMPLETE="source_bash")


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


# status, info and url


def rows_of(text):
    return {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in text.splitlines()}


def test_the_status_of_a_new_machine(commands):
    rows = rows_of(commands.text("status"))
    assert rows["Provider"] == "local  (default)"
    assert rows["Connection"] == "not needed"
    assert rows["Store"].endswith("/data/holdfast  (none yet: the first upload makes it)")
    assert re.fullmatch(r"[\d.]+ [KMGTP]iB free of [\d.]+ [KMGTP]iB", rows["Disk"])
    assert not (commands.folder.parent / "data").exists()
    commands.text("store", "[1]")
    code, shown = commands.on_terminal("status", COLUMNS="200")
    assert (code, "\x1b[32mconnected\x1b[0m" in shown) == (0, True)
    assert "/data/holdfast  (1 pin, 3 B)" in shown


def test_the_status_of_a_service(commands, node):
    variables = node_variables(node)
    rows = rows_of(commands.text("status", **variables))
    assert rows["Provider"] == "pinning  (HOLDFAST_PROVIDER)"
    assert (rows["Address"], rows["Connection"]) == (node.api_url, "connected")
    assert re.fullmatch(r"[\d,]+ pins?, [\d.]+ [KM]?i?B", rows["Usage"])
    facts = commands.json("status", **variables)
    assert facts["usage"]["limit"] is None
    assert (facts["connected"], facts["provider"]) == (True, "pinning")
    assert node.token not in str(facts)
    variables["HOLDFAST_PROVIDER_TOKEN"] = TOKEN
    result = commands.run("status", **variables)
    assert result.returncode == 8
    assert rows_of(result.stdout.decode())["Connection"] == "error: HTTP error 401"
    assert TOKEN.encode() not in result.stdout
    assert b'"connected": false' in commands.run("status", "--json", **variables).stdout
    result = commands.run("status", HOLDFAST_VERIFY="perhaps")
    rows = rows_of(result.stdout.decode())
    words = "error: HOLDFAST_VERIFY must be true or false"
    assert (result.returncode, rows["Connection"], "free of" in rows["Disk"]) == (3, words, True)


def test_a_missing_token_is_not_asked_for(commands):
    code, shown = commands.on_terminal("status", "--provider", "pinning", NO_COLOR="1")
    assert code == 3
    assert rows_of(shown)["Connection"] == (
        "error: provider 'pinning' needs a token: `holdfast login` saves one"
    )


def test_the_status_never_hangs(commands):
    with ScriptedServer(lambda _: Scripted(delay=60)) as silent:
        begun = time.monotonic()
        result = commands.run(
            *("status", "--provider", "pinning", "--pin-api-url", silent.url, "--timeout", "0.5"),
            HOLDFAST_PROVIDER_TOKEN=TOKEN,
        )
    assert time.monotonic() - begun < 40
    assert result.returncode == 6
    assert "error: " in rows_of(result.stdout.decode())["Connection"]
    assert rows_of(result.stdout.decode())["Store"]


def test_a_damaged_store_is_told(commands):
    commands.text("store", "[1]")
    (database,) = commands.folder.parent.glob("data/**/holdfast.sqlite3")
    database.write_bytes(b"not a database" * 1000)
    result = commands.run("status")
    rows = rows_of(result.stdout.decode())
    assert result.returncode == 14
    assert "is damaged" in rows["Connection"]
    assert "(error: the store in " in rows["Store"]


# info


def test_one_block_a_folder_a_link_and_many_blocks(commands):
    folder = commands.folder / "site"
    folder.mkdir()
    (folder / "hello.txt").write_bytes(b"hello")
    (folder / "link").symlink_to("hello.txt")
    cid = commands.text("upload", "site")
    rows = rows_of(commands.text("info", f"{cid}/hello.txt"))
    assert list(rows) == ["CID", "Kind", "Size", "Blocks", "Pinned"]
    assert list(rows.values()) == [HELLO_CID, "file", "5 B", "1", "no"]
    rows = rows_of(commands.text("info", cid))
    assert rows["Kind"] == "directory"
    assert not {"Size", "Blocks", "Layout"} & set(rows)
    assert rows["Pinned"].startswith("at 'local'  20")
    assert rows["Pinned"].endswith("  name: site")
    assert commands.json("info", f"{cid}/link")["kind"] == "symlink"
    (folder / "large").write_bytes(b"x" * 2_000_000)
    cid = commands.text("upload", "site/large", "--cid-version", "0")
    facts = commands.json("info", cid)
    assert (facts["size"], facts["layout"], facts["blocks"]) == (2_000_000, "unixfs-v0-2015", 9)
    assert commands.json("info", "bafkqabtimvwgy3yk")["blocks"] == 1  # all of it is in the CID
    code, lines = commands.failure("info", compute_cid(b"nobody has this"))
    assert (code, lines[0].startswith("error: ")) == (10, True)


def test_where_it_is_pinned(tmp_path, empty_node):
    commands = Commands(tmp_path, **node_variables(empty_node))
    cid = commands.text("upload", "-", "--name", "both", stdin=b"1" * 300_000)

    def places(*flags):
        return [pin["at"] for pin in commands.json("info", cid, *flags)["pins"]]

    assert places() == ["pinning"]
    commands.text("upload", "-", "--provider", "local", stdin=b"1" * 300_000)
    assert places() == ["pinning", "local"]
    commands.write_user_file(
        '[connections.there]\nprovider = "pinning"\ntoken_env = "HOLDFAST_PROVIDER_TOKEN"\n'
        f'pin_api_url = "{empty_node.api_url}"\ngateway_url = "{empty_node.gateway_url}"\n'
    )
    assert places("--use", "there") == ["pinning", "local"]
    with Client.init(empty_node.config) as client:
        client.revoke(cid)
    assert places() == ["local"]


# url


def test_links(commands):
    gateway = ("--gateway-url", "https://example.mypinata.cloud")
    link = f"https://example.mypinata.cloud/ipfs/{HELLO_CID}"
    assert commands.text("url", HELLO_CID, *gateway) == link
    assert commands.text("url", f"ipfs://{HELLO_CID}/a b?x", *gateway) == f"{link}/a%20b"
    assert commands.json("url", HELLO_CID, *gateway) == {"cid": HELLO_CID, "url": link}
    result = commands.run("url", HELLO_CID)
    assert (result.returncode, result.stdout.decode()) == (0, f"ipfs://{HELLO_CID}\n")
    assert result.stderr.decode().startswith("browsers cannot open this link: run `holdfast node`")
    code, _ = commands.failure("url", "nonsense")
    assert code == 4
