"""The commands `backup` and `restore`: all pins as one file."""

import gc
import io
import json
import os
import random
import signal
import subprocess
from contextlib import closing
from itertools import islice

import pytest

from holdfast import Client
from holdfast.cli import copying, output
from holdfast.cli.backup_file import BEGINNING, BackupProvider, BackupWriter
from holdfast.content.car import CarReader, write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import Part
from holdfast.errors import MalformedError, UnsupportedError
from holdfast.records import Pin, PinFilter
from holdfast.repository import Repository
from holdfast.sources.importing import import_content
from tests.commands import HOLDFAST, Commands, node_variables
from tests.dags import Dag
from tests.gateways import ODD_LAYOUT
from tests.stores import pins_in
from tests.support import closed_port_url, wait_until
from tests.value_dags import ValueDag


@pytest.fixture
def commands(tmp_path):
    return Commands(tmp_path / "commands")


def fill(folder, count=6):
    """Make a store with files in two layouts, which share blocks, and a document."""
    with Repository(folder) as repository:
        for number in range(count):
            content = b"%d" % (number // 2) * (number * 50_000 + 10)
            layout = ODD_LAYOUT if number % 2 else UNIXFS_V1_2025
            keyvalues = {"number": number, "/": "slash"}
            repository.add(content, layout, name=f"pin {number}", keyvalues=keyvalues)
    return folder


def pins(folder):
    with Client.init(path=folder) as client:
        return {pin.cid: (pin.name, dict(pin.keyvalues)) for pin in client.iter_pins()}


def assert_sound(folder):
    with Repository(folder) as repository:
        assert list(repository.check()) == []


def remove_file(store, size):
    """Remove the file of the block of so many bytes."""
    (path,) = [path for path in store.glob("blocks/*/*") if path.stat().st_size == size]
    path.unlink()


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
    target = tmp_path / "target"
    result = commands.run("restore", file, "--path", target)
    assert result.returncode == 0
    lines = result.stdout.decode().splitlines()
    expected = pins(store)
    assert {tuple(line.split(maxsplit=2)) for line in lines} == {
        ("copied", cid, name) for cid, (name, _) in expected.items()
    }
    assert result.stderr.decode() == "restored: 6 pins\n"
    assert pins(target) == expected
    assert_sound(target)
    again = commands.run("restore", file, "--path", target, "--json")
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
    result = commands.run("restore", "-", "--path", tmp_path / "target", stdin=written.stdout)
    assert result.returncode == 0
    assert pins(tmp_path / "target") == pins(store)


def test_values_of_other_codecs_are_backed_up_with_all_below_them(commands, tmp_path):
    dag = ValueDag()
    with Repository(tmp_path / "source") as repository:
        for root in dag.roots.values():
            repository.import_car([dag.archive(root)])
    for command, store in (("backup", "source"), ("restore", "target")):
        words = (command, tmp_path / "file", "--path", tmp_path / store)
        assert commands.run(*words).returncode == 0
    assert pins(tmp_path / "target") == pins(tmp_path / "source")
    assert_sound(tmp_path / "target")
    with Repository(tmp_path / "target") as repository:
        assert all(repository.has(cid) for cid in dag)


def test_another_provider_can_be_backed_up_and_restored(commands, tmp_path, node):
    for pin in node.repository.pins():
        node.repository.unpin(CID.parse(pin.cid))
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(node.token)
    gateway = ["--gateway-url", node.config.gateway_url[0]]
    service = ["--provider", "pinning", "--pin-api-url", node.config.pin_api_url]
    service += ["--token-file", token]
    with Client.init(node.config) as client:
        cid = client.store({"a": 1}, name="doc", keyvalues={"k": 1}).cid
    result = commands.run("backup", tmp_path / "file", *service, *gateway, "--json")
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
    result = commands.run("restore", file, "--path", tmp_path / "target")
    assert result.returncode == 13
    errors = result.stderr.decode()
    restored, expected = pins(tmp_path / "target"), pins(store)
    assert 0 < len(restored) < len(expected)
    assert restored.items() <= expected.items()
    missing = {cid for cid in expected if f"error: {cid}: block " in errors}
    missing |= {cid for cid in expected if f"error: block {cid} is missing" in errors}
    assert missing == set(expected) - set(restored)
    count = output.count_text(len(restored), "pin")
    assert f"restored: {count}; failed: {len(missing)}\n" in errors
    assert errors.splitlines()[-1].endswith(": it is cut off")
    assert_sound(tmp_path / "target")


@pytest.mark.slow
def test_whatever_is_damaged_nothing_wrong_is_restored(commands, store, file, tmp_path):
    data, expected = file.read_bytes(), pins(store)
    choose = random.Random(7)  # noqa: S311
    for number in range(40):
        place = choose.randrange(len(data) if number > 20 else 2_000)
        changed = bytearray(data)
        changed[place] ^= 1 << choose.randrange(8)
        file.write_bytes(changed)
        target = tmp_path / f"target-{number}"
        result = commands.run("restore", file, "--path", target)
        restored = pins(target)
        assert restored.items() <= expected.items()
        assert_sound(target)
        assert (result.returncode != 0) == (restored != expected), result.stderr


def test_what_failed_holds_nothing_of_what_was_read(tmp_path):
    with Client.init(path=tmp_path / "store") as client:
        client.upload(b"lost" * 50_000)
        remove_file(tmp_path / "store", 200_000)
        with closing(BackupWriter(io.BytesIO(), client.iter_pins())) as writer:
            done, failures = copying._write_content(client, writer, None)
            gc.collect()
            assert not any(isinstance(thing, CarReader) for thing in gc.get_objects())
    assert (done, [failure["exitCode"] for _, failure in failures]) == (0, [10])


def test_an_incomplete_backup_names_what_it_lacks_and_replaces_no_other(
    commands, store, file, tmp_path
):
    before, expected = file.read_bytes(), pins(store)
    remove_file(store, 100_010)
    result = commands.run("backup", file, "--force", "--path", store)
    assert (result.returncode, result.stdout.decode()) == (10, f"{file}.incomplete\n")
    errors = result.stderr.decode()
    (lost,) = [cid for cid in expected if f"error: {cid} is not in this store" in errors]
    assert errors.splitlines()[-1].endswith("not in it: 1")
    assert file.read_bytes() == before
    result = commands.run("restore", f"{file}.incomplete", "--path", tmp_path / "target")
    assert result.returncode == 13
    del expected[lost]
    assert pins(tmp_path / "target") == expected


def test_a_first_backup_that_is_incomplete_does_not_get_the_name(commands, tmp_path, empty_node):
    file = tmp_path / "new.car"
    variables = node_variables(empty_node) | {"HOLDFAST_GATEWAY_URL": closed_port_url()}
    commands.text("store", "1", **variables)
    result = commands.run("backup", file, **variables)
    assert (result.returncode, result.stdout.decode()) == (6, f"{file}.incomplete\n")
    assert not file.exists()


def test_a_store_that_is_missing_does_not_replace_a_backup(commands, file, tmp_path):
    """Its path may be misspelled, or its disk not mounted."""
    before = file.read_bytes()
    code, lines = commands.failure("backup", file, "--force", "--path", tmp_path / "stoer")
    assert (code, lines[0]) == (3, f"error: there is no store in {tmp_path / 'stoer'}")
    assert file.read_bytes() == before
    # Nor is a file restored that is not a backup.
    file.write_bytes(with_list(b"{}"))
    code, lines = commands.failure("restore", file, "--path", tmp_path / "stoer")
    assert (code, lines[0].startswith(f"error: {file} is not a backup")) == (14, True)
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


ROW = {"cid": "bafkqaaa", "keyvalues": {}, "name": "", "size": 0, "files": 0, "type": ""}
ROW["created"] = 1


def pins_of(content):
    with closing(BackupProvider(io.BytesIO(content), "file")) as provider:
        return [pin.cid for pin in provider.find_pins(PinFilter())]


@pytest.mark.parametrize(
    "change",
    [
        *({"cid": 5}, {"cid": "../../id?x="}, {"name": ["a"]}, {"size": 0.5}, {"type": None}),
        *({"keyvalues": {"a": {"b": 1}}}, {"keyvalues": [["a", "b"]]}),
    ],
    ids=json.dumps,
)
def test_a_list_of_pins_that_nobody_wrote_is_refused(change):
    assert pins_of(with_list(listed(ROW))) == ["bafkqaaa"]
    with pytest.raises(MalformedError, match="file is not a backup"):
        pins_of(with_list(listed({**ROW, **change})))


def repeated_list():
    """A file whose list has one block very many times."""
    dag = Dag()
    cid, size = dag.repeated(dag.raw(listed(ROW).ljust(1000)), 1000, 1000)
    return with_root([(b"pins.json", Part(cid, size, size))], [*dag.blocks.items()])


EMPTY = []
FOLDER = build_directory([], UNIXFS_V1_2025, lambda *block: EMPTY.append(block))
NO_BACKUPS = {
    "empty": b"",
    "no archive": os.urandom(10_000),
    "no root": b"".join(write_car([], [])),
    "another kind": with_list(b"{}"),
    "another name": with_list(listed(ROW), name=b"pins"),
    "a folder": with_root([(b"pins.json", FOLDER)], EMPTY),
    "no end": with_list(BEGINNING + b'"pins":[\n'),
    "no row": with_list(listed(ROW, [])),
    "deeply nested": with_list(BEGINNING + b'"pins":[\n' + b"[" * 900_000),
    "a long line": with_list(BEGINNING + b'"pins":[\n' + b" " * (3 << 20)),
    "another archive": b"".join(write_car([CID.of_raw(b"x")], [(CID.of_raw(b"x"), b"x")])),
    "a block very many times": repeated_list(),
}


@pytest.mark.parametrize("content", NO_BACKUPS.values(), ids=NO_BACKUPS)
def test_what_is_not_a_backup_is_refused(content):
    with pytest.raises(MalformedError, match="file is not a backup"):
        pins_of(content)


def test_a_list_that_is_damaged_is_named(file):
    content = bytearray(file.read_bytes())
    content[content.index(b'"name":"pin 3"') + 8] ^= 1
    for damaged in (content, content[:200]):
        with pytest.raises(MalformedError, match="file is damaged: its list of pins cannot be"):
            pins_of(bytes(damaged))


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
    result = commands.run("restore", path, "--path", tmp_path / "target")
    assert result.returncode == 1
    assert result.stderr.decode().startswith("error: a temporary file cannot be used (")


@pytest.mark.slow
def test_a_full_disk_leaves_the_older_backup(commands, store, small_disk):
    with Repository(store) as repository:
        repository.add(os.urandom(10 << 20), UNIXFS_V1_2025)
    path = small_disk / "backup"
    path.write_bytes(b"older")
    result = commands.run("backup", path, "--force", "--path", store)
    assert result.returncode == 1
    assert "No space left" in result.stderr.decode()
    assert path.read_bytes() == b"older"
    assert list(small_disk.iterdir()) == [path]


@pytest.mark.slow
def test_a_restore_that_is_killed_goes_on(commands, tmp_path):
    store = tmp_path / "many"
    with Repository(store) as repository:
        for number in range(300):
            repository.add(b"%d" % number * 80_000, UNIXFS_V1_2025, name=f"{number}")
    file, target = tmp_path / "file", tmp_path / "target"
    commands.run("backup", file, "--path", store)
    for count in (50, 120):
        command = [HOLDFAST, "restore", file, "--path", target]
        place = {"env": commands.environment, "cwd": commands.folder}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, **place)  # noqa: S603
        wait_until(lambda: len(pins_in(target)) >= count)  # noqa: B023
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    before = pins_in(target)
    moved = file.rename(tmp_path / "moved")
    result = commands.run("restore", moved, "--path", target, "--json")
    results = [json.loads(line) for line in result.stdout.splitlines()]
    assert {row["cid"] for row in results if row["duplicate"]} == before
    assert {row["cid"] for row in results} == pins_in(target)
    assert pins(target) == pins(store)
    assert_sound(target)


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
