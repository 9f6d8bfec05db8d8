"""Content that lies or would hurt: each case is a typed error, in bounded time and memory."""

import hashlib
import tracemalloc
from itertools import islice

import pytest

from holdfast.content import dag_pb, varint
from holdfast.content.blocks import MAX_BLOCK, check_block
from holdfast.content.car import MAX_HEADER, MAX_SECTION, CarReader, write_car
from holdfast.content.cid import CID, DAG_PB, IDENTITY, RAW, SHA2_256
from holdfast.content.dag_pb import Link
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.content.unixfs import data, hamt
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.files import FileImporter
from holdfast.content.unixfs.walks import FileWalk
from holdfast.errors import (
    MalformedError,
    NotAFileError,
    NotFoundError,
    UnprovenError,
    VerificationError,
)
from tests.bombs import section
from tests.content import Blocks

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


def node(blocks, links, message, *, cid_version=1):
    """Put a dag-pb node into `blocks`; its CID."""
    block = dag_pb.encode(links, message)
    cid = CID(cid_version, DAG_PB, SHA2_256, hashlib.sha256(block).digest())
    blocks[cid] = block
    return cid


def raw_node(blocks, block):
    """Put any bytes into `blocks` as a dag-pb block; its CID."""
    cid = CID(1, DAG_PB, SHA2_256, hashlib.sha256(block).digest())
    blocks[cid] = block
    return cid


def message(kind, *, content=None, size=None, sizes=(), hash_type=None, fanout=None):
    """A UnixFS message with any fields."""
    out = b"\x08" + varint.encode(kind)
    if content is not None:
        out += b"\x12" + varint.encode(len(content)) + content
    if size is not None:
        out += b"\x18" + varint.encode(size)
    out += b"".join(b"\x20" + varint.encode(each) for each in sizes)
    if hash_type is not None:
        out += b"\x28" + varint.encode(hash_type)
    if fanout is not None:
        out += b"\x30" + varint.encode(fanout)
    return out


def file_of(sizes, links, *, size=None):
    """A file node with five bytes for each raw leaf of "hello"."""
    blocks = Blocks({LEAF: b"hello"})
    size = sum(sizes) if size is None else size
    return node(blocks, links, message(2, size=size, sizes=sizes)), blocks


def link(cid=LEAF, name=b"", size=5):
    return Link(cid, name, size)


# T9, the codec below UnixFS

GOOD_LINK = dag_pb.encode_link(link())
GOOD_DATA = b"\x0a\x04\x08\x02\x18\x00"

BAD_BLOCKS = {
    "length overread": b"\x0a\x7f\x08\x02",
    "length of 4 GiB": b"\x0a" + varint.encode(1 << 32) + b"\x08\x02",
    "length of 2^62": b"\x0a" + varint.encode(1 << 62),
    "link length overread": b"\x12\x7f" + GOOD_LINK,
    "inner length overread": b"\x12\x03\x0a\x24\x01" + GOOD_DATA,
    "wire type of Data": b"\x08\x01",
    "wire type of Links": b"\x10\x01" + GOOD_DATA,
    "fixed64": b"\x09" + bytes(8),
    "group": b"\x0b",
    "fixed32": b"\x0d" + bytes(4),
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
def test_bad_dag_pb(block):
    with pytest.raises(MalformedError):
        dag_pb.decode(block)
    blocks = Blocks()
    cid = raw_node(blocks, block)
    with pytest.raises(MalformedError):
        blocks.read(cid)
    with pytest.raises(MalformedError):
        blocks.list(cid)
    with pytest.raises(MalformedError):
        list(BodyProof(cid).feed_block(block))


def test_both_orders_of_links_and_data_are_read():
    framed = b"\x12" + varint.encode(len(GOOD_LINK)) + GOOD_LINK
    content = message(2, size=5, sizes=[5])
    body = b"\x0a" + varint.encode(len(content)) + content
    blocks = Blocks({LEAF: b"hello"})
    for block in (framed + body, body + framed):
        assert blocks.read(raw_node(blocks, block)) == b"hello"


# T9, UnixFS itself

BAD_MESSAGES = {
    "no type": b"",
    "no type, but a size": b"\x18\x05",
    "unknown type": message(6),
    "huge type": message(1 << 40),
    "metadata": message(3),
    "type twice": b"\x08\x02\x08\x02",
    "size twice": message(2, size=0) + b"\x18\x00",
    "data twice": message(2, content=b"x") + b"\x12\x01y",
    "type as bytes": b"\x0a\x01\x02",
    "packed block sizes": b"\x08\x02\x22\x01\x05",
    "unknown field": message(2) + b"\x48\x01",
    "declared size without data": message(2, size=5),
    "size too low": message(2, content=b"hello", size=4),
    "size too high": message(2, content=b"hello", size=1 << 40),
    "block sizes without links": message(2, size=5, sizes=[5]),
}


@pytest.mark.parametrize("content", BAD_MESSAGES.values(), ids=BAD_MESSAGES)
def test_bad_unixfs(content):
    blocks = Blocks()
    cid = node(blocks, [], content)
    with pytest.raises(MalformedError):
        blocks.read(cid)
    with pytest.raises(MalformedError):
        list(BodyProof(cid).feed_block(blocks[cid]))


@pytest.mark.parametrize(
    ("sizes", "links", "size"),
    [
        ([5], [link(), link()], None),
        ([5, 5], [link()], None),
        ([], [link()], None),
        ([5], [link()], 4),
        ([5], [link()], 6),
        ([5], [link()], 0),
        ([4], [link()], None),
        ([6], [link()], None),
        ([1 << 40], [link()], None),
        ([5, (1 << 62)], [link(), link()], None),
    ],
    ids=[
        "fewer sizes than links",
        "more sizes than links",
        "no sizes",
        "file size low",
        "file size high",
        "file size 0",
        "block size low",
        "block size high",
        "block size of a TiB",
        "second block of 4 EiB",
    ],
)
def test_lies_about_sizes(sizes, links, size):
    cid, blocks = file_of(sizes, links, size=size)
    with pytest.raises(MalformedError):
        blocks.read(cid)


@pytest.mark.parametrize(("declared", "held"), [(4, 5), (6, 5), (1 << 40, 5)])
def test_lies_about_sizes_beside_a_plain_body(declared, held):
    blocks = Blocks({LEAF: b"hello"})
    inner = node(blocks, [link()], message(2, size=held, sizes=[held]))
    root = node(blocks, [link(inner)], message(2, size=declared, sizes=[declared]))
    proof = BodyProof(root)
    proof.feed_block(blocks[root])
    with pytest.raises(VerificationError):  # noqa: PT012
        proof.update(b"hello!")
        while proof.need is not None:
            proof.feed_block(blocks[proof.need])
        proof.finish()


@pytest.mark.slow
@pytest.mark.timeout(120)  # most of it goes into making the nodes
def test_a_node_that_is_wide_at_every_level():
    tracemalloc.stop()  # the nodes are made without being watched: that takes many times as long
    blocks = Blocks()
    tiny = CID(1, RAW, IDENTITY, b"x")
    cid, size = tiny, 1
    for _ in range(2):
        width = 31_000
        sizes = [size] + [1] * (width - 1)
        size = sum(sizes)
        links = [link(cid)] + [link(tiny)] * (width - 1)
        cid = node(blocks, links, message(2, size=size, sizes=sizes))
    blocks[tiny] = b"x"
    tracemalloc.start()
    with pytest.raises(MalformedError, match="too wide"):
        blocks.read(cid)
    framed = b"\x12\x08" + b"\x0a\x04" + bytes(tiny)[:4] + b"\x18\x01"
    with pytest.raises(MalformedError):
        dag_pb.decode(framed * 50_001)


def test_a_walk_that_failed_does_not_go_on():
    blocks = Blocks({LEAF: b"hello"})
    broken = raw_node(blocks, b"\x0a\x7f")
    cid = node(blocks, [link(broken), link()], message(2, size=10, sizes=[5, 5]))
    walk = FileWalk(cid)
    walk.feed(blocks[cid])
    for _ in range(2):
        with pytest.raises(MalformedError):
            walk.feed(blocks[broken])
        assert walk.need == broken


def test_an_archive_that_was_refused_does_not_end_well():
    reader = CarReader()
    with pytest.raises(MalformedError):
        reader.update(b"\0nonsense")
    for call in (lambda: reader.update(b"more"), reader.finish):
        with pytest.raises(MalformedError, match="earlier part of the archive"):
            call()


def test_a_lie_about_the_size_of_the_dag_is_not_believed():
    cid, blocks = file_of([5], [link(size=1 << 60)])
    assert blocks.read(cid) == b"hello"


def test_a_block_above_two_mib_is_refused_whatever_it_holds():
    large = bytes(MAX_BLOCK + 1)
    with pytest.raises(MalformedError, match="larger than"):
        check_block(CID.of_raw(large), large)
    check_block(CID.of_raw(large[1:]), large[1:])
    cid, blocks = file_of([len(large)], [link(CID.of_raw(large))])
    blocks[CID.of_raw(large)] = large
    with pytest.raises(MalformedError):
        blocks.read(cid)
    proof = BodyProof(cid)
    with pytest.raises(MalformedError):
        list(proof.feed_block(blocks[cid]))


def chain(depth, content=b"hello"):
    """Nodes with one child each, `depth` of them above a leaf."""
    blocks = Blocks({CID.of_raw(content): content})
    cid = CID.of_raw(content)
    for _ in range(depth):
        cid = node(blocks, [link(cid)], message(2, size=len(content), sizes=[len(content)]))
    return cid, blocks


def test_a_depth_bomb():
    cid, blocks = chain(20)
    assert blocks.read(cid) == b"hello"
    cid, blocks = chain(5000)
    with pytest.raises(MalformedError, match="deeper than"):
        blocks.read(cid)
    proof = BodyProof(cid)
    with pytest.raises(MalformedError, match="deeper than"):  # noqa: PT012
        while proof.need is not None:
            list(proof.feed_block(blocks[proof.need]))
            list(proof.update(b"hello" if proof.need is None else b""))


def shared(levels, width, content):
    """One block under `width` links, and that under as many again, and so on."""
    cid, size = CID.of_raw(content), len(content)
    blocks = Blocks({cid: content})
    for _ in range(levels):
        sizes = [size] * width
        size *= width
        cid = node(blocks, [link(cid)] * width, message(2, size=size, sizes=sizes))
    return cid, blocks, size


def test_a_width_bomb_by_shared_links_is_seen_at_its_root():
    cid, blocks, size = shared(4, 1024, b"x")
    assert size == 1 << 40
    assert len(blocks) == 5
    with pytest.raises(MalformedError, match="1099511627776 bytes, over"):
        blocks.read(cid, limit=1 << 30)
    # Without a limit it is a file like any other, and gives its bytes one piece at a time.
    assert b"".join(islice(blocks.run(FileWalk(cid)), 1000)) == b"x" * 1000
    assert blocks.read(cid, (1 << 40) - 3) == b"xxx"


def test_a_bomb_of_empty_children_is_not_visited():
    cid, blocks, size = shared(20, 1000, b"")
    assert size == 0
    with pytest.raises(MalformedError, match="to be empty"):
        blocks.read(cid)
    with pytest.raises(MalformedError, match="to be empty"):
        BodyProof(cid).feed_block(blocks[cid])
    cid, blocks, size = shared(1, 1000, b"")
    assert blocks.read(cid) == b""
    proof = BodyProof(cid)
    proof.feed_block(blocks[cid])
    proof.finish()


def test_a_link_to_itself_cannot_be_made_but_to_a_missing_block_can():
    cid, blocks = file_of([5, 5], [link(), link(CID.of_raw(b"other"))])
    with pytest.raises(UnprovenError) as caught:
        blocks.read(cid)
    assert caught.value.cid == str(CID.of_raw(b"other"))


def test_other_codecs_and_hashes_in_a_file():
    cid, blocks = file_of([5], [link(CID(1, 0x71, SHA2_256, LEAF.digest))])
    blocks[CID(1, 0x71, SHA2_256, LEAF.digest)] = b"hello"
    with pytest.raises(UnprovenError, match="no UnixFS"):
        blocks.read(cid)
    sha1 = CID(1, RAW, 0x11, bytes(20))
    cid, blocks = file_of([5], [link(sha1)])
    blocks[sha1] = b"hello"
    with pytest.raises(UnprovenError, match="hash function"):
        blocks.read(cid)
    proof = BodyProof(cid)
    with pytest.raises(UnprovenError, match="hash function"):  # noqa: PT012
        list(proof.feed_block(blocks[cid]))
        list(proof.update(b"hello"))
    cbor = CID(1, 0x71, SHA2_256, LEAF.digest)
    cid, blocks = file_of([5], [link(cbor)])
    proof = BodyProof(cid)
    proof.feed_block(blocks[cid])
    with pytest.raises(UnprovenError, match="no UnixFS"):
        proof.update(b"hello")


def test_an_identity_cid_may_carry_a_leaf_and_may_lie():
    inline = CID(1, RAW, IDENTITY, b"hello")
    cid, blocks = file_of([5], [link(inline)])
    blocks[inline] = b"hello"
    assert blocks.read(cid) == b"hello"
    blocks[inline] = b"hellO"
    with pytest.raises(VerificationError):
        blocks.read(cid)


def test_a_symbolic_link_and_a_directory_are_no_files():
    blocks = Blocks()
    for content in (data.symlink_data(b"/etc/passwd"), data.DIRECTORY):
        cid = node(blocks, [], content)
        with pytest.raises(NotAFileError):
            blocks.read(cid)
        with pytest.raises(NotAFileError):
            list(BodyProof(cid).feed_block(blocks[cid]))


@pytest.mark.parametrize(
    "names",
    [[b"a", b"a"], [b""], [b"", b"a"], [b".."], [b"."], [b"/abs"], [b"../x"], [b"a\0b"]],
    ids=str,
)
def test_doubled_and_empty_names_in_a_directory(names):
    blocks = Blocks()
    cid = node(blocks, [link(name=name) for name in names], data.DIRECTORY)
    with pytest.raises(MalformedError, match="empty, unsafe or doubled"):
        blocks.list(cid)
    if names == [b"a", b"a"]:
        with pytest.raises(MalformedError, match="doubled"):
            blocks.find(cid, "a")


# T9: sharded directories


def slot_of(name, level=0):
    return hamt.slot_at(hamt.murmur3(name), 8 * level, 256)


def shard(blocks, entries, *, hash_type=hamt.MURMUR3, fanout=256, bitfield=None):
    """A shard with links in given slots: (slot, name, cid)."""
    entries = sorted(entries)
    bits = sum(1 << slot for slot, _, _ in entries) if bitfield is None else bitfield
    links = [link(cid, hamt.slot_prefix(slot, 256) + name) for slot, name, cid in entries]
    content = bits.to_bytes((bits.bit_length() + 7) // 8, "big")
    text = message(5, content=content, hash_type=hash_type, fanout=fanout)
    return node(blocks, links, text)


ENTRY = (slot_of(b"a"), b"a", LEAF)


@pytest.mark.parametrize(
    "how",
    [
        {"fanout": 0},
        {"fanout": 3},
        {"fanout": 1 << 31},
        {"fanout": 2048},
        {"fanout": 1},
        {"fanout": 100},
        {"fanout": None},
        {"hash_type": 0x12},
        {"hash_type": None},
        {"bitfield": 0},
        {"bitfield": 3},
        {"bitfield": 1 << (slot_of(b"a") ^ 1)},
        {"bitfield": 1 << 300},
    ],
    ids=str,
)
def test_bad_shards(how):
    blocks = Blocks()
    cid = shard(blocks, [ENTRY], **how)
    with pytest.raises(MalformedError):
        blocks.list(cid)
    with pytest.raises(MalformedError):
        blocks.find(cid, "a")


def test_a_good_shard_of_the_same_making():
    blocks = Blocks()
    cid = shard(blocks, [ENTRY])
    assert [entry.name for entry in blocks.list(cid)] == ["a"]
    assert blocks.find(cid, "a") == LEAF
    with pytest.raises(NotFoundError):
        blocks.find(cid, "b")


def test_an_entry_in_the_wrong_slot():
    blocks = Blocks()
    cid = shard(blocks, [(ENTRY[0] ^ 1, b"a", LEAF)])
    with pytest.raises(MalformedError, match="wrong slot"):
        blocks.list(cid)


def test_a_bomb_of_shared_shards():
    blocks = Blocks()
    cid = shard(blocks, [ENTRY])
    for _ in range(8):
        cid = shard(blocks, [(slot, b"", cid) for slot in range(256)])
    assert len(blocks) == 9
    with pytest.raises(MalformedError):
        blocks.list(cid)
    with pytest.raises((MalformedError, NotFoundError)):
        blocks.find(cid, "a")
    blocks = Blocks()
    cid = shard(blocks, [])
    for _ in range(7):
        cid = shard(blocks, [(slot, b"", cid) for slot in range(256)])
    with pytest.raises(MalformedError, match="empty shard"):
        blocks.list(cid)


def test_a_plain_directory_under_a_shard():
    blocks = Blocks()
    directory = node(blocks, [link(name=b"a")], data.DIRECTORY)
    cid = shard(blocks, [(slot_of(b"a"), b"", directory)])
    with pytest.raises(MalformedError, match="among shards"):
        blocks.list(cid)
    with pytest.raises(MalformedError, match="among shards"):
        blocks.find(cid, "a")


def test_an_empty_name_leads_nowhere():
    blocks = Blocks()
    cid = node(blocks, [link(name=b"")], data.DIRECTORY)
    with pytest.raises(NotFoundError):
        blocks.find(cid, "")


def test_a_block_that_nobody_asked_for():
    proof = BodyProof(LEAF)
    proof.feed_block(b"hello")
    with pytest.raises(ValueError, match="no block is needed"):
        proof.feed_block(b"hello")


# T8, archives

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
    "header is text": header(b"\x65hello"),
    "bad version": header(b"\xa2\x65roots\x80\x67version\x03"),
    "version 2 without its header": bytes.fromhex("0aa16776657273696f6e02") + bytes(10),
    "version 2 with data in its header": (
        bytes.fromhex("0aa16776657273696f6e02") + bytes(16) + (10).to_bytes(8, "little") + bytes(16)
    ),
    "version 2 with more data than there is": (
        bytes.fromhex("0aa16776657273696f6e02")
        + bytes(16)
        + (51).to_bytes(8, "little")
        + (1 << 60).to_bytes(8, "little")
        + bytes(8)
        + GOOD[:-1]
    ),
    "version 2 with fewer blocks than it declares": (
        bytes.fromhex("0aa16776657273696f6e02")
        + bytes(16)
        + (51).to_bytes(8, "little")
        + (len(GOOD) + 2 * len(SECTION)).to_bytes(8, "little")
        + bytes(8)
        + GOOD
    ),
    "version 2 with a section over its end": (
        bytes.fromhex("0aa16776657273696f6e02")
        + bytes(16)
        + (51).to_bytes(8, "little")
        + (len(GOOD) - 1).to_bytes(8, "little")
        + bytes(8)
        + GOOD
    ),
    "version 2 in version 2": (
        bytes.fromhex("0aa16776657273696f6e02")
        + bytes(16)
        + (51).to_bytes(8, "little")
        + (11).to_bytes(8, "little")
        + bytes(8)
        + bytes.fromhex("0aa16776657273696f6e02")
    ),
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
    "varint that never ends": HEADER + b"\xff" * 100,
    "non-minimal varint": HEADER + b"\xa9\x00" + SECTION[1:],
    "section of 0": HEADER + b"\0" + SECTION,
    "section over the cap": HEADER + varint.encode(MAX_SECTION + 1) + bytes(100),
    "section of 2^62": HEADER + varint.encode(1 << 62) + bytes(100),
    "section cut off": GOOD[:-1],
    "section cut off in its length": GOOD + b"\x80",
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
    [20_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(400)])],
)
def test_an_archive_of_many_tiny_blocks(blocks):
    reader = CarReader()
    count = len(reader.update(HEADER))
    for _ in range(blocks // 1000):
        count += len(reader.update(SECTION * 1000))
    reader.finish()
    assert count == blocks


# T7: wrong content for a CID


def test_cidv0_and_cidv1_of_one_dag_are_the_same_content():
    content = bytes(1_000_000)
    cid, blocks = Blocks.of_file(content, UNIXFS_V0_2015)
    as_v1 = CID(1, cid.codec, cid.hash_code, cid.digest)
    assert blocks.read(as_v1) == content


def test_swapped_blocks_and_another_valid_file():
    content = bytes(1 << 20) + b"\x01" * (1 << 20)
    cid, blocks = Blocks.of_file(content, UNIXFS_V1_2025)
    first, second = CID.of_raw(content[: 1 << 20]), CID.of_raw(content[1 << 20 :])
    blocks[first], blocks[second] = blocks[second], blocks[first]
    with pytest.raises(VerificationError):
        blocks.read(cid)
    other, _ = Blocks.of_file(content[::-1], UNIXFS_V1_2025)
    for body in (content[::-1], content[:-1], content + b"x", b"", b"x" + content[1:]):
        proof = BodyProof(cid)
        list(proof.feed_block(blocks[cid]))
        with pytest.raises(VerificationError):  # noqa: PT012
            list(proof.update(body))
            proof.finish()
    assert other != cid


def test_a_walk_takes_only_the_block_it_needs():
    walk = FileWalk(LEAF)
    with pytest.raises(VerificationError):
        list(walk.feed(b"other"))
    assert list(walk.feed(b"hello")) == [b"hello"]
    assert walk.need is None
    with pytest.raises(ValueError, match="needs no block"):
        list(walk.feed(b"hello"))


def test_an_importer_emits_what_its_root_needs():
    blocks = Blocks()
    importer = FileImporter(UNIXFS_V0_2015, blocks.__setitem__)
    importer.update(bytes(500_000))
    cid = importer.finish().cid
    for each, block in blocks.items():
        check_block(each, block)
    assert blocks.read(cid) == bytes(500_000)
