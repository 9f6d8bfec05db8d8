"""Other hash functions than SHA-256, and archives that cannot be pinned (number 18)."""

import hashlib
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from holdfast import verify
from holdfast.content import varint
from holdfast.content.blocks import check_block
from holdfast.content.car import CarReader, write_car
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.hashes import FUNCTIONS, SHA2_256
from holdfast.content.profiles import CANDIDATES, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.content.unixfs.layouts import LayoutProof, WriteCheck
from holdfast.errors import InvalidCIDError, MalformedError, UnprovenError, VerificationError
from holdfast.repository import Repository, adding, dags
from holdfast.sources.importing import import_content
from tests.bombs import Dag
from tests.commands import Commands
from tests.content import Blocks

# The codes of the multicodec table, and Python's own functions.
HASHES = {
    "sha2-512": (0x13, lambda data: hashlib.sha512(data).digest()),
    "sha3-512": (0x14, lambda data: hashlib.sha3_512(data).digest()),
    "sha3-384": (0x15, lambda data: hashlib.sha3_384(data).digest()),
    "sha3-256": (0x16, lambda data: hashlib.sha3_256(data).digest()),
    "sha3-224": (0x17, lambda data: hashlib.sha3_224(data).digest()),
    "blake2b-256": (0xB220, lambda data: hashlib.blake2b(data, digest_size=32).digest()),
    "blake2s-256": (0xB260, lambda data: hashlib.blake2s(data, digest_size=32).digest()),
}
each_hash = pytest.mark.parametrize(("code", "digest"), HASHES.values(), ids=HASHES)

CONTENT = b"hello"
SHA1 = CID(1, RAW, 0x11, hashlib.sha1(CONTENT, usedforsecurity=False).digest())
MD5 = CID(1, RAW, 0xD5, hashlib.md5(CONTENT, usedforsecurity=False).digest())
BLAKE3 = CID(1, RAW, 0x1E, bytes(32))
REFUSED = pytest.mark.parametrize("refused", [SHA1, MD5, BLAKE3], ids=["sha1", "md5", "blake3"])


@pytest.fixture
def tmp_path(memory_folder):
    return memory_folder


def raw_bytes(code, digest):
    """The bytes of a CIDv1 of a raw block, made by hand."""
    return b"\x01\x55" + varint.encode(code) + varint.encode(len(digest)) + digest


def tree(code, size=600_000, profile=UNIXFS_V0_2015):
    """A file in several blocks under one hash function."""
    content = hashlib.shake_128(b"tree").digest(size)
    return (*Blocks.of_file(content, profile.with_hash(code)), content)


def stored(repository):
    """The rows and the files of blocks in a store."""
    with repository._database.reading() as connection:
        rows = connection.execute("SELECT count(*) FROM blocks").fetchone()[0]
    folder = repository.path / "blocks"
    files = [path for path in folder.rglob("*") if path.is_file() and len(path.name) > 60]
    temporary = [path for path in (folder / "tmp").iterdir() if path.is_file()]
    return rows, len(files), len(temporary)


def test_the_table_has_the_codes_and_lengths_of_the_multicodec_table():
    known = {name: (code, len(digest(b""))) for name, (code, digest) in HASHES.items()}
    assert {
        each.name: (code, each.size) for code, each in FUNCTIONS.items() if code != SHA2_256
    } == known


@each_hash
def test_a_block_is_verified_by_its_hash_function(code, digest):
    cid = CID.from_bytes(raw_bytes(code, digest(CONTENT)))
    assert CID.parse(str(cid)) == cid
    check_block(cid, CONTENT)
    assert verify(CONTENT, str(cid))
    for wrong in (b"hellO", b"", CONTENT + b"\0"):
        with pytest.raises(VerificationError):
            check_block(cid, wrong)
        with pytest.raises(VerificationError):
            verify(wrong, str(cid))


@each_hash
def test_a_digest_that_is_not_of_full_length_is_refused(code, digest):
    whole = digest(CONTENT)
    for cut in (whole[:-1], whole[:20], b"", whole + b"\0"):
        data = raw_bytes(code, cut)
        with pytest.raises(ValueError, match="length"):
            CID.from_bytes(data)
        with pytest.raises(InvalidCIDError):
            verify(CONTENT, str(CID(1, RAW, code, cut)))
        reader = CarReader()
        section = varint.encode(len(data) + 5) + data + CONTENT
        with pytest.raises(MalformedError):
            reader.update(b"".join(write_car([], [])) + section)


@each_hash
def test_a_file_is_verified_by_its_blocks_and_by_its_layout(code, digest, tmp_path):
    for profile in CANDIDATES:
        cid, blocks, content = tree(code, 1_200_000, profile)
        for each, block in blocks.items():
            assert each.digest == digest(block)
        assert blocks.read(cid) == content
        proof = LayoutProof(cid)
        proof.update(content)
        proof.finish()
        assert verify(content, str(cid))
    path = tmp_path / "file"
    path.write_bytes(content)
    assert verify(path, str(cid))
    with pytest.raises(UnprovenError, match="no known layout"):
        verify(content + b"x", str(cid))


@each_hash
def test_a_directory_is_verified_by_its_layout(code, digest, tmp_path):
    (tmp_path / "a").write_bytes(CONTENT)
    root = import_content(tmp_path, UNIXFS_V1_2025.with_hash(code)).cid
    assert len(root.digest) == len(digest(b""))
    assert verify(tmp_path, str(root))


@each_hash
def test_an_upload_that_is_stored_under_another_hash_is_checked(code, digest):
    for content in (CONTENT, bytes(1 << 20), b""):
        check = WriteCheck(UNIXFS_V1_2025)
        check.update(content)
        assert check.profile_of(CID(1, RAW, code, digest(content))) is None
        with pytest.raises(VerificationError, match="not what was sent"):
            check.profile_of(CID(1, RAW, code, digest(b"other")))
    large = bytes((2 << 20) + 1)
    check = WriteCheck(UNIXFS_V1_2025)
    check.update(large)
    with pytest.raises(VerificationError):
        check.profile_of(CID(1, RAW, code, digest(large)))


@each_hash
def test_the_repository_keeps_reads_and_checks_it(code, digest, tmp_path):
    cid, blocks, content = tree(code)
    raw = CID(1, RAW, code, digest(CONTENT))
    with Repository(tmp_path) as repository:
        repository.import_car(write_car([cid, raw], [*blocks.items(), (raw, CONTENT)]))
        assert b"".join(repository.read(cid)) == content
        assert repository.block(raw) == CONTENT
        assert not repository.has(CID.of_raw(CONTENT))
        repository.collect_garbage()
        assert list(repository.check()) == []
        assert sorted(b"".join(repository.export_car(cid))) == sorted(
            b"".join(write_car([cid], blocks.items()))
        )
    with Repository(tmp_path) as repository:
        assert b"".join(repository.read(cid, 300_000, 300_010)) == content[300_000:300_010]


@REFUSED
def test_broken_and_unknown_hashes_stay_unproven(refused):
    assert not refused.is_provable
    with pytest.raises(UnprovenError, match="hash function"):
        check_block(refused, CONTENT)
    with pytest.raises(UnprovenError, match="hash function"):
        verify(CONTENT, str(refused))
    with pytest.raises(UnprovenError, match="hash function"):
        verify(CONTENT, str(CID(1, DAG_PB, refused.hash_code, refused.digest)))


@REFUSED
def test_a_block_under_such_a_hash_does_not_spoil_an_archive(tmp_path, refused):
    cid, blocks, content = tree(SHA2_256)
    with Repository(tmp_path) as repository:
        (pin,) = repository.import_car(
            write_car([cid], [(refused, CONTENT), *blocks.items(), (refused, CONTENT)])
        )
        assert pin.cid == str(cid)
        assert b"".join(repository.read(cid)) == content
        assert not repository.has(refused)
        assert stored(repository)[0] == len(blocks)


@REFUSED
def test_a_root_that_needs_such_a_block_names_it_and_leaves_nothing(tmp_path, refused):
    from tests.lying_dags import Dag  # noqa: PLC0415

    dag = Dag()
    root = dag.inner((dag.raw(bytes(20_000)), 20_000), (refused, 5))
    with Repository(tmp_path) as repository:
        for roots in ([root], [refused]):
            with pytest.raises(UnprovenError, match="hash function") as caught:
                repository.import_car(write_car(roots, [*dag.blocks.items(), (refused, CONTENT)]))
            assert caught.value.cid == str(refused)
            assert str(refused) in str(caught.value)
            assert stored(repository) == (0, 0, 0)


# What cannot be pinned leaves nothing behind


@pytest.fixture
def small_batches(monkeypatch):
    """So that blocks of a small archive are entered before its end."""
    monkeypatch.setattr(adding, "BATCH_BYTES", 300_000)


def broken_archives():
    cid, blocks, _ = tree(SHA2_256, 2_000_000)
    archive = b"".join(write_car([cid], blocks.items()))
    leaves = [(each, block) for each, block in blocks.items() if len(block) > 100_000]
    first, second = leaves[0], leaves[-1]
    wrong = b"".join(write_car([cid], [*blocks.items(), (first[0], second[1])]))
    return {
        "cut off": archive[:-1],
        "cut off early": archive[:1_200_000],
        "a wrong block at the end": wrong,
        "garbage at the end": archive + b"\x05garbage",
        "a missing leaf": b"".join(write_car([cid], list(blocks.items())[1:])),
        "a missing root": b"".join(write_car([CID.of_raw(b"no")], blocks.items())),
        "one root of two is missing": b"".join(write_car([cid, CID.of_raw(b"no")], blocks.items())),
        "no root": b"".join(write_car([], blocks.items())),
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
    cid, blocks, content = tree(SHA2_256, 2_000_000)
    archive = b"".join(write_car([cid, CID.of_raw(b"no")], blocks.items()))
    with Repository(tmp_path) as repository, Repository(tmp_path) as other:
        # Unpinned before, and not collected yet: not of this archive, so it stays.
        before, _ = repository.add(b"before" * 5000, UNIXFS_V1_2025, name="")
        repository.unpin(CID.parse(before.cid))

        def pieces():
            yield archive[:1_200_000]
            # Another process pins the same content meanwhile, from blocks that are here by now.
            other.import_car([b"".join(write_car([cid], blocks.items()))])
            yield archive[1_200_000:]

        with pytest.raises(UnprovenError):
            repository.import_car(pieces())
        assert b"".join(repository.read(cid)) == content
        assert list(repository.check()) == []
        assert repository.has(CID.parse(before.cid))
        repository.collect_garbage()
        assert b"".join(other.read(cid)) == content


class Stopped(KeyboardInterrupt):
    """As by Ctrl-C, in the middle of an archive."""


@pytest.mark.usefixtures("small_batches")
def test_an_interrupted_archive_leaves_no_blocks(tmp_path):
    archive = broken_archives()["cut off"]

    def pieces():
        yield archive[:1_200_000]
        raise Stopped

    with Repository(tmp_path) as repository:
        with pytest.raises(Stopped):
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
    (tmp_path / "car").write_bytes(broken_archives()["cut off"])
    command = [sys.executable, "-c", textwrap.dedent(KILLED), tmp_path / "store", tmp_path / "car"]
    with subprocess.Popen(  # noqa: S603 - ours
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
    with Repository(tmp_path / "store") as repository:
        assert stored(repository)[0] > 0
        repository.collect_garbage()
        assert stored(repository)[:2] == (0, 0)


def test_the_command_line_passes_over_an_unsupported_block_and_names_a_needed_one(tmp_path):
    cid, blocks, _ = tree(0xB220)
    good, bad = tmp_path / "good.car", tmp_path / "bad.car"
    good.write_bytes(b"".join(write_car([cid], [(SHA1, CONTENT), *blocks.items()])))
    bad.write_bytes(b"".join(write_car([cid, SHA1], [(SHA1, CONTENT), *blocks.items()])))
    commands = Commands(tmp_path)
    ended = commands.run("car", "import", good)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.decode().split() == [str(cid)]
    ended = commands.run("car", "import", bad)
    assert ended.returncode != 0
    assert str(SHA1) in ended.stderr.decode()


def test_roots_that_share_their_blocks_are_counted_within_a_limit(tmp_path, monkeypatch):
    dag = Dag()
    roots = [dag.raw(b"leaf")]
    for _ in range(25):
        roots.append(dag.node([(roots[-1], 4)]))
    archive = [b"".join(write_car(roots, dag.blocks.items()))]
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
    cid, blocks, content = tree(SHA2_256, 2_000_000)
    archive = b"".join(write_car([cid], blocks.items()))

    def pieces():
        yield archive[:1_200_000]
        child = os.fork()
        if child == 0:
            raise Stopped
        os.waitpid(child, 0)
        yield archive[1_200_000:]

    with Repository(tmp_path) as repository:
        parent = os.getpid()
        try:
            repository.import_car(pieces())
        finally:
            if os.getpid() != parent:
                os._exit(0)
        assert b"".join(repository.read(cid)) == content
        assert list(repository.check()) == []
