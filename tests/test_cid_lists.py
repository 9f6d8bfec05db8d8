"""Lists of CIDs in files, and `copy --cids`, which takes what they name from gateways."""

import io
import json
import os

import pytest

from holdfast import Client
from holdfast.cli.cid_list import read_list
from holdfast.cli.exit_codes import UsageError
from holdfast.content.cid import CID
from holdfast.records import Pin
from holdfast.testing import Scripted, ScriptedServer
from tests.commands import Commands
from tests.gateways import ODD_LAYOUT, gateway, pin

A, B, C = (str(CID.of_raw(text)) for text in (b"a", b"b", b"c"))
DEAD = str(CID.of_raw(b"nobody has it"))


def named(cid, name="", **keyvalues):
    return Pin(id="", cid=cid, name=name, keyvalues=keyvalues, size=None)


def read(data):
    errors = []
    items = list(read_list(io.BytesIO(data), "list.txt", lambda *line: errors.append(line)))
    return items, [str(error) for _, error in errors]


LISTS = {
    "plain": (f"{A}\n{B}\n", [A, B]),
    "no last line end": (f"{A}\n{B}", [A, B]),
    "Windows": (f"\ufeff{A}\r\n\r\n{B}\r\n", [A, B]),
    "comments and blank lines": (f"# mine\n\n  # more, of it\n {A} \n\n#end", [A]),
    "duplicates": (f"{A}\n{B}\n{A}\nipfs://{A}\n", [A, B]),
    "links": (
        f"ipfs://{A}\nhttps://ipfs.io/ipfs/{B}?x=1\nhttps://{C}.ipfs.dweb.link/\n",
        [A, B, C],
    ),
    "header": (f"cid\n{A}\n", [A]),
    "names": (f"Name,CID\nx,{A}\n,{B}\n", [named(A, "x"), B]),
    "key-values": (f"cid,name,Year,\n{A},x,2026,,\n{B},,,\n", [named(A, "x", Year="2026"), B]),
    "quotes": (f'cid,name\n"{A}","a, ""b""\nc"\n', [named(A, 'a, "b"\nc')]),
    "semicolons": (f"cid;name\n{A};x,y\n", [named(A, "x,y")]),
    "tabs": (f"{A}\tx\n{B}\n", [named(A, "x"), B]),
    "names without a header": (f"{A},x\n{B}\n", [named(A, "x"), B]),
    "a name that is a number sign": (f"cid,name\n{A},#1\n", [named(A, "#1")]),
    "nothing": ("", []),
    "only comments": ("# a\n\n# b", []),
}


@pytest.mark.parametrize(("text", "items"), LISTS.values(), ids=LISTS)
def test_a_list_is_read_as_people_write_it(text, items):
    assert read(text.encode()) == (items, [])


def test_a_wrong_line_has_its_number_and_the_others_are_read():
    text = f"# mine\n{A}\nbafy\n\n{B}/photos/1.png\n{B},x,y\n{B}\n".encode()
    items, errors = read(text)
    assert items == [A, B]
    assert [error.split(" cannot be copied: ")[0] for error in errors] == [
        "line 3: 'bafy'",
        f"line 5: '{B}/photos/1.png'",
        f"line 6: '{B},x,y'",
    ]
    assert errors[1].endswith("a path inside a CID cannot be used here, only a CID")
    assert errors[2].endswith("it has more cells than the header")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\nhash,name\n", "list.txt, line 2: 'hash,name' cannot be copied: "),
        (f"{A},x,y\n".encode(), "it has more cells than the header: write one CID on each line"),
        ("\ufeff{A}\n".encode("utf-16"), "list.txt is not text in UTF-8: save it as UTF-8"),
        (b"\x89PNG\r\n\x1a\n", "list.txt is not text in UTF-8"),
        (f'cid,name\n{A},"x\n'.encode(), "list.txt, line 2: unexpected end of data"),
        (b"x" * 200_000, "list.txt, line 1: field larger than field limit"),
    ],
    ids=["other header", "no header", "UTF-16", "an image", "open quote", "one long line"],
)
def test_another_file_is_refused_before_anything_is_read(data, words):
    with pytest.raises(UsageError) as caught:
        read(data)
    assert words in str(caught.value)


def test_a_list_is_read_while_it_is_used():
    """So it can come through a pipe, and be larger than memory."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as file, os.fdopen(writer, "wb", buffering=0) as lines:
        items = read_list(file, "-", print)
        for cid in (A, B, C):
            lines.write(f"{cid}\n".encode())
            assert next(items) == cid


# The command


@pytest.fixture
def commands(tmp_path):
    """Commands with the connection `archive`."""
    commands = Commands(tmp_path)
    path = json.dumps(str(tmp_path / "archive"))
    commands.write_user_file(f'[connections.archive]\nprovider = "local"\npath = {path}\n')
    return commands


def rescue(commands, *arguments, **options):
    return commands.run("copy", "--from", "gateway", "--to", "archive", *arguments, **options)


def url(server):
    return f"--gateway-url={server.url}/ipfs"


def test_a_rescue_says_what_came_from_where_and_what_nobody_has(commands, node, tmp_path):
    cids = [pin(node, b"rescued %d" % n * 50_000, ODD_LAYOUT) for n in range(3)]
    lines = [f"{cids[0]},first,2026", f"{cids[1]},,", f"{DEAD},,", "bafy,,", f"{cids[2]},,"]
    (commands.folder / "cids.csv").write_text("\n".join(["cid,name,year", *lines]))
    with gateway(node, lambda *_: Scripted(status=404)) as empty, gateway(node) as server:
        where = (url(empty), url(server), "--cids")
        result = rescue(commands, *where, "cids.csv")
        host = server.url.removeprefix("http://")
        assert result.returncode == 4  # of the first failure
        copied = sorted(result.stdout.decode().splitlines())
        assert copied == sorted(
            [f"copied   {cids[0]}  first", *(f"copied   {cid}  " for cid in cids[1:])]
        )
        errors = result.stderr.decode().splitlines()
        assert errors[0].startswith("error: line 5: 'bafy' cannot be copied: ")
        assert any(DEAD in line for line in errors[1:-1])
        assert errors[-1] == (
            f"copied to archive: 3 pins; from {host}: 3; failed: 2 (not found: 1)"
        )

        # The target is asked, and nothing is sent again.
        before = len(server.requests)
        again = rescue(commands, *where, "-", "--json", stdin="\n".join(cids).encode())
        assert again.returncode == 0
        results = [json.loads(line) for line in again.stdout.splitlines()]
        assert [result["duplicate"] for result in results] == [True] * 3
        assert len(server.requests) == before
    with Client.init(path=tmp_path / "archive") as client:
        (first,) = client.pins(cid=cids[0])
        assert (first.name, first.keyvalues) == ("first", {"year": "2026"})


def test_a_dry_run_with_a_list_and_a_journal_of_several_runs(commands, node):
    cids = [pin(node, b"dry %d" % n, ODD_LAYOUT) for n in range(2)]
    with gateway(node) as server:
        where = (url(server), "--journal", "journal", "--cids", "-")
        shown = rescue(commands, *where, "--dry-run", stdin=f"{cids[0]}\nbafy".encode())
        assert (shown.returncode, shown.stdout.split()[:2]) == (4, [b"missing", cids[0].encode()])
        assert server.requests == []
        rescue(commands, *where, stdin=cids[0].encode())
        result = rescue(commands, *where, stdin="\n".join(cids).encode())
        assert [line.split()[0] for line in sorted(result.stdout.splitlines())] == [
            b"copied",
            b"there",
        ]
        host = server.url.removeprefix("http://")
        note = f"copied to archive: 1 pin; from {host}: 2; there already: 1\n"
        assert result.stderr.decode() == note


def test_a_gateway_that_refuses_one_cid_may_have_the_next(commands, node):
    cid = pin(node, b"not refused", ODD_LAYOUT)

    def refusing(_kind, request, reply):
        return Scripted(status=403) if DEAD in request.target else reply

    with gateway(node, refusing) as server:
        result = rescue(commands, url(server), "--cids", "-", stdin=f"{DEAD}\n{cid}\n".encode())
    assert (result.returncode, result.stdout.decode()) == (9, f"copied   {cid}  \n")


def test_a_target_that_refuses_the_token_ends_it_before_anything_is_read(commands, node):
    with ScriptedServer(lambda _: Scripted(status=401)) as service, gateway(node) as server:
        commands.write_user_file(
            f'[connections.archive]\nprovider = "pinning"\npin_api_url = "{service.url}"\n'
            'provider_token = "expired-token-of-mine"\n'
        )
        code, lines = rescue_failure(commands, url(server), "--cids", "-", stdin=DEAD.encode())
        assert (code, len(service.requests), server.requests) == (8, 1, [])
    assert len(lines) == 2


def rescue_failure(commands, *arguments, **options):
    return commands.failure("copy", "--from", "gateway", "--to", "archive", *arguments, **options)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "gateway has no list of pins: give CIDs, or --cids FILE"),
        ([A, "--cids", "-"], "give the CIDs, or a file of them with --cids, not both"),
        (["--cids", "-", "--name", "x"], "give these or CIDs, not both"),
        (["--cids", ""], "it is empty"),
        (["--cids", "-", "--gateway-url", "ftp://x"], "--gateway-url"),
    ],
)
def test_wrong_uses_are_told(commands, arguments, words):
    code, lines = rescue_failure(commands, *arguments)
    assert code in {2, 3}
    assert words in lines[0]


def test_a_list_that_is_missing(commands):
    code, lines = rescue_failure(commands, "--cids", "nothing.txt")
    assert (code, lines[0]) == (1, "error: No such file or directory: nothing.txt")
