"""The walks over blocks, and those who use them: all choose the same blocks for the same bytes."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from holdfast.content.blocks import BlockCache
from holdfast.content.car import CarReader
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.dag_pb import Link, encode
from holdfast.content.hashes import IDENTITY
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs import data
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter
from holdfast.content.unixfs.walks import DagWalk, DirectoryWalk, FileWalk, PathWalk, feed_known
from holdfast.disk.seen_cids import SpilledCIDs
from holdfast.errors import MalformedError, VerificationError
from holdfast.node.gateway.archives import ArchiveWalk, Selection
from holdfast.node.gateway.cached_repository import CachedRepository
from holdfast.repository import Repository
from tests.content import SMALL_PROFILES, Blocks
from tests.dags import DIRECTORY, Dag

# Few letters, so that leaves and whole branches are repeated.
contents = st.text("ab", max_size=300).map(str.encode)
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
@given(contents, st.sampled_from(SMALL_PROFILES), ends)
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
@given(contents, st.sampled_from(SMALL_PROFILES))
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
    with pytest.raises(VerificationError, match="are not what this CID names"):
        proof.feed_block(blocks[proof.need])
