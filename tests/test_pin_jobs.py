"""Pins by CID: of an archive that others send, the node stores what was asked for."""

import itertools
import os
import threading
import time

from holdfast._sync.reads import blocks as block_sources
from holdfast.content.car import V2_PRAGMA, write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.node import pin_jobs
from holdfast.repository import Repository
from holdfast.testing import ScriptedServer, running_node
from tests.attackers import Attacker
from tests.folder_dags import serving
from tests.node_caller import Caller
from tests.support import wait_until
from tests.v3_caller import V3Caller
from tests.value_dags import ValueDag

SMALL = b"ten bytes."
SMALL_CID = CID.of_raw(SMALL)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.ipld.car\r\nConnection: close\r\n\r\n"


def gateway(pieces):
    """Serve one archive, which may be endless."""
    return Attacker(lambda: itertools.chain([HEAD], pieces()), is_closing=True)


def unrelated(size=100_000):
    """Blocks of no DAG, without an end."""
    for number in itertools.count():
        data = number.to_bytes(8, "big") + bytes(size)
        yield CID.of_raw(data), data


def file_blocks(data):
    """The blocks of a file with several leaves, its root first."""
    blocks = []
    importer = FileImporter(UNIXFS_V1_2025, lambda cid, block: blocks.append((cid, block)))
    importer.update(data)
    root = importer.finish().cid
    return root, sorted(blocks, key=lambda block: block[0] != root)


def pin_by_hash(node, cid):
    """Have the node pin `cid`; give the status of the job at its end, None for success."""
    call = Caller(node)
    call("POST", "/pinning/pinByHash", json={"hashToPin": str(cid)})
    for _ in range(1000):
        rows = call.get("/pinning/pinJobs")["rows"]
        if not rows or rows[0]["status"] not in {"prechecking", "retrieving"}:
            return rows[0]["status"] if rows else None
        time.sleep(0.02)
    return "under way"


def node_of(server, folder=None, **settings):
    """Return a running node that fetches from `server`."""
    return running_node(folder, gateways=(f"{server.url}/ipfs",), **settings)


def stored(repository):
    with repository._database.reading() as connection:
        return connection.execute("SELECT count(*) FROM blocks").fetchone()[0]


def test_an_endless_archive_of_unrelated_blocks_ends_and_none_of_it_is_stored(monkeypatch):
    monkeypatch.setattr(block_sources, "MAX_UNRELATED", 2 << 20)
    with gateway(lambda: write_car([SMALL_CID], unrelated())) as server, node_of(server) as node:
        assert pin_by_hash(node, SMALL_CID) == "expired"
        assert stored(node.repository) == 0
        assert server.sent < 32 << 20  # what the sockets hold of it included


def test_unrelated_blocks_around_the_wanted_ones_are_left_out(monkeypatch):
    monkeypatch.setattr(block_sources, "MAX_UNRELATED", 2 << 20)
    root, blocks = file_blocks(os.urandom(3 << 20))
    mixed = itertools.chain(
        itertools.islice(unrelated(), 5), blocks[:2], itertools.islice(unrelated(), 5), blocks[2:]
    )
    endless = itertools.chain(mixed, unrelated())
    with gateway(lambda: write_car([root], endless)) as server, node_of(server) as node:
        assert pin_by_hash(node, root) is None
        assert stored(node.repository) == len(blocks)
        assert sum(map(len, node.repository.read(root))) == 3 << 20
        assert server.sent < 32 << 20


def test_blocks_that_come_before_those_that_link_to_them_are_taken():
    root, blocks = file_blocks(os.urandom(3 << 20))
    with gateway(lambda: write_car([root], reversed(blocks))) as server, node_of(server) as node:
        assert pin_by_hash(node, root) is None
        assert stored(node.repository) == len(blocks)


def test_what_a_failed_job_left_is_collected(monkeypatch):
    monkeypatch.setattr(block_sources, "MAX_UNRELATED", 2 << 20)
    root, blocks = file_blocks(os.urandom(10 << 20))

    def begun():  # each connection has one of its own
        return write_car([root], itertools.chain(blocks[:-1], unrelated()))

    with gateway(begun) as server, node_of(server) as node:
        assert pin_by_hash(node, root) == "expired"
        node.repository.collect_garbage()
        assert stored(node.repository) == 0


def test_an_archive_that_never_comes_to_its_data_ends(monkeypatch):
    monkeypatch.setattr(block_sources, "MAX_UNRELATED", 2 << 20)

    def far_away():
        yield bytes([len(V2_PRAGMA)]) + V2_PRAGMA
        yield bytes(16) + (1 << 60).to_bytes(8, "little") + bytes(16)
        while True:
            yield bytes(100_000)

    with gateway(far_away) as server, node_of(server) as node:
        assert pin_by_hash(node, SMALL_CID) == "expired"
        assert server.sent < 32 << 20


def test_content_that_is_too_large_is_given_up(monkeypatch):
    root, blocks = file_blocks(os.urandom(4 << 20))
    with gateway(lambda: write_car([root], blocks)) as server:
        with node_of(server, max_upload=2 << 20) as node:
            assert pin_by_hash(node, root) == "over_max_size"
            node.repository.collect_garbage()
            assert stored(node.repository) == 0
        monkeypatch.setattr(pin_jobs, "MAX_BLOCKS", 3)
        with node_of(server) as node:
            assert pin_by_hash(node, root) == "over_max_size"


def test_a_job_that_the_end_of_the_node_interrupts_leaves_nothing_that_stays(tmp_path):
    root, blocks = file_blocks(os.urandom(20 << 20))
    is_over = threading.Event()

    def stalling():
        yield from write_car([root], blocks[:-1])
        is_over.wait(30)

    with gateway(stalling) as server:
        with node_of(server, tmp_path) as node:
            Caller(node)("POST", "/pinning/pinByHash", json={"hashToPin": str(root)})
            wait_until(lambda: server.sent >= 19 << 20 and stored(node.repository))
        is_over.set()
    with Repository(tmp_path) as repository:
        assert stored(repository) > 0
        repository.collect_garbage()
        assert stored(repository) == 0


def test_values_are_pinned_with_all_below_them():
    """By their CIDs from a gateway, and as archives."""
    dag = ValueDag()
    with ScriptedServer(serving(dag)) as server, node_of(server) as node:
        for root in dag.roots.values():
            assert pin_by_hash(node, root) is None
        assert stored(node.repository) == len(dag)
        assert list(node.repository.check()) == []
    with running_node() as node:
        for root in dag.roots.values():
            record = V3Caller(node).stored(dag.archive(root), "x.car", car="true")
            assert record["cid"] == str(root)
        assert stored(node.repository) == len(dag)
