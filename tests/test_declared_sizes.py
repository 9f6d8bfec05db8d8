"""Nodes of files that declare other sizes than their children have (number 6).

Each such DAG is the same `MalformedError` by blocks, by archive, in ranges and in the repository;
DAGs whose sizes agree give the same bytes in every way.
"""

import random

import pytest

from holdfast.content.blocks import inline_block
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.content.hashes import FUNCTIONS, SHA2_256
from holdfast.content.unixfs.archive import ArchiveProof
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.file_nodes import is_empty_leaf
from holdfast.content.unixfs.walks import FileWalk
from holdfast.errors import ClientError, MalformedError, VerificationError
from holdfast.repository import Repository
from tests.commands import Commands
from tests.dags import Dag
from tests.disks import in_memory
from tests.lying_dags import LIES, TRUTHS, bodies, build

# A node without a UnixFS message that can be read may be pinned, but not read as a file.
UNREADABLE = "varint of ten bytes"


@pytest.fixture(scope="module")
def repository():
    with in_memory() as folder, Repository(folder / "store") as repository:
        yield repository


def find(blocks, cid):
    inline = inline_block(cid)
    return blocks[cid] if inline is None else inline


def by_blocks(root, blocks, body, start=0, stop=None, *, step=1 << 20):
    """What the plain body proves to be, with the blocks that are asked for beside it."""
    proof = BodyProof(root, start, stop)
    out = []
    if start or stop is not None:
        while proof.need is not None:
            proof.feed_block(find(blocks, proof.need))
        body = body[proof.position : proof.end]
    for at in range(0, max(1, len(body)), step):
        out += proof.update(body[at : at + step])
        while proof.need is not None:
            out += proof.feed_block(find(blocks, proof.need))
    while proof.ends_too_early():
        out += proof.feed_block(find(blocks, proof.need))
    proof.finish()
    return b"".join(out)


def by_archive(root, blocks, start=0, stop=None):
    proof = ArchiveProof(root, (), start, stop)
    out = proof.update(b"".join(write_car([root], blocks.items())))
    proof.finish()
    return b"".join(out)


def by_walk(root, blocks, start=0, stop=None):
    walk = FileWalk(root, start, stop)
    out = []
    while walk.need is not None:
        out += walk.feed(find(blocks, walk.need))
    return b"".join(out)


@pytest.mark.parametrize("name", LIES)
def test_a_lie_about_sizes_is_malformed_by_blocks_and_by_archive(name):
    root, blocks, content = build(LIES[name])
    assert outcome(by_walk, root, blocks) == "MalformedError"
    assert outcome(by_archive, root, blocks) == "MalformedError"
    for body in bodies(root, blocks, content):
        for step in (1, 3, 1 << 20):
            assert outcome(by_blocks, root, blocks, body, step=step) == "MalformedError"


@pytest.mark.parametrize("name", LIES)
def test_a_lie_about_sizes_is_malformed_in_the_repository(repository, name):
    root, blocks, _ = build(LIES[name])
    if name != UNREADABLE:
        with pytest.raises(MalformedError):
            repository.import_car(write_car([root], blocks.items()))
        assert not any(repository.has(cid) for cid in blocks)
    with repository.adding() as adding:
        for cid, block in blocks.items():
            adding.put(cid, block)
        adding.flush()
    if name != UNREADABLE:
        with pytest.raises(MalformedError):
            repository.pin(root)
        assert repository.totals().pins == 0
    with pytest.raises(MalformedError):
        list(repository.read(root))
    repository.collect_garbage()


@pytest.mark.parametrize("code", FUNCTIONS)
def test_sizes_that_agree_are_read_in_every_way(repository, code):
    for case in TRUTHS.values():
        root, blocks, content = build(case, code)
        assert by_walk(root, blocks) == content
        assert by_archive(root, blocks) == content
        for step in (1, 3, 1 << 20):
            assert by_blocks(root, blocks, content, step=step) == content
        repository.import_car(write_car([root], blocks.items()))
        assert b"".join(repository.read(root)) == content
        repository.unpin(root)
    repository.collect_garbage()


def test_a_child_declared_empty_is_malformed_under_every_hash_function_and_unvisited():
    for code in FUNCTIONS:
        for name in (
            *("raw child declared empty", "leaf declared empty", "inner node declared empty"),
            "missing child declared as 0 bytes",
        ):
            root, blocks, _ = build(LIES[name], code)
            for proof in (FileWalk(root).feed, BodyProof(root).feed_block):
                with pytest.raises(MalformedError, match="to be empty"):
                    proof(blocks[root])


def test_which_leaves_are_empty():
    assert is_empty_leaf(CID.parse("QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH"))
    assert is_empty_leaf(CID.parse("bafkqaaa"))
    assert is_empty_leaf(CID.of_raw(b""))
    assert not is_empty_leaf(CID.of_raw(b"\0"))
    assert not is_empty_leaf(CID(1, 0x71, SHA2_256, CID.of_raw(b"").digest))


@pytest.mark.parametrize("name", LIES)
def test_a_range_over_a_lie_gives_no_bytes_that_the_whole_does_not(name):
    root, blocks, content = build(LIES[name])
    size = max(len(content), 12)
    for start in range(0, size, 3):
        for stop in range(start + 1, size, 3):
            results = {outcome(by_walk, root, blocks, start, stop)}
            results.add(outcome(by_archive, root, blocks, start, stop))
            for body in bodies(root, blocks, content):
                result = outcome(by_blocks, root, blocks, body, start, stop)
                # A body that is wrong itself may be the first to be noticed.
                results.add("MalformedError" if result == "VerificationError" else result)
            assert len(results) <= 2
            assert results & {"MalformedError"} or len(results) == 1


# Random DAGs: whatever they declare, all ways agree.


def random_dag(chance):
    """A DAG of a few levels with shared links, in which a size is now and then a lie."""
    dag = Dag(chance.choice(list(FUNCTIONS)))
    nodes = [(dag.raw(b""), b""), (dag.leaf(b""), b"")]
    for _ in range(chance.randint(1, 4)):
        content = chance.randbytes(chance.randint(1, 6))
        nodes.append((chance.choice([dag.raw, dag.leaf])(content), content))
    lies = chance.random() < 0.6
    for _ in range(chance.randint(1, 6)):
        children = chance.choices(nodes, k=chance.randint(0, 5))
        own = chance.choice([None, None, b"", chance.randbytes(2)])
        content = (own or b"") + b"".join(part for _, part in children)
        sizes = [len(part) for _, part in children]
        if lies and sizes and chance.random() < 0.35:
            sizes[chance.randrange(len(sizes))] = chance.choice([0, 1, 2, 5, 1 << 40])
        declared = sum(sizes) + len(own or b"")
        if lies and chance.random() < 0.1:
            declared = chance.choice([None, 0, declared + 1])
        cids = [cid for cid, _ in children]
        root = dag.node(cids, content=own, size=declared, sizes=sizes)
        nodes.append((root, content))
    return root, dag.blocks, content


def outcome(way, *args, **options):
    """The bytes that a way gives, or the name of its error."""
    try:
        return way(*args, **options)
    except ClientError as error:
        return error.name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_all_ways_agree_on_random_dags(seed):
    chance = random.Random(f"sizes {seed}")  # noqa: S311
    read = malformed = 0
    for _ in range(40):
        root, blocks, content = random_dag(chance)
        first = outcome(by_walk, root, blocks)
        assert first in {content, "MalformedError"}
        assert outcome(by_archive, root, blocks) == first
        assert outcome(by_blocks, root, blocks, content, step=chance.choice([1, 2, 100])) == first
        for body in bodies(root, blocks, content):
            # A wrong body for a sound DAG is the fault of who sent it, never another result.
            result = outcome(by_blocks, root, blocks, body)
            assert result == first or (result == "VerificationError" and body != content)
        start = chance.randint(0, len(content))
        stop = chance.randint(start, len(content) + 2)
        part = outcome(by_walk, root, blocks, start, stop)
        assert outcome(by_archive, root, blocks, start, stop) == part
        if first == content:
            assert part == content[start:stop]
            assert outcome(by_blocks, root, blocks, content, start, stop) == part
        read += first == content
        malformed += first == "MalformedError"
    assert read > 5
    assert malformed > 2


def test_a_wrong_body_for_a_sound_file_is_not_called_malformed():
    dag = Dag()
    root = dag.inner((dag.raw(b"hello"), 5), (dag.leaf(b"world"), 5))
    for body in (b"hellOworld", b"helloworlD", b"hello", b"helloworld!", b""):
        with pytest.raises(VerificationError) as caught:
            by_blocks(root, dag.blocks, body)
        assert type(caught.value) is VerificationError


def test_the_command_line_takes_in_no_lie(tmp_path):
    root, blocks, _ = build(LIES["raw child declared empty"])
    archive = tmp_path / "lie.car"
    archive.write_bytes(b"".join(write_car([root], blocks.items())))
    ended = Commands(tmp_path).run("car", "import", archive, HOLDFAST_PATH=str(tmp_path / "store"))
    assert ended.returncode != 0
    assert b"to be empty" in ended.stderr
    with Repository(tmp_path / "store") as repository:
        assert not any(repository.has(cid) for cid in blocks)
