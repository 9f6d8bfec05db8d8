# WARNING: this file is generated from tests/_async/test_entries.py
# by scripts/generate_sync.py. Change the original instead.
"""The entries of a directory, read through gateways block by block."""

import hashlib
import re
from contextlib import contextmanager

import pytest

from holdfast import ClientConfig
from holdfast._sync.reads.gateway_reader import GatewayReader
from holdfast._sync.session import Session
from holdfast._sync.transport import Transport
from holdfast.calls import Call
from holdfast.content import dag_pb
from holdfast.content.cid import CID, DAG_PB
from holdfast.content.hashes import SHA2_256
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.reference import Reference
from holdfast.content.unixfs.data import DIRECTORY
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter
from holdfast.content.unixfs.hamt import build_shard
from holdfast.errors import (
    MalformedError,
    NetworkError,
    NotFoundError,
    ProviderError,
    UnprovenError,
    VerificationError,
)
from holdfast.protocol.gateway import Gateway, Gateways
from holdfast.records import Entry
from holdfast.testing import Scripted, ScriptedServer
from tests._sync.reading import list_entries
from tests.content import Blocks
from tests.gateways import kind_of
from tests.support import TOKEN

ONCE = {"attempts": 1}
AGAIN = {"attempts": 3, "base": 0.01, "cap": 0.02}
RAW = {"Content-Type": "application/vnd.ipld.raw"}


def imported(emit, content):
    importer = FileImporter(UNIXFS_V1_2025, emit)
    importer.update(content)
    return importer.finish()


def directory(blocks, **files):
    parts = [
        (name.encode(), imported(blocks.__setitem__, content)) for name, content in files.items()
    ]
    return build_directory(parts, UNIXFS_V1_2025, blocks.__setitem__)


def sharded(emit, names):
    part = imported(emit, b"hello")
    links = [dag_pb.Link(part.cid, name.encode(), part.dag_size) for name in names]
    return build_shard(links, UNIXFS_V1_2025, emit)


def serving(blocks):
    """A script that gives `blocks`, and nothing else."""

    def script(request):
        cid = CID.parse(re.search(r"/ipfs/(\w+)", request.target)[1])
        if kind_of(request) != "raw" or cid not in blocks:
            return Scripted(status=404)
        return Scripted(body=blocks[cid], headers=RAW)

    return script


def gateway_url(server):
    """The address of a scripted gateway, or of a node."""
    return f"{server.url}/ipfs" if isinstance(server, ScriptedServer) else server.gateway_url


@contextmanager
def reading(*servers, retries=ONCE):
    config = ClientConfig(provider="pinning", provider_token=TOKEN, retries=retries)
    transport = Transport(config)
    session = Session(transport, config)
    gateways = Gateways([Gateway(gateway_url(each)) for each in servers], session.avoided)
    try:
        yield GatewayReader(session, gateways, verify=False, max_unverified=1 << 20)
    finally:
        transport.close()


def listed(reader, reference):
    return list_entries(reader, Reference.parse(str(reference)), total=20)


def test_a_directory_is_listed_with_the_sizes_of_raw_files():
    blocks = Blocks()
    large = b"x" * 3_000_000
    root = directory(blocks, a=b"hello", b=large, c=b"")
    with ScriptedServer(serving(blocks)) as server:
        with reading(server) as reader:
            entries = listed(reader, root.cid)
        assert [request.target for request in server.requests] == [f"/ipfs/{root.cid}?format=raw"]
    assert entries == [
        Entry(name="a", cid=str(imported(blocks.__setitem__, b"hello").cid), size=5, kind="file"),
        Entry(name="b", cid=str(imported(blocks.__setitem__, large).cid)),
        Entry(name="c", cid=str(imported(blocks.__setitem__, b"").cid), size=0, kind="file"),
    ]


def test_a_directory_is_found_by_its_path():
    blocks = Blocks()
    inner = directory(blocks, leaf=b"hello")
    root = build_directory([(b"sub folder", inner)], UNIXFS_V1_2025, blocks.__setitem__)
    with ScriptedServer(serving(blocks)) as server:
        with reading(server) as reader:
            entries = listed(reader, f"{root.cid}/sub%20folder")
            with pytest.raises(NotFoundError, match="there is no 'other'"):
                listed(reader, f"{root.cid}/other")
    assert [entry.name for entry in entries] == ["leaf"]


def test_a_sharded_directory_is_listed_shard_by_shard():
    blocks = Blocks()
    names = [f"file {number}" for number in range(500)]
    root = sharded(blocks.__setitem__, names)
    del blocks[CID.of_raw(b"hello")]
    with ScriptedServer(serving(blocks)) as server:
        with reading(server) as reader:
            entries = listed(reader, root.cid)
        assert len(server.requests) == len(blocks) > 50
    assert sorted(entry.name for entry in entries) == sorted(names)
    assert [entry.name for entry in entries] == [entry.name for entry in blocks.list(root.cid)]


def test_a_sharded_directory_of_a_node_is_listed(node):
    names = [f"{number}.txt" for number in range(200)]
    with node.repository.adding() as adding:
        root = sharded(adding.put, names)
        adding.pin(root.cid, size=root.dag_size)
    with reading(node) as reader:
        entries = listed(reader, root.cid)
    assert sorted(entry.name for entry in entries) == sorted(names)
    assert {(entry.cid, entry.size) for entry in entries} == {(str(CID.of_raw(b"hello")), 5)}


def test_nothing_is_fetched_before_the_first_entry_is_asked_for_or_after_the_last_one():
    blocks = Blocks()
    root = sharded(blocks.__setitem__, map(str, range(500)))
    with ScriptedServer(serving(blocks)) as server:
        with reading(server) as reader:
            pages = reader.pages(Reference.parse(str(root.cid)))
            assert not server.requests
            assert pages.next_page(Call("entries"))
            assert len(server.requests) <= 10


def test_the_next_gateway_is_asked_where_one_lies_fails_or_has_no_blocks():
    blocks = Blocks()
    root = directory(blocks, a=b"hello")
    inner = build_directory([(b"sub", root)], UNIXFS_V1_2025, blocks.__setitem__)
    lies = dict.fromkeys(blocks, b"a lie")
    with (
        ScriptedServer(serving(lies)) as liar,
        ScriptedServer(lambda _: Scripted(status=406)) as plain,
        ScriptedServer(lambda _: Scripted(hang_up=True)) as broken,
        ScriptedServer(serving(blocks)) as honest,
    ):
        with reading(liar, plain, broken, honest) as reader:
            assert [entry.name for entry in listed(reader, f"{inner.cid}/sub")] == ["a"]
            # The gateway that gave a block is the first one to be asked for the next.
            counts = [len(each.requests) for each in (liar, plain, broken, honest)]
            assert counts == [1, 1, 1, 2]
            listed(reader, inner.cid)
        assert len(liar.requests) == 1  # it comes last for a while


def test_a_gateway_that_is_busy_is_asked_again():
    blocks = Blocks()
    root = directory(blocks, a=b"hello")
    replies = [Scripted(status=503)]
    serve = serving(blocks)
    with ScriptedServer(lambda request: replies.pop() if replies else serve(request)) as server:
        with reading(server, retries=AGAIN) as reader:
            assert [entry.name for entry in listed(reader, root.cid)] == ["a"]
        assert len(server.requests) == 2


@pytest.mark.parametrize("size", [5, 3_000_000], ids=["one block", "a tree"])
def test_a_file_is_not_a_directory(size):
    blocks = Blocks()
    cid = imported(blocks.__setitem__, b"x" * size).cid
    with ScriptedServer(serving(blocks)) as server:
        with reading(server) as reader:
            with pytest.raises(NotFoundError, match=f"{cid} is not a directory"):
                listed(reader, cid)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (Scripted(status=404), NotFoundError, "HTTP error 404"),
        (Scripted(status=406), ProviderError, "HTTP error 406"),
        (Scripted(body=b"<html>"), UnprovenError, "cannot be listed: .* does not give blocks"),
        (Scripted(body=b"?", headers=RAW), VerificationError, "does not match its CID"),
        (Scripted(hang_up=True), NetworkError, "broke"),
    ],
    ids=["missing", "refused", "plain content", "wrong block", "broken"],
)
def test_what_a_gateway_says_instead_of_a_block(reply, error, words):
    root = directory(Blocks(), a=b"hello")
    with ScriptedServer(lambda _: reply) as server:
        with reading(server) as reader:
            with pytest.raises(error, match=words):
                listed(reader, root.cid)
        assert len(server.requests) == 1


def test_a_malformed_directory_is_refused():
    blocks = Blocks()
    part = imported(blocks.__setitem__, b"hello")
    block = dag_pb.encode([dag_pb.Link(part.cid, b"../up", 5)], DIRECTORY)
    cid = CID(1, DAG_PB, SHA2_256, hashlib.sha256(block).digest())
    blocks[cid] = block
    with ScriptedServer(serving(blocks)) as server:
        with reading(server) as reader:
            with pytest.raises(MalformedError, match="unsafe"):
                listed(reader, cid)
