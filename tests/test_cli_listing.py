"""`holdfast ls`: the names in a directory, and with -l what they are."""

import json

import pytest

from holdfast import compute_cid
from tests.support import HELLO_CID


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
    assert commands.text("ls", f"{site}/css") == "a b.css"
    assert commands.text("ls", f"https://ipfs.io/ipfs/{site}/css/?x") == "a b.css"


def test_kinds_and_sizes(commands, site):
    lines = [line.split("  ") for line in commands.text("ls", "-l", site).splitlines()]
    told = [(line[0].strip(), line[-3].strip(), line[-1]) for line in lines]
    assert told == [
        ("directory", "-", "css"),
        ("file", "5 B", "hello.txt"),
        ("symlink", "3 B", "link"),
        ("file", "0 B", r"new\nline"),
    ]
    assert lines[1][-2] == HELLO_CID
    assert "1.46 KiB" in commands.text("ls", "--long", f"{site}/css")


def test_a_line_of_json_for_each_entry(commands, site):
    lines = commands.text("ls", site, "--json").splitlines()
    entries = [json.loads(line) for line in lines]
    assert [entry["name"] for entry in entries] == ["css", "hello.txt", "link", "new\nline"]
    assert entries[1] == {"name": "hello.txt", "cid": HELLO_CID, "size": 5, "kind": "file"}
    assert entries[0]["kind"] is None
    detailed = [json.loads(line) for line in commands.text("ls", "-l", site, "--json").splitlines()]
    assert [each["kind"] for each in detailed] == ["directory", "file", "symlink", "file"]


def test_what_is_no_directory(commands, site):
    code, lines = commands.failure("ls", f"{site}/hello.txt")
    assert (code, lines[0]) == (10, f"error: {HELLO_CID} is not a directory")
    code, lines = commands.failure("ls", f"{site}/other")
    assert (code, "there is no 'other'" in lines[0]) == (10, True)
    code, _ = commands.failure("ls", "nonsense")
    assert code == 4


def test_an_empty_directory(commands):
    (commands.folder / "empty").mkdir()
    cid = commands.text("upload", "empty")
    assert commands.run("ls", cid).stdout in {"", b""}
