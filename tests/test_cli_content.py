"""Content and pins by the command line: on the embedded store, and over HTTP."""

import io
import json
import re
import tarfile
import time
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import compute_cid
from holdfast.content import dag_json
from holdfast.content.cid import DAG_CBOR
from tests.commands import Commands, node_variables, plain, shell
from tests.folder_dags import on_disk
from tests.support import HELLO_CID
from tests.value_dags import ValueDag

DOCUMENT = '{"name":"Zoë","tags":["🌊",1.5,null]}'


@pytest.fixture(params=["local", "pinning"])
def everywhere(request, tmp_path):
    """Commands once on the embedded store, and once through a node."""
    if request.param == "local":
        return Commands(tmp_path)
    return Commands(tmp_path, **node_variables(request.getfixturevalue("empty_node")))


def test_store_writes_the_cid_and_retrieve_the_value(everywhere):
    cid = everywhere.text("store", DOCUMENT)
    assert cid == compute_cid(DOCUMENT.encode())
    assert json.loads(everywhere.text("retrieve", cid)) == json.loads(DOCUMENT)
    assert "Zoë" in everywhere.text("retrieve", f"https://example.com/ipfs/{cid}?x=1")
    assert everywhere.json("retrieve", cid) == json.loads(DOCUMENT)
    words = ("store", "-", "--name", "tide", "--keyvalue", "port=Brest")
    record = everywhere.json(*words, stdin=b' { "a" : [1, 2] } \n')
    facts = {"timestamp": record["timestamp"], "data": {"a": [1, 2]}, "size": 11}
    assert record == {"cid": compute_cid(b'{"a":[1,2]}'), **facts}
    (pin,) = everywhere.rows("list", "--keyvalue", "port=Brest")
    assert (pin["cid"], pin["name"]) == (record["cid"], "tide")
    assert pin["keyvalues"] == {"port": "Brest"}


def test_values_are_written_as_dag_json(commands, tmp_path):
    dag = ValueDag()
    (tmp_path / "x.car").write_bytes(dag.archive(dag.json))
    assert commands.text("car", "import", tmp_path / "x.car") == str(dag.json)
    text = commands.text("retrieve", f"{dag.json}/token")
    assert dag_json.decode(text.encode()) == dag.value
    assert commands.json("retrieve", f"{dag.json}/token/raw") == {"/": {"bytes": "AP8"}}
    assert commands.text("retrieve", f"{dag.json}/token/files/1/size") == "1.5"
    code, lines = commands.failure("cat", f"{dag.json}/token/name")
    assert (code, "`holdfast retrieve CID/PATH` prints it" in lines[-1]) == (10, True)
    deep = dag.put(b"\x81" * 1000 + b"\x80", DAG_CBOR)
    (tmp_path / "deep.car").write_bytes(dag.archive(deep))
    commands.text("car", "import", tmp_path / "deep.car")
    shown = commands.run("retrieve", deep)
    if shown.returncode == 0:  # Python 3.12 and newer can write it
        assert b"".join(shown.stdout.split()) == b"[" * 1001 + b"]" * 1001
    else:
        assert shown.returncode == 5
        assert b"nested too deeply to be shown" in shown.stderr


def test_a_download_has_a_largest_size(commands):
    (commands.folder / "photos").mkdir()
    (commands.folder / "photos" / "a").write_bytes(bytes(3000))
    cid = commands.text("upload", "photos")
    before = on_disk(commands.folder)
    for words in (["download", cid, "new"], ["get", f"{cid}/a"], ["cat", f"{cid}/a"]):
        result = commands.run(*words, "--max-size", "2K")
        assert (result.returncode, result.stdout) == (15, b"")
        assert b"2048" in result.stderr
        assert b"give a larger --max-size" in result.stderr
    assert on_disk(commands.folder) == before
    assert commands.text("get", f"{cid}/a", "b", "--max-size", "3KB") == "b"
    for wrong in ("0", "many", "-1"):
        assert commands.run("download", cid, f"--max-size={wrong}").returncode == 2


def test_upload_and_download_a_folder(everywhere):
    folder = everywhere.folder
    (folder / "photos/sub").mkdir(parents=True)
    (folder / "photos/a.txt").write_bytes(b"hello")
    (folder / "photos/sub/b.txt").write_bytes(b"again")
    cid = everywhere.text("upload", "photos")
    assert everywhere.text("download", cid, "copy") == "copy"
    expected = on_disk(folder / "photos")
    assert on_disk(folder / "copy") == expected
    (folder / "inbox").mkdir()
    facts = {"cid": f"{cid}/sub", "path": "inbox/sub", "size": 5, "type": "directory"}
    assert everywhere.json("download", f"{cid}/sub", "inbox") == facts
    assert on_disk(folder / "inbox") == {"sub": None, "sub/b.txt": b"again"}
    assert everywhere.text("download", cid, "inbox") == "inbox/photos"
    assert on_disk(folder / "inbox/photos") == expected
    code, lines = everywhere.failure("download", cid)
    remedy = "hint: `holdfast download CID FOLDER` writes all of it to a new folder"
    assert (code, lines[0]) == (1, "error: the folder exists: photos")
    assert lines[1].startswith(remedy)
    assert everywhere.failure("download", "-f", cid, "inbox") == (
        1,
        [
            "error: the folder exists: inbox/photos",
            f"{remedy}; --force replaces files, not folders",
        ],
    )
    code, shown = everywhere.on_terminal("download", cid, "-")
    assert (code, remedy in plain(shown)) == (7, True)


def test_a_folder_is_written_to_a_pipe_as_tar(everywhere):
    folder = everywhere.folder
    (folder / "photos/sub").mkdir(parents=True)
    (folder / "photos/a.txt").write_bytes(b"hello")
    (folder / "photos/sub/b.txt").write_bytes(b"again" * 3000)
    cid = everywhere.text("upload", "photos")
    result = everywhere.run("download", cid, "-")
    assert (result.returncode, result.stderr) == (0, b"")
    with tarfile.open(fileobj=io.BytesIO(result.stdout)) as archive:
        assert [(member.uid, member.mtime) for member in archive] == [(0, 0)] * 4
        archive.extractall(folder / "unpacked", filter="data")
    assert on_disk(folder / "unpacked/photos") == on_disk(folder / "photos")
    assert everywhere.run("cat", cid).stdout == result.stdout
    assert everywhere.run("cat", cid, "--max-size", "1K").returncode == 15


def test_download_makes_up_a_name_but_replaces_nothing_then(commands):
    cid = commands.text("upload", "-", stdin=b"hello")
    (commands.folder / "inbox").mkdir()
    assert commands.text("download", cid) == cid
    assert commands.text("download", cid, "inbox") == f"inbox/{cid}"
    assert (commands.folder / "inbox" / cid).read_bytes() == b"hello"
    (commands.folder / cid).write_bytes(b"mine")
    code, lines = commands.failure("download", cid)
    assert (code, lines[0]) == (1, f"error: the file exists: {cid}")
    assert lines[1] == "hint: add --force to replace it, or name another file"
    assert commands.failure("download", cid, "-o", cid) == (code, lines)
    assert (commands.folder / cid).read_bytes() == b"mine"
    assert commands.text("download", cid, "-o", cid, "--force") == cid
    assert (commands.folder / cid).read_bytes() == b"hello"
    code, lines = commands.failure("download", cid, "new/")
    assert (code, lines[0]) == (1, "error: No such folder to write to: new/")
    assert not (commands.folder / "new").exists()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("tide.txt", "tide.txt"),
        ("2026/May/tide.txt", "tide.txt"),
        ("tides/..", "tides"),
        ("../../.bashrc", ""),
        ("-rf", ""),
        ("a\\b", ""),
        ("con.txt", ""),
        ("client-1700000000000", ""),
        ("x" * 256, ""),
        ("ebb.age", "ebb.age"),
    ],
)
def test_a_download_without_a_target_has_the_name_of_the_pin(commands, name, file):
    cid = commands.text("store", "[1]", "--name", name)
    assert commands.text("download", cid) == (file or cid)
    assert (commands.folder / (file or cid)).read_bytes() == b"[1]"
    assert len([*commands.folder.iterdir()]) == 1


def test_files_are_not_replaced_without_a_word(commands):
    """Every command that writes a file which it is told."""
    (commands.folder / "old").write_bytes(b"mine")
    cid = commands.text("upload", "old")
    for words in (["backup"], ["car", "export", cid], ["car", "pack", "old"], ["download", cid]):
        code, lines = commands.failure(*words, "old")
        assert (code, lines[0]) == (1, "error: the file exists: old")
        assert commands.failure(*words, "-o", "old") == (code, lines)
        assert (commands.folder / "old").read_bytes() == b"mine"
    assert commands.run("backup", "old", "--force").returncode == 0
    assert commands.text("car", "unpack", "old", f"{cid}", "-o", "new") == "new"
    assert commands.failure("car", "unpack", "old", cid, "-o", "new")[0] == 1
    assert commands.text("car", "pack", "new", "old", "-f") == cid


def test_what_is_piped_in_is_uploaded(commands):
    assert commands.text("upload", stdin=b"hello") == HELLO_CID
    code, lines = commands.failure("upload", stdin=b"")
    words = "name the files and folders to store, or pipe the content in"
    assert (code, lines[0]) == (2, f"error: standard input is empty: {words}")
    assert commands.on_terminal("upload")[0] == 2


def test_the_type_follows_the_file_if_the_name_of_the_pin_says_nothing(commands):
    types = {"NAMED": "text/plain; charset=utf-8", "NAMED.html": "text/html; charset=utf-8"}
    for name, media_type in types.items():
        (commands.folder / "a.txt").write_text(name)
        cid = commands.text("upload", "a.txt", "--name", name)
        assert commands.rows("list", "--cid", cid)[0]["type"] == media_type


def test_only_the_last_cid_is_written_once(commands):
    for name in "ab":
        (commands.folder / name).write_text(name)
    cids = {name: commands.text("cid", name) for name in "ab"}
    assert commands.text("upload", "-Q", "a", "b", "a") == cids["a"]
    assert commands.text("upload", "-Q", "a", "a") == cids["a"]
    lines = [f"{cids[name]} {name}" for name in "aba"]
    assert commands.text("upload", "a", "b", "a").splitlines() == lines


def test_send_and_receive(commands):
    cid = commands.text("send", "alice", "Low tide at six.")
    lines = commands.text("receive", cid).splitlines()
    assert lines[0] == "To:   alice"
    assert lines[1].startswith("Sent: 20")
    assert lines[2:] == ["", "Low tide at six."]
    record = commands.json("send", "bob", "-", stdin="grüße\n".encode())
    message = commands.json("receive", record["cid"])
    assert message == record["data"]
    assert (message["recipientId"], message["payload"]) == ("bob", "grüße\n")
    code, lines = commands.failure("receive", commands.text("store", "[1]"))
    assert (code, "`holdfast retrieve`" in lines[1]) == (5, True)


@pytest.mark.parametrize("timestamp", [99999999999999999, 10**400])
def test_a_moment_that_no_calendar_has_is_shown_as_its_number(commands, timestamp):
    text = f'{{"recipientId":"a","payload":"b","timestamp":{timestamp}}}'
    cid = commands.text("store", text)
    assert commands.text("receive", cid) == f"To:   a\nSent: {timestamp}\n\nb"
    assert commands.json("receive", cid)["timestamp"] == timestamp


def test_revoke_and_list(everywhere):
    first = everywhere.text("upload", "-", "--name", "first.txt", stdin=b"1")
    second = everywhere.text("upload", "-", "--name", "second.txt", stdin=b"22")
    lines = everywhere.text("list").splitlines()
    assert [line.split()[0] for line in lines] == [second, first]
    assert lines[0].split()[1:3] == ["2", "B"]
    assert lines[0].endswith("  second.txt")
    assert everywhere.text("revoke", second) == f"revoked {second}"
    assert everywhere.json("revoke", first) == {"cid": first, "revoked": True}
    assert everywhere.text("list") == ""
    assert everywhere.rows("list") == []
    code, lines = everywhere.failure("revoke", first)
    assert code == 10
    assert lines[0] == f"error: The current user has not pinned the cid: {first}"
    assert "`holdfast list` shows the pins" in lines[1]


def test_test_connection(everywhere):
    provider = everywhere.environment.get("HOLDFAST_PROVIDER", "local")
    assert everywhere.text("test-connection") == f"connected to {provider!r}"
    assert everywhere.json("test-connection") == {"connected": True, "provider": provider}


@pytest.fixture
def browser(tmp_path):
    """The variables with a browser that notes what it was asked to open, and its note."""
    script, note = tmp_path / "browser", tmp_path / "opened"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > {note}\n')
    script.chmod(0o755)
    return {"BROWSER": str(script)}, note


def test_open_hands_the_link_to_the_browser(commands, browser, node):
    variables, note = browser
    cid = commands.text("store", "1")
    link = f"{node.gateway_url}/{cid}"
    gateway = ("--gateway-url", node.gateway_url)
    assert commands.text("open", cid, *gateway, **variables) == link == note.read_text()
    note.unlink()
    facts = {"cid": cid, "url": link, "opened": False}
    assert commands.json("open", cid, "--show", *gateway, **variables) == facts
    result = commands.run("open", cid, "--json", *gateway, BROWSER="false")
    assert json.loads(result.stdout) == facts
    assert "no browser was found" in json.loads(result.stderr)["warning"]
    code, lines = commands.failure("open", cid, **variables)
    assert (code, "holdfast node" in lines[1]) == (3, True)
    assert commands.text("open", cid, "--show") == f"ipfs://{cid}"
    assert not note.exists()


def test_machines_get_the_cid_however_it_was_given(commands):
    (commands.folder / "hello").write_bytes(b"hello")
    commands.text("upload", "hello")
    link = f" https://gateway.example/ipfs/{HELLO_CID}?download=1 "
    assert commands.json("download", link, "copy")["cid"] == HELLO_CID
    assert commands.json("open", link, "--show")["cid"] == HELLO_CID
    assert commands.json("verify", "hello", link)["cid"] == HELLO_CID
    assert commands.json("revoke", link) == {"cid": HELLO_CID, "revoked": True}


@pytest.mark.slow
def test_store_and_send_take_no_more_than_can_be_read_back(commands):
    """There is no end to what comes in."""
    commands.command = shell("</dev/zero")
    words = "error: standard input has more than 100,000 bytes, the limit for JSON"
    for arguments in (["store", "-"], ["send", "bob", "-"]):
        code, lines = commands.failure(*arguments, HOLDFAST_MAX_JSON_BYTES="100000")
        assert (code, lines[0]) == (5, words)


def test_links_are_signed_and_written(commands, empty_node):
    variables = {
        **node_variables(empty_node, "pinata"),
        "HOLDFAST_GATEWAY_URL": empty_node.api_url,
        "HOLDFAST_PROVIDER_OPTIONS": '{"network": "private"}',
    }
    cid = commands.text("store", "[1,2]", **variables)
    assert commands.json("retrieve", cid, **variables) == [1, 2]
    assert commands.json("info", cid, **variables)["blocks"] == 1
    facts = commands.json("link", cid, "--expires", "60", **variables)
    assert facts["url"].startswith(f"{empty_node.api_url}/files/{cid}?")
    assert (facts["cid"], facts["expires"]) == (cid, 60)
    link = commands.text("upload-link", "--max-bytes", "5", "--type", "image/*", **variables)
    assert link.startswith(empty_node.api_url)
    code, lines = commands.failure("link", cid)
    assert code == 3
    assert "makes no signed links; only provider pinata does" in lines[0]
    _, lines = commands.failure("url", cid, **variables)
    assert lines[1].startswith("hint: `holdfast link CID` writes a link")
    _, lines = commands.failure("upload-link")
    assert lines[0].endswith("only provider pinata does")


# ls


@pytest.fixture
def site(commands):
    folder = commands.folder / "site"
    (folder / "css").mkdir(parents=True)
    (folder / "hello.txt").write_bytes(b"hello")
    (folder / "css" / "a b.css").write_bytes(b"x" * 1500)
    (folder / "link").symlink_to("css")
    (folder / "new\nline").write_bytes(b"")
    assert commands.text("upload", "site") == compute_cid(folder)
    return compute_cid(folder)


def test_names(commands, site):
    assert commands.text("ls", site).splitlines() == ["css", "hello.txt", "link", r"new\nline"]
    assert commands.text("ls", f"https://ipfs.io/ipfs/{site}/css/?x") == "a b.css"
    entries = [json.loads(line) for line in commands.text("ls", site, "--json").splitlines()]
    assert [entry["name"] for entry in entries] == ["css", "hello.txt", "link", "new\nline"]
    assert entries[1] == {"name": "hello.txt", "cid": HELLO_CID, "size": 5, "kind": "file"}
    assert entries[0]["kind"] is None
    (commands.folder / "empty").mkdir()
    assert commands.text("ls", commands.text("upload", "empty")) == ""


def test_kinds_and_sizes(commands, site):
    lines = [line.split("  ") for line in commands.text("ls", "-l", site).splitlines()]
    assert [(line[0].strip(), line[-3].strip(), line[-1]) for line in lines] == [
        ("directory", "-", "css"),
        ("file", "5 B", "hello.txt"),
        ("symlink", "3 B", "link"),
        ("file", "0 B", r"new\nline"),
    ]
    assert lines[1][-2] == HELLO_CID
    assert "1.46 KiB" in commands.text("ls", "--long", f"{site}/css")
    entries = [json.loads(line) for line in commands.text("ls", "-l", site, "--json").splitlines()]
    assert [entry["kind"] for entry in entries] == ["directory", "file", "symlink", "file"]


def test_what_is_no_directory(commands, site):
    code, lines = commands.failure("ls", f"{site}/hello.txt")
    assert (code, lines[0]) == (10, f"error: {HELLO_CID} is not a directory")
    code, lines = commands.failure("ls", f"{site}/other")
    assert (code, "there is no 'other'" in lines[0]) == (10, True)


# Pins


def test_a_pin_is_changed(everywhere):
    cid = everywhere.text("upload", "-", "--name", "first", stdin=b"1")
    assert everywhere.text("update", cid, "--name", "second") == f"updated {cid}  second"
    pin = everywhere.json("update", cid, "--keyvalue", "a=1", "--keyvalue", "b==x=")
    assert (pin["cid"], pin["name"], pin["keyvalues"]) == (cid, "second", {"a": "1", "b": "=x="})
    pin = everywhere.json("update", cid, "--remove", "a", "--keyvalue", "c=")
    assert pin["keyvalues"] == {"b": "=x=", "c": ""}
    assert everywhere.rows("list") == [pin]
    code, lines = everywhere.failure("update", HELLO_CID, "--name", "x")
    assert code == 10
    assert lines[0] == f"error: The current user has not pinned the cid: {HELLO_CID}"


@pytest.mark.slow
def test_pins_are_listed_by_all_filters(everywhere):
    one = everywhere.text("upload", "-", "--name", "one", "--keyvalue", "kind=a", stdin=b"1")
    two = everywhere.text("upload", "-", "--name", "two", "--keyvalue", "kind=a", stdin=b"2")
    everywhere.text("update", two, "--keyvalue", "n=2")

    def cids(*options, **variables):
        text = everywhere.text("list", *options, **variables)
        return [line.split()[0] for line in text.splitlines()]

    assert cids("--name", "ONE") == [one]
    assert cids("--cid", f"ipfs://{one}") == [one]
    assert cids("--keyvalue", "kind=a") == [two, one]
    assert cids("--keyvalue", "kind=a", "--keyvalue", "n=2") == [two]
    assert cids("--limit", "1") == [two]
    now = datetime.now(UTC)
    today, yesterday = (now.date() - timedelta(days=n) for n in (0, 1))
    assert cids("--since", str(yesterday), "--until", str(today), TZ="UTC") == [two, one]
    assert cids("--until", str(yesterday - timedelta(days=1)), TZ="UTC") == []
    assert cids("--since", (now + timedelta(hours=1)).isoformat()) == []
    assert cids("--until", (now + timedelta(hours=1)).isoformat()) == [two, one]


def test_content_that_is_pinned_already_says_what_becomes_of_its_name(commands):
    for name in ("a.txt", "b c.txt"):
        (commands.folder / name).write_text("tide")
    commands.text("upload", "a.txt")
    renamed = "the content is already pinned: its pin was renamed from {!r} to {!r}\n"
    already = "b c.txt is already pinned as {}: `--name 'b c.txt'` renames the pin\n"
    for arguments, words in (
        (["upload", "a.txt"], ""),
        (["upload", "./a.txt", "--name", "high"], renamed.format("a.txt", "high")),
        (["upload", "b c.txt"], already.format("'high'")),
        (["upload", "b c.txt", "b c.txt"], already.format("'high'") * 2),
        (["upload", "-"], ""),
        (["pin", "name:high", "--name", "low"], renamed.format("high", "low")),
        (["pin", "name:low"], ""),
        (["update", "name:low", "--name", ""], ""),
        (["upload", "b c.txt", "--keyvalue", "kind=a"], already.replace("as {}", "without a name")),
        (["store", "[1]", "--name", "one"], ""),
        (["store", "[1]"], ""),
        (["store", "[1]", "--name", "two"], renamed.format("one", "two")),
        (["store", "[2]"], ""),
        (["store", "[2]", "--name", "three"], ""),  # nobody chose the name that it had
    ):
        result = commands.run(*arguments, stdin=b"tide")
        assert (result.returncode, result.stderr.decode()) == (0, words), arguments
    assert [pin["name"] for pin in commands.rows("list")] == ["three", "two", ""]


def test_json_without_a_name_is_shown_itself(commands, node):
    commands.text("store", '{"tide": "high\\u001b[2J"}')
    commands.text("store", json.dumps("x" * 70_000))
    commands.text("store", "[1]", "--name", "client-1")
    commands.text("upload", "-", stdin=b"piped")
    shown = [line.split("  ")[-1] for line in commands.text("list").splitlines()]
    assert shown == ["client-file", "client-1", "-", r'{"tide":"high\u001b[2J"}']
    names = [pin["name"] for pin in commands.rows("list")]
    assert names[0] == "client-file"
    assert [bool(re.fullmatch(r"client-\d{13}", name)) for name in names[1:]] == [False, True, True]
    assert commands.json("retrieve", f"name:{names[3]}") == {"tide": "high\x1b[2J"}
    variables = node_variables(node)
    commands.text("store", "[1, 2]", **variables)
    assert commands.text("list", "--limit", "1", **variables).endswith("  -")


def test_columns_of_a_list_are_in_line_for_cids_of_both_versions(commands):
    commands.text("upload", "-", "--name", "one", stdin=b"1")
    commands.text("upload", "-", "--name", "two", "--cid-version", "0", stdin=b"2")
    old, new = commands.text("list").splitlines()
    assert (old.split()[0][:2], new.split()[0][:4]) == ("Qm", "bafk")
    assert old.index("two") == new.index("one")


def test_a_date_without_a_zone_is_in_utc(commands):
    """The local day is another one than the day in UTC for some hours."""
    commands.text("upload", "-", stdin=b"1")
    made = datetime.fromtimestamp(commands.rows("list")[0]["created"] / 1000, UTC)
    earlier, later = (made.replace(tzinfo=None) + timedelta(minutes=n) for n in (-1, 1))

    def count(option, moment):
        return len(commands.rows("list", option, moment.isoformat(), TZ="XXX-5"))

    assert (count("--since", earlier), count("--since", later)) == (1, 0)
    assert (count("--until", earlier), count("--until", later)) == (0, 1)
    day = made.date()
    assert (count("--until", day), count("--since", day)) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["list", "--since", "yesterday"], 2, "--since must be a time such as 2026-01-31 or"),
        (["list", "--until", "1969-12-31"], 2, "--until must lie between the years 1970 and 9999"),
        (["list", "--keyvalue", "a"], 2, "'a' is not a key-value: write --keyvalue KEY=VALUE"),
        (["list", "--keyvalue", "=a"], 2, "'=a' is not a key-value"),
        (["update", HELLO_CID, "--keyvalue", "a"], 2, "'a' is not a key-value"),
        (["update", HELLO_CID], 2, "nothing to change: give --name, --keyvalue or --remove"),
        (["pin", HELLO_CID, "--keyvalue", "a"], 2, "'a' is not a key-value"),
        (["pin", HELLO_CID, "--wait", "-1"], 2, "--wait"),
        (["pin", "x"], 4, "Invalid CID"),
        (["update", "x", "--name", "y"], 4, "Invalid CID"),
        (["list", "--cid", "x"], 4, "Invalid CID"),
        (["ls", "nonsense"], 4, "Invalid CID"),
        (["upload", "--name", "x", "a", "b"], 2, "--name is for one file"),
        (["upload", "--keyvalue", "x", "a", "b"], 2, "'x' is not a key-value"),
        (["upload", "a", "-"], 2, '"-" cannot be one of several files'),
        (["upload", "a", ""], 2, "it is empty"),
    ],
)
def test_wrong_options_are_wrong_usage(commands, arguments, code, words):
    exit_code, lines = commands.failure(*arguments)
    assert (exit_code, words in lines[0]) == (code, True), lines


def test_the_embedded_store_pins_what_it_has(commands):
    cid = commands.text("upload", "-", stdin=b"1")
    commands.text("revoke", cid)
    assert commands.text("pin", cid, "--name", "again") == f"pinned {cid}"
    pin = commands.json("pin", cid, "--keyvalue", "a=b", "--wait", "1")
    assert (pin["state"], pin["name"], pin["keyvalues"]) == ("pinned", "again", {"a": "b"})
    code, lines = commands.failure("pin", HELLO_CID)
    assert code == 10
    assert lines[0].startswith("error: the embedded store does not have all of")


def test_a_node_pins_in_the_background(tmp_path, empty_node):
    commands = Commands(tmp_path, **node_variables(empty_node))
    missing = compute_cid(str(time.time_ns()).encode())
    assert commands.text("pin", missing) == f"queued {missing}"
    code, lines = commands.failure("pin", missing, "--wait", "30")
    assert code == 12
    assert lines[0].startswith(f"error: the provider could not pin {missing}: it did not find")
