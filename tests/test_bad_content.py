"""Content that lies or would hurt: each case is a typed error, in bounded time and memory.

What sizes may be lies, and are found in every way of reading, is in `lying_dags.py`.
"""

import io
import tracemalloc
from contextlib import closing
from itertools import islice

import pytest

from holdfast.content import dag_pb, varint
from holdfast.content.blocks import MAX_BLOCK, check_block
from holdfast.content.car import MAX_HEADER, MAX_SECTION, CarReader, write_car
from holdfast.content.cid import CID, DAG_PB, IDENTITY, RAW, SHA2_256
from holdfast.content.dag_pb import Link
from holdfast.content.unixfs import data, hamt
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.walks import FileWalk
from holdfast.disk.archive_file import ArchiveFile
from holdfast.errors import (
    MalformedError,
    NotAFileError,
    NotFoundError,
    UnprovenError,
    VerificationError,
)
from tests.content import Blocks
from tests.dags import Dag, in_version_2, message, section

LEAF = CID.of_raw(b"hello")

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def bounded_memory():
    """No case may set aside more than a few blocks, whatever it declares."""
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20


@pytest.fixture
def dag():
    """A DAG in the making, with one leaf: "hello"."""
    dag = Dag()
    dag.raw(b"hello")
    return dag


def link(cid=LEAF, name=b"", size=5):
    return Link(cid, name, size)


def assert_refused(error, blocks, cid, match=None, body=b"hello"):
    """By a walk over its blocks, and as a proof of a plain body."""
    with pytest.raises(error, match=match) as caught:
        blocks.read(cid)
    with pytest.raises(error, match=match):
        list(blocks.prove(cid, [body]))
    return caught.value


# The codec below UnixFS

GOOD_LINK = dag_pb.encode_link(link())
GOOD_DATA = b"\x0a\x04\x08\x02\x18\x00"

BAD_BLOCKS = {
    "length overread": b"\x0a\x7f\x08\x02",
    "length of 2^62": b"\x0a" + varint.encode(1 << 62),
    "link length overread": b"\x12\x7f" + GOOD_LINK,
    "inner length overread": b"\x12\x03\x0a\x24\x01" + GOOD_DATA,
    "wire type of Data": b"\x08\x01",
    "wire type of Links": b"\x10\x01" + GOOD_DATA,
    "group": b"\x0b",
    "unknown field": b"\x1a\x00" + GOOD_DATA,
    "field number 0": b"\x02\x00" + GOOD_DATA,
    "data twice": GOOD_DATA * 2,
    "cut varint": b"\x0a\x80",
    "varint of ten bytes": b"\x0a" + b"\x80" * 9 + b"\x01",
    "non-minimal varint": b"\x0a\x84\x00\x08\x02\x18\x00",
    "link without CID": b"\x12\x04\x12\x00\x18\x05" + GOOD_DATA,
    "link with a bad CID": b"\x12\x04\x0a\x02\x01\x55" + GOOD_DATA,
    "link with bytes behind its CID": (
        b"\x12" + varint.encode(39) + b"\x0a\x25" + bytes(LEAF) + b"\0" + GOOD_DATA
    ),
    "link with two CIDs": b"\x12" + varint.encode(2 * len(GOOD_LINK)) + GOOD_LINK * 2 + GOOD_DATA,
    "unknown field in a link": b"\x12\x02\x22\x00" + GOOD_DATA,
}


@pytest.mark.parametrize("block", BAD_BLOCKS.values(), ids=BAD_BLOCKS)
def test_bad_dag_pb(dag, block):
    with pytest.raises(MalformedError):
        dag_pb.decode(block)
    cid = dag.put(DAG_PB, block)
    assert_refused(MalformedError, dag.blocks, cid)
    with pytest.raises(MalformedError):
        dag.blocks.list(cid)


def test_both_orders_of_links_and_data_are_read(dag):
    links = dag_pb.field(b"\x12", GOOD_LINK)
    content = dag_pb.field(b"\x0a", message(size=5, sizes=[5]))
    for block in (links + content, content + links):
        assert dag.blocks.read(dag.put(DAG_PB, block)) == b"hello"


# UnixFS itself

BAD_MESSAGES = {
    "no type": b"",
    "unknown type": message(6),
    "metadata": message(3),
    "type twice": b"\x08\x02\x08\x02",
    "size twice": message(2, size=0) + b"\x18\x00",
    "data twice": message(2, content=b"x") + b"\x12\x01y",
    "type as bytes": b"\x0a\x01\x02",
    "packed block sizes": b"\x08\x02\x22\x01\x05",
    "unknown field": message(2) + b"\x48\x01",
    "size too low": message(2, content=b"hello", size=4),
    "size too high": message(2, content=b"hello", size=1 << 40),
    "block sizes without links": message(2, size=5, sizes=[5]),
}


@pytest.mark.parametrize("content", BAD_MESSAGES.values(), ids=BAD_MESSAGES)
def test_bad_unixfs(dag, content):
    assert_refused(MalformedError, dag.blocks, dag.links([], content))


@pytest.mark.slow
@pytest.mark.timeout(120)  # most of it goes into making the nodes
def test_a_node_that_is_wide_at_every_level():
    tracemalloc.stop()  # the nodes are made without being watched: that takes many times as long
    dag = Dag()
    tiny = CID(1, RAW, IDENTITY, b"x")
    dag.blocks[tiny] = b"x"
    cid, size, width = tiny, 1, 31_000
    for _ in range(2):
        cid = dag.inner((cid, size), *[(tiny, 1)] * (width - 1))
        size += width - 1
    tracemalloc.start()
    with pytest.raises(MalformedError, match="too wide"):
        dag.blocks.read(cid)
    framed = b"\x12\x08" + b"\x0a\x04" + bytes(tiny)[:4] + b"\x18\x01"
    with pytest.raises(MalformedError):
        dag_pb.decode(framed * 50_001)


def test_a_walk_that_failed_does_not_go_on(dag):
    broken = dag.put(DAG_PB, b"\x0a\x7f")
    cid = dag.inner((broken, 5), (LEAF, 5))
    walk = FileWalk(cid)
    walk.feed(dag.blocks[cid])
    for _ in range(2):
        with pytest.raises(MalformedError):
            walk.feed(dag.blocks[broken])
        assert walk.need == broken


def test_an_archive_that_was_refused_does_not_end_well():
    reader = CarReader()
    with pytest.raises(MalformedError):
        reader.update(b"\0nonsense")
    for call in (lambda: reader.update(b"more"), reader.finish):
        with pytest.raises(MalformedError, match="earlier part of the archive"):
            call()


def test_a_lie_about_the_size_of_the_dag_is_not_believed(dag):
    cid = dag.links([link(size=1 << 60)], message(size=5, sizes=[5]))
    assert dag.blocks.read(cid) == b"hello"


def test_a_block_above_two_mib_is_refused_whatever_it_holds(dag):
    large = bytes(MAX_BLOCK + 1)
    with pytest.raises(MalformedError, match="larger than"):
        check_block(CID.of_raw(large), large)
    check_block(CID.of_raw(large[1:]), large[1:])
    assert_refused(MalformedError, dag.blocks, dag.inner((dag.raw(large), len(large))))


@pytest.mark.slow
def test_a_depth_bomb(dag):
    assert dag.blocks.read(dag.repeated(LEAF, 5, *[1] * 20)[0]) == b"hello"
    cid, _ = dag.repeated(LEAF, 5, *[1] * 5000)
    assert_refused(MalformedError, dag.blocks, cid, "deeper than")


@pytest.mark.slow
def test_a_width_bomb_by_shared_links_is_seen_at_its_root(dag):
    cid, size = dag.repeated(dag.raw(b"x"), 1, *[1024] * 4)
    assert (size, len(dag.blocks)) == (1 << 40, 6)
    walk = FileWalk(cid)
    walk.feed(dag.blocks[cid])
    assert walk.size == 1 << 40  # by which a reader refuses it
    # Otherwise it is a file like any other, and gives its bytes one piece at a time.
    assert b"".join(islice(dag.blocks.run(FileWalk(cid)), 1000)) == b"x" * 1000
    assert dag.blocks.read(cid, (1 << 40) - 3) == b"xxx"


@pytest.mark.slow
def test_a_bomb_of_empty_children_is_not_visited(dag):
    cid, _ = dag.repeated(dag.raw(b""), 0, *[1000] * 20)
    assert_refused(MalformedError, dag.blocks, cid, "to be empty")
    cid, _ = dag.repeated(dag.raw(b""), 0, 1000)
    assert dag.blocks.read(cid) == b""
    assert list(dag.blocks.prove(cid, [])) == []


def test_a_link_to_a_missing_block(dag):
    missing = CID.of_raw(b"other")
    cid = dag.inner((LEAF, 5), (missing, 5))
    error = assert_refused(UnprovenError, dag.blocks, cid, body=b"helloworld")
    assert error.cid == str(missing)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (CID(1, 0x78, SHA2_256, LEAF.digest), "not UnixFS"),
        (CID(1, RAW, 0x11, bytes(20)), "hash function"),
    ],
    ids=["codec", "hash"],
)
def test_other_codecs_and_hashes_in_a_file(dag, other, words):
    dag.blocks[other] = b"hello"
    cid = dag.inner((other, 5))
    assert_refused(UnprovenError, dag.blocks, cid, words)
    proof = BodyProof(cid)
    proof.feed_block(dag.blocks[cid])
    with pytest.raises(UnprovenError, match=words):  # no block is asked for
        proof.update(b"hello")


@pytest.mark.parametrize("content", [data.symlink_data(b"/etc/passwd"), data.DIRECTORY], ids=str)
def test_a_symbolic_link_and_a_directory_are_no_files(dag, content):
    assert_refused(NotAFileError, dag.blocks, dag.links([], content))


@pytest.mark.parametrize(
    "names",
    [[b"a", b"a"], [b""], [b"", b"a"], [b".."], [b"."], [b"/abs"], [b"../x"], [b"a\0b"]],
    ids=str,
)
def test_doubled_and_empty_names_in_a_directory(dag, names):
    cid = dag.links([link(name=name) for name in names], data.DIRECTORY)
    with pytest.raises(MalformedError, match="empty, unsafe or doubled"):
        dag.blocks.list(cid)
    if names[0] in {b"", b"a"}:
        with pytest.raises(MalformedError if names[0] else NotFoundError):
            dag.blocks.find(cid, names[0].decode())


# Sharded directories

SLOT = hamt.slot_at(hamt.murmur3(b"a"), 0, 256)
ENTRY = (SLOT, b"a", LEAF)


def assert_no_directory(dag, cid, match=None):
    with pytest.raises(MalformedError, match=match):
        dag.blocks.list(cid)
    with pytest.raises(MalformedError, match=match):
        dag.blocks.find(cid, "a")


@pytest.mark.parametrize(
    "how",
    [
        *({"fanout": fanout} for fanout in (0, 3, 1 << 31, 2048, 1, 100, None)),
        *({"hash_type": hash_type} for hash_type in (0x12, None)),
        *({"bitfield": bits} for bits in (0, 3, 1 << (SLOT ^ 1), 1 << 300)),
    ],
    ids=str,
)
def test_bad_shards(dag, how):
    assert_no_directory(dag, dag.shard([ENTRY], **how))


def test_a_good_shard_of_the_same_making(dag):
    cid = dag.shard([ENTRY])
    assert [entry.name for entry in dag.blocks.list(cid)] == ["a"]
    assert dag.blocks.find(cid, "a") == LEAF
    with pytest.raises(NotFoundError):
        dag.blocks.find(cid, "b")
    with pytest.raises(MalformedError, match="wrong slot"):
        dag.blocks.list(dag.shard([(SLOT ^ 1, b"a", LEAF)]))


@pytest.mark.parametrize(
    ("entries", "levels", "words"),
    [([ENTRY], 8, None), ([], 7, "empty shard")],
    ids=["full", "empty"],
)
def test_a_bomb_of_shared_shards(dag, entries, levels, words):
    cid = dag.shard(entries)
    for _ in range(levels):
        cid = dag.shard([(slot, b"", cid) for slot in range(256)])
    assert len(dag.blocks) == 2 + levels
    with pytest.raises(MalformedError, match=words):
        dag.blocks.list(cid)
    with pytest.raises((MalformedError, NotFoundError)):
        dag.blocks.find(cid, "a")


def test_a_plain_directory_under_a_shard(dag):
    cid = dag.shard([(SLOT, b"", dag.directory(a=LEAF))])
    assert_no_directory(dag, cid, "among shards")


# Archives

GOOD = b"".join(write_car([LEAF], [(LEAF, b"hello")]))
HEADER = GOOD[: GOOD[0] + 1]
SECTION = GOOD[len(HEADER) :]


def header(body):
    return section(body) + SECTION


BAD_ARCHIVES = {
    "empty": b"",
    "header of 4 GiB": varint.encode(1 << 32) + GOOD,
    "header of 0": b"\0" + GOOD,
    "header over the cap": varint.encode(MAX_HEADER + 1) + bytes(MAX_HEADER + 1),
    "header cut off": HEADER[:20],
    "header is no map": header(b"\x80"),
    "bad version": header(b"\xa2\x65roots\x80\x67version\x03"),
    "version 2 without its header": bytes.fromhex("0aa16776657273696f6e02") + bytes(10),
    "version 2 with data in its header": in_version_2(b"", start=10),
    "version 2 with more data than there is": in_version_2(GOOD[:-1], size=1 << 60),
    "version 2 with fewer blocks than it declares": (
        in_version_2(GOOD, size=len(GOOD) + 2 * len(SECTION))
    ),
    "version 2 with a section over its end": in_version_2(GOOD, size=len(GOOD) - 1),
    "version 2 in version 2": in_version_2(bytes.fromhex("0aa16776657273696f6e02")),
    "no version": header(b"\xa1\x65roots\x80"),
    "no roots": header(b"\xa1\x67version\x01"),
    "roots twice": header(b"\xa2\x65roots\x80\x65roots\x80"),
    "a billion roots": header(b"\xa2\x65roots\x9a\x40\x00\x00\x00\x67version\x01"),
    "root is a number": header(b"\xa2\x65roots\x81\x01\x67version\x01"),
    "root is cut": header(b"\xa2\x65roots\x81\xd8\x2a\x58\x25\x00\x01"),
    "root without its zero": header(
        b"\xa2\x65roots\x81\xd8\x2a\x58\x24" + bytes(LEAF) + b"\x67version\x01"
    ),
    "unknown key": header(b"\xa2\x65roots\x80\x65hello\x01"),
    "nested arrays": header(b"\xa2\x65roots" + b"\x81" * 100_000),
    "varint of ten bytes": HEADER + b"\x80" * 9 + b"\x01" + SECTION,
    "non-minimal varint": HEADER + b"\xa9\x00" + SECTION[1:],
    "section of 0": HEADER + b"\0" + SECTION,
    "section over the cap": HEADER + varint.encode(MAX_SECTION + 1) + bytes(100),
    "section cut off": GOOD[:-1],
    "CID cut off": HEADER + section(bytes(LEAF)[:-1]),
    "digest's length lies": HEADER + section(bytes([1, RAW, SHA2_256, 33]) + bytes(33)),
    "CID of version 5": HEADER + section(b"\x05" + bytes(40)),
    "block larger than 2 MiB": HEADER + section(bytes(LEAF) + bytes(MAX_BLOCK + 1)),
    "trailing zero": GOOD + b"\0",
}


def read_archive(archive, step):
    reader = CarReader()
    for at in range(0, len(archive), step):
        yield from reader.update(archive[at : at + step])
    reader.finish()


@pytest.mark.parametrize("archive", BAD_ARCHIVES.values(), ids=BAD_ARCHIVES)
@pytest.mark.parametrize("step", [7, 1 << 20])
def test_bad_archives(archive, step):
    if step < len(archive) / 20_000:
        step = 1000
    with pytest.raises(MalformedError):
        list(read_archive(archive, step))


@pytest.mark.parametrize("archive", BAD_ARCHIVES.values(), ids=BAD_ARCHIVES)
def test_bad_archives_in_files(archive):
    """What is before the damage can be read, if the header is sound."""
    try:
        with closing(ArchiveFile(io.BytesIO(archive), "x.car")) as file:
            if not file.damage:
                file.find(LEAF)
    except MalformedError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
    else:
        assert file.damage.startswith("x.car cannot be read after byte ")


def test_wrong_blocks_in_archives():
    with pytest.raises(VerificationError, match="does not match its CID"):
        list(read_archive(GOOD[:-1] + b"O", 100))
    lie = section(bytes(CID(1, RAW, IDENTITY, b"abc")) + b"abd")
    with pytest.raises(VerificationError, match="does not match its CID"):
        list(read_archive(HEADER + lie, 100))
    sha1 = CID(1, RAW, 0x11, bytes(20))
    assert list(read_archive(HEADER + section(bytes(sha1) + b"hello"), 100)) == []
    with pytest.raises((VerificationError, MalformedError)):
        list(read_archive(GOOD + b"trailing", 100))


def test_doubled_blocks_and_blocks_without_a_root():
    assert list(read_archive(GOOD + SECTION * 3, 10)) == [(LEAF, b"hello")] * 4
    other = CID.of_raw(b"root that is not there")
    archive = b"".join(write_car([other], [(LEAF, b"hello")]))
    blocks = Blocks(read_archive(archive, 100))
    with pytest.raises(UnprovenError, match="missing") as caught:
        blocks.read(other)
    assert caught.value.cid == str(other)


@pytest.mark.parametrize(
    "blocks",
    [5_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(400)])],
)
def test_an_archive_of_many_tiny_blocks(blocks):
    reader = CarReader()
    count = len(reader.update(HEADER))
    for _ in range(blocks // 1000):
        count += len(reader.update(SECTION * 1000))
    reader.finish()
    assert count == blocks


def test_a_walk_takes_only_the_block_it_needs():
    walk = FileWalk(LEAF)
    with pytest.raises(VerificationError):
        walk.feed(b"other")
    assert walk.feed(b"hello") == [b"hello"]
    assert walk.need is None
    with pytest.raises(ValueError, match="needs no block"):
        walk.feed(b"hello")
    proof = BodyProof(LEAF)
    proof.feed_block(b"hello")
    with pytest.raises(ValueError, match="no block is needed"):
        proof.feed_block(b"hello")
