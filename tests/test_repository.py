"""The repository: blocks, pins, archives, garbage and damage."""

import hashlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from holdfast.content.car import write_car
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.errors import (
    MalformedError,
    UnprovenError,
    VerificationError,
)
from holdfast.repository import PinQuery, Repository, adding, dags
from tests.content import Blocks
from tests.dags import Dag
from tests.programs import start_program
from tests.stores import change


@pytest.fixture
def repository(tmp_path):
    with Repository(tmp_path / "store") as repository:
        yield repository


def add(repository, data, profile=UNIXFS_V1_2025, **fields):
    pin, _ = repository.add(data, profile, **fields)
    return CID.parse(pin.cid)


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
    pin, duplicate = repository.pin(other)
    assert (pin.cid, duplicate) == (str(other), True)


def test_garbage_is_what_no_pin_reaches(repository):
    data = os.urandom(2_500_000)
    keep = add(repository, data)
    drop = add(repository, os.urandom(2_500_000))
    shared = add(repository, data[: 1 << 20])
    repository.unpin(drop)
    repository.unpin(shared)
    collected = repository.collect_garbage()
    assert collected.blocks == 4
    assert b"".join(repository.read(keep)) == data
    assert b"".join(repository.read(shared)) == data[: 1 << 20]
    assert not repository.has(drop)
    assert len(block_files(repository)) == 3
    assert list(repository.check()) == []
    assert repository.collect_garbage().blocks == 0


def test_only_the_change_that_says_so_is_not_synchronised(repository):
    def level(connection):
        return connection.execute("PRAGMA synchronous").fetchone()

    cid = add(repository, b"hello")
    assert repository._database.freeing(level, sync=False) == (1,)
    assert repository.unpin(cid, sync=False)
    assert repository.pins() == []
    assert repository._database.freeing(level) == (2,)
    with repository._database.writing() as connection:
        assert level(connection) == (2,)


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


@pytest.mark.slow
def test_adds_and_collections_at_once(tmp_path):
    """Two writers store and unpin the same few files while a collector runs all the time."""
    contents = [os.urandom(300_000) for _ in range(4)]
    stop = threading.Event()

    def write(number):
        # Where the other writer has unpinned it in between, it may be collected.
        with Repository(tmp_path) as repository, suppress(UnprovenError, VerificationError):
            for turn in range(60):
                data = contents[(turn + number) % len(contents)] + bytes([turn % 3])
                cid = add(repository, data)
                assert b"".join(repository.read(cid)) == data
                if turn % 2:
                    repository.unpin(cid)

    def collect():
        with Repository(tmp_path) as repository:
            while not stop.is_set():
                repository.collect_garbage()

    with ThreadPoolExecutor() as pool:
        collector = pool.submit(collect)
        try:
            list(pool.map(write, range(2)))
        finally:
            stop.set()
        collector.result()
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
    damage = {CID.parse(cid): what.partition(":")[0] for cid, what in repository.check()}
    assert damage == {
        damaged: "it is damaged",
        gone: "its file is gone",
        linked: "its links in the database differ from those in the block",
        small: "it is damaged",
    }
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
    assert repository.count_pins(PinQuery(pinned=False)) == 1
    assert repository.count_pins(PinQuery(pinned=None)) == 10
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
    monkeypatch.setenv("HOME", str(tmp_path))
    with Repository("~/here") as repository:
        assert repository.path == tmp_path / "here"


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


# Archives that cannot be pinned leave nothing behind, and take nothing from others

CONTENT = hashlib.shake_128(b"tree").digest(2_000_000)
ROOT, BLOCKS = Blocks.of_file(CONTENT, UNIXFS_V0_2015)
ARCHIVE = b"".join(write_car([ROOT], BLOCKS.items()))
SHA1 = CID(1, RAW, 0x11, hashlib.sha1(b"hello", usedforsecurity=False).digest())
UNSUPPORTED = (SHA1, b"hello")


def stored(repository):
    """The rows and the files of blocks in a store."""
    with repository._database.reading() as connection:
        rows = connection.execute("SELECT count(*) FROM blocks").fetchone()[0]
    folder = repository.path / "blocks"
    files = [path for path in folder.rglob("*") if path.is_file() and len(path.name) > 60]
    temporary = [path for path in (folder / "tmp").iterdir() if path.is_file()]
    return rows, len(files), len(temporary)


@pytest.fixture
def small_batches(monkeypatch):
    """So that blocks of a small archive are entered before its end."""
    monkeypatch.setattr(adding, "BATCH_BYTES", 300_000)


def test_a_block_under_an_unsupported_hash_does_not_spoil_an_archive(tmp_path):
    with Repository(tmp_path) as repository:
        blocks = [UNSUPPORTED, *BLOCKS.items(), UNSUPPORTED]
        (pin,) = repository.import_car(write_car([ROOT], blocks))
        assert pin.cid == str(ROOT)
        assert b"".join(repository.read(ROOT)) == CONTENT
        assert not repository.has(SHA1)
        assert stored(repository)[0] == len(BLOCKS)


def test_a_root_that_needs_such_a_block_names_it_and_leaves_nothing(tmp_path):
    dag = Dag()
    root = dag.inner((dag.raw(bytes(20_000)), 20_000), (SHA1, 5))
    with Repository(tmp_path) as repository:
        for roots in ([root], [SHA1]):
            with pytest.raises(UnprovenError, match="hash function") as caught:
                repository.import_car(write_car(roots, [*dag.blocks.items(), UNSUPPORTED]))
            assert caught.value.cid == str(SHA1)
            assert str(SHA1) in str(caught.value)
            assert stored(repository) == (0, 0, 0)


def car(roots, blocks):
    return b"".join(write_car(roots, blocks))


def broken_archives():
    blocks, missing = [*BLOCKS.items()], CID.of_raw(b"no")
    first, *_, second = (pair for pair in blocks if len(pair[1]) > 100_000)
    dag = Dag()
    cbor = dag.put(0x71, b"\xa1aa\xd8*X%\x00" + bytes(first[0]))  # with a link
    broken = dag.put(DAG_PB, b"\xff\xff")

    return {
        "cut off": ARCHIVE[:-1],
        "cut off early": ARCHIVE[:1_200_000],
        "a wrong block at the end": car([ROOT], [*blocks, (first[0], second[1])]),
        "garbage at the end": ARCHIVE + b"\x05garbage",
        "a missing leaf": car([ROOT], blocks[1:]),
        "a missing root": car([missing], blocks),
        "one root of two is missing": car([ROOT, missing], blocks),
        "no root": car([], blocks),
        "links that we cannot read": car([cbor], [*dag.blocks.items(), *blocks]),
        "a block that cannot be read": car([broken], dag.blocks.items()),
        "no archive": b"nonsense",
    }


@pytest.mark.usefixtures("small_batches")
def test_an_archive_that_cannot_be_pinned_leaves_no_blocks(tmp_path):
    with Repository(tmp_path) as repository:
        for name, archive in broken_archives().items():
            with pytest.raises((VerificationError, MalformedError)):
                repository.import_car(
                    archive[at : at + 65536] for at in range(0, len(archive), 65536)
                )
            assert stored(repository) == (0, 0, 0), name
        assert repository.totals().pins == 0


@pytest.mark.usefixtures("small_batches")
def test_the_blocks_of_an_archive_stay_without_a_pin_until_garbage_is_collected(tmp_path):
    with Repository(tmp_path) as repository:
        for name in ("cut off", "a wrong block at the end", "no archive"):
            with pytest.raises(
                MalformedError if name != "a wrong block at the end" else VerificationError
            ):
                repository.import_blocks([broken_archives()[name]])
            assert stored(repository) == (0, 0, 0), name
        assert repository.import_blocks([broken_archives()["no root"]]) == []
        assert repository.import_blocks([broken_archives()["a missing leaf"]]) == [ROOT]
        assert (repository.has(ROOT), repository.pins()) == (True, [])
        assert b"".join(repository.read(ROOT)) == CONTENT  # the archive without a root had the leaf
        assert list(repository.check()) == []
        assert repository.collect_garbage().blocks == len(BLOCKS)
        assert stored(repository) == (0, 0, 0)


@pytest.mark.usefixtures("small_batches")
def test_what_others_need_survives_an_archive_that_cannot_be_pinned(tmp_path):
    archive = broken_archives()["one root of two is missing"]
    with Repository(tmp_path) as repository, Repository(tmp_path) as other:
        # Unpinned before, and not collected yet: not of this archive, so it stays.
        before, _ = repository.add(b"before" * 5000, UNIXFS_V1_2025, name="")
        repository.unpin(CID.parse(before.cid))

        def pieces():
            yield archive[:1_200_000]
            # Another process pins the same content meanwhile, from blocks that are here by now.
            other.import_car([ARCHIVE])
            yield archive[1_200_000:]

        with pytest.raises(UnprovenError):
            repository.import_car(pieces())
        assert b"".join(repository.read(ROOT)) == CONTENT
        assert list(repository.check()) == []
        assert repository.has(CID.parse(before.cid))
        repository.collect_garbage()
        assert b"".join(other.read(ROOT)) == CONTENT


@pytest.mark.usefixtures("small_batches")
def test_an_interrupt_between_the_names_of_files_and_their_rows_leaves_no_files(
    repository, monkeypatch
):
    pinned = os.urandom(20_000)
    add(repository, pinned)
    (pinned_file,) = block_files(repository)

    def interrupt(*_):
        raise KeyboardInterrupt  # the files have their names, and the transaction is rolled back

    with repository.adding() as adding:
        for data in (pinned, os.urandom(20_000), os.urandom(30_000)):
            adding.put(CID.of_raw(data), data)
        with monkeypatch.context() as patch:
            patch.setattr(adding.files, "_sync", interrupt)
            with pytest.raises(KeyboardInterrupt):
                adding.flush()
        assert len(block_files(repository)) == 3
    assert block_files(repository) == [pinned_file]
    assert list(repository.check()) == []


def test_an_interrupted_archive_leaves_no_blocks(tmp_path):
    def pieces():
        yield ARCHIVE[:1_200_000]
        raise KeyboardInterrupt

    with Repository(tmp_path) as repository:
        with pytest.raises(KeyboardInterrupt):
            repository.import_car(pieces())
        assert stored(repository) == (0, 0, 0)


KILLED = """
import sys
from holdfast.repository import Repository, adding
adding.BATCH_BYTES = 300_000
repository = Repository(sys.argv[1])
def pieces():
    with open(sys.argv[2], "rb") as file:
        yield file.read(1_200_000)
    print("half", flush=True)
    sys.stdin.read()
repository.import_car(pieces())
"""


def test_a_killed_archive_is_collected(tmp_path):
    (tmp_path / "car").write_bytes(ARCHIVE[:-1])
    with start_program(KILLED, tmp_path / "store", tmp_path / "car") as process:
        assert process.stdout.readline() == "half\n"
        process.kill()
    with Repository(tmp_path / "store") as repository:
        assert stored(repository)[0] > 0
        repository.collect_garbage()
        assert stored(repository)[:2] == (0, 0)


def test_roots_that_share_their_blocks_are_counted_within_a_limit(tmp_path, monkeypatch):
    dag = Dag()
    roots = [dag.raw(b"leaf")]
    for _ in range(25):
        roots.append(dag.inner((roots[-1], 4)))
    archive = [car(roots, dag.blocks.items())]
    monkeypatch.setattr(dags, "MAX_REPEATED", 100)
    with Repository(tmp_path) as repository:
        with pytest.raises(MalformedError, match="26 roots share too many blocks"):
            repository.import_car(archive)
        assert stored(repository) == (0, 0, 0)
        assert repository.totals().pins == 0
        monkeypatch.undo()
        assert len(repository.import_car(archive)) == 26


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.usefixtures("small_batches")
def test_a_forked_child_discards_nothing_of_its_parents_import(tmp_path):

    def pieces():
        yield ARCHIVE[:1_200_000]
        child = os.fork()
        if child == 0:
            raise KeyboardInterrupt
        os.waitpid(child, 0)
        yield ARCHIVE[1_200_000:]

    with Repository(tmp_path) as repository:
        parent = os.getpid()
        try:
            repository.import_car(pieces())
        finally:
            if os.getpid() != parent:
                os._exit(0)
        assert b"".join(repository.read(ROOT)) == CONTENT
        assert list(repository.check()) == []
