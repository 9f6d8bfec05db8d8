"""DAGs and archives that lie: random nodes with shared links, false sizes, bombs and odd bytes.

Each input is read as a walk, as an archive, as a plain body with blocks beside it, and now and then
taken into a store. Whatever it is:

* an error is one of the typed set;
* no more bytes come out than the root declares, and no more blocks are asked for than that needs;
* the ways agree: the same bytes, or no bytes;
* an archive that the store refuses leaves no block in it;
* all inputs together take less than `MAX_MEMORY` above the idle process.
"""

import random
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.content import dag_pb, varint
from holdfast.content.blocks import inline_block, missing_block
from holdfast.content.car import write_car
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.dag_pb import Link
from holdfast.content.hashes import FUNCTIONS, IDENTITY, SHA2_256
from holdfast.content.unixfs import data
from holdfast.content.unixfs.archive import ArchiveProof
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.file_nodes import MAX_DEPTH
from holdfast.content.unixfs.walks import FileWalk
from holdfast.errors import ClientError
from holdfast.repository import Repository

MAX_MEMORY = 64 << 20
MAX_OUTPUT = 300  # bytes of a bomb that are read before it is left
STORED_EVERY = 500  # inputs: a store synchronises its files, which takes its time
BOMB_EVERY = 5000  # inputs: large ones

SIZES = [0, 1, 2, 3, 5, 100, 1 << 20, (2 << 20) + 1, 1 << 40, (1 << 63) - 1]
ODD_CODES = [0x11, 0x1E, 0xD5, 0x9999]


class Dag:
    """Blocks in the making, and what each CID has been found to hold."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.code = SHA2_256 if chance.random() < 0.8 else chance.choice(list(FUNCTIONS))
        self.blocks: dict[CID, bytes] = {}
        self.known: list[tuple[CID, int]] = []

    def put(self, codec: int, block: bytes, size: int) -> CID:
        """Keep a block; its CID, under which a parent will believe that it has `size` bytes."""
        if len(block) < 100 and self.chance.random() < 0.05:
            cid = CID(1, codec, IDENTITY, block)
        else:
            cid = CID(1, codec, self.code, FUNCTIONS[self.code].new(block).digest())
            self.blocks[cid] = block
        self.known.append((cid, size))
        return cid

    def node(self, children: list[tuple[CID, int]], *, honest: bool) -> CID:
        """A file's node over some children, with a lie in it now and then."""
        chance = self.chance
        sizes = [size for _, size in children]
        own = chance.randbytes(chance.randint(0, 3)) if chance.random() < 0.2 else b""
        if not honest and sizes and chance.random() < 0.5:
            sizes[chance.randrange(len(sizes))] = chance.choice(SIZES)
        if not honest and chance.random() < 0.1:
            sizes = sizes[:-1] if chance.random() < 0.5 else [*sizes, chance.choice(SIZES)]
        total = sum(sizes) + len(own)
        declared = total if honest or chance.random() < 0.8 else chance.choice(SIZES)
        kind = 2 if honest or chance.random() < 0.9 else chance.randrange(7)
        message = b"\x08" + bytes([kind])
        if own or chance.random() < 0.1:
            message += b"\x12" + varint.encode(len(own)) + own
        if chance.random() < 0.9:
            message += b"\x18" + varint.encode(min(declared, (1 << 63) - 1))
        for size in sizes:
            message += b"\x20" + varint.encode(min(size, (1 << 63) - 1))
        block = dag_pb.encode([Link(cid, b"", 5) for cid, _ in children], message)
        if not honest and chance.random() < 0.1:
            block = flipped(chance, block)
        return self.put(DAG_PB, block, total)


def flipped(chance: random.Random, sound: bytes) -> bytes:
    """`sound` with one byte changed, cut out or put in."""
    out = bytearray(sound)
    place = chance.randrange(len(out) + 1)
    match chance.randrange(3):
        case 0 if place < len(out):
            out[place] ^= 1 << chance.randrange(8)
        case 1:
            del out[place : place + 1]
        case _:
            out[place:place] = chance.randbytes(1)
    return bytes(out)


def random_dag(chance: random.Random) -> tuple[CID, Dag]:
    """A few leaves, and nodes over any of what is there by then, the last of them the root."""
    dag = Dag(chance)
    for _ in range(chance.randint(1, 4)):
        content = chance.randbytes(chance.choice([0, 1, 1, 4, 40]))
        if chance.random() < 0.6:
            dag.put(RAW, content, len(content))
        else:
            message = b"\x08\x02\x12" + varint.encode(len(content)) + content
            message += b"\x18" + varint.encode(len(content))
            dag.put(DAG_PB, dag_pb.encode([], message), len(content))
    if chance.random() < 0.05:
        dag.known.append((CID(1, RAW, chance.choice(ODD_CODES), bytes(20)), 5))
    if chance.random() < 0.05:
        dag.known.append((CID(1, 0x71, SHA2_256, bytes(32)), 5))
    if chance.random() < 0.1:
        dag.known.append((CID(1, RAW, IDENTITY, b""), 0))
    honest = chance.random() < 0.4
    root = dag.known[-1][0]
    levels = chance.choice([1, 2, 3, 6, MAX_DEPTH + 3])
    for _ in range(levels):
        width = chance.choice([0, 1, 2, 5]) if levels > 3 else chance.choice([1, 2, 5, 20])
        children = chance.choices(dag.known[-4:], k=width)
        root = dag.node(children, honest=honest)
    return root, dag


def bomb(chance: random.Random) -> tuple[CID, Dag]:
    """A DAG of blocks as large as they may be, which expands without end or is very wide."""
    dag = Dag(chance)
    content = bytes(chance.choice([1, 1 << 20]))
    cid = dag.put(RAW, content, len(content))
    if chance.random() < 0.3:
        cid = CID(1, RAW, IDENTITY, b"x")
        content = b"x"
    size = len(content)
    for _ in range(chance.randint(1, 4)):
        width = chance.choice([1000, 10_000, 40_000])
        sizes = [size] * width
        message = b"\x08\x02\x18" + varint.encode(min(size * width, (1 << 63) - 1))
        message += b"".join(b"\x20" + varint.encode(each) for each in sizes)
        cid = dag.put(DAG_PB, dag_pb.encode([Link(cid, b"", 5)] * width, message), size * width)
        size = min(size * width, (1 << 62) - 1)
    return cid, dag


def find(dag: Dag, cid: CID) -> bytes:
    block = inline_block(cid)
    block = dag.blocks.get(cid) if block is None else block
    if block is None:
        raise missing_block(cid)
    return block


# The ways to read. Each gives the bytes, and whether they are all: of a bomb only some are read.


def by_walk(root: CID, dag: Dag, start: int = 0, stop: int | None = None) -> tuple[bytes, bool]:
    walk = FileWalk(root, start, stop)
    out = bytearray()
    fed = 0
    while (need := walk.need) is not None and len(out) < MAX_OUTPUT:
        for piece in walk.feed(find(dag, need)):
            out += piece
        fed += 1
        # Every block that is asked for has bytes that are wanted, below at most so many levels.
        if fed > (MAX_DEPTH + 2) * (len(out) + 2):
            raise AssertionError(f"{fed} blocks for {len(out)} bytes")
    wanted = (walk.size or 0) if stop is None else stop - start
    if len(out) > max(wanted, 0):
        raise AssertionError(f"{len(out)} bytes of {wanted}")
    return bytes(out), walk.need is None


def by_archive(root: CID, archive: bytes, step: int) -> tuple[bytes, bool]:
    proof = ArchiveProof(root)
    out = bytearray()
    for at in range(0, len(archive), step):
        chunk = archive[at : at + step]
        while True:
            out += b"".join(proof.update(chunk))
            chunk = b""
            if len(out) >= MAX_OUTPUT:
                return bytes(out), False
            if not proof.has_more:
                break
    proof.finish()
    if len(out) > (proof.size or 0):
        raise AssertionError(f"{len(out)} bytes of {proof.size}")
    return bytes(out), True


def by_body(root: CID, dag: Dag, body: bytes, step: int) -> tuple[bytes, bool]:
    proof = BodyProof(root)
    out = bytearray()
    fed = 0

    def feed() -> None:
        nonlocal fed
        while (need := proof.need) is not None:
            for cid in proof.needed_next(7):
                bytes(cid)
            for piece in proof.feed_block(find(dag, need)):
                out.extend(piece)
            fed += 1
            if fed > (MAX_DEPTH + 2) * (len(body) + 2):
                raise AssertionError(f"{fed} blocks for {len(body)} bytes")

    for at in range(0, max(len(body), 1), step):
        for piece in proof.update(body[at : at + step]):
            out.extend(piece)
        feed()
    while proof.ends_too_early():
        feed()
    proof.finish()
    if len(out) > (proof.size or 0):
        raise AssertionError(f"{len(out)} bytes of {proof.size}")
    return bytes(out), True


def believed(dag: Dag, cid: CID, size: int) -> bytes:
    """The body of a gateway that believes what nodes declare: up to `size` bytes, filled up."""
    try:
        block = find(dag, cid)
        if cid.codec == RAW:
            return block.ljust(min(size, MAX_OUTPUT), b"\0")[:size]
        node = dag_pb.decode(block)
        message = data.decode(node.data)
    except ClientError:
        return bytes(min(size, MAX_OUTPUT))
    out = message.data
    for link, declared in zip(node.links, message.block_sizes, strict=False):
        if len(out) >= min(size, MAX_OUTPUT):
            break
        if declared:  # filled up, so that shared nodes without bytes are not visited for ever
            out += believed(dag, link.cid, declared).ljust(min(declared, MAX_OUTPUT), b"\0")
    return out[:size]


def archive_of(chance: random.Random, root: CID, dag: Dag) -> tuple[bytes, bool]:
    """An archive of the blocks in some order, and whether it is sound."""
    blocks = list(dag.blocks.items())
    order = chance.randrange(4)
    if order == 0:
        chance.shuffle(blocks)
    elif order == 1:
        blocks.reverse()
    elif order == 2:
        blocks += chance.choices(blocks, k=3) if blocks else []
    archive = b"".join(write_car([root], blocks))
    if chance.random() < 0.3 and len(archive) < 10_000:
        return flipped(chance, archive), False
    return archive, True


def outcome(way: Callable[..., tuple[bytes, bool]], *args: Any) -> tuple[bytes, bool] | str:
    try:
        return way(*args)
    except ClientError as error:
        return error.name


def one_input(chance: random.Random, *, large: bool, repository: Repository | None) -> str:
    """Read one random DAG in every way; the name of what came of it."""
    root, dag = bomb(chance) if large else random_dag(chance)
    first = outcome(by_walk, root, dag)
    archive, is_sound = archive_of(chance, root, dag)
    step = 1 << 16 if large else chance.choice([1 << 16, 1000, 50])
    second = outcome(by_archive, root, archive, step)
    whole = isinstance(first, tuple) and first[1]
    is_cut = large or (isinstance(second, tuple) and not second[1])
    comparable = is_sound and (whole or isinstance(first, str)) and not is_cut
    if comparable and second != first:
        raise AssertionError(f"by walk {first!r}, by archive {second!r}")
    if isinstance(second, tuple) and isinstance(first, tuple):
        shorter = min(len(first[0]), len(second[0]))
        if first[0][:shorter] != second[0][:shorter]:
            raise AssertionError("other bytes by archive")
    body = first[0] if isinstance(first, tuple) else believed(dag, root, MAX_OUTPUT)
    if chance.random() < 0.2:
        body += b"\0"
    third = outcome(by_body, root, dag, body, 1 << 16 if large else chance.choice([1 << 16, 7]))
    if isinstance(third, tuple) and third != first:
        raise AssertionError(f"by walk {first!r}, by body {third!r}")
    if whole and isinstance(first, tuple) and body == first[0] and third != first:
        raise AssertionError(f"by walk {first!r}, by body {third!r}")
    start = chance.randint(0, 10)
    part = outcome(by_walk, root, dag, start, start + chance.randint(0, 10))
    if whole and isinstance(part, tuple) and isinstance(first, tuple) and part[0] not in first[0]:
        raise AssertionError("a part is not in the whole")
    if repository is not None:
        take_in(repository, root, dag, archive, first if is_sound else None)
    return first if isinstance(first, str) else "read"


def all_decode(dag: Dag) -> bool:
    """Whether all nodes can be read, those too that the root does not need: else none is stored."""
    try:
        for cid, block in dag.blocks.items():
            if cid.codec == DAG_PB:
                dag_pb.decode(block)
    except ClientError:
        return False
    return True


def take_in(repository: Repository, root: CID, dag: Dag, archive: bytes, expected: object) -> None:
    """Import an archive, which is kept if it is sound, and leaves nothing if it is not."""
    try:
        repository.import_car([archive])
    except ClientError:
        if isinstance(expected, tuple) and expected[1] and all_decode(dag):
            raise AssertionError("the store refuses what can be read") from None
        left = [cid for cid in dag.blocks if repository.has(cid)]
        if left:
            raise AssertionError(f"{left} stayed in the store") from None
        return
    got = b"".join(islice(repository.read(root), 3)) if isinstance(expected, tuple) else b""
    if isinstance(expected, tuple) and expected[1] and got[:MAX_OUTPUT] != expected[0][: len(got)]:
        raise AssertionError("other bytes from the store")
    repository.unpin(root)
    repository.collect_garbage()


def peak_memory() -> int:
    """The most bytes that this process has had so far."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def inputs(count: int) -> Iterator[tuple[int, bool, bool]]:
    for number in range(count):
        yield number, number % BOMB_EVERY == BOMB_EVERY - 1, number % STORED_EVERY == 0


def run(count: int, seed: int) -> int:
    """Read `count` inputs; how many findings there were."""
    findings = 0
    outcomes: dict[str, int] = {}
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder, Repository(folder) as repository:
        one_input(random.Random(seed), large=False, repository=repository)  # noqa: S311
        idle = peak_memory()
        began = time.perf_counter()
        for number, large, stored in inputs(count):
            chance = random.Random(f"{seed} dags {number}")  # noqa: S311 - repeatable on purpose
            start = time.perf_counter()
            try:
                name = one_input(chance, large=large, repository=repository if stored else None)
                outcomes[name] = outcomes.get(name, 0) + 1
            except Exception:  # noqa: BLE001 - the findings
                findings += 1
                print(f"DAG {number} of seed {seed}\n{traceback.format_exc()}")
                if findings > 5:
                    break
            slowest = max(slowest, time.perf_counter() - start)
        rate = count / (time.perf_counter() - began)
        grown = peak_memory() - idle
    counts = ", ".join(f"{number:,} {name}" for name, number in sorted(outcomes.items()))
    print(f"{'DAGs and CARs':<16} {count:>9,} inputs, {rate:>9,.0f}/s: {counts}")
    memory = f"{grown >> 20} MiB above idle (at most {MAX_MEMORY >> 20})"
    print(f"{'':<16} {memory}, the slowest input took {slowest:.2f} s")
    if grown > MAX_MEMORY:
        print("too much memory")
        findings += 1
    return findings
