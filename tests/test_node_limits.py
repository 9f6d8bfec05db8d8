"""Limits of the node: clients that stand still take neither its memory nor its connections."""

import os
import resource
import select
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

import pytest
import urllib3

from holdfast.node.http_server import acceptor, http_connection
from holdfast.node.http_server.acceptor import ConnectionLimits, origin_of
from holdfast.node.memory import HeldMemory, MemoryShare
from holdfast.testing import running_node
from tests.node_caller import Caller, connect, head_of, raw_exchange
from tests.node_process import ON_LINUX, node_process

MIB = 1 << 20
CONTENT = os.urandom(8 * MIB)


@pytest.fixture(scope="module")
def path(node):
    """The path of a file that no socket takes in one go."""
    return f"/ipfs/{Caller(node).pin(CONTENT)}"


def ask(peer, target):
    peer.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def is_ended(peer):
    """Read what is left, until the node ends the connection or sends nothing for a long time."""
    peer.settimeout(10)
    try:
        while peer.recv(MIB):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


# Time


@pytest.mark.parametrize("size", [0, 10])
def test_a_peer_that_reads_nothing_or_a_few_bytes_at_a_time_is_ended(node, path, monkeypatch, size):
    monkeypatch.setattr(http_connection, "STALL_SECONDS", 0.4)
    with connect(node) as peer:
        ask(peer, path)
        for _ in range(25):  # many pauses: the machine may stall in one, the node acts in the next
            peer.recv(size)
            time.sleep(0.05)
        assert is_ended(peer)


def drip(peer):
    for _ in range(400):
        peer.sendall(b"x")
        time.sleep(0.05)


def test_a_head_that_drips_or_never_ends_is_given_up(node, monkeypatch):
    monkeypatch.setattr(http_connection, "HEAD_SECONDS", 0.3)
    start = time.monotonic()
    assert raw_exchange(node, b"GET / HTTP/1.1\r\nHost: x\r\n") == b""
    with connect(node) as peer, pytest.raises(ConnectionError):
        drip(peer)
    assert time.monotonic() - start < 15


# Number


@pytest.fixture
def few(monkeypatch):
    """A node with places for 6 connections, 3 from an address; 2 more of that are held."""
    limits = ConnectionLimits(total=6, per_address=3, waiting=2)
    monkeypatch.setattr(ConnectionLimits, "within_descriptors", lambda _: limits)
    with running_node() as node:
        yield node


def is_served(peer):
    return peer.recv(1000).startswith(b"HTTP/1.1 200")


def is_left_waiting(*peers):
    """Whether the node tells none of `peers` anything for half a second."""
    return select.select(peers, [], [], 0.5)[0] == []


def test_an_address_has_so_many_connections_and_others_are_served(few):
    with ExitStack() as stack:

        def connect_and_ask(address="127.0.0.1"):
            peer = stack.enter_context(connect(few, address))
            ask(peer, "/ipfs/bafkqaaa")
            return peer

        peers = [connect_and_ask() for _ in range(5)]
        assert all(is_served(peer) for peer in peers[:3])
        assert is_left_waiting(*peers[3:])
        one_more = stack.enter_context(connect(few))
        assert is_served(connect_and_ask("127.0.0.2"))
        assert is_ended(one_more)
        peers[0].close()
        assert is_served(peers[3])
        assert is_left_waiting(peers[4])


def test_more_connections_than_there_are_places_wait_in_the_backlog(few):
    addresses = [f"127.0.0.{n // 2 + 1}" for n in range(10)]
    with ExitStack() as stack:
        peers = [stack.enter_context(connect(few, address)) for address in addresses]
        for peer in peers:
            ask(peer, "/ipfs/bafkqaaa")
        assert all(is_served(peer) for peer in peers[:6])
        assert is_left_waiting(*peers[6:])
        for peer in peers[:4]:
            peer.close()
        assert all(is_served(peer) for peer in peers[6:])


def test_the_limits_leave_descriptors_for_the_store():
    assert ConnectionLimits() == ConnectionLimits(total=1024, per_address=512, waiting=1024)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (600, hard))
    try:
        assert ConnectionLimits().within_descriptors() == ConnectionLimits(344, 172, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        (("10.0.0.1", 5), "10.0.0.1"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"),
        (("2001:db8::1:2:3:4", 5, 0, 0), "2001:db8::"),
        (("fe80::1%eth0", 5, 0, 0), "fe80::"),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(address, origin):
    assert origin_of(address) == origin


# Heads


def test_a_head_has_few_headers(node):
    for count, status in ((90, b"HTTP/1.1 200"), (6000, b"HTTP/1.1 400")):
        with connect(node) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * count + b"\r\n")
            assert peer.recv(12) == status


# Memory


@pytest.fixture
def process(tmp_path):
    with node_process(tmp_path) as process:
        yield process


@ON_LINUX
@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "limit", "query"),
    [
        (number, limit, query)
        for number, limit in ((100, 80), (1000, 256))
        for query in ("", "?format=car", "?format=raw")
    ],
)
def test_peers_that_read_nothing_hold_little_memory(process, number, limit, query):
    path = f"/ipfs/{Caller(process).pin(os.urandom(32 * MIB))}{query}"
    urllib3.request("GET", f"{process.api_url}/ipfs/bafkqaaa", timeout=60)
    idle = process.memory()
    with ExitStack() as stack:
        addresses = [f"127.0.0.{count // 500 + 2}" for count in range(number)]
        peers = [stack.enter_context(connect(process, address)) for address in addresses]
        for peer in peers:
            ask(peer, path)
            assert peer.recv(12) == b"HTTP/1.1 200"
        assert urllib3.request("GET", process.api_url + path, timeout=60).status == 200
        assert process.memory() - idle < limit * MIB


def test_a_reader_that_holds_nothing_is_not_ended_for_the_memory_of_others():
    memory = HeldMemory(limit=100_000)
    reader, *uploads = [MemoryShare(memory) for _ in range(6)]
    reader.hold(0)
    for upload in uploads:
        upload.hold(60_000)
    assert [share.is_ended for share in (reader, *uploads)] == [False, *[True] * 4, False]


def test_others_wait_while_requests_that_must_end_hold_much():
    memory = HeldMemory(limit=100 * MIB)
    uploads = [MemoryShare(memory) for _ in range(5)]
    for upload in uploads:
        upload.hold(50 * MIB)
    assert [share.is_ended for share in uploads] == [True, True, True, False, False]
    for upload in uploads[:3]:
        assert not memory.has_room.is_set()
        memory.release(upload)
    assert memory.has_room.is_set()


def post(stack, process, call, body, count=0, *, length=None):
    """Send `body`, and say that `length` bytes come; return the peer."""
    peer = stack.enter_context(connect(process, f"127.0.0.{count // 500 + 2}"))
    fields = {"Content_Type": 'multipart/form-data; boundary="b"'}
    fields["Content_Length"] = length or len(body)
    peer.sendall(head_of(process, f"/pinning/{call}", **fields))
    with suppress(ConnectionError):
        peer.sendall(body)
    return peer


FORM = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'


@ON_LINUX
@pytest.mark.slow
def test_large_json_is_parsed_one_document_at_a_time(process):
    idle = process.memory()
    document = b"[" + b'{"":0},' * 150_000 + b"0]"
    with ExitStack() as stack:
        peers = [post(stack, process, "pinJSONToIPFS", document) for _ in range(8)]
        for peer in peers:
            assert peer.recv(12) == b"HTTP/1.1 200"
    assert process.peak_memory() - idle < 128 * MIB


@ON_LINUX
@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "body"), [("pinFileToIPFS", FORM + b"x" * 900_000), ("pinJSONToIPFS", b"[" * 900_000)]
)
def test_a_thousand_bodies_that_stop_halfway_hold_less_than_256_mib(process, call, body):
    path = f"/ipfs/{Caller(process).pin(CONTENT)}"
    idle = process.memory()
    with ExitStack() as stack:
        for count in range(1000):
            post(stack, process, call, body, count, length=9_000_000)
        reply = urllib3.request("GET", process.api_url + path, timeout=60)
        assert reply.data == CONTENT
        assert process.peak_memory() - idle < 256 * MIB


def test_a_process_asks_for_the_descriptors_that_it_needs():
    code = (
        "import resource; from holdfast.node.http_server.acceptor import raise_descriptor_limit;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 3000)); raise_descriptor_limit();"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert int(result.stdout) == min(acceptor.WANTED_FILES, 3000)
