"""The repository: blocks, pins, archives, garbage and damage."""

import os
import threading
import time
from pathlib import Path

import pytest

from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.errors import (
    ConfigError,
    MalformedError,
    UnprovenError,
    VerificationError,
)
from holdfast.repository import PinQuery, Repository
from holdfast.sources.importing import import_content
from tests.content import DATA, Blocks
from tests.stores import change


@pytest.fixture
def repository(tmp_path):
    with Repository(tmp_path / "store") as repository:
        yield repository


def add(repository, data, profile=UNIXFS_V1_2025, **about):
    with repository.adding() as adding:
        part = import_content(data, profile, adding.put)
        adding.pin(part.cid, size=part.dag_size, **about)
    return part.cid


def block_files(repository):
    folder = repository.path / "blocks"
    return [path for path in folder.rglob("*") if path.is_file()]


def test_small_blocks_are_rows_and_large_ones_files(repository):
    small = add(repository, b"x" * 16_383)
    assert block_files(repository) == []
    large = add(repository, b"y" * 16_384)
    (path,) = block_files(repository)
    assert path.read_bytes() == b"y" * 16_384
    assert b"".join(repository.read(small)) == b"x" * 16_383
    assert b"".join(repository.read(large)) == b"y" * 16_384


@pytest.mark.parametrize("profile", [UNIXFS_V1_2025, UNIXFS_V0_2015], ids=lambda p: p.name)
def test_ranges_and_cids_of_both_versions(repository, profile):
    data = os.urandom(3_000_000)
    cid = add(repository, data, profile)
    assert b"".join(repository.read(cid, 1_000_000, 2_500_000)) == data[1_000_000:2_500_000]
    other = CID(1 - cid.version, cid.codec, cid.hash_code, cid.digest)
    assert b"".join(repository.read(other)) == data
    assert repository.find_pin(other).cid == str(cid)


def test_a_directory_goes_in_and_is_walked(repository, tmp_path):
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.txt").write_bytes(b"hello")
    cid = add(repository, root)
    assert [entry.name for entry in repository.entries(cid)] == ["sub"]
    assert b"".join(repository.read(repository.resolve(cid, ["sub", "a.txt"]))) == b"hello"


def test_pinning_twice_is_one_pin(repository):
    cid = add(repository, b"hello", name="first")
    with repository.adding() as adding:
        pin, duplicate = adding.pin(cid, name="second")
    assert duplicate
    assert pin.name == "first"
    assert repository.totals() == (1, 5)
    assert repository.unpin(cid) is True
    assert repository.unpin(cid) is False
    assert repository.totals() == (0, 0)
    assert [pin.removed is not None for pin in repository.pins(PinQuery(held=None))] == [True]


def test_garbage_is_what_no_pin_reaches(repository):
    kept = os.urandom(2_500_000)
    keep = add(repository, kept)
    drop = add(repository, os.urandom(2_500_000))
    shared = add(repository, kept[: 1 << 20])
    repository.unpin(drop)
    repository.unpin(shared)
    collected = repository.collect_garbage()
    assert collected.blocks == 4
    assert b"".join(repository.read(keep)) == kept
    assert b"".join(repository.read(shared)) == kept[: 1 << 20]
    assert not repository.has(drop)
    assert len(block_files(repository)) == 3
    assert list(repository.check()) == []
    assert repository.collect_garbage().blocks == 0


def test_an_add_under_way_keeps_its_blocks(repository):
    data = os.urandom(20 << 20)
    cid = add(repository, data)
    repository.unpin(cid)
    with repository.adding() as adding:
        importer = FileImporter(UNIXFS_V1_2025, adding.put)
        importer.update(data[: 10 << 20])
        # Half of it stood here before and is garbage but for this add.
        assert repository.collect_garbage().blocks > 0
        importer.update(data[10 << 20 :])
        assert importer.finish().cid == cid
        adding.pin(cid)
    repository.collect_garbage()
    assert b"".join(repository.read(cid)) == data


def test_an_add_that_is_given_up_leaves_garbage(repository):
    with repository.adding() as adding:
        importer = FileImporter(UNIXFS_V1_2025, adding.put)
        importer.update(os.urandom(20 << 20))
    assert block_files(repository)
    repository.collect_garbage()
    assert block_files(repository) == []


def test_adds_and_collections_at_once(tmp_path):  # noqa: C901 - three parties
    """Two writers store and unpin the same few files while a collector runs all the time."""
    contents = [os.urandom(300_000) for _ in range(4)]
    stop = threading.Event()
    failures = []

    def write(number):
        with Repository(tmp_path) as repository:
            try:
                for turn in range(60):
                    data = contents[(turn + number) % len(contents)] + bytes([turn % 3])
                    cid = add(repository, data)
                    if b"".join(repository.read(cid)) != data:
                        failures.append("other bytes")
                    if turn % 2:
                        repository.unpin(cid)
            except (UnprovenError, VerificationError):
                # The other writer unpinned it in between, and it was collected: that is allowed.
                pass
            except Exception as error:  # noqa: BLE001
                failures.append(error)

    def collect():
        with Repository(tmp_path) as repository:
            while not stop.is_set():
                repository.collect_garbage()

    collector = threading.Thread(target=collect)
    collector.start()
    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    stop.set()
    collector.join()
    assert failures == []
    with Repository(tmp_path) as repository:
        assert list(repository.check()) == []
        for pin in repository.pins():
            b"".join(repository.read(CID.parse(pin.cid)))


def test_check_names_what_is_damaged_or_gone(repository):
    damaged, gone, linked, sound = (add(repository, bytes([n]) * 40_000) for n in range(4))
    small = add(repository, b"small")
    assert list(repository.check()) == []
    repository._files.path(bytes(damaged)).write_bytes(b"x")
    repository._files.path(bytes(gone)).unlink()
    change(repository.path, "UPDATE blocks SET data = x'00' WHERE data IS NOT NULL")
    change(repository.path, "INSERT INTO links SELECT id, key FROM blocks WHERE id = 3")
    found = {CID.parse(damage.cid): damage.what for damage in repository.check()}
    assert set(found) == {damaged, gone, linked, small}
    assert found[damaged].startswith("it is damaged")
    assert found[small].startswith("it is damaged")
    assert found[gone] == "its file is gone"
    assert found[linked] == "the database has other links for it than the block"
    for cid in (damaged, small):
        with pytest.raises(VerificationError):
            repository.block(cid)
    with pytest.raises(UnprovenError):
        repository.block(gone)
    assert repository.block(sound) == bytes([3]) * 40_000


def test_pinning_what_is_here_needs_all_of_it(repository):
    cid = add(repository, os.urandom(3_000_000))
    repository.unpin(cid)
    pin, duplicate = repository.pin(cid, name="again")
    assert (pin.name, duplicate) == ("again", False)
    assert pin.size > 3_000_000
    with pytest.raises(UnprovenError):
        repository.pin(CID.of_raw(b"not here"))


def test_archives_go_in_and_out(repository):
    for name in ("dir-with-files.car", "symlink.car", "subdir-with-mixed-block-files.car"):
        archive = (DATA / name).read_bytes()
        (pin,) = repository.import_car([archive[:100], archive[100:]], name=name)
        root, blocks = Blocks.of_car(name)
        assert pin.cid == str(root)
        assert pin.size == sum(map(len, blocks.values()))
        exported = b"".join(repository.export_car(root))
        assert sorted(exported) == sorted(archive)
    with pytest.raises(UnprovenError, match="missing"):
        repository.import_car([(DATA / "file-3k-and-3-blocks-missing-block.car").read_bytes()])
    with pytest.raises(MalformedError):
        repository.import_car([b"nonsense"])
    assert repository.totals().pins == 3


def test_queries(repository):
    cids = [add(repository, str(n).encode() * n, name=f"File-{n}") for n in range(1, 11)]
    assert [pin.name for pin in repository.pins(PinQuery(limit=2, offset=1))] == [
        "File-9",
        "File-8",
    ]
    assert repository.count_pins(PinQuery(name_contains="file-1")) == 2
    assert repository.count_pins(PinQuery(cid=str(cids[0]))) == 1
    assert repository.count_pins(PinQuery(size_min=3, size_max=5)) == 3
    repository.unpin(cids[0])
    assert repository.count_pins(PinQuery(held=False)) == 1
    assert repository.count_pins(PinQuery(held=None)) == 10
    repository.update_pin(cids[1], name="renamed", change=lambda _: {"a": 1})
    assert repository.find_pin(cids[1]).keyvalues == {"a": 1}
    query = PinQuery(matches=lambda values: values.get("a") == 1)
    assert [pin.name for pin in repository.pins(query)] == ["renamed"]
    assert repository.count_pins(query) == 1
    assert repository.update_pin(CID.of_raw(b"no"), name="x") is None


def test_leftovers_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path):
    with Repository(tmp_path):
        (living,) = (path.name for path in (tmp_path / "owners").iterdir())
        temporary = tmp_path / "blocks" / "tmp"
        old, young, stranger = f"{'d' * 32}-{'0' * 16}", f"{'d' * 32}-{'1' * 16}", "notes.txt"
        used = f"{living}-{'2' * 16}"
        for name in (old, young, used, stranger):
            (temporary / name).write_bytes(b"x")
            if name != young:
                os.utime(temporary / name, (time.time() - 10**6,) * 2)
        Repository(tmp_path).close()
        assert {path.name for path in temporary.iterdir()} == {used, young, stranger}


def test_a_store_may_have_any_name_and_the_current_folder_may_change(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Repository("a?b#c%20 d&mode=ro") as repository:
        add(repository, b"before")
        monkeypatch.chdir("/")
        add(repository, bytes(20_000))
        assert repository.collect_garbage().blocks == 0
        assert list(repository.check()) == []
        store_id = repository.id
    (store,) = tmp_path.iterdir()
    assert store.name == "a?b#c%20 d&mode=ro"
    assert store_id == (store / "holdfast.id").read_text().strip()


def test_the_folder_may_be_given_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with Repository("~/here") as repository:
        assert repository.path == Path(tmp_path, "here")


def test_adding_again_heals_what_was_lost_or_damaged(repository):
    large, small = os.urandom(50_000), b"small"
    cids = [add(repository, large), add(repository, small)]
    (path,) = block_files(repository)
    for harm in (path.unlink, lambda: path.write_bytes(b"x" * 50_000)):
        harm()
        change(repository.path, "UPDATE blocks SET data = x'00' WHERE data IS NOT NULL")
        assert len(list(repository.check())) == 2
        assert [add(repository, large), add(repository, small)] == cids
        assert list(repository.check()) == []
        assert b"".join(repository.read(cids[0])) == large


def test_what_has_links_that_we_cannot_read_is_not_pinned(repository):
    leaf = b"x" * 20_000
    cbor = b"\xa1aa\xd8*X%\x00" + bytes(CID.of_raw(leaf))
    root = CID(1, 0x71, 0x12, CID.of_raw(cbor).digest)
    archive = b"".join(write_car([root], [(root, cbor), (CID.of_raw(leaf), leaf)]))
    with pytest.raises(UnprovenError, match="no UnixFS"):
        repository.import_car([archive])
    assert repository.totals().pins == 0


def test_a_dag_pb_block_that_cannot_be_read_is_not_taken_in(repository):
    block = b"\xff\xff"
    cid = CID(1, 0x70, 0x12, CID.of_raw(block).digest)
    with pytest.raises(MalformedError):
        repository.import_car(write_car([cid], [(cid, block)]))


def test_an_archive_is_pinned_whole_or_not_at_all(repository):
    here, missing = CID.of_raw(b"here"), CID.of_raw(b"missing")
    archive = b"".join(write_car([here, missing], [(here, b"here")]))
    with pytest.raises(UnprovenError):
        repository.import_car([archive])
    assert repository.totals().pins == 0


def test_stray_files_do_not_stop_a_collection(repository):
    repository.unpin(add(repository, os.urandom(50_000)))
    stray = block_files(repository)[0].parent / ".DS_Store"
    stray.write_bytes(b"x")
    assert repository.collect_garbage().blocks == 1
    assert block_files(repository) == [stray]


def test_what_is_no_repository_is_a_config_error(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "holdfast.sqlite3").write_bytes(b"not a database" * 100)
    (tmp_path / "b" / "holdfast.sqlite3").mkdir(parents=True)
    for name in ("a", "b"):
        with pytest.raises(ConfigError, match="holds no sound repository"):
            Repository(tmp_path / name)


def test_both_versions_of_a_cid_are_one_pin_and_each_is_answered_in_its_own(repository):
    cid = add(repository, b"hello", UNIXFS_V0_2015)
    as_v1 = CID(1, cid.codec, cid.hash_code, cid.digest)
    pin, duplicate = repository.pin(as_v1)
    assert duplicate
    assert pin.cid == str(as_v1)
