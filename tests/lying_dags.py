"""DAGs of files whose sizes contradict each other, and unusual ones whose sizes agree."""

from holdfast.content import dag_pb
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.hashes import IDENTITY, SHA2_256
from holdfast.content.unixfs import data
from tests.dags import DIRECTORY, RAW_KIND, Dag, message


def _identity(codec, block):
    return CID(1, codec, IDENTITY, block)


def _identity_leaf(content):
    return _identity(DAG_PB, dag_pb.encode([], message(content=content, size=len(content or b""))))


def _over(dag, child, declared=0):
    """A node over "hello" and a child."""
    return dag.inner((dag.raw(b"hello"), 5), (child, declared))


def _root_data(dag, **fields):
    return dag.node([dag.raw(b"hello")], content=b"abc", sizes=[5], **fields)


def _case(name, child, declared, content=b"helloworld"):
    """A case: a child behind "hello" that declares so many bytes."""
    return {name: (lambda dag: _over(dag, child(dag), declared), content)}


# Children that hold "world".
WORLDS = {
    "raw child": lambda dag: dag.raw(b"world"),
    "leaf": lambda dag: dag.leaf(b"world"),
    "inner node": lambda dag: dag.inner((dag.raw(b"world"), 5)),
    "identity": lambda _: _identity(RAW, b"world"),
    "identity leaf": lambda _: _identity_leaf(b"world"),
}
# Children that hold nothing, whatever they declare; what is no file, and a size of 0 or 5.
NOTHING = {
    "empty leaf": (lambda dag: dag.raw(b""), 3),
    "empty identity": (lambda _: _identity(RAW, b""), 3),
    "empty identity leaf": (lambda _: _identity_leaf(None), 3),
    "inner node over empty leaves": (lambda dag: dag.inner(*[(dag.raw(b""), 0)] * 2), 0),
    "missing child": (lambda _: CID.of_raw(b"missing"), 0),
    "unsupported hash": (lambda _: CID(1, RAW, 0x11, bytes(20)), 0),
    "empty directory": (lambda dag: dag.node([], kind=DIRECTORY), 0),
    "directory": (lambda dag: dag.links([], data.DIRECTORY), 5),
    "symbolic link": (lambda dag: dag.links([], data.symlink_data(b"world")), 5),
}
# Inner nodes and leaves that contradict themselves, behind "hello".
BELOW = {
    "lie two levels down": (lambda d: d.inner((d.inner((d.raw(b"world"), 6)), 6)), 6),
    "file size of an inner node": (lambda d: d.inner((d.raw(b"world"), 5), size=4), 5),
    "file size of a lower leaf": (lambda d: d.node([], content=b"world", size=4), 5),
}

# Each builds a root in a `Dag`; the bytes are what a reader who believes the leaves would send.
LIES = {}
for name, child in WORLDS.items():
    LIES |= _case(f"{name} declared empty", child, 0)
    LIES |= _case(f"{name} too low", child, 4) | _case(f"{name} too high", child, 6)
for name, (child, declared) in NOTHING.items():
    LIES |= _case(f"{name} declared as {declared} bytes", child, declared, b"hello")
for name, (child, declared) in BELOW.items():
    LIES |= _case(name, child, declared)
LIES |= {
    "raw child much too high": (lambda d: _over(d, d.raw(b"world"), 1 << 16), b"helloworld"),
    "declared empty, first": (lambda d: d.inner((d.raw(b"w"), 0), (d.raw(b"o"), 1)), b"wo"),
    "nothing but an empty identity": (lambda d: d.inner((_identity(RAW, b""), 5)), b"wrong"),
    "sizes exchanged": (lambda d: d.inner((d.raw(b"hello"), 4), (d.raw(b"!"), 2)), b"hello!"),
    "file size low": (lambda d: d.inner((d.raw(b"hello"), 5), size=4), b"hello"),
    "file size 0": (lambda d: d.inner((d.raw(b"hello"), 5), size=0), b"hello"),
    "file size high": (lambda d: d.inner((d.raw(b"hello"), 5), size=6), b"hello"),
    "file size of a leaf": (lambda d: d.node([], content=b"hello", size=4), b"hello"),
    "fewer sizes than links": (lambda d: d.node([d.raw(b"a"), d.raw(b"b")], sizes=[1]), b"ab"),
    "more sizes than links": (lambda d: d.node([d.raw(b"a")], sizes=[1, 1]), b"a"),
    "no sizes": (lambda d: d.node([d.raw(b"hello")], size=5), b"hello"),
    "sizes without links": (lambda d: d.node([], size=5, sizes=[5]), b""),
    "own data not counted": (lambda d: _root_data(d, size=5), b"abchello"),
    "own data counted twice": (lambda d: _root_data(d, size=11), b"abchello"),
    "own data under 5": (lambda d: _over(d, _root_data(d, size=8), 5), b"helloabchello"),
    "sum beyond 2^63": (lambda d: d.node([d.raw(b"a")] * 3, sizes=[(1 << 62) + 1] * 3), b"aaa"),
    "varint of ten bytes": (lambda d: d.node([d.raw(b"a")], sizes=[b"\x80" * 9 + b"\x01"]), b"a"),
    "second block of 4 EiB": (lambda d: d.inner((d.raw(b"a"), 1), (d.raw(b"b"), 1 << 62)), b"ab"),
    "block of more than 2 MiB": (lambda d: d.inner((d.raw(b"a"), (2 << 20) + 1)), b"a"),
}

# Sizes that agree: what these are is read in every way.
TRUTHS = {
    "empty raw child": (lambda d: _over(d, d.raw(b"")), b"hello"),
    "empty child first": (lambda d: d.inner((d.raw(b""), 0), (d.raw(b"hello"), 5)), b"hello"),
    "nothing but empty children": (lambda d: d.inner((d.raw(b""), 0), (d.leaf(b""), 0)), b""),
    "empty identity": (lambda d: _over(d, _identity(RAW, b"")), b"hello"),
    "empty identity leaf": (lambda d: _over(d, _identity_leaf(None)), b"hello"),
    "empty leaf of type Raw": (lambda d: _over(d, d.node([], kind=RAW_KIND, size=0)), b"hello"),
    "empty leaf without a size": (lambda d: _over(d, d.node([])), b"hello"),
    "empty leaf with empty data": (lambda d: _over(d, d.node([], content=b"", size=0)), b"hello"),
    "own data first": (lambda d: _root_data(d, size=8), b"abchello"),
    "own data, no file size": (_root_data, b"abchello"),
    "own data below": (lambda d: _over(d, _root_data(d, size=8), 8), b"helloabchello"),
    "leaf of type Raw": (lambda d: _over(d, d.leaf(b"world", kind=RAW_KIND), 5), b"helloworld"),
    "leaf without a size": (lambda d: _over(d, d.node([], content=b"world"), 5), b"helloworld"),
    "identity": (lambda d: _over(d, _identity(RAW, b"world"), 5), b"helloworld"),
    "empty file": (lambda d: d.node([], size=0), b""),
    "leaf of a leaf": (lambda d: d.inner((d.inner((d.leaf(b"x"), 1)), 1)), b"x"),
}


def build(case, code=SHA2_256):
    """The root of a case, its blocks, and the bytes that its leaves hold."""
    make, content = case
    dag = Dag(code)
    return make(dag), dag.blocks, content


def declared_size(root, blocks):
    """How many bytes the root announces, as a gateway reads it; 0 where it cannot be told."""
    try:
        return data.decode(dag_pb.decode(blocks[root]).data).size or 0
    except Exception:  # noqa: BLE001 - lies of all kinds
        return 0


def bodies(root, blocks, content):
    """What gateways might send for a DAG: what the leaves hold, in its length or a declared one."""
    size = min(declared_size(root, blocks), 1 << 21)
    return list(dict.fromkeys([content, content[:size].ljust(size, b"\0"), content + b"\0"]))
