"""Large bodies of the node, which a worker thread receives and sends: uploads, and whole blocks."""

import asyncio
import http.client
import logging
import os
import socket
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from holdfast import compute_cid
from holdfast.content.cid import CID
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.node.gateway.cached_repository import CachedRepository, FilePieces
from holdfast.node.http_server import http_connection
from holdfast.node.http_server.http_connection import (
    PATIENCE,
    WAIT_SECONDS,
    DirectReceiver,
    DirectSender,
)
from holdfast.node.http_server.streamed_replies import HASHERS
from holdfast.node.node_server import NodeServer
from holdfast.node.settings import NodeSettings, NodeToken
from holdfast.repository import Repository
from holdfast.testing import running_node
from tests.node_caller import Caller, connect, head_of
from tests.support import wait_until

MIB = 1 << 20
CONTENT = os.urandom(20 * MIB + 12_345)
PROFILES = {"v0": UNIXFS_V0_2015, "256 KiB": KUBO_LEGACY_CIDV1, "1 MiB": UNIXFS_V1_2025}


class Served:
    """A node over a repository with `CONTENT` in three layouts."""

    def __init__(self, repository):
        self.repository = repository
        self.roots = {
            name: repository.add(CONTENT, profile)[0].cid for name, profile in PROFILES.items()
        }
        settings = NodeSettings(tokens=(NodeToken(token="token-0123456789"),))
        self.server = NodeServer(repository, settings)
        self.server.start()
        self.address = urlsplit(self.server.url).netloc

    def connect(self):
        return closing(http.client.HTTPConnection(self.address, timeout=30))

    def get(self, target, **headers):
        with self.connect() as connection:
            return get(connection, target, **headers)


def get(connection, target, **headers):
    connection.request("GET", target, headers=headers)
    return connection.getresponse().read()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Repository(tmp_path_factory.mktemp("repository")) as repository:
        served = Served(repository)
        yield served
        served.server.stop()


@pytest.fixture
def direct(monkeypatch):
    """The sizes that were sent past the event loop."""
    sizes = []
    send = DirectSender.send

    def counted(self, connection, pieces, hashers):
        skip = pieces.skip

        def count(size):
            sizes.append(size)
            skip(size)

        pieces.skip = count
        try:
            return send(self, connection, pieces, hashers)
        finally:
            pieces.skip = skip

    monkeypatch.setattr(DirectSender, "send", counted)
    return sizes


@pytest.mark.parametrize("layout", PROFILES)
def test_a_quick_reader_gets_files_and_ranges_in_large_parts(served, direct, layout):
    target = f"/ipfs/{served.roots[layout]}"
    with served.connect() as connection:
        for _ in range(2):
            assert get(connection, target) == CONTENT
            assert max(direct) > 64 << 10
            assert get(connection, "/ipfs/bafkqac3imvwgy3zao5xxe3de") == b"hello world"
        for start, stop in [(0, 2 * MIB), (3 * MIB - 7, 14 * MIB + 5), (MIB + 1, len(CONTENT))]:
            direct.clear()
            ranges = f"bytes={start}-{stop - 1}"
            assert get(connection, target, Range=ranges) == CONTENT[start:stop]
            assert direct
        block = CONTENT[4 * MIB : 5 * MIB]
        assert get(connection, f"/ipfs/{CID.of_raw(block)}?format=raw") == block


@pytest.mark.parametrize("pause", [0.001, 0.005, 0.02])
def test_a_reader_that_pauses_gets_every_byte_once(served, pause):
    for root in served.roots.values():
        received = bytearray()
        with served.connect() as connection:
            connection.request("GET", f"/ipfs/{root}")
            response = connection.getresponse()
            while piece := response.read(900_001):
                received += piece
                time.sleep(pause)
        assert received == CONTENT


class Recorder(Executor):
    """Runs every job at once, and counts them."""

    def __init__(self):
        self.count = 0

    def submit(self, function, *args):
        self.count += 1
        future = Future()
        future.set_result(function(*args))
        return future


@pytest.mark.parametrize("layout", PROFILES)
def test_both_threads_always_have_a_block_to_read_ahead(served, layout):
    hashers = Recorder()
    repository = CachedRepository(served.repository)
    pieces = repository.read(CID.parse(served.roots[layout]), 0, len(CONTENT))
    pieces.skip(2 * MIB)
    with closing(pieces.runs(hashers)) as runs:
        assert bytes(next(runs)) in CONTENT
        assert hashers.count > HASHERS


def test_only_a_client_that_was_quick_may_pause(served, monkeypatch):
    seen = set()
    runs = FilePieces.runs

    def watched(self, hashers):
        connection = sockets[-1]
        for run in runs(self, hashers):
            was_quick = self.is_quick
            yield run
            seen.add((was_quick, connection.gettimeout()))

    sockets = []
    opened = DirectSender.open

    def opening(self):
        sockets.append(opened(self))
        return sockets[-1]

    monkeypatch.setattr(FilePieces, "runs", watched)
    monkeypatch.setattr(DirectSender, "open", opening)
    for _ in range(100):
        assert served.get(f"/ipfs/{served.roots['1 MiB']}") == CONTENT
        if len(seen) == 2:
            break
    assert seen == {(False, WAIT_SECONDS), (True, PATIENCE)}


@pytest.mark.parametrize("layout", ["256 KiB", "1 MiB"])
def test_no_byte_of_a_damaged_block_is_sent(tmp_path, layout, caplog):
    content = os.urandom(12 * MIB)
    size = PROFILES[layout].chunk_size
    with Repository(tmp_path) as repository:
        served = Served(repository)
        root = repository.add(content, PROFILES[layout])[0].cid
        block = content[9 * MIB : 9 * MIB + size]
        path = repository._files.path(CID.of_raw(block).key)
        path.write_bytes(block[:-1] + bytes([block[-1] ^ 1]))
        try:
            with (
                caplog.at_level(logging.CRITICAL + 1),
                pytest.raises(http.client.IncompleteRead) as caught,
            ):
                served.get(f"/ipfs/{root}")
            assert caught.value.partial == content[: 9 * MIB]
        finally:
            served.server.stop()


def test_clients_that_leave_are_no_errors(served, caplog):
    for size in (1000, 100_000, MIB, 5 * MIB, 5 * MIB):
        with served.connect() as connection:
            connection.request("GET", f"/ipfs/{served.roots['1 MiB']}")
            with connection.getresponse() as response:
                response.read(size)
    assert served.get(f"/ipfs/{served.roots['v0']}") == CONTENT
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_no_descriptor_is_left_behind(served):
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):  # noqa: PTH112
        pytest.skip("counts descriptors by /proc")
    served.get(f"/ipfs/{served.roots['v0']}")
    before = len(os.listdir(folder))  # noqa: PTH208
    for _ in range(5):
        with socket.create_connection(served.address.split(":")) as peer:
            peer.sendall(f"GET /ipfs/{served.roots['v0']} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            peer.recv(MIB)
    wait_until(lambda: len(os.listdir(folder)) <= before, 10)  # noqa: PTH208


def test_a_fault_of_a_test_applies_to_large_replies(tmp_path):
    with running_node(tmp_path) as node, Repository(tmp_path) as repository:
        root = repository.add(CONTENT, UNIXFS_V1_2025)[0].cid
        node.corrupt_next(after=15 * MIB)
        received = Caller(node)("GET", f"/ipfs/{root}", token="").data
        inverted = bytes(255 - byte for byte in CONTENT[15 * MIB :])
        assert received == CONTENT[: 15 * MIB] + inverted
        assert node.faults_left == 0


def test_the_head_and_the_body_of_a_small_reply_are_sent_together(served, monkeypatch):
    sizes = []
    send = asyncio.selector_events._SelectorSocketTransport.write

    def counted(self, data):
        if data:
            sizes.append(len(data))
        send(self, data)

    monkeypatch.setattr(asyncio.selector_events._SelectorSocketTransport, "write", counted)
    assert served.get("/ipfs/bafkqac3imvwgy3zao5xxe3de") == b"hello world"
    assert len(sizes) == 1


BEGIN = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
END = b"\r\n--b--\r\n"


@pytest.fixture
def received(monkeypatch):
    """The sizes of what threads have received."""
    sizes = []
    record = DirectReceiver.record

    def count(receiver):
        sizes.append(receiver._received)
        record(receiver)

    monkeypatch.setattr(DirectReceiver, "record", count)
    return sizes


def head(node, size):
    fields = {"Content_Type": 'multipart/form-data; boundary="b"', "Content_Length": size}
    return head_of(node, "/pinning/pinFileToIPFS", **fields)


def read_reply(file):
    """Return the status and the body of a reply."""
    status, length = int(file.readline().split()[1]), 0
    while line := file.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return status, file.read(length)


def post(peer, node, data):
    body = BEGIN + data + END
    peer.sendall(head(node, len(body)))
    peer.sendall(body)
    with peer.makefile("rb") as file:
        return read_reply(file)


def test_threads_receive_most_of_a_large_body_and_the_next_requests_are_read(node, received):
    first, second = os.urandom(24 * MIB + 17), os.urandom(9 * MIB)
    with connect(node) as peer:
        for data in (first, b"small", second):
            status, reply = post(peer, node, data)
            assert status == 200
            assert compute_cid(data).encode() in reply
    assert sum(received) > 16 * MIB


@pytest.mark.parametrize("size", [3 * MIB, 12 * MIB])
def test_requests_that_are_sent_ahead_wait_for_a_large_body(node, received, size):
    """The bytes of the next request are never taken for those of the body."""
    body = BEGIN + os.urandom(size) + END
    with connect(node) as peer, ThreadPoolExecutor() as pool, peer.makefile("rb") as file:
        sent = head(node, len(body)) + body + b"GET /ipfs/bafkqaaa HTTP/1.1\r\nHost: x\r\n\r\n"
        pool.submit(peer.sendall, sent)
        assert read_reply(file)[0] == 200
        assert read_reply(file) == (200, b"")
    assert size < 4 * MIB or sum(received) > 0


def test_a_client_that_pauses_is_left_to_the_event_loop(node, received):
    data = os.urandom(20 * MIB)
    body = BEGIN + data + END
    with connect(node) as peer, peer.makefile("rb") as file:
        peer.sendall(head(node, len(body)))
        for at in range(0, len(body), 4 * MIB):
            peer.sendall(body[at : at + 4 * MIB])
            time.sleep(0.05)
        status, reply = read_reply(file)
    assert (status, compute_cid(data).encode() in reply) == (200, True)
    assert len(received) > 1


def test_a_client_that_goes_away_ends_its_request(memory_folder, received):
    with running_node(memory_folder) as node:
        with connect(node) as peer:
            peer.sendall(head(node, 64 * MIB) + BEGIN + os.urandom(20 * MIB))
            wait_until(lambda: received)
        temporary = memory_folder / "blocks" / "tmp"
        wait_until(lambda: not list(temporary.iterdir()))
        assert node.repository.totals() == (0, 0)
        with connect(node) as peer:
            assert post(peer, node, b"other")[0] == 200


def test_a_form_that_is_refused_in_a_thread_gets_its_reply(node, received):
    body = BEGIN + os.urandom(8 * MIB) + b"\r\n--b\r\nContent-Disposition: nonsense\r\n\r\n"
    body += os.urandom(12 * MIB)
    with connect(node) as peer, ThreadPoolExecutor() as pool, peer.makefile("rb") as file:
        pool.submit(peer.sendall, head(node, len(body)) + body)  # it may fail: not all is read
        assert read_reply(file)[0] == 400
    assert sum(received) > 0


def test_a_turn_of_a_thread_ends_so_that_memory_and_time_are_looked_at(node, received, monkeypatch):
    monkeypatch.setattr(http_connection, "TURN_SIZE", 2 * MIB)
    with connect(node) as peer:
        assert post(peer, node, os.urandom(20 * MIB))[0] == 200
    assert max(received) <= 2 * MIB
