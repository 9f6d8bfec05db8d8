"""DAGs of files whose sizes contradict each other, and unusual ones whose sizes agree."""

import hashlib

from holdfast.content import dag_pb
from holdfast.content.cid import CID, DAG_PB, RAW
from holdfast.content.hashes import IDENTITY, SHA2_256
from holdfast.content.unixfs import data
from tests.dags import DIRECTORY, RAW_KIND, Dag, message


def _identity(codec, block):
    return CID(1, codec, IDENTITY, block)


def _zero(dag, child):
    return dag.inner((dag.raw(b"hello"), 5), (child, 0))


def _over(dag, child, declared):
    return dag.inner((dag.raw(b"hello"), 5), (child, declared))


def _root_data(dag, **fields):
    return dag.node([dag.raw(b"hello")], content=b"abc", sizes=[5], **fields)


BLAKE2B = 0xB220
SHA2_512 = 0x13

# Each builds a root in a `Dag`; the bytes are what a reader who believes the leaves would send.
LIES = {
    "raw child declared empty": (lambda d: _zero(d, d.raw(b"world")), b"helloworld"),
    "leaf declared empty": (lambda d: _zero(d, d.leaf(b"world")), b"helloworld"),
    "raw child declared empty, first": (
        lambda d: d.inner((d.raw(b"world"), 0), (d.raw(b"hello"), 5)),
        b"worldhello",
    ),
    "inner node declared empty": (lambda d: _zero(d, d.inner((d.raw(b"world"), 5))), b"helloworld"),
    "inner node over empty leaves declared empty": (
        lambda d: _zero(d, d.inner((d.raw(b""), 0), (d.raw(b""), 0))),
        b"hello",
    ),
    "identity declared empty": (lambda d: _zero(d, _identity(RAW, b"world")), b"helloworld"),
    "identity leaf declared empty": (
        lambda d: _zero(d, _identity(DAG_PB, dag_pb.encode([], message(content=b"w", size=1)))),
        b"hellow",
    ),
    "missing child declared empty": (lambda d: _zero(d, CID.of_raw(b"missing")), b"hello"),
    "empty directory declared empty": (lambda d: _zero(d, d.node([], kind=DIRECTORY)), b"hello"),
    "child under an unsupported hash declared empty": (
        lambda d: _zero(d, CID(1, RAW, 0x11, hashlib.sha1(b"x").digest())),  # noqa: S324
        b"hello",
    ),
    "raw child too low": (lambda d: _over(d, d.raw(b"world"), 4), b"helloworld"),
    "raw child too high": (lambda d: _over(d, d.raw(b"world"), 6), b"helloworld"),
    "raw child much too high": (lambda d: _over(d, d.raw(b"world"), 1 << 16), b"helloworld"),
    "leaf too low": (lambda d: _over(d, d.leaf(b"world"), 4), b"helloworld"),
    "leaf too high": (lambda d: _over(d, d.leaf(b"world"), 6), b"helloworld"),
    "identity too low": (lambda d: _over(d, _identity(RAW, b"world"), 4), b"helloworld"),
    "identity too high": (lambda d: _over(d, _identity(RAW, b"world"), 6), b"helloworld"),
    "empty leaf with bytes": (lambda d: _over(d, d.raw(b""), 3), b"hello"),
    "empty identity with bytes": (lambda d: _over(d, _identity(RAW, b""), 3), b"hello"),
    "empty identity leaf with bytes": (
        lambda d: _over(d, _identity(DAG_PB, dag_pb.encode([], message(size=0))), 3),
        b"hello",
    ),
    "nothing but an empty identity with bytes": (
        lambda d: d.inner((_identity(RAW, b""), 5)),
        b"wrong",
    ),
    "sizes exchanged": (
        lambda d: d.inner((d.raw(b"hello"), 4), (d.raw(b"world"), 6)),
        b"helloworld",
    ),
    "sizes exchanged, inner": (
        lambda d: d.inner((d.inner((d.raw(b"hello"), 5)), 6), (d.inner((d.raw(b"world!"), 6)), 5)),
        b"helloworld!",
    ),
    "inner node too low": (lambda d: _over(d, d.inner((d.raw(b"world"), 5)), 4), b"helloworld"),
    "inner node too high": (lambda d: _over(d, d.inner((d.raw(b"world"), 5)), 6), b"helloworld"),
    "lie two levels down": (
        lambda d: _over(d, d.inner((d.inner((d.raw(b"world"), 6)), 6)), 6),
        b"helloworld",
    ),
    "file size low": (lambda d: d.inner((d.raw(b"hello"), 5), size=4), b"hello"),
    "file size 0": (lambda d: d.inner((d.raw(b"hello"), 5), size=0), b"hello"),
    "file size high": (lambda d: d.inner((d.raw(b"hello"), 5), size=6), b"hello"),
    "file size of a leaf": (lambda d: d.node([], content=b"hello", size=4), b"hello"),
    "file size of an inner node": (
        lambda d: _over(d, d.inner((d.raw(b"world"), 5), size=4), 5),
        b"helloworld",
    ),
    "file size of a lower leaf": (
        lambda d: _over(d, d.node([], content=b"world", size=4), 5),
        b"helloworld",
    ),
    "fewer sizes than links": (lambda d: d.node([d.raw(b"a"), d.raw(b"b")], sizes=[1]), b"ab"),
    "more sizes than links": (lambda d: d.node([d.raw(b"a")], sizes=[1, 1]), b"a"),
    "no sizes": (lambda d: d.node([d.raw(b"hello")], size=5), b"hello"),
    "sizes without links": (lambda d: d.node([], size=5, sizes=[5]), b""),
    "own data not counted": (lambda d: _root_data(d, size=5), b"abchello"),
    "own data counted twice": (lambda d: _root_data(d, size=11), b"abchello"),
    "own data not counted by the parent": (
        lambda d: _over(d, _root_data(d, size=8), 5),
        b"helloabchello",
    ),
    "sum beyond 2^63": (lambda d: d.node([d.raw(b"a")] * 3, sizes=[(1 << 62) + 1] * 3), b"aaa"),
    "size as a varint of ten bytes": (
        lambda d: d.node([d.raw(b"a")], sizes=[b"\x80" * 9 + b"\x01"]),
        b"a",
    ),
    "second block of 4 EiB": (lambda d: d.inner((d.raw(b"a"), 1), (d.raw(b"b"), 1 << 62)), b"ab"),
    "single block of more than 2 MiB": (lambda d: d.inner((d.raw(b"a"), (2 << 20) + 1)), b"a"),
    "directory within a file": (
        lambda d: _over(d, d.put(DAG_PB, dag_pb.encode([], data.DIRECTORY)), 5),
        b"hello",
    ),
    "symbolic link within a file": (
        lambda d: _over(d, d.put(DAG_PB, dag_pb.encode([], data.symlink_data(b"world"))), 5),
        b"hello",
    ),
}

# Sizes that agree: what these are is read in every way.
TRUTHS = {
    "empty raw child": (lambda d: _zero(d, d.raw(b"")), b"hello"),
    "empty child first": (lambda d: d.inner((d.raw(b""), 0), (d.raw(b"hello"), 5)), b"hello"),
    "nothing but empty children": (lambda d: d.inner((d.raw(b""), 0), (d.leaf(b""), 0)), b""),
    "empty identity": (lambda d: _zero(d, _identity(RAW, b"")), b"hello"),
    "empty identity leaf": (
        lambda d: _zero(d, _identity(DAG_PB, dag_pb.encode([], message(size=0)))),
        b"hello",
    ),
    "empty leaf of type Raw": (lambda d: _zero(d, d.node([], kind=RAW_KIND, size=0)), b"hello"),
    "empty leaf without a size": (lambda d: _zero(d, d.node([])), b"hello"),
    "empty leaf with empty data": (lambda d: _zero(d, d.node([], content=b"", size=0)), b"hello"),
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
