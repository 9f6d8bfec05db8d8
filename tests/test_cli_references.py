"""What `list` shows can be typed: a part of a CID, its shortened form, the name of a pin."""

import json
import re
import shlex
import threading
from itertools import product

import pytest

from holdfast import BaseProvider, Client, ClientConfig, Pin, compute_cid
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.references import MOST, References
from holdfast.errors import InvalidCIDError, ProviderError
from holdfast.provider import BlockReader
from holdfast.testing import Scripted, ScriptedServer
from tests.commands import Commands, node_variables, server_variables

TEXT = b"one of the texts"
CID = compute_cid(TEXT)
SHORT = f"{CID[:8]}…{CID[-6:]}"


@pytest.fixture(params=["local", "pinning"])
def stored(request, tmp_path):
    """A pin with a name and a key-value, on the embedded store and at a service."""
    variables = {}
    if request.param == "pinning":
        variables = node_variables(request.getfixturevalue("empty_node"))
    commands = Commands(tmp_path, **variables)
    words = ("--name", "one.txt", "--keyvalue", "port=Brest")
    assert commands.text("upload", "-", *words, stdin=TEXT) == CID
    commands.text("store", '{"other": 1}', "--name", "other")
    return commands


@pytest.mark.parametrize(
    "text", [CID[:12], CID[:-1], SHORT, SHORT.replace("…", "..."), "name:one.txt"]
)
def test_what_the_list_shows_is_a_reference(stored, text):
    assert stored.text("cat", text) == TEXT.decode()
    result = stored.text("rm", text)
    assert result == f"revoked {CID}  one.txt"
    assert [pin["name"] for pin in stored.rows("list")] == ["other"]


def test_every_command_for_pinned_content_takes_one(commands, tmp_path):
    (commands.folder / "site").mkdir()
    (commands.folder / "site" / "a.json").write_text("[1]")
    root = commands.text("upload", "site")
    part, named = root[:15], "name:site"
    assert commands.text("retrieve", f"{part}/a.json") == "[\n  1\n]"
    assert commands.text("ls", part) == commands.text("ls", named) == "a.json"
    assert root in commands.text("info", part)
    assert commands.run("url", named).stdout.decode() == f"ipfs://{root}\n"
    assert commands.json("open", "--show", part)["cid"] == root
    assert commands.text("update", part, "--name", "new") == f"updated {root}  new"
    assert commands.json("car", "export", "name:new", "x.car")["cid"] == root
    assert commands.rows("list", "--cid", part)[0]["name"] == "new"
    commands.write_user_file(f'[connections.disk]\nprovider = "local"\npath = "{tmp_path}/disk"\n')
    result = commands.run("copy", "name:new", "--from", "local", "--to", "disk")
    assert root.encode() in result.stdout
    message = commands.text("send", "alice", "hi")
    assert commands.text("receive", message[:20]).endswith("hi")
    assert commands.json("rm", named.replace("site", "new")) == {
        "cid": root,
        "revoked": True,
        "name": "new",
    }


@pytest.fixture
def photos(commands):
    """A folder that is pinned as ``photos``, and a pin whose name has a slash."""
    (commands.folder / "photos" / "a b").mkdir(parents=True)
    (commands.folder / "photos" / "a b" / "cat.txt").write_text("purr")
    root = commands.text("upload", "photos")
    commands.text("store", "[2]", "--name", "photos/kept")
    return commands, root


def test_a_path_may_follow_a_name(photos):
    commands, root = photos
    assert commands.text("ls", "name:photos/") == "a b"
    for path in ("a b/cat.txt", "a%20b/cat.txt"):
        assert commands.text("cat", f"name:photos/{path}") == "purr"
    assert commands.text("get", "name:photos/a b/cat.txt") == "cat.txt"
    assert commands.json("retrieve", "name:photos/kept") == [2]  # the longest name
    assert commands.json("open", "--show", "name:photos/a b")["cid"] == f"{root}/a%20b"
    assert commands.text("car", "export", "name:photos", "x.car") == "x.car"
    code, lines = commands.failure("rm", "name:photos/a b")
    assert (code, lines[1]) == (4, "hint: `holdfast info` shows its CID")
    code, lines = commands.failure("cat", "name:phot/a b")
    assert (code, lines[0]) == (10, "error: no pin has the name 'phot/a b'")
    assert len(commands.rows("list")) == 2


def test_a_path_after_a_name_is_never_dropped(commands):
    """A link ends at its query or fragment; a path on the command line does not."""
    names = ["#draft", "a#b", "a", "100%", "?", "%", "c?d#e", "ipfs/f", f"ipfs/{CID}"]
    (commands.folder / "notes" / "ipfs").mkdir(parents=True)
    for name in names:
        (commands.folder / "notes" / name).write_text(f"text of {name}")
    root = commands.text("upload", "notes")
    assert commands.text("upload", "-", stdin=TEXT) == CID
    for name in names:
        # What follows the first "/ipfs/" is a CID, unless the text begins with "name:".
        for start in ("name:notes", root[:20])[: 1 if CID in name else 2]:
            assert commands.text("cat", f"{start}/{name}") == f"text of {name}"
            assert commands.failure("revoke", f"{start}/{name}")[0] == 4
    for rest in ("//", "///", "/ ", "/#", "/?x", "/%"):
        for start in ("name:notes", root[:20]):
            assert commands.failure("revoke", f"{start}{rest}")[0] == 4, rest
    assert {pin["cid"] for pin in commands.rows("list")} == {root, CID}
    assert commands.text("revoke", "name:notes/") == f"revoked {root}  notes"


def test_what_would_be_a_name_is_asked_for(photos, server):
    commands, _ = photos
    commands.text("store", "[3]", "--name", "holidayphotos2024")
    for text in ("photos", "photos/a b/cat.txt", "holidayphotos2024"):
        code, lines = commands.failure("cat", text)
        assert (code, lines[0].startswith("error: Invalid CID")) == (4, True)
        assert lines[-1] == f"hint: did you mean {shlex.quote(f'name:{text}')}?"
    code, lines = commands.failure("ls", "photo")
    assert (code, "did you mean" in lines[-1]) == (4, False)
    for text in ("eyJhbGciOi.J9", "photos", "photos/a b"):
        code, lines = commands.failure("ls", text, **server_variables(server))
        assert (code, lines[-1].endswith("characters of the CID are enough")) == (4, True)
    assert server.requests == []  # it may be a secret, which is sent to nobody


def test_a_file_in_the_place_of_a_cid(commands):
    (commands.folder / "my notes.txt").write_text("low tide")
    stores = "`holdfast upload 'my notes.txt'` stores it, and writes its CID"
    unpins = "`holdfast rm` deletes no files: it unpins a CID, or a name such as name:NAME"
    for command, hint in {"open": stores, "get": stores, "rm": unpins, "revoke": unpins}.items():
        code, lines = commands.failure(command, "my notes.txt")
        assert (code, lines[-1]) == (4, f"hint: {hint}")


def test_a_name_is_refused_where_nothing_lists_pins(commands):
    code, lines = commands.failure("url", "name:x", "--use", "gateway")
    assert (code, lines) == (
        3,
        [
            "error: a name is looked up in the list of pins, and this provider has none",
            "hint: give the CID in place of the name",
        ],
    )


def test_a_path_into_json_is_answered_with_what_reads_it(commands):
    cid = commands.text("store", '{"a": {"b": 1}}')
    code, lines = commands.failure("retrieve", f"{cid}/a/b")
    assert (code, lines[0]) == (10, f"error: {cid} is not a directory")
    assert lines[1] == (
        "hint: `holdfast download CID` gets a file, "
        "`holdfast retrieve CID | jq .NAME` a part of JSON"
    )


def test_verify_takes_a_name_and_no_part_of_a_cid(photos):
    commands, root = photos
    assert commands.text("verify", "photos", "name:photos") == f"photos is {root}"
    code, lines = commands.failure("verify", "photos", root[:-1])
    assert (code, lines[1]) == (4, "hint: give the whole CID: `holdfast list --full` shows it")
    code, lines = commands.failure("verify", "photos", "holidays")
    assert (code, lines[1].startswith("hint: write a CID such as bafkrei…")) == (4, True)
    code, lines = commands.failure("verify", root, "photos")
    assert (code, lines[1]) == (4, "hint: the file comes first: holdfast verify FILE CID")


def test_a_name_that_is_not_there_is_ignored_with_force(photos):
    commands, root = photos
    result = commands.text("rm", "-f", "name:nothing", root, "name:no")
    assert result.splitlines() == [
        "not pinned name:nothing",
        f"revoked {root}",
        "not pinned name:no",
    ]
    missing = {"cid": None, "name": "no", "revoked": False}
    assert commands.json("rm", "-f", "name:no") == missing
    assert commands.failure("rm", "-f", "nonsense")[0] == 4


def test_what_is_ambiguous_or_unknown_has_candidates(commands):
    contents = [b"%d" % number for number in range(7)]
    for content in contents:
        commands.text("upload", "-", "--name", "same", stdin=content)
    code, lines = commands.failure("rm", "name:same")
    assert (code, lines[0]) == (2, "error: 'name:same' matches 7 pins")
    candidates = [line.split()[1] for line in lines[1:6]]
    assert set(candidates) < {compute_cid(content) for content in contents}
    assert lines[6] == "note: … and 2 more"
    assert lines[7] == "hint: give the CID of one of them, or its first 12 characters"
    assert len(commands.rows("list")) == 7

    code, lines = commands.failure("cat", "name:sam")
    assert (code, lines[0]) == (10, "error: no pin has the name 'sam'")
    assert lines[1].endswith("  same")
    code, lines = commands.failure("cat", "bafkreiaaaaaaaaaa")
    assert (code, lines[0].startswith("error: Invalid CID")) == (4, True)
    assert lines[1] == "note: no CID of a pin begins with it, or is shortened to it"
    assert "name:NAME or the first 12 characters of the CID" in lines[2]
    for command, part in product(("cat", "rm", "info"), (compute_cid(b"0")[:11], "bafkrei", "zz")):
        code, lines = commands.failure(command, part)
        assert (code, len(lines)) == (4, 2)
        assert lines[0].endswith("is not a CID: give at least 12 characters of the CID)")


def test_one_that_is_unknown_does_not_stop_the_others(stored):
    result = stored.run("rm", "name:nothing", CID[:14], "--json")
    assert result.returncode == 10
    assert json.loads(result.stdout) == {"cid": CID, "revoked": True, "name": "one.txt"}
    assert (
        "no pin has the name 'nothing'"
        in json.loads(result.stderr.splitlines()[0])["error"]["message"]
    )


def test_a_provider_without_a_list_says_what_is_wrong(commands):
    code, lines = commands.failure("cat", "bafkreiaaaaaaaaaa", "--provider", "gateway")
    assert (code, lines[0].startswith("error: Invalid CID")) == (4, True)
    assert commands.failure("cat", "name:x", "--provider", "gateway")[0] == 3


class Many(BaseProvider):
    """A service with many pins, which counts how many were asked for."""

    def __init__(self, count, provider="kubo"):
        super().__init__(ClientConfig(provider=provider), reader=BlockReader(self.block))
        self.count = count
        self.limits = []

    def block(self, cid):
        raise NotImplementedError

    def find_pins(self, filters, *, limit=None):
        self.limits.append(limit)
        for number in range(min(self.count, limit)):
            yield Pin(id=str(number), cid=compute_cid(b"%d" % number), name=filters.name or "")

    def unpin(self, cid, call, /):
        raise NotImplementedError

    def check_credentials(self, call, /):
        pass


def test_a_service_is_asked_for_so_many_pins_and_no_more():
    cid = compute_cid(b"9999")
    full = Many(MOST)
    assert References(Client(full), [cid[:20], SHORT])[cid[:20]][0] == cid
    assert full.limits == [MOST + 1]
    with pytest.raises(UsageError, match="more than 10,000 pins"):
        References(Client(Many(MOST + 1)), [cid[:20]])


@pytest.mark.parametrize("text", ["myreport2026", "age1pq1abcdefghijk", "eyJhbGciOiJIUzI1NiJ9"])
def test_a_service_is_not_asked_for_what_no_cid_begins_with(text):
    many = Many(MOST + 1)
    with pytest.raises(InvalidCIDError):
        References(Client(many), [text])[text]
    assert many.limits == []


class Named(Many):
    """A service where many names contain "a"; one of them is ``a/report.pdf``."""

    def find_pins(self, filters, *, limit=None):
        if filters.name == "a/report.pdf":
            return iter([Pin(id="1", cid=CID, name=filters.name)])
        if filters.name == "b":
            return iter([Pin(id="2", cid=CID, name="b")])
        return super().find_pins(filters, limit=limit) if filters.name == "a" else iter(())


def test_the_whole_name_is_searched_before_its_first_segment():
    many = Named(MOST + 1)
    text = "name:a/report.pdf"
    assert References(Client(many), [text])[text][0] == CID
    assert many.limits == []
    assert References(Client(many), ["name:b/c"])["name:b/c"][0] == f"{CID}/c"
    with pytest.raises(UsageError, match="more than 10,000 pins"):
        References(Client(many), ["name:a/other.pdf"])


@pytest.mark.parametrize("names", [("photos", "photos-old"), ("photos-old", "photos")])
def test_another_pin_of_the_same_cid_does_not_hide_a_name(names):
    class Twice(Many):
        def find_pins(self, filters, *, limit=None):
            return iter([Pin(id=name, cid=CID, name=name) for name in names])

    client = Client(Twice(2))
    assert References(client, ["name:photos"])["name:photos"][1].name == "photos"
    assert References(client, ["name:photos/a"])["name:photos/a"][0] == f"{CID}/a"
    assert References(client, [SHORT])[SHORT][0] == CID


class Broken(Many):
    """A store on this machine that fails."""

    def __init__(self):
        super().__init__(0, "local")

    def find_pins(self, filters, *, limit=None):
        self.limits.append(filters.name)
        raise ProviderError("broken") if self.limits == ["photos"] else OSError("broken")


def test_a_failed_search_for_a_hint_does_not_hide_the_error():
    broken = Broken()
    for text in ("photos", "notes"):
        with pytest.raises(InvalidCIDError):
            References(Client(broken), [text])[text]
    assert broken.limits == ["photos", "notes"]


def test_the_list_shows_names_that_can_be_typed(commands):
    name = "0123456789abcdef.age"
    commands.text("upload", "-", "--name", name, stdin=b"1")
    commands.text("upload", "-", stdin=b"2")
    shown = [line.split("  ")[-1] for line in commands.text("list").splitlines()]
    assert shown == ["client-file", name]
    assert [commands.text("cat", f"name:{text}") for text in shown] == ["2", "1"]


def test_a_list_of_cids_only(stored):
    shown = stored.text("list", "-q").splitlines()
    assert (len(shown), CID in shown) == (2, True)
    assert stored.rows("list", "--quiet") == shown
    code, on_terminal = stored.on_terminal("list", "-q", COLUMNS="40")
    assert (code, on_terminal.splitlines()) == (0, shown)


def test_a_list_with_whole_cids_and_key_values(stored):
    code, shown = stored.on_terminal("list", "--full", COLUMNS="60", NO_COLOR="1")
    assert (code, CID in shown, "…" in re.sub(r"\S*…  ", "", shown)) == (0, True, False)
    code, shown = stored.on_terminal("list", COLUMNS="100", NO_COLOR="1")
    assert shown.splitlines()[0].endswith("KEY-VALUES")
    assert "port=Brest" in shown
    (line,) = stored.text("list", "--name", "one.txt").splitlines()
    assert line.endswith("  port=Brest  one.txt")
    code, shown = stored.on_terminal("list", "--name", "other", COLUMNS="100", NO_COLOR="1")
    assert (code, "KEY-VALUES" in shown) == (0, False)
    assert "name: one.txt  key-values: port=Brest" in stored.text("info", CID)


def test_a_list_in_another_order(commands):
    for name, size in (("b", 3), ("C", 1), ("a", 2)):
        commands.text("upload", "-", "--name", name, stdin=b"x" * size)

    def names(*options):
        return [pin["name"] for pin in commands.rows("list", *options)]

    assert names() == names("--sort", "created") == ["a", "C", "b"]
    assert names("--sort", "name") == ["a", "b", "C"]
    assert names("--sort", "size") == ["b", "a", "C"]
    assert names("--sort", "size", "--limit", "1") == ["b"]
    code, lines = commands.failure("list", "--sort", "colour")
    assert (code, lines[0]) == (2, "error: --sort takes created, name, size, not 'colour'")


def test_a_list_since_some_time_ago(commands):
    commands.text("store", "1", "--name", "new")
    assert [len(commands.rows("list", "--since", ago)) for ago in ("1h", "7d", "2w")] == [1, 1, 1]
    assert commands.rows("list", "--until", "1h") == []
    code, lines = commands.failure("list", "--since", "yesterday")
    assert (code, lines[0].startswith("error: --since must be a time such as 2026-01-31")) == (
        2,
        True,
    )
    assert lines[1].endswith("how long ago it was: 7d, 12h or 2w")


def test_several_at_a_time(stored):
    shown = stored.text("info", CID, "name:other")
    assert [block.split()[1] for block in shown.split("\n\n")] == [
        CID,
        compute_cid(b'{"other":1}'),
    ]
    assert [row["size"] for row in stored.rows("info", CID, "name:other")] == [len(TEXT), 11]
    (stored.folder / "a").write_bytes(b"1")
    (stored.folder / "b").write_bytes(b"2")
    pairs = [f"{compute_cid(b'1')} a", f"{compute_cid(b'2')} b"]
    assert stored.text("cid", "a", "b").splitlines() == pairs
    assert [row["path"] for row in stored.rows("cid", "a", "b")] == ["a", "b"]


def test_uploads_are_written_in_the_order_of_the_arguments(tmp_path):
    """The first of them ends last, and the second fails."""
    names, answered = ["a", "b", "c", "d"], threading.Semaphore(0)

    def answer(request):
        name = re.search(rb'filename="(\w)"', request.body)[1].decode()
        if name == "a":
            for _ in names[1:]:
                assert answered.acquire(timeout=60)
        else:
            answered.release()
        body = {"IpfsHash": compute_cid(name.encode())} if name != "b" else {"error": "no"}
        return Scripted(status=200 if name != "b" else 400, body=body)

    with ScriptedServer(answer) as server:
        commands = Commands(tmp_path, **server_variables(server))
        for name in names:
            (commands.folder / name).write_text(name)
        result = commands.run("upload", *names)
    assert result.returncode == 12
    lines = [f"{compute_cid(name.encode())} {name}" for name in names if name != "b"]
    assert result.stdout.decode().splitlines() == lines
    assert result.stderr.startswith(b"error: b: no\n")


def test_a_missing_folder_of_a_store_is_an_error_where_nothing_is_written(commands):
    for words in (["list"], ["ls"], ["cat", CID], ["info", CID], ["retrieve", CID]):
        code, lines = commands.failure(*words, "--path", "missing")
        assert (code, lines[0]) == (3, "error: there is no store in missing")
        assert lines[1] == "hint: check --path; the first upload makes a store there"
    assert not (commands.folder / "missing").exists()
    assert commands.text("list") == ""


def test_what_is_not_ascii_stays_json(commands):
    value = '{"Zoë":"🌊 \x7f\u200b"}'
    cid = commands.text("store", value, "--name", "Zoë")
    for variables in ({"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "utf-16"}, {}):
        assert commands.json("retrieve", cid, **variables) == json.loads(value)
        assert commands.rows("list", **variables)[0]["name"] == "Zoë"
    for encoding in ("ascii", "latin-1", "utf-8", "utf-16"):
        shown = commands.run("retrieve", cid, PYTHONIOENCODING=encoding).stdout
        assert json.loads(shown.decode(encoding)) == json.loads(value)
    code, shown = commands.on_terminal("retrieve", cid)
    assert (code, json.loads(shown)) == (0, json.loads(value))
    assert ("Zoë" in shown, "\\u007f\\u200b" in shown) == (True, True)
