"""Walking, exporting and proving DAGs: fixtures of Kubo's, and properties that hold for all.

The walks over blocks and those who use them choose the same blocks for the same bytes.
"""

import io
import os
import subprocess
import threading
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from holdfast import Blob, compute_cid, verify
from holdfast.config import checks
from holdfast.content import dag_pb
from holdfast.content.blocks import BlockCache
from holdfast.content.car import CarReader, write_car
from holdfast.content.cid import CID, DAG_PB, IDENTITY, RAW, SHA2_256
from holdfast.content.dag_pb import Link, encode
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, PROFILES, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.content.unixfs import data
from holdfast.content.unixfs.archive import ArchiveProof
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter
from holdfast.content.unixfs.hamt import build_shard
from holdfast.content.unixfs.walks import DagWalk, DirectoryWalk, FileWalk, PathWalk, feed_known
from holdfast.disk.seen_cids import SpilledCIDs
from holdfast.errors import (
    InvalidCIDError,
    MalformedError,
    NotAFileError,
    NotFoundError,
    UnprovenError,
    VerificationError,
)
from holdfast.node.gateway.archives import ArchiveWalk, Selection
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.repository import Repository
from holdfast.sources.importing import import_content
from tests.content import DATA, SMALL_PROFILES, Blocks
from tests.dags import DIRECTORY, Dag, in_version_2
from tests.support import HELLO_CID

small_profiles = st.sampled_from(SMALL_PROFILES)
contents = st.binary(max_size=400)


def cut(data, places):
    """`data` in pieces, cut at `places`."""
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


@given(contents, st.lists(st.integers(0, 10_000), max_size=20), small_profiles)
def test_pieces_cut_anywhere_give_the_same_cid(data, places, profile):
    whole = FileImporter(profile)
    whole.update(data)
    pieces = FileImporter(profile)
    for piece in cut(data, places):
        pieces.update(piece)
    assert pieces.finish() == whole.finish() == whole.finish()


@given(contents, small_profiles, st.integers(0, 450), st.integers(0, 450))
def test_what_is_imported_comes_out_again_and_ranges_equal_slices(data, profile, start, stop):
    cid, blocks = Blocks.of_file(data, profile)
    walk = FileWalk(cid)
    assert b"".join(blocks.run(walk)) == data
    assert walk.size == len(data)
    assert blocks.read(cid, start, stop) == data[start:stop]
    assert blocks.read(cid, start) == data[start:]


def test_a_range_asks_only_for_the_blocks_it_needs():
    data = os.urandom(10 << 20)
    cid, blocks = Blocks.of_file(data, UNIXFS_V1_2025)
    walk = FileWalk(cid, 5_000_000, 5_000_010)
    needed = 0
    out = b""
    while walk.need is not None:
        needed += 1
        out += b"".join(walk.feed(blocks[walk.need]))
    assert out == data[5_000_000:5_000_010]
    assert needed == 2


@given(contents.filter(bool), small_profiles, st.integers(0), st.integers(0))
def test_any_flipped_bit_in_any_block_is_caught(data, profile, which, bit):
    cid, blocks = Blocks.of_file(data, profile)
    victim = sorted(blocks, key=str)[which % len(blocks)]
    broken = bytearray(blocks[victim])
    broken[bit // 8 % len(broken)] ^= 1 << bit % 8
    blocks[victim] = bytes(broken)
    with pytest.raises(VerificationError):
        blocks.read(cid)


@given(contents, st.lists(st.integers(0, 10_000), max_size=20), small_profiles)
def test_a_plain_body_is_proven_with_the_root_block(data, places, profile):
    cid, blocks = Blocks.of_file(data, profile)
    assert b"".join(blocks.prove(cid, cut(data, places))) == data


@given(
    contents.filter(bool), small_profiles, st.integers(0), st.sampled_from(["flip", "cut", "add"])
)
def test_a_wrong_body_is_caught_and_lets_out_only_what_is_right(data, profile, place, how):
    cid, blocks = Blocks.of_file(data, profile)
    at = place % len(data)
    wrong = bytes([data[at] ^ 1])
    body = {
        "flip": data[:at] + wrong + data[at + 1 :],
        "cut": data[:at] + data[at + 1 :],
        "add": data[:at] + wrong + data[at:],
    }
    verified = bytearray()
    with pytest.raises(VerificationError):  # noqa: PT012
        for piece in blocks.prove(cid, [body[how]]):
            verified += piece
    assert data.startswith(bytes(verified))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "asked"),
    [(UNIXFS_V1_2025, 1), (UNIXFS_V0_2015, 3), (KUBO_LEGACY_CIDV1, 3)],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_body_of_46_mb_needs_few_blocks(profile, asked):
    """With the narrow width, the small inner node at the right edge is not taken for a leaf."""
    data = os.urandom(46_000_000)
    cid, blocks = Blocks.of_file(data, profile)
    pieces = (data[at : at + 300_000] for at in range(0, len(data), 300_000))
    needed = []
    assert b"".join(blocks.prove(cid, pieces, needed)) == data
    assert len(needed) == asked


# The fixtures


def test_a_symbolic_link_is_a_link(tmp_path):
    root, blocks = Blocks.of_car("symlink.car")
    entries = {entry.name: entry for entry in blocks.list(root)}
    assert sorted(entries) == ["bar", "foo"]
    assert blocks.read(entries["foo"].cid) == b"content\n"
    with pytest.raises(NotAFileError, match="symbolic link"):
        blocks.read(entries["bar"].cid)
    (tmp_path / "foo").write_bytes(b"content\n")
    (tmp_path / "bar").symlink_to("foo")
    assert CID.parse(compute_cid(tmp_path, profile="unixfs-v0-2015")) == root


def test_a_sharded_directory_is_listed_and_searched():
    root, blocks = Blocks.of_car("single-layer-hamt-with-multi-block-files.car")
    entries = blocks.list(root)
    assert sorted(int(entry.name.removesuffix(".txt")) for entry in entries) == list(range(1, 1001))
    whole, lengths = [entry for entry in entries if entry.cid in blocks], set()
    for entry in whole[::10]:
        assert blocks.find(root, entry.name) == entry.cid
        with suppress(UnprovenError):  # not all blocks of it are there
            lengths.add(len(blocks.read(entry.cid)))
    assert 1026 in lengths
    with pytest.raises(NotFoundError, match=r"no 'nonsense\.txt'"):
        blocks.find(root, "nonsense.txt")
    with pytest.raises(NotAFileError):
        blocks.read(root)


def test_a_path_leads_through_directories():
    root, blocks = Blocks.of_car("subdir-with-mixed-block-files.car")
    names = [entry.name for entry in blocks.list(blocks.find(root, "subdir"))]
    assert "hello.txt" in names
    assert blocks.read(blocks.find(root, "subdir", "hello.txt")) == b"hello world\n"
    assert blocks.find(root) == root
    with pytest.raises(NotFoundError):
        blocks.find(root, "subdir", "hello.txt", "deeper")
    with pytest.raises(NotAFileError):
        blocks.read(blocks.find(root, "subdir"))


def test_a_missing_block_is_named():
    root, blocks = Blocks.of_car("file-3k-and-3-blocks-missing-block.car")
    with pytest.raises(UnprovenError) as caught:
        blocks.read(root)
    assert caught.value.cid in str(caught.value)
    assert CID.parse(caught.value.cid) not in blocks


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.car")))
def test_archives_are_written_as_they_were_read(name):
    original = (DATA / name).read_bytes()
    reader = CarReader()
    blocks = list(reader.update(original))
    reader.finish()
    assert b"".join(write_car(reader.roots, blocks)) == original


@given(st.lists(st.binary(max_size=60), max_size=8), st.lists(st.integers(0), max_size=10))
def test_archives_round_trip_in_pieces_cut_anywhere(contents, places):
    blocks = [(CID.of_raw(content), content) for content in contents]
    archive = b"".join(write_car([cid for cid, _ in blocks], blocks))
    reader = CarReader()
    out = [block for piece in cut(archive, places) for block in reader.update(piece)]
    reader.finish()
    assert out == blocks
    assert reader.roots == [cid for cid, _ in blocks]


@pytest.mark.parametrize(("padding", "index"), [(0, b""), (100, b""), (7, b"\x80\x08an index")])
@pytest.mark.parametrize("step", [1, 13, 10_000])
def test_version_2_is_read_by_its_inner_version_1(padding, index, step):
    inner = (DATA / "symlink.car").read_bytes()
    archive = in_version_2(inner, padding=padding, index=index)
    reader = CarReader()
    blocks = []
    for at in range(0, len(archive), step):
        blocks += reader.update(archive[at : at + step])
    reader.finish()
    assert dict(blocks) == Blocks.of_car("symlink.car")[1]


# Directories


names = (
    st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=12)
    .filter(lambda name: name not in {".", ".."})  # no directory has these
    .map(lambda name: name.encode("utf-8", "replace"))
)


@settings(max_examples=30)
@given(st.sets(names, max_size=60), st.sampled_from(sorted(PROFILES)))
def test_directories_are_found_by_name_flat_and_sharded(entries, profile):
    profile = PROFILES[profile]
    blocks = Blocks()
    leaf = FileImporter(profile).finish()
    flat = build_directory(((name, leaf) for name in entries), profile, blocks.__setitem__)
    links = [dag_pb.Link(leaf.cid, name, leaf.dag_size) for name in entries]
    sharded = build_shard(links, profile, blocks.__setitem__)
    expected = sorted(name.decode() for name in entries)
    for root in (flat.cid, sharded.cid):
        assert sorted(entry.name for entry in blocks.list(root)) == expected
        for name in expected:
            assert blocks.find(root, name) == leaf.cid


def test_a_directory_on_disk_leaves_out_hidden_files_and_takes_any_name(tmp_path):
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a").write_bytes(b"hello")
    before = compute_cid(root)
    (root / ".hidden").write_bytes(b"x")
    (root / ".git").mkdir()
    assert compute_cid(root) == before
    (root / "ünïcode\nname").write_bytes(b"x")
    blocks = Blocks()
    part = import_content(root, UNIXFS_V1_2025, blocks.__setitem__)
    assert str(part.cid) == compute_cid(root)
    assert [entry.name for entry in blocks.list(part.cid)] == ["a", "sub", "ünïcode\nname"]
    (root / os.fsdecode(b"not\xffutf-8")).write_bytes(b"x")
    part = import_content(root, UNIXFS_V1_2025, blocks.__setitem__)
    assert os.fsdecode(b"not\xffutf-8") in {entry.name for entry in blocks.list(part.cid)}


@pytest.mark.slow
def test_directories_may_be_nested_deeper_than_pythons_stack(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(1100):  # more than the limit of recursion
        Path("d").mkdir()
        os.chdir("d")
    monkeypatch.undo()
    try:
        assert compute_cid(tmp_path).startswith("bafybei")
    finally:
        # pytest would remove it by recursion, and fail.
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)  # noqa: S603, S607


def test_a_named_pipe_in_a_directory_is_an_error_and_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a file, directory or link"):
        compute_cid(tmp_path)


# compute_cid and verify


@pytest.mark.parametrize("profile", ["unixfs-v1-2025", "unixfs-v0-2015"])
@pytest.mark.parametrize("size", [5, 3_000_000])
def test_compute_cid_takes_what_people_have_and_reports_every_byte(tmp_path, size, profile):
    data = os.urandom(size)
    path = tmp_path / "file"
    path.write_bytes(data)
    pieces = [memoryview(data)[: size // 2], bytearray(data[size // 2 :])]
    sized = [path, str(path), data, bytearray(data), memoryview(data), Blob(data), pieces]
    calls = []
    with path.open("rb") as file:
        # Of a stream, nobody asks how long it is.
        for source in (*sized, io.BytesIO(data), iter(pieces), file):
            cid = compute_cid(source, profile=profile, progress=lambda *call: calls.append(call))
            assert cid == compute_cid(data, profile=profile)
            assert [done for done, _ in calls] == sorted(done for done, _ in calls)
            assert calls[-1] == (size, size if source in sized else None)
            calls.clear()
    for source in (data, path):
        assert verify(source, cid, progress=lambda *call: calls.append(call))
        assert calls[-1] == (size, size)


NO_SOURCES = [
    *((source, TypeError, "") for source in (5, None, ["text"], [1, 2], object())),
    *((source, TypeError, "an iterable of bytes") for source in ({b"a"}, {b"a": 1}, frozenset())),
    ("missing", FileNotFoundError, "missing"),
    ("", FileNotFoundError, ""),
]


@pytest.mark.parametrize(("source", "error", "words"), NO_SOURCES)
def test_what_cannot_be_read_is_an_error(source, error, words):
    for read in (compute_cid, lambda source: verify(source, HELLO_CID)):
        with pytest.raises(error) as caught:
            read(source)
        assert words in str(caught.value)


def test_an_unknown_profile_is_a_value_error():
    with pytest.raises(ValueError, match="unknown profile 'v1': there are unixfs-v1-2025"):
        compute_cid(b"", profile="v1")


def rewrite(path):
    """A change that hides behind the time of the file."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: os.truncate(path, 1 << 20), "moving shrank"),
        (lambda path: os.utime(path, (1, 1)), "moving was written to"),
        (rewrite, "moving was written to"),
    ],
    ids=["shrinks", "is touched", "is written to"],
)
def test_a_file_that_changes_while_it_is_hashed_is_an_error(tmp_path, monkeypatch, change, words):
    path = tmp_path / "moving"
    path.write_bytes(bytes(20 << 20))
    original = os.preadv

    def changing(*arguments):
        change(path)
        return original(*arguments)

    monkeypatch.setattr(os, "preadv", changing)
    with pytest.raises(OSError, match=words):
        compute_cid(path)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("size", [0, 5, 300_000, 3_000_000])
def test_verify_is_true_for_every_known_layout(profile, size, tmp_path):
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    cid = compute_cid(data, profile=profile)
    parsed = CID.parse(cid)
    as_v1 = str(CID(1, parsed.codec, parsed.hash_code, parsed.digest))
    for reference in (cid, as_v1, f"/ipfs/{cid}"):
        for source in (data, tmp_path / "file", iter([data])):
            assert verify(source, reference) is True


def test_verify_of_a_directory(tmp_path):
    (tmp_path / "a").write_bytes(b"hello")
    for profile in PROFILES:
        assert verify(tmp_path, compute_cid(tmp_path, profile=profile)) is True
    cid = compute_cid(tmp_path)
    (tmp_path / "b").write_bytes(b"hello")
    with pytest.raises(UnprovenError):
        verify(tmp_path, cid)
    with pytest.raises(VerificationError):  # a directory is never a raw block
        verify(tmp_path, HELLO_CID)


def test_verify_of_other_bytes():
    with pytest.raises(VerificationError) as caught:
        verify(b"hellO", HELLO_CID)
    assert not isinstance(caught.value, UnprovenError)
    assert caught.value.cid == HELLO_CID
    with pytest.raises(UnprovenError, match="no known layout"):
        verify(b"hellO", compute_cid(b"hello", profile="unixfs-v0-2015"))


def test_verify_of_identity_cids_and_other_codecs():
    assert verify(b"x", str(CID(1, RAW, IDENTITY, b"x")))
    with pytest.raises(VerificationError):
        verify(b"y", str(CID(1, RAW, IDENTITY, b"x")))
    with pytest.raises(UnprovenError, match="not UnixFS"):
        verify(b"\xa0", str(CID(1, 0x78, SHA2_256, CID.of_raw(b"\xa0").digest)))
    inline = CID(1, DAG_PB, IDENTITY, bytes.fromhex("0a0b0802120568656c6c6f1805"))
    assert verify(b"hello", str(inline))
    for wrong in (b"hellO", b"hell", b"hello!", inline.digest):
        with pytest.raises(VerificationError):
            verify(wrong, str(inline))
    with pytest.raises(InvalidCIDError):
        verify(b"x", "nonsense")


def test_profile_names_are_those_of_the_configuration():
    assert {name: profile.cid_version for name, profile in PROFILES.items()} == checks.PROFILES


def test_files_of_the_system_that_say_they_are_empty():
    path, calls = Path("/proc/cpuinfo"), []
    if not path.exists():
        pytest.skip("needs /proc")
    content = path.read_bytes()
    if path.read_bytes() != content:
        pytest.skip("it changes from one look to the next")
    cid = compute_cid(path, progress=lambda *call: calls.append(call))
    assert cid == compute_cid(content) != compute_cid(b"")
    assert calls[-1] == (len(content), None)
    with pytest.raises(UnprovenError):
        verify(path, compute_cid(b"", profile="unixfs-v0-2015"))


@pytest.mark.parametrize("profile", ["unixfs-v1-2025", "unixfs-v0-2015"])
def test_named_pipes_are_read_once(tmp_path, profile):
    os.mkfifo(tmp_path / "pipe")
    expected = compute_cid(b"piped", profile=profile)

    def check(call):
        writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"piped"))
        writer.start()
        result = call()
        writer.join()
        return result

    for _ in range(5):
        assert check(lambda: compute_cid(tmp_path / "pipe", profile=profile)) == expected
        assert check(lambda: verify(tmp_path / "pipe", expected)) is True


def test_jobs_are_cut_at_the_edges_of_chunks(tmp_path):
    odd = replace(UNIXFS_V1_2025, chunk_size=3 << 20)
    data = os.urandom(20 << 20)
    (tmp_path / "file").write_bytes(data)
    assert import_content(tmp_path / "file", odd) == import_content(data, odd)


def test_a_large_buffer_is_not_copied():
    data = bytearray(50 << 20)
    tracemalloc.start()
    compute_cid(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 << 20


def test_an_archive_with_shared_blocks_in_another_order():
    """A block that comes early is not taken for the repeat of one that was used twice."""
    dag = Dag()
    a, b, c = (dag.raw(letter * 100) for letter in (b"a", b"b", b"c"))
    root = dag.inner((a, 100), (a, 100), (b, 100), (c, 100))
    proof = ArchiveProof(root)
    archive = write_car([root], [(cid, dag.blocks[cid]) for cid in (root, a, c, b)])
    out = proof.update(b"".join(archive))
    proof.finish()
    assert b"".join(out) == b"a" * 200 + b"b" * 100 + b"c" * 100


# Who chooses which blocks

# Few letters, so that leaves and whole branches are repeated.
repetitive = st.text("ab", max_size=300).map(str.encode)
ends = st.tuples(st.integers(0, 320), st.integers(0, 320)).map(sorted)

in_one_store = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    with Repository(tmp_path_factory.mktemp("store")) as repository:
        yield CachedRepository(repository)


def stored(repository, content, profile):
    with repository.repository.adding() as adding:
        importer = FileImporter(profile, adding.put)
        importer.update(content)
        root = importer.finish().cid
        adding.flush()
    return root


def needs(walk, blocks):
    """The CIDs that a walk asks for, in order."""
    while (cid := walk.need) is not None:
        walk.feed(blocks[cid])
        yield cid


@in_one_store
@given(repetitive, st.sampled_from(SMALL_PROFILES), ends)
def test_the_node_reads_and_packs_a_range_with_the_blocks_of_the_walk(
    repository, content, profile, ends
):
    start, stop = ends
    root, blocks = Blocks.of_file(content, profile)
    assert stored(repository, content, profile) == root
    assert b"".join(repository.read(root, start, stop)) == content[start:stop]
    if start >= min(stop, len(content)):
        return
    query = QueryParams({"entity-bytes": f"{start}:{min(stop, len(content)) - 1}"})
    selection = Selection.of(query)
    every = ArchiveWalk(repository, duplicates=True).selected(root, selection)
    asked = list(needs(FileWalk(root, start, stop), blocks))
    assert list(every) == asked
    walk = ArchiveWalk(repository, duplicates=False)
    once = list(walk.to_send(walk.selected(root, selection)))
    assert once == list(dict.fromkeys(asked))


@in_one_store
@given(repetitive, st.sampled_from(SMALL_PROFILES))
def test_an_archive_has_every_block_once_depth_first(repository, content, profile):
    root, blocks = Blocks.of_file(content, profile)
    expected = list(dict.fromkeys(cid for cid, _ in blocks.depth_first(root)))
    assert [cid for walk in [DagWalk(root)] for cid in needs(walk, blocks)] == expected
    stored(repository, content, profile)
    reader = CarReader()
    packed = [cid for cid, _ in reader.update(b"".join(repository.repository.export_car(root)))]
    reader.finish()
    assert packed == expected


def test_a_walk_over_all_blocks_leaves_out_identity_cids():
    inline = CID(1, DAG_PB, IDENTITY, encode([], data.DIRECTORY))
    dag = Dag()
    leaf = dag.raw(b"leaf")
    root = dag.directory(a=inline, b=leaf)
    assert list(needs(DagWalk(root), dag.blocks)) == [root, leaf]
    assert list(needs(DagWalk(inline), dag.blocks)) == []


def test_a_dag_may_be_deep_but_not_endless(monkeypatch):
    monkeypatch.setattr("holdfast.content.unixfs.walks.DEEPEST", 40)
    dag = Dag()
    root = dag.raw(b"leaf")
    for _ in range(40):
        root = dag.directory(a=root)
    assert len(list(needs(DagWalk(root), dag.blocks))) == 41
    with pytest.raises(MalformedError, match="deeper than 40 levels"):
        list(needs(DagWalk(dag.directory(a=root)), dag.blocks))


def test_a_dag_that_is_too_wide_at_many_levels_is_refused(monkeypatch):
    monkeypatch.setattr("holdfast.content.unixfs.walks.MAX_LINKS_HELD", 100)
    dag = Dag()
    cid = CID.of_raw(b"leaf")
    for level in range(4):
        others = [CID.of_raw(b"%d %d" % (level, number)) for number in range(40)]
        cid = dag.node([cid, *others], kind=DIRECTORY)
    with pytest.raises(MalformedError, match="too wide at too many levels"):
        list(needs(DagWalk(cid), dag.blocks))


def test_a_walk_says_which_new_blocks_are_needed_next():
    leaves = [CID.of_raw(b"%d" % number) for number in range(6)]
    inline = CID(1, RAW, IDENTITY, b"x")
    links = [leaves[0], leaves[1], leaves[0], inline, leaves[1], *leaves[2:]]
    block = encode([Link(cid, b"", 1) for cid in links], data.DIRECTORY)
    walk = DagWalk(replace(CID.of_raw(block), codec=DAG_PB))
    assert walk.needed_next(8) == []
    walk.feed(block)
    assert walk.need == leaves[0]
    assert walk.needed_next(3) == leaves[1:4]
    walk.feed(b"0")
    assert walk.needed_next(8) == leaves[2:]
    large = encode([Link(cid, b"", 3 << 20) for cid in leaves], data.DIRECTORY)
    walk = DagWalk(replace(CID.of_raw(large), codec=DAG_PB))
    walk.feed(large)
    assert walk.needed_next(8) == leaves[1:3]  # a few MiB


def test_a_directory_is_read_ahead_within_a_few_mib():
    dag = Dag()
    root = dag.shard([(slot, b"", CID.of_raw(b"%d" % slot)) for slot in range(30)])
    walk = DirectoryWalk(root)
    walk.feed(dag.blocks[root])
    assert walk.needed_next(3) == [CID.of_raw(b"%d" % slot) for slot in (1, 2, 3)]
    assert len(walk.needed_next(30)) == 16


def test_seen_cids_are_found_in_memory_and_on_disk():
    seen = SpilledCIDs(in_memory=10)
    cids = [CID.of_raw(b"%d" % number) for number in range(35)]
    for number, cid in enumerate(cids):
        assert cid not in seen
        seen.add(cid)
        seen.add(cids[number // 2])
    assert all(cid in seen for cid in cids)
    assert replace(cids[0], codec=DAG_PB) not in seen
    assert CID.of_raw(b"other") not in seen
    seen.close()
    seen.close()


def test_every_walk_verifies_the_block_unless_it_is_verified():
    blocks = Blocks()
    root = build_directory([], UNIXFS_V1_2025, blocks.__setitem__).cid
    file, file_blocks = Blocks.of_file(bytes(3_000_000), UNIXFS_V1_2025)
    other = blocks[root] + b"\x0a\x00"
    for walk in (DirectoryWalk(root), PathWalk(root, ["a"]), DagWalk(root), FileWalk(file)):
        with pytest.raises(VerificationError, match="does not match"):
            walk.feed(other)
    assert DirectoryWalk(root).feed(blocks[root], verified=True) == []
    assert FileWalk(file).feed(file_blocks[file], verified=True) == []


def test_known_blocks_are_fed_until_the_output_is_large():
    root, blocks = Blocks.of_file(bytes(8 << 20), UNIXFS_V1_2025)
    cache = BlockCache(4 << 20)
    for cid, block in blocks.items():
        cache.put(cid, block)
    walk = FileWalk(root)
    sizes = []
    while walk.need is not None:
        sizes.append(sum(map(len, feed_known(walk, blocks[walk.need], cache))))
    assert sum(sizes) == 8 << 20
    assert max(sizes) <= 2 << 20


def test_a_leaf_that_came_wrong_is_in_doubt_until_its_block_explains_it():
    content = bytes(3_000_000)
    root, blocks = Blocks.of_file(content, UNIXFS_V1_2025)
    proof = BodyProof(root)
    assert proof.doubt is None
    proof.feed_block(blocks[root])
    proof.update(b"x" + content[1:])
    assert proof.need is not None
    assert isinstance(proof.doubt, VerificationError)
    with pytest.raises(VerificationError, match="does not match the CID"):
        proof.feed_block(blocks[proof.need])
