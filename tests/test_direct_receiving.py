"""Large bodies of uploads, which a worker thread of the node receives."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import compute_cid
from holdfast.node.http_server import http_connection
from holdfast.node.http_server.http_connection import DirectReceiver
from holdfast.testing import running_node
from tests.node_caller import connect, head_of
from tests.support import wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a socket is not copied here")

MIB = 1 << 20
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
