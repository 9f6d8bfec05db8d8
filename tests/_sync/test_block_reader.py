# WARNING: this file is generated from tests/_async/test_block_reader.py
# by scripts/generate_sync.py. Change the original instead.
"""The reader over a source of blocks: a dict, an archive, a repository."""

import os
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast._sync.providers.local import RepositoryReader
from holdfast._sync.reads.reader import BlockReader
from holdfast.calls import Call
from holdfast.content.blocks import missing_block
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.reference import Reference
from holdfast.content.unixfs.file_nodes import MAX_DEPTH
from holdfast.content.unixfs.walks import MAX_PENDING
from holdfast.errors import (
    MalformedError,
    NetworkError,
    RequestTimeoutError,
    UnprovenError,
    VerificationError,
)
from holdfast.repository import Repository
from holdfast.sinks.sinks import MemorySink, TargetSink
from tests import dags
from tests.content import SMALL_PROFILES, Blocks


class Source:
    """Blocks that are given one by one, and which were asked for."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.asked = []

    def get_block(self, cid):
        self.asked.append(cid)
        if cid not in self.blocks:
            raise missing_block(cid)
        return self.blocks[cid]


def reader_over(blocks, **options):
    return BlockReader(Source(blocks).get_block, **options)


READERS = {
    "blocks": lambda _repository, blocks: reader_over(blocks),
    "repository": lambda repository, _blocks: RepositoryReader(repository),
}


def reference_to(cid, path=()):
    return Reference(str(cid), cid, tuple(path))


def read(reader, cid, path=(), *, total=None, **options):
    sink = MemorySink()
    call = Call("download", total=total)
    reader.read(reference_to(cid, path), sink, call, **options)
    return bytes(sink.data)


def repository_of(folder, blocks):
    repository = Repository(folder)
    with repository.adding() as adding:
        for cid, block in blocks.items():
            adding.put(cid, block)
        adding.flush()
    return repository


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.binary(max_size=400),
    st.sampled_from(SMALL_PROFILES),
    st.integers(0, 400),
    st.integers(0, 400),
)
def test_ranges_equal_slices(data, profile, first, second):
    cid, blocks = Blocks.of_file(data, profile)
    reader = reader_over(blocks)
    assert read(reader, cid) == data
    ranges = reader.open(reference_to(cid), Call("open"))
    start, stop = sorted((first % (len(data) + 1), second % (len(data) + 1)))
    assert ranges.read(start, stop) == data[start:stop]


def test_a_range_asks_for_no_more_blocks_than_it_needs_and_for_none_twice():
    data = os.urandom(10 << 20)
    cid, blocks = Blocks.of_file(data, UNIXFS_V1_2025)
    source = Source(blocks)
    ranges = BlockReader(source.get_block).open(reference_to(cid), Call("open"))
    assert ranges.read(5_000_000, 5_000_010) == data[5_000_000:5_000_010]
    assert ranges.read(5_000_010, 5_000_020) == data[5_000_010:5_000_020]
    assert len(source.asked) == 2  # the root and a leaf


def test_a_repeated_block_is_asked_for_once():
    cid, blocks = Blocks.of_file(bytes(20 << 20), UNIXFS_V1_2025)
    source = Source(blocks)
    assert read(BlockReader(source.get_block), cid) == bytes(20 << 20)
    assert sorted(map(str, source.asked)) == sorted(map(str, blocks))


class NoSink(MemorySink):
    """Takes what is written, and keeps nothing."""

    def write(self, data):
        pass


@pytest.mark.parametrize("where", ["root", "leaf"])
@pytest.mark.parametrize("kind", [b"", b"something else"], ids=["empty", "other"])
def test_a_block_that_lies_is_a_verification_error(where, kind):
    cid, blocks = Blocks.of_file(os.urandom(9_000_000), UNIXFS_V1_2025)
    victim = cid if where == "root" else next(leaf for leaf in blocks if leaf != cid)
    honest, blocks[victim] = blocks[victim], kind
    reader = reader_over(blocks)
    with pytest.raises(VerificationError, match="does not match its CID") as caught:
        read(reader, cid)
    assert type(caught.value) is VerificationError
    assert caught.value.cid == str(victim)
    if where == "leaf":
        ranges = reader.open(reference_to(cid), Call("open"))
        with pytest.raises(VerificationError):
            ranges.read(0, 9_000_000)
        blocks[victim] = honest  # what was wrong is not kept
        assert len(ranges.read(0, 9_000_000)) == 9_000_000


@pytest.mark.parametrize("place", [0, 1, 10], ids=["root", "first", "of a later batch"])
def test_a_missing_block_is_the_error_of_the_source(place):
    cid, blocks = Blocks.of_file(os.urandom(3 << 20), replace(UNIXFS_V1_2025, chunk_size=1 << 18))
    order = [child for child, _ in blocks.depth_first(cid)]
    del blocks[order[place]]
    with pytest.raises(UnprovenError, match="is missing") as caught:
        read(reader_over(blocks), cid)
    assert caught.value.cid == str(order[place])


def test_a_block_ahead_that_fails_is_asked_for_again():
    data = os.urandom(1 << 20)
    cid, blocks = Blocks.of_file(data, replace(UNIXFS_V1_2025, chunk_size=1 << 17))
    needed = {cid, CID.of_raw(data[: 1 << 17])}  # at once: these do not fail
    failed = set()

    def get_block(block_cid):
        if block_cid not in failed | needed:
            failed.add(block_cid)
            raise NetworkError("try again")
        return blocks[block_cid]

    assert read(BlockReader(get_block), cid) == data


def test_saved_bytes_of_another_reader_are_not_taken_for_its_own(tmp_path):
    data = os.urandom(3 << 20)
    cid, blocks = Blocks.of_file(data, UNIXFS_V1_2025)
    reference, cache = reference_to(cid), tmp_path / "cache"
    for size in (2 << 20, 0):  # an interrupted download leaves verified bytes; then another one
        sink = TargetSink(tmp_path / "copy", cache=cache, reference=reference)
        sink.open()
        if size:
            sink.write(data[:size])
            sink.verified = size
        else:
            assert sink.saved_size
            reader_over(blocks).read(reference, sink, Call("download"))
            sink.commit()
        sink.discard()
    assert (tmp_path / "copy").read_bytes() == data


def test_the_budget_of_time():
    data = os.urandom(3 << 20)
    cid, blocks = Blocks.of_file(data, replace(UNIXFS_V1_2025, chunk_size=1 << 10))
    with pytest.raises(RequestTimeoutError, match="could not be read in time"):
        read(reader_over(blocks), cid, total=0.0)
    ranges = reader_over(blocks, total=0.0).open(reference_to(cid), Call("open"))
    with pytest.raises(RequestTimeoutError, match="could not be read in time"):
        ranges.read(0, len(data))


@cache
def deep_and_wide():
    """A DAG with a root that is too deep, and one that is too wide."""
    dag = dags.Dag()
    deep, _ = dag.repeated(dag.raw(b"x"), 1, *[1] * (MAX_DEPTH + 1))
    half = dag.inner(*[(dag.raw(b"y"), 1)] * (MAX_PENDING // 2))
    wide = dag.inner((half, MAX_PENDING // 2), *[(dag.raw(b"y"), 1)] * (MAX_PENDING // 2 + 1))
    return dag, deep, wide


@pytest.mark.slow
@pytest.mark.parametrize("over", READERS)
def test_the_budgets_of_depth_and_width(tmp_path, over):
    dag, deep, wide = deep_and_wide()
    with repository_of(tmp_path, dag.blocks) as repository:
        reader = READERS[over](repository, dag.blocks)
        with pytest.raises(MalformedError, match="deeper than"):
            read(reader, deep)
        with pytest.raises(MalformedError, match="too wide"):
            read(reader, wide)


@pytest.mark.slow
@pytest.mark.parametrize("over", READERS)
def test_a_small_dag_that_declares_very_much_ends_with_the_time(tmp_path, over):
    dag = dags.Dag()
    root, size = dag.repeated(dag.raw(bytes(1000)), 1000, 5000, 5000)
    with repository_of(tmp_path, dag.blocks) as repository:
        reader = READERS[over](repository, dag.blocks)
        with pytest.raises(RequestTimeoutError):
            reader.read(reference_to(root), NoSink(), Call("download", total=0.2))
        ranges = reader.open(reference_to(root), Call("open"))
        assert ranges.size == size
        assert ranges.read(size - 1500, size) == bytes(1500)
