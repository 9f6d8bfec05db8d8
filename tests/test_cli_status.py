"""`holdfast status`, `info` and `url`: where things are, what they are, and their links."""

import re
import time

import pytest

from holdfast import Client, compute_cid
from holdfast.testing import Scripted, ScriptedServer
from tests.commands import Commands, node_variables
from tests.support import HELLO_CID, TOKEN


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
    facts = commands.json("status", **variables)
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

LAYOUTS = {
    (): ("unixfs-v1-2025", 3),
    ("--cid-version", "0"): ("unixfs-v0-2015", 9),
    ("--profile", "kubo-legacy-cidv1"): ("kubo-legacy-cidv1", 9),
}


@pytest.mark.parametrize("options", LAYOUTS)
def test_layouts_and_blocks(commands, options):
    (commands.folder / "file").write_bytes(b"x" * 2_000_000)
    facts = commands.json("info", commands.text("upload", "file", *options))
    assert (facts["kind"], facts["size"]) == ("file", 2_000_000)
    assert (facts["layout"], facts["blocks"]) == LAYOUTS[options]
    (pin,) = facts["pins"]
    assert (pin["at"], pin["name"], pin["state"]) == ("local", "file", "pinned")


def test_one_block_a_folder_and_a_link(commands):
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
    assert result.stderr.decode().startswith("browsers cannot open this link: use a gateway")
    code, _ = commands.failure("url", "nonsense")
    assert code == 4
