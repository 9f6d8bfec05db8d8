"""What commands write: sizes, tables and colours on a terminal, and plain lines in pipes."""

import io
import os
import re
import sys

import pytest

from holdfast import compute_cid
from holdfast.cli.output import Column, write_table
from holdfast.readable_size import parse_size, readable_size
from tests.commands import Commands, install_provider, node_variables, plain
from tests.disks import pending_download
from tests.support import HELLO_CID, SIZES

BOLD = "\x1b[1m"


def columns_of(line):
    return re.split(r" {2,}", line)


def cells(text):
    """How many columns of a terminal a text takes, as the tests have it: two for each wide one."""
    return sum(2 if letter in "日本語🌊" else 1 for letter in text)


def test_sizes_have_three_digits_or_more():
    assert {size: readable_size(size) for size in SIZES} == SIZES


def test_sizes_are_read_as_people_write_them():
    sizes = {"0": 0, "1024": 1024, "2G": 2 << 30, "2g": 2 << 30, " 1.5 KiB ": 1536, "7B": 7}
    sizes |= {"10mb": 10_000_000, "3 TB": 3 * 10**12, "9007199254740993": 9007199254740993}
    assert {text: parse_size(text) for text in sizes} == sizes


@pytest.mark.parametrize("text", ["", "G", "-1", "1e3", "2 G B", "1,5M", "2X", "٣", "1.", "∞"])
def test_what_is_not_a_size_is_refused(text):
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


def test_a_shortened_cid_can_be_used(pinned):
    """People copy it from the list."""
    _, shown = pinned.on_terminal("list", COLUMNS="80")
    short = re.search(r"baf\w+…\w+", shown)[0]
    assert pinned.text("cat", short) == "3" * 2000
    code, lines = pinned.failure("cat", f"https://ipfs.io/ipfs/{short}/a")
    assert (code, "its middle is missing: copy all of it" in lines[0]) == (4, True)


@pytest.fixture
def pinned(commands):
    """Three pins with names of other widths."""
    for name, content in (("日本語.txt", b"1"), ("🌊", b"22"), ("a.txt", b"3" * 2000)):
        commands.text("upload", "-", "--name", name, stdin=content)
    return commands


def test_a_list_on_a_terminal_has_a_header_and_columns_in_line(pinned):
    code, shown = pinned.on_terminal("list")
    header, *rows = plain(shown).splitlines()
    assert code == 0
    assert columns_of(header) == ["NAME", "SIZE", "CREATED", "CID"]
    assert [columns_of(row)[0] for row in rows] == ["a.txt", "🌊", "日本語.txt"]
    assert [columns_of(row)[1] for row in rows] == ["1.95 KiB", "2 B", "1 B"]
    assert {cells(row[: row.index("baf")]) for row in rows} == {header.index("CID")}
    ends = {cells(re.match(r".* [KMi]*B(?=  2)", row)[0]) for row in rows}
    assert ends == {header.index("SIZE") + len("SIZE")}
    assert shown.startswith(BOLD)


def test_cids_are_whole_where_they_fit_and_in_pipes(pinned):
    cid = compute_cid(b"1")
    code, wide = pinned.on_terminal("list", COLUMNS="110")
    assert (code, cid in wide) == (0, True)
    code, narrow = pinned.on_terminal("list", COLUMNS="80")
    assert (code, cid in narrow, f"{cid[:8]}…{cid[-6:]}" in narrow) == (0, False, True)
    assert max(map(len, plain(narrow).splitlines())) <= 80
    (line,) = pinned.text("list", "--name", "日本語").splitlines()
    assert line.startswith(f"{cid}  ")
    assert line.endswith("  日本語.txt")
    assert pinned.text("list", COLUMNS="80").splitlines()[-1] == line


@pytest.mark.parametrize("width", [40, 80])
def test_long_names_are_cut_on_a_terminal(commands, width):
    name = "日本語" * 40
    commands.text("upload", "-", "--name", name, stdin=b"1")
    _, shown = commands.on_terminal("list", COLUMNS=str(width))
    _, row = plain(shown).splitlines()
    assert re.fullmatch(r"[日本語]+ ?…", columns_of(row)[0])
    assert cells(row) == max(width, 12 + 4 + 16 + 15 + 6)
    assert commands.text("list").endswith(f"  {name}")


WAITING = f"""
from holdfast import BaseProvider, ClientConfig, Pin
from holdfast.provider import BlockReader


class Provider(BaseProvider):
    def __init__(self, config):
        super().__init__(config, reader=BlockReader(None))

    def find_pins(self, wanted, *, limit=None):
        yield Pin(id="1", cid="{HELLO_CID}", name="here", size=5, created_ms=0)
        yield Pin(id="2", cid="{HELLO_CID}", size=None, state="queued")
        peers = {{"a": "pinned", "b": "pinned"}}
        yield Pin(id="3", cid="{HELLO_CID}", name="both", created_ms=0, peers=peers)

    unpin = check_credentials = None
"""


def test_states_are_told_where_there_is_something_to_tell(tmp_path):
    commands = Commands(tmp_path, **install_provider(tmp_path / "site", "waiting", WAITING))
    code, shown = commands.on_terminal("list", "--provider", "waiting", COLUMNS="120", TZ="UTC")
    assert code == 0
    assert plain(shown).splitlines() == [
        f"NAME  SIZE  CREATED           {'CID':<59}  STATE",
        f"here   5 B  1970-01-01 00:00  {HELLO_CID}",
        f"-        -  -                 {HELLO_CID}  queued",
        f"both   0 B  1970-01-01 00:00  {HELLO_CID}  2 pinned",
    ]
    assert commands.text("list", "--provider", "waiting", TZ="UTC").splitlines() == [
        f"{HELLO_CID}        5 B  1970-01-01 00:00  here",
        f"{HELLO_CID}          -  -  queued     ",
        f"{HELLO_CID}        0 B  1970-01-01 00:00  2 pinned   both",
    ]


def test_an_empty_list_says_so_on_a_terminal(commands):
    assert commands.on_terminal("list") == (0, "there are no pins\n")
    assert commands.on_terminal("list", "--name", "x") == (0, "there are no such pins\n")
    assert commands.on_terminal("uploads") == (0, "there are no unfinished uploads\n")
    assert commands.text("list") == commands.text("uploads") == ""
    assert commands.rows("uploads") == []


def test_entries_on_a_terminal_and_in_a_pipe(commands):
    folder = commands.folder / "site"
    (folder / "日本").mkdir(parents=True)
    (folder / "hello.txt").write_bytes(b"hello")
    (folder / "\x1b[31mred").write_bytes(b"")
    cid = commands.text("upload", "site")
    code, shown = commands.on_terminal("ls", cid, NO_COLOR="1")
    header, *rows = shown.splitlines()
    assert (code, columns_of(header)) == (0, ["NAME", "CID"])
    assert sorted(columns_of(row)[0] for row in rows) == [r"\x1b[31mred", "hello.txt", "日本"]
    assert f"hello.txt    {HELLO_CID}" in rows
    code, shown = commands.on_terminal("ls", "-l", cid)
    header, *rows = plain(shown).splitlines()
    assert (code, columns_of(header)) == (0, ["NAME", "KIND", "SIZE", "CID"])
    assert {cells(row[: row.index("baf")]) for row in rows} == {header.index("CID")}
    assert sorted(commands.text("ls", cid).splitlines()) == [r"\x1b[31mred", "hello.txt", "日本"]


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_there_are_no_colours_where_nobody_wants_them(pinned, variables):
    for arguments in (["list"], ["ls", "nonsense"], ["list", "--token", "x"]):
        _, shown = pinned.on_terminal(*arguments, **variables)
        assert "\x1b" not in shown
    pinned.delay = 0
    (pinned.folder / "big").write_bytes(bytes(1_000_000))
    _, shown = pinned.on_terminal("cid", "big", **variables)
    assert ("━" in shown, re.findall(r"\x1b\[[0-9;]*m", shown)) == ("TERM" not in variables, [])


def test_there_are_colours_on_a_terminal_and_none_in_a_pipe(commands):
    code, shown = commands.on_terminal("ls", "nonsense", NO_COLOR="")  # empty does not count
    assert (code, shown.startswith("\x1b[31merror:\x1b[0m Invalid CID")) == (4, True)
    assert "\n\x1b[36mhint:\x1b[0m " in shown
    assert commands.run("ls", "nonsense").stderr.startswith(b"error: Invalid CID")


def test_what_is_done_soon_shows_no_bar(commands):
    """The delay of an hour stands for half a second, which a busy machine may take."""
    commands.delay = 3600
    (commands.folder / "a").write_bytes(b"1" * 3_000_000)
    cid = compute_cid(b"1" * 3_000_000)
    assert commands.on_terminal("upload", "a") == (0, f"{cid}\n")
    assert commands.on_terminal("check") == (0, "sound: 1 pin, 2.86 MiB\n")


def test_rows_are_written_as_they_come(monkeypatch):
    """No more are held than a terminal shows at a time."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("LINES", "24")

    def rows():
        for number in range(1000):
            assert number - out.getvalue().count("\n") <= 24
            yield str(number), HELLO_CID

    assert write_table((Column("NAME", "name"), Column("CID", "cid")), rows())
    assert out.getvalue().count("\n") == 1001


def test_a_download_that_continues_says_from_where(tmp_path, node):
    commands = Commands(tmp_path, **node_variables(node))
    data = os.urandom(5_000_000)
    cid = commands.text("upload", "-", stdin=data)

    def interrupt():
        part = pending_download(tmp_path / "cache/holdfast", cid, data[: 3 << 20])
        part.discard(verified=3 << 20)

    interrupt()
    result = commands.run("download", cid, "copy")
    assert (result.returncode, result.stderr) == (0, b"copy: continues after 3.00 MiB\n")
    assert (commands.folder / "copy").read_bytes() == data
    interrupt()
    commands.delay = 0
    code, shown = commands.on_terminal("download", cid, "copy", "--force")
    assert (code, "copy: continues after 3.00 MiB" in shown) == (0, True)
    assert re.search(r"copy \(from 3.00 MiB on\) ━+ 4.77 MiB of 4.77 MiB", plain(shown))


SHOWS_A_BAR = """
import time
from holdfast.cli import output
output.DELAY = 0.1
with output.ProgressBar("a-file-whose-name-is-rather-long.bin") as show:
    show.resume(56 << 20)
    time.sleep(0.5)
    for done in (60 << 20, 100 << 20, 200 << 20):
        show(done, 200 << 20)
        time.sleep(0.2)
    print("result")
"""


def test_a_bar_with_a_long_label_is_one_line_and_results_go_where_they_were_sent(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SHOWS_A_BAR)
    line = f"'{sys.executable}' '{script}' > results"
    shell = Commands(tmp_path, command=("/bin/sh", "-c", line))
    code, shown = shell.on_terminal()
    last = plain(shown).rstrip().splitlines()[-1]
    assert code == 0
    assert re.search(r"a-file.*… ━+ 200 MiB of 200 MiB  [0-9.]+ [KM]iB/s 0:00:00$", last)
    assert (shell.folder / "results").read_text() == "result\n"
