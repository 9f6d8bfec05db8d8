"""The operations of the client from the command line: on the embedded store, and over HTTP."""

import json
import os

import pytest

from holdfast import compute_cid
from tests.commands import Commands, node_variables, shell
from tests.folder_dags import on_disk

DOCUMENT = '{"name":"Zoë","tags":["🌊",1.5,null]}'


@pytest.fixture(params=["local", "pinning"])
def commands(request, tmp_path):
    """Each test once on the embedded store, and once through a node."""
    if request.param == "local":
        return Commands(tmp_path)
    return Commands(tmp_path, **node_variables(request.getfixturevalue("empty_node")))


def test_store_writes_the_cid_and_retrieve_the_value(commands):
    cid = commands.text("store", DOCUMENT)
    assert cid == compute_cid(DOCUMENT.encode())
    assert json.loads(commands.text("retrieve", cid)) == json.loads(DOCUMENT)
    assert "Zoë" in commands.text("retrieve", f"https://example.com/ipfs/{cid}?x=1")
    assert commands.json("retrieve", cid) == json.loads(DOCUMENT)


def test_store_reads_standard_input(commands):
    record = commands.json("store", "-", given=b' { "a" : [1, 2] } \n')
    assert record == {
        "cid": compute_cid(b'{"a":[1,2]}'),
        "timestamp": record["timestamp"],
        "data": {"a": [1, 2]},
        "size": 11,
    }


def test_store_with_a_name_and_key_values(commands):
    cid = commands.text("store", "[1]", "--name", "tide", "--keyvalue", "port=Brest")
    (pin,) = commands.json("list", "--keyvalue", "port=Brest")
    assert (pin["cid"], pin["name"], pin["keyvalues"]) == (cid, "tide", {"port": "Brest"})


def test_upload_and_download_a_file(commands):
    data = os.urandom(3_000_000)
    (commands.folder / "photo.png").write_bytes(data)
    record = commands.json("upload", "photo.png")
    assert (record["cid"], record["size"]) == (compute_cid(data), len(data))
    assert record["path"] == "photo.png"
    assert commands.text("upload", "photo.png") == record["cid"]
    assert commands.text("download", record["cid"], "copy.png") == "copy.png"
    assert (commands.folder / "copy.png").read_bytes() == data
    told = commands.json("download", record["cid"], "copy.png")
    assert (told["cid"], told["path"], told["size"]) == (record["cid"], "copy.png", len(data))


def test_a_download_has_a_largest_size(commands):
    (commands.folder / "photos").mkdir()
    (commands.folder / "photos" / "a").write_bytes(bytes(3000))
    cid = commands.text("upload", "photos")
    before = on_disk(commands.folder)
    for words in (["download", cid], ["get", f"{cid}/a"], ["cat", f"{cid}/a"]):
        result = commands.run(*words, "--max-size", "2K")
        assert (result.returncode, result.stdout) == (15, b"")
        assert b"2048" in result.stderr
        assert b"give a larger --max-size" in result.stderr
    assert on_disk(commands.folder) == before
    assert commands.text("get", f"{cid}/a", "b", "--max-size", "3KB") == "b"
    for wrong in ("0", "many", "-1"):
        assert commands.run("download", cid, f"--max-size={wrong}").returncode == 2


def test_pipes_in_and_out(commands):
    data = os.urandom(200_000)
    cid = commands.text("upload", "-", "--name", "stream.bin", given=data)
    assert cid == compute_cid(data)
    result = commands.run("download", cid, "-")
    assert (result.returncode, result.stdout, result.stderr) == (0, data, b"")
    assert [pin["name"] for pin in commands.json("list")] == ["stream.bin"]


def test_upload_and_download_a_folder(commands):
    (commands.folder / "photos/sub").mkdir(parents=True)
    (commands.folder / "photos/a.txt").write_bytes(b"hello")
    (commands.folder / "photos/sub/b.txt").write_bytes(b"again")
    cid = commands.text("upload", "photos")
    assert commands.text("download", cid, "copy") == "copy"
    expected = on_disk(commands.folder / "photos")
    assert on_disk(commands.folder / "copy") == expected
    (commands.folder / "inbox").mkdir()
    told = commands.json("download", f"{cid}/sub", "inbox")
    about = {"cid": f"{cid}/sub", "path": "inbox/sub", "size": 5, "type": "directory"}
    assert told == about
    assert on_disk(commands.folder / "inbox") == {"sub": None, "sub/b.txt": b"again"}
    assert commands.text("download", cid) == cid
    assert on_disk(commands.folder / cid) == expected
    code, lines = commands.failure("download", cid)
    remedy = "hint: `holdfast download CID FOLDER` writes all of it to a new folder"
    assert (code, lines) == (1, [f"error: the folder exists: {cid}", remedy])
    code, lines = commands.failure("download", cid, "-")
    assert (code, lines[-1]) == (7, remedy)


def test_download_makes_up_a_name_but_replaces_nothing_then(commands):
    cid = commands.text("upload", "-", given=b"hello")
    (commands.folder / "inbox").mkdir()
    assert commands.text("download", cid) == cid
    assert commands.text("download", cid, "inbox") == f"inbox/{cid}"
    assert (commands.folder / "inbox" / cid).read_bytes() == b"hello"
    (commands.folder / cid).write_bytes(b"mine")
    code, lines = commands.failure("download", cid)
    assert (code, lines[0]) == (1, f"error: the file exists: {cid}")
    assert lines[1] == f"hint: `holdfast download CID -o {cid}` replaces it"
    assert (commands.folder / cid).read_bytes() == b"mine"
    assert commands.text("download", cid, "-o", cid) == cid
    assert (commands.folder / cid).read_bytes() == b"hello"


def test_the_same_hint_is_written_once_for_several(commands):
    code, lines = commands.failure("revoke", "one", "two", "three")
    words = [line.partition(":")[0] for line in lines]
    assert (code, words) == (4, ["error", "hint", "error", "error", "revoked 0 of 3"])


def test_send_and_receive(commands):
    cid = commands.text("send", "alice", "Low tide at six.")
    lines = commands.text("receive", cid).splitlines()
    assert lines[0] == "To:   alice"
    assert lines[1].startswith("Sent: 20")
    assert lines[2:] == ["", "Low tide at six."]
    record = commands.json("send", "bob", "-", given="grüße\n".encode())
    message = commands.json("receive", record["cid"])
    assert message == record["data"]
    assert (message["recipientId"], message["payload"]) == ("bob", "grüße\n")


def test_revoke_and_list(commands):
    kept = commands.text("upload", "-", "--name", "kept.txt", given=b"1")
    gone = commands.text("upload", "-", "--name", "gone.txt", given=b"22")
    lines = commands.text("list").splitlines()
    assert [line.split()[0] for line in lines] == [gone, kept]
    assert lines[0].split()[1:3] == ["2", "B"]
    assert lines[0].endswith("  gone.txt")
    assert [pin["cid"] for pin in commands.json("list", "--name", "kept")] == [kept]
    assert len(commands.json("list", "--limit", "1")) == 1
    assert commands.text("revoke", gone) == f"revoked {gone}"
    assert commands.json("revoke", kept) == {"cid": kept, "revoked": True}
    assert commands.text("list") == ""
    assert commands.json("list") == []
    code, lines = commands.failure("revoke", kept)
    assert code == 10
    assert lines[0] == f"error: The current user has not pinned the cid: {kept}"
    assert "`holdfast list` shows the pins" in lines[1]


def test_test_connection(commands):
    provider = commands.environment.get("HOLDFAST_PROVIDER", "local")
    assert commands.text("test-connection") == f"connected to {provider!r}"
    assert commands.json("test-connection") == {"connected": True, "provider": provider}


def test_open_hands_the_link_to_the_browser(commands, empty_node, tmp_path):
    """The browser is a script that notes what it was asked to open."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    cid = commands.text("store", "1")
    if "HOLDFAST_PROVIDER" in commands.environment:
        link = f"{empty_node.gateway_url}/{cid}"
        assert commands.text("open", cid, BROWSER=str(browser)) == link
        assert (tmp_path / "opened").read_text() == link
        (tmp_path / "opened").unlink()
        told = commands.json("open", cid, "--show", BROWSER=str(browser))
        assert told == {"cid": cid, "url": link, "opened": False}
        result = commands.run("open", cid, "--json", BROWSER="false")
        assert json.loads(result.stdout) == {"cid": cid, "url": link, "opened": False}
        assert "no browser was found" in json.loads(result.stderr)["warning"]
    else:
        code, lines = commands.failure("open", cid, BROWSER=str(browser))
        assert code == 3
        assert "holdfast node" in lines[1]
        assert commands.text("open", cid, "--show") == f"ipfs://{cid}"
        assert not (tmp_path / "opened").exists()
        gateway = "http://127.0.0.1:5080/ipfs"
        link = commands.text("open", cid, "--gateway-url", gateway, BROWSER=str(browser))
        assert link == (tmp_path / "opened").read_text() == f"{gateway}/{cid}"


def test_machines_get_the_cid_however_it_was_given(commands, tmp_path):
    cid = commands.text("upload", "-", given=b"hello")
    link = f" https://gateway.example/ipfs/{cid}?download=1 "
    (commands.folder / "hello").write_bytes(b"hello")
    assert commands.json("download", link, "copy")["cid"] == cid
    assert commands.json("open", link, "--show")["cid"] == cid
    assert commands.json("verify", "hello", link)["cid"] == cid
    assert commands.json("revoke", link) == {"cid": cid, "revoked": True}


def test_download_into_a_folder_that_is_not_there(commands):
    cid = commands.text("upload", "-", given=b"hello")
    code, lines = commands.failure("download", cid, "new/")
    assert (code, lines[0]) == (1, "error: No such folder to write to: new/")
    assert not (commands.folder / "new").exists()


def test_store_and_send_take_no_more_than_can_be_read_back(commands):
    """There is no end to what comes in."""
    commands.command = shell("</dev/zero")
    for arguments in (["store", "-"], ["send", "bob", "-"]):
        code, lines = commands.failure(*arguments, HOLDFAST_MAX_JSON_BYTES="100000")
        assert (code, lines[0]) == (
            5,
            "error: standard input has more than max_json_bytes, 100000 bytes",
        )


@pytest.mark.parametrize("timestamp", [99999999999999999, -(10**30), 10**400])
def test_a_moment_that_no_calendar_has_is_shown_as_its_number(commands, timestamp):
    text = f'{{"recipientId":"a","payload":"b","timestamp":{timestamp}}}'
    cid = commands.text("store", text)
    assert commands.text("receive", cid) == f"To:   a\nSent: {timestamp}\n\nb"
    assert commands.json("receive", cid)["timestamp"] == timestamp


def test_links_are_signed_and_written(commands, empty_node):
    variables = {
        **node_variables(empty_node, "pinata"),
        "HOLDFAST_GATEWAY_URL": empty_node.api_url,
        "HOLDFAST_PROVIDER_OPTIONS": '{"network": "private"}',
    }
    cid = commands.text("store", "[1,2]", **variables)
    assert commands.json("retrieve", cid, **variables) == [1, 2]
    assert commands.json("info", cid, **variables)["blocks"] == 1
    told = commands.json("link", cid, "--expires", "60", **variables)
    assert told["url"].startswith(f"{empty_node.api_url}/files/{cid}?")
    assert (told["cid"], told["expires"]) == (cid, 60)
    link = commands.text("upload-link", "--max-bytes", "5", "--type", "image/*", **variables)
    assert link.startswith(empty_node.api_url)
    code, lines = commands.failure("link", cid)
    assert code == 3
    assert "makes no signed links; share the address of url()" in lines[0]
    _, lines = commands.failure("url", cid, **variables)
    assert lines[1].startswith("hint: `holdfast link CID` writes a link")
    _, lines = commands.failure("upload-link")
    assert lines[0].endswith("or let pinata sign uploads")
