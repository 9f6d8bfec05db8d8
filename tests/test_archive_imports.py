"""Archives that cannot be pinned leave nothing behind, and take nothing from others."""

import hashlib
import os

import pytest

from holdfast.content.car import write_car
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.errors import MalformedError, UnprovenError, VerificationError
from holdfast.repository import Repository, adding, dags
from tests.content import Blocks
from tests.dags import Dag
from tests.programs import start_program

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
