"""Large bodies of uploads, which a worker thread of the node receives."""

import os
import socket
import threading
import time
from contextlib import suppress

import pytest

from holdfast import compute_cid
from holdfast.node.http_server import http_connection
from holdfast.node.http_server.http_connection import DirectReceiver
from holdfast.testing import running_node
from tests.node_caller import connect as connect_to
from tests.node_caller import head_of
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


def connect(node):
    peer = connect_to(node)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MIB)
    return peer


def head(node, size):
    kind = 'multipart/form-data; boundary="b"'
    return head_of(node, "/pinning/pinFileToIPFS", Content_Type=kind, Content_Length=size)


def read_reply(peer):
    """Return the status and the body of a reply."""
    with peer.makefile("rb") as file:
        status = int(file.readline().split()[1])
        length = 0
        while line := file.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, file.read(length)


def post(peer, node, data):
    body = BEGIN + data + END
    peer.sendall(head(node, len(body)))
    peer.sendall(body)
    return read_reply(peer)


def test_threads_receive_most_of_a_large_body_and_the_next_requests_are_read(node, received):
    first, second = os.urandom(24 * MIB + 17), os.urandom(9 * MIB)
    with connect(node) as peer:
        for data in (first, b"small", second):
            status, reply = post(peer, node, data)
            assert status == 200
            assert compute_cid(data).encode() in reply
    assert sum(received) > 16 * MIB


def test_requests_that_are_sent_ahead_wait_for_a_large_body(node, received):
    data = os.urandom(12 * MIB)
    body = BEGIN + data + END
    with connect(node) as peer:
        sent = head(node, len(body)) + body + b"GET /ipfs/bafkqaaa HTTP/1.1\r\nHost: x\r\n\r\n"
        sending = threading.Thread(target=peer.sendall, args=(sent,))
        sending.start()
        file = peer.makefile("rb")
        statuses = [line for line in iter_lines(file, 2) if line.startswith(b"HTTP/1.1")]
        sending.join()
    assert [line.split()[1] for line in statuses] == [b"200", b"200"]
    assert sum(received) > 0


def iter_lines(file, replies):
    """Yield the lines of so many replies."""
    for _ in range(replies):
        length = 0
        while line := file.readline().strip():
            yield line
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        file.read(length)


def test_a_client_that_pauses_is_left_to_the_event_loop(node, received):
    data = os.urandom(20 * MIB)
    body = BEGIN + data + END
    with connect(node) as peer:
        peer.sendall(head(node, len(body)))
        for at in range(0, len(body), 4 * MIB):
            peer.sendall(body[at : at + 4 * MIB])
            time.sleep(0.05)
        status, reply = read_reply(peer)
    assert status == 200
    assert compute_cid(data).encode() in reply
    assert len(received) > 1


def test_a_client_that_goes_away_ends_its_request(memory_folder, received):
    with running_node(memory_folder) as node:
        with connect(node) as peer:
            peer.sendall(head(node, 64 * MIB) + BEGIN + os.urandom(20 * MIB))
            wait_until(lambda: received)
        temporary = memory_folder / "blocks" / "tmp"
        wait_until(lambda: not list(temporary.iterdir()))
        with connect(node) as peer:
            assert post(peer, node, b"other")[0] == 200


def test_a_form_that_is_refused_in_a_thread_gets_its_reply(node, received):
    body = BEGIN + os.urandom(8 * MIB) + b"\r\n--b\r\nContent-Disposition: nonsense\r\n\r\n"
    body += os.urandom(12 * MIB)
    with connect(node) as peer:
        peer.sendall(head(node, len(body)))
        sending = threading.Thread(target=send_all, args=(peer, body))
        sending.start()
        assert read_reply(peer)[0] == 400
        sending.join()
    assert sum(received) > 0


def send_all(peer, body):
    with suppress(ConnectionError):  # the node need not read all of what it refuses
        peer.sendall(body)


def test_a_turn_of_a_thread_ends_so_that_memory_and_time_are_looked_at(node, received, monkeypatch):
    monkeypatch.setattr(http_connection, "TURN_SIZE", 2 * MIB)
    with connect(node) as peer:
        assert post(peer, node, os.urandom(20 * MIB))[0] == 200
    assert max(received) <= 2 * MIB


def test_many_uploads_at_once(received):
    files = [os.urandom(12 * MIB) for _ in range(12)]
    replies = []

    def upload(node, data):
        with connect(node) as peer:
            replies.append(post(peer, node, data))

    with running_node() as node:
        threads = [threading.Thread(target=upload, args=(node, data)) for data in files]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [status for status, _ in replies] == [200] * 12
    assert sum(received) > 0
