"""The commands `backup` and `restore`: all pins as one file."""

import gc
import hashlib
import io
import json
import os
import random
import signal
import subprocess
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.cli import copying, output
from holdfast.cli.backup_file import BEGINNING, BackupProvider, BackupWriter
from holdfast.content import dag_pb
from holdfast.content.car import CarReader, write_car
from holdfast.content.cid import CID, DAG_PB
from holdfast.content.dag_pb import Link
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs import data
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import Part
from holdfast.errors import MalformedError, UnsupportedError
from holdfast.records import Pin, PinFilter
from holdfast.repository import Repository
from holdfast.sources.importing import import_content
from tests.commands import HOLDFAST, Commands
from tests.gateways import ODD_LAYOUT
from tests.stores import pins_in
from tests.support import wait_until


@pytest.fixture
def commands(tmp_path):
    return Commands(tmp_path / "commands")


def fill(folder, count=6):
    """Make a store with files in two layouts, which share blocks, and a document."""
    with Repository(folder) as repository:
        for number in range(count):
            content = b"%d" % (number // 2) * (number * 50_000 + 10)
            layout = ODD_LAYOUT if number % 2 else UNIXFS_V1_2025
            about = {"name": f"pin {number}", "keyvalues": {"number": number, "/": "slash"}}
            repository.add(content, layout, **about)
    return folder


def pins(folder):
    with Client.init(path=folder) as client:
        return {pin.cid: (pin.name, dict(pin.keyvalues)) for pin in client.iter_pins()}


def assert_sound(folder):
    with Repository(folder) as repository:
        assert list(repository.check()) == []


@pytest.fixture
def store(tmp_path):
    return fill(tmp_path / "store")


@pytest.fixture
def file(commands, store, tmp_path):
    path = tmp_path / "backup.car"
    result = commands.run("backup", path, "--path", store)
    assert (result.returncode, result.stdout.decode()) == (0, f"{path}\n")
    return path


def test_what_is_restored_is_what_was_backed_up(commands, store, file, tmp_path):
    there = tmp_path / "there"
    result = commands.run("restore", file, "--path", there)
    assert result.returncode == 0
    lines = result.stdout.decode().splitlines()
    expected = pins(store)
    assert {tuple(line.split(maxsplit=2)) for line in lines} == {
        ("copied", cid, name) for cid, (name, _) in expected.items()
    }
    assert result.stderr.decode() == "restored: 6 pins\n"
    assert pins(there) == expected
    assert_sound(there)
    again = commands.run("restore", file, "--path", there, "--json")
    assert json.loads(again.stderr)["warning"] == "restored: 0 pins; there already: 6"


def test_the_file_is_an_archive_with_a_list_and_each_block_once(commands, file, store, tmp_path):
    reader = CarReader()
    blocks = reader.update(file.read_bytes())
    reader.finish()
    assert len({cid for cid, _ in blocks}) == len(blocks)
    root = commands.text("car", "import", file, "--path", tmp_path / "other")
    assert [root] == [str(cid) for cid in reader.roots]
    with Client.init(path=tmp_path / "other") as client:
        names = [entry.name for entry in client.entries(root)]
        assert names == ["0", "pins.json"]
        manifest = client.retrieve(f"{root}/pins.json")
        assert manifest["kind"] == "holdfast backup 1"
        rows = {row["cid"]: (row["name"], row["keyvalues"]) for row in manifest["pins"]}
        assert rows == pins(store)
        assert [row["name"] for row in manifest["pins"]] == [f"pin {n}" for n in range(6)]
        # All content is linked, so that one pin of the root keeps it.
        assert {entry.name for entry in client.entries(f"{root}/0")} == {*rows}


def test_a_backup_goes_through_pipes(commands, store, tmp_path):
    written = commands.run("backup", "-", "--path", store)
    assert written.stderr.decode().startswith("backed up: 6 pins, ")
    result = commands.run("restore", "-", "--path", tmp_path / "there", stdin=written.stdout)
    assert result.returncode == 0
    assert pins(tmp_path / "there") == pins(store)


def test_another_provider_can_be_backed_up_and_restored(commands, tmp_path, node):
    for pin in node.repository.pins():
        node.repository.unpin(CID.parse(pin.cid))
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(node.token)
    gateway = ["--gateway-url", node.config.gateway_url[0], "--token-file", token]
    service = ["--provider", "pinning", "--pin-api-url", node.config.pin_api_url, *gateway]
    with Client.init(node.config) as client:
        cid = client.store({"a": 1}, name="doc", keyvalues={"k": 1}).cid
    result = commands.run("backup", tmp_path / "file", *service, "--json")
    assert json.loads(result.stdout)["pins"] == 1
    with Client.init(node.config) as client:
        client.revoke(cid)
    result = commands.run("restore", tmp_path / "file", *service, "--json")
    assert json.loads(result.stdout)["how"] == "upload"
    with Client.init(node.config) as client:
        (pin,) = client.pins()
        assert (pin.cid, pin.name, pin.keyvalues) == (cid, "doc", {"k": 1})


@pytest.mark.parametrize("share", [0.4, 0.999])
def test_a_file_that_is_cut_off_gives_what_it_has_and_names_the_rest(
    commands, store, file, tmp_path, share
):
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    result = commands.run("restore", file, "--path", tmp_path / "there")
    assert result.returncode == 13
    errors = result.stderr.decode()
    there, expected = pins(tmp_path / "there"), pins(store)
    assert 0 < len(there) < len(expected)
    missing = {cid for cid in expected if f"error: {cid}: block " in errors}
    missing |= {cid for cid in expected if f"error: block {cid} is missing" in errors}
    assert missing == set(expected) - set(there)
    restored = output.count_text(len(there), "pin")
    assert f"restored: {restored}; failed: {len(missing)}\n" in errors
    assert errors.splitlines()[-1].endswith(": it is cut off")
    assert there == {cid: expected[cid] for cid in there}
    assert_sound(tmp_path / "there")


@pytest.mark.slow
def test_whatever_is_damaged_nothing_wrong_is_restored(commands, store, file, tmp_path):
    data, expected = file.read_bytes(), pins(store)
    choose = random.Random(7)  # noqa: S311
    for number in range(40):
        place = choose.randrange(len(data) if number > 20 else 2_000)
        changed = bytearray(data)
        changed[place] ^= 1 << choose.randrange(8)
        file.write_bytes(changed)
        there = tmp_path / f"there-{number}"
        result = commands.run("restore", file, "--path", there)
        found = pins(there)
        assert found.items() <= expected.items()
        assert_sound(there)
        assert (result.returncode != 0) == (found != expected), result.stderr


def test_another_file_is_not_a_backup(commands, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(with_list(b"{}"))
    result = commands.run("restore", path, "--path", tmp_path / "there")
    assert result.returncode == 14
    assert result.stderr.decode().startswith(f"error: {path} is not a backup")
    assert not (tmp_path / "there").exists()


@pytest.mark.slow
def test_content_that_cannot_be_read_is_named_and_the_rest_is_in_the_file(
    commands, store, tmp_path
):
    lost = b"lost" * 50_000
    with Repository(store) as repository:
        pin, _ = repository.add(lost, UNIXFS_V1_2025, name="lost")
        (path,) = [
            each for each in store.rglob("*") if each.is_file() and each.stat().st_size == len(lost)
        ]
        path.unlink()
    result = commands.run("backup", tmp_path / "file", "--path", store)
    assert result.returncode == 10
    errors = result.stderr.decode()
    assert f"error: {pin.cid} is not in this store" in errors
    assert errors.splitlines()[-1].endswith("not in it: 1")
    result = commands.run("restore", tmp_path / "file", "--path", tmp_path / "there")
    assert result.returncode == 13
    expected = pins(store)
    del expected[pin.cid]
    assert pins(tmp_path / "there") == expected


def test_what_failed_holds_nothing_of_what_was_read(tmp_path):
    with Client.init(path=tmp_path / "there") as client:
        client.upload(b"lost" * 50_000)
        (path,) = (tmp_path / "there" / "blocks").glob("[!t]*/*")
        path.unlink()
        with closing(BackupWriter(io.BytesIO(), client.iter_pins())) as writer:
            done, failures = copying._write_content(client, writer, None)
            gc.collect()
            assert not [each for each in gc.get_objects() if isinstance(each, CarReader)]
    assert (done, [failure["exitCode"] for _, failure in failures]) == (0, [10])


def test_an_incomplete_backup_does_not_replace_an_older_one(commands, store, file):
    before = file.read_bytes()
    (path,) = [
        each for each in store.rglob("*") if each.is_file() and each.stat().st_size == 100_010
    ]
    path.unlink()
    result = commands.run("backup", file, "--path", store)
    assert (result.returncode, result.stdout.decode()) == (10, f"{file}.incomplete\n")
    assert file.read_bytes() == before
    assert len(Path(f"{file}.incomplete").read_bytes()) < len(before)


def test_a_store_that_is_missing_does_not_replace_a_backup(commands, file, tmp_path):
    """Its path may be misspelled, or its disk not mounted."""
    before = file.read_bytes()
    code, lines = commands.failure("backup", file, "--path", tmp_path / "stoer")
    assert (code, lines[0]) == (3, f"error: there is no store in {tmp_path / 'stoer'}")
    assert file.read_bytes() == before
    assert not (tmp_path / "stoer").exists()


def with_list(text, name=b"pins.json"):
    """Return a file whose list of pins has this text."""
    blocks = []
    part = import_content(text, UNIXFS_V1_2025, lambda *block: blocks.append(block))
    return with_root([(name, part)], blocks)


def with_root(entries, blocks):
    part = build_directory(entries, UNIXFS_V1_2025, lambda *block: blocks.append(block))
    return b"".join(write_car([part.cid], blocks))


def listed(*rows):
    return (
        BEGINNING + b'"pins":[\n' + b",\n".join(json.dumps(row).encode() for row in rows) + b"\n]}"
    )


ROW = {
    "cid": "bafkqaaa",
    "keyvalues": {},
    "name": "",
    "size": 0,
    "files": 0,
    "type": "",
    "created": 1,
}


def pins_of(content):
    with closing(BackupProvider(io.BytesIO(content), "file")) as provider:
        return [pin.cid for pin in provider.find_pins(PinFilter())]


@pytest.mark.parametrize(
    "change",
    [
        {"cid": 5},
        {"cid": "../../id?x="},
        {"name": ["a"]},
        {"size": "large"},
        {"size": 0.5},
        {"keyvalues": {"a": {"b": 1}}},
        {"keyvalues": [["a", "b"]]},
        {"keyvalues": 5},
        {"type": None},
    ],
    ids=json.dumps,
)
def test_a_list_of_pins_that_nobody_wrote_is_refused(change):
    assert pins_of(with_list(listed(ROW))) == ["bafkqaaa"]
    with pytest.raises(MalformedError, match="file is not a backup"):
        pins_of(with_list(listed({**ROW, **change})))


RAW_CID = CID.of_raw(b"x")
EMPTY_BLOCK = []
EMPTY = build_directory([], UNIXFS_V1_2025, lambda *block: EMPTY_BLOCK.append(block))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(os.urandom(10_000), id="no archive"),
        pytest.param(b"".join(write_car([], [])), id="no root"),
        pytest.param(with_list(b"{}"), id="another kind"),
        pytest.param(with_list(listed(ROW), name=b"pins"), id="another name"),
        pytest.param(with_root([(b"pins.json", EMPTY)], EMPTY_BLOCK), id="a folder"),
        pytest.param(with_list(BEGINNING + b'"pins":[\n'), id="no end"),
        pytest.param(with_list(listed(ROW, [])), id="no row"),
        pytest.param(with_list(BEGINNING + b'"pins":[\n' + b"[" * 900_000), id="deeply nested"),
        pytest.param(with_list(BEGINNING + b'"pins":[\n' + b" " * (3 << 20)), id="a long line"),
        pytest.param(b"".join(write_car([RAW_CID], [(RAW_CID, b"x")])), id="another archive"),
    ],
)
def test_what_is_not_a_backup_is_refused(content):
    with pytest.raises(MalformedError, match="file is not a backup"):
        pins_of(content)


def test_a_list_that_has_a_block_very_many_times_is_refused():
    blocks = []
    block = listed(ROW).ljust(1000)
    blocks.append((CID.of_raw(block), block))
    links = [Link(CID.of_raw(block), b"", 1000)] * 1000
    node = dag_pb.encode(links, data.file_data(1_000_000, [1000] * 1000))
    cid = CID(1, DAG_PB, 0x12, hashlib.sha256(node).digest())
    blocks.append((cid, node))
    content = with_root([(b"pins.json", Part(cid, 1_000_000, 1_000_000))], blocks)
    with pytest.raises(MalformedError, match="file is not a backup"):
        pins_of(content)


def test_a_list_that_is_damaged_is_named(file):
    content = bytearray(file.read_bytes())
    content[content.index(b'"name":"pin 3"') + 8] ^= 1
    with pytest.raises(MalformedError, match="file is damaged: its list of pins cannot be read"):
        pins_of(bytes(content))
    with pytest.raises(MalformedError, match="file is damaged: its list of pins cannot be read"):
        pins_of(bytes(content[:200]))


def test_many_pins_are_linked_in_several_directories(monkeypatch):
    monkeypatch.setattr("holdfast.cli.backup_file.LINKS", 2)
    cids = [str(CID.of_raw(b"%d" % number)) for number in range(5)]
    newest_first = [Pin(id="", cid=cid, size=None) for cid in reversed(cids)]
    out = io.BytesIO()
    with closing(BackupWriter(out, newest_first)) as writer:
        assert [*writer.cids()] == cids
    assert pins_of(out.getvalue()) == cids
    with closing(BackupProvider(io.BytesIO(out.getvalue()), "file")) as provider:
        names = [
            [entry.name for entry in provider.iter_entries(f"{writer.root}{path}")]
            for path in ("", "/0", "/1", "/2")
        ]
    assert names == [
        ["0", "1", "2", "pins.json"],
        *(sorted(cids[n : n + 2]) for n in (0, 2, 4)),
    ]


@pytest.mark.parametrize("size", [-1, 1 << 63, None])
def test_a_size_that_no_content_has_does_not_stop_a_backup(size):
    """A service may say anything."""
    pin = Pin(id="", cid="bafkqaaa", size=size)
    out = io.BytesIO()
    with closing(BackupWriter(out, [pin])) as writer:
        assert [*writer.cids()] == ["bafkqaaa"]
    with closing(BackupProvider(io.BytesIO(out.getvalue()), "file")) as provider:
        assert [*provider.find_pins(PinFilter())] == [pin]


def test_a_list_that_could_not_be_read_again_is_not_written():
    with pytest.raises(UnsupportedError, match="shorten the longest names"):
        BackupWriter(io.BytesIO(), [Pin(id="", cid="bafkqaaa", name="x" * (2 << 20))])


@pytest.mark.slow
def test_a_full_folder_for_temporary_files_is_named(commands, small_disk, tmp_path):
    """The places of many blocks do not fit into memory."""
    path = tmp_path / "file"
    numbers = [b"%d" % number for number in range(60_000)]
    with path.open("wb") as file:
        file.write(with_list(listed()))
        sections = [(CID.of_raw(number), number) for number in numbers]
        file.writelines(islice(write_car([], sections), 1, None))
    (small_disk / "other").write_bytes(bytes((8 << 20) - 100_000))
    commands.environment["SQLITE_TMPDIR"] = str(small_disk)
    result = commands.run("restore", path, "--path", tmp_path / "there")
    assert result.returncode == 1
    assert result.stderr.decode().startswith("error: a temporary file cannot be used (")


@pytest.mark.slow
def test_a_full_disk_leaves_the_older_backup(commands, store, small_disk):
    with Repository(store) as repository:
        repository.add(os.urandom(10 << 20), UNIXFS_V1_2025)
    path = small_disk / "backup"
    path.write_bytes(b"older")
    result = commands.run("backup", path, "--path", store)
    assert result.returncode == 1
    assert "No space left" in result.stderr.decode()
    assert path.read_bytes() == b"older"
    assert list(small_disk.iterdir()) == [path]


@pytest.mark.slow
def test_a_target_whose_disk_is_full_pins_nothing_of_the_file(commands, store, small_disk):
    with Repository(store) as repository:
        large, _ = repository.add(os.urandom(12 << 20), UNIXFS_V1_2025)
    file = store.parent / "file"
    commands.run("backup", file, "--path", store)
    result = commands.run("restore", file, "--path", small_disk / "there")
    assert result.returncode == 1
    assert f"error: {large.cid}: " in result.stderr.decode()
    assert large.cid not in pins(small_disk / "there")
    assert_sound(small_disk / "there")


@pytest.mark.slow
def test_a_restore_that_is_killed_goes_on(commands, tmp_path):
    store = tmp_path / "many"
    with Repository(store) as repository:
        for number in range(300):
            repository.add(b"%d" % number * 80_000, UNIXFS_V1_2025, name=f"{number}")
    file, there = tmp_path / "file", tmp_path / "there"
    commands.run("backup", file, "--path", store)
    for count in (50, 120):
        process = subprocess.Popen(  # noqa: S603
            [HOLDFAST, "restore", file, "--path", there],
            env=commands.environment,
            cwd=commands.folder,
            stdout=subprocess.DEVNULL,
        )
        wait_until(lambda: len(pins_in(there)) >= count)  # noqa: B023
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    before = pins_in(there)
    moved = file.rename(tmp_path / "moved")
    result = commands.run("restore", moved, "--path", there, "--json")
    results = [json.loads(line) for line in result.stdout.splitlines()]
    assert {each["cid"] for each in results if each["duplicate"]} == before
    assert {each["cid"] for each in results} == pins_in(there)
    assert pins(there) == pins(store)
    assert_sound(there)


@pytest.mark.slow
def test_kubo_reads_a_backup(file, store, kubo):
    kubo.import_car(file.read_bytes())
    reader = CarReader()
    reader.update(file.read_bytes())
    (root,) = reader.roots
    kubo.call("pin/add", arg=root)  # it follows all links, and fails if a block is missing
    rows = json.loads(kubo.call("cat", arg=f"{root}/pins.json"))["pins"]
    assert len(rows) == 6
    for row in rows:
        with Client.init(path=store) as client:
            content = client.download(row["cid"]).read()
        assert kubo.call("cat", arg=f"{root}/0/{row['cid']}") == content
        assert row["keyvalues"]["/"] == "slash"
