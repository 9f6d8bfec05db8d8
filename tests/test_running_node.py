"""A running node as a plain HTTP client sees it: faults to the byte, mistakes, and its end."""

import http.client
import os
import socket
import threading
import time
from dataclasses import fields

import pytest
import uvicorn

from holdfast import Client
from holdfast.node.settings import NodeSettings
from holdfast.testing import running_node
from holdfast.testing.running_nodes import Settings
from tests.support import wait_until

pytestmark = pytest.mark.usefixtures("no_noise")


@pytest.fixture
def holdfast_node(node):
    """One node for all tests of the module, without the faults and requests of the last one."""
    node.heal()
    return node


def port_of(node):
    return int(node.api_url.rpartition(":")[2])


@pytest.fixture
def connection(holdfast_node):
    connection = http.client.HTTPConnection("127.0.0.1", port_of(holdfast_node), timeout=10)
    yield connection
    connection.close()


@pytest.fixture
def target(holdfast_node, holdfast_client):
    """A file of 1000 bytes."""
    target = f"/ipfs/{holdfast_client.upload(b'x' * 1000).cid}"
    holdfast_node.heal()
    return target


def get(connection, target, method="GET"):
    """The body of a reply, and whether the connection has ended behind it."""
    connection.request(method, target)
    connected = connection.sock
    reply = connection.getresponse()
    try:
        body = reply.read()
    except http.client.IncompleteRead as error:
        body = error.partial
    if reply.will_close or connection.sock is None:
        return body, True
    connected.settimeout(0.2)
    try:
        return body, connected.recv(1) == b""
    except TimeoutError:
        return body, False


@pytest.mark.parametrize(("after", "is_cut"), [(0, 1), (999, 1), (1000, 1), (1001, 0)])
def test_a_cut_is_made_where_the_body_goes_so_far(holdfast_node, connection, target, after, is_cut):
    holdfast_node.cut_next(after=after)
    assert get(connection, target) == (b"x" * min(after, 1000), bool(is_cut))
    assert holdfast_node.faults_left == 1 - is_cut


@pytest.mark.parametrize(("after", "is_wrong"), [(0, 1), (999, 1), (1000, 0)])
def test_bytes_are_wrong_where_there_are_any(holdfast_node, connection, target, after, is_wrong):
    holdfast_node.corrupt_next(after=after)
    wrong = bytes([255 - ord("x")]) * (1000 - after)
    assert get(connection, target)[0] == b"x" * after + wrong
    assert holdfast_node.faults_left == 1 - is_wrong


def test_a_reply_to_head_has_no_body_to_spoil(holdfast_node, connection, target):
    holdfast_node.corrupt_next(on="any")
    assert get(connection, "/data/testAuthentication", "HEAD") == (b"", False)
    assert get(connection, target, "HEAD") == (b"", False)
    assert holdfast_node.faults_left == 1
    holdfast_node.heal()
    holdfast_node.cut_next(after=1)
    assert get(connection, target, "HEAD") == (b"", False)
    assert holdfast_node.faults_left == 1
    holdfast_node.heal()
    holdfast_node.cut_next()
    assert get(connection, target, "HEAD") == (b"", True)
    assert holdfast_node.faults_left == 0


@pytest.mark.parametrize(
    ("how", "headers", "body"),
    [
        ({}, {}, b""),
        ({"body": ["é"]}, {"content-type": "application/json"}, b'["\\u00e9"]'),
        ({"body": "text"}, {"content-type": "application/json"}, b'"text"'),
        ({"body": b"<html>"}, {}, b"<html>"),
        (
            {"body": b"<html>", "headers": {"Content-Type": "text/html"}},
            {"content-type": "text/html"},
            b"<html>",
        ),
        (
            {"body": {"a": 1}, "headers": {"CONTENT-TYPE": "a/b", "X": "é"}},
            {"content-type": "a/b", "x": "é"},
            b'{"a": 1}',
        ),
    ],
)
def test_a_failure_is_sent_as_it_was_told(holdfast_node, connection, how, headers, body):
    holdfast_node.fail_next(status=502, **how)
    connection.request("GET", "/")
    reply = connection.getresponse()
    assert reply.status == 502
    found = [(name.lower(), value) for name, value in reply.getheaders() if name != "date"]
    assert sorted(found) == sorted([*headers.items(), ("content-length", str(len(body)))])
    assert reply.read() == body


@pytest.mark.parametrize(
    ("call", "how", "message"),
    [
        ("fail_next", {"status": 200}, "status must be that of a failure, 300 to 599, not 200"),
        ("fail_next", {"status": None}, "status must be a whole number, not None"),
        ("fail_next", {"status": "503"}, "status must be a whole number, not '503'"),
        ("fail_next", {"times": 0}, "times must be 1 or more, not 0"),
        ("fail_next", {"times": 1.5}, "times must be a whole number, not 1.5"),
        ("fail_next", {"times": True}, "times must be a whole number, not True"),
        ("fail_next", {"on": "pins"}, "on must be one of any, api, gateway, not 'pins'"),
        ("fail_next", {"headers": {"Retry-After": 1}}, "headers must be text, not .*: 1"),
        ("fail_next", {"headers": {"X": "a\r\nb: c"}}, "headers must be one line of Latin-1"),
        ("fail_next", {"headers": {"X": "€"}}, "headers must be one line of Latin-1"),
        ("fail_next", {"headers": {"X Y": "a"}}, "headers must be one line of Latin-1"),
        ("fail_next", {"headers": {"content-length": "5"}}, "it follows from the body"),
        ("fail_next", {"body": object()}, "not JSON serializable"),
        ("fail_next", {"body": [1], "status": 304}, "a reply of status 304 has none"),
        ("delay_next", {"seconds": -1}, "seconds must be 0 or more, not -1"),
        ("delay_next", {"seconds": float("nan")}, "seconds must be 0 or more, not nan"),
        ("delay_next", {"seconds": "1"}, "seconds must be a number, not '1'"),
        ("delay_next", {"seconds": None}, "seconds must be a number, not None"),
        ("cut_next", {"after": -1}, "after must be 0 or more, not -1"),
        ("cut_next", {"after": 1.5}, "after must be a whole number, not 1.5"),
        ("corrupt_next", {"after": -1}, "after must be 0 or more, not -1"),
        ("corrupt_next", {"after": None}, "after must be a whole number, not None"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(holdfast_node, call, how, message):
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(holdfast_node, call)(**how)
    assert holdfast_node.faults_left == 0


HALF = "POST /pinning/pinJSONToIPFS HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
HALF += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"


@pytest.fixture
def _patient_server(monkeypatch):
    """Give requests half a minute to end when the server stops, so that a wait for them shows."""
    make = uvicorn.Config

    def config(*args, **settings):
        return make(*args, **{**settings, "timeout_graceful_shutdown": 30})

    monkeypatch.setattr(uvicorn, "Config", config)
    monkeypatch.setattr("holdfast.node.node_server.GRACE_SECONDS", 30)


@pytest.mark.usefixtures("_patient_server")
@pytest.mark.parametrize("fault", ["none", "refused", "late", "unread", "unread and cut"])
def test_a_node_ends_at_once_in_the_midst_of_requests(fault):
    size = 8_000_000  # more than the buffers of two sockets take
    with running_node() as node, Client.init(node.config) as client:
        cid = client.upload(os.urandom(size)).cid
        if fault == "refused":
            node.fail_next()
        elif fault == "late":
            node.delay_next(60)
        elif fault == "unread and cut":
            node.cut_next(after=size - 1_000_000)
        node_requests = len(node.requests)
        request = HALF.format(token=node.token)
        if "unread" in fault:
            request = f"GET /ipfs/{cid} HTTP/1.1\r\nHost: x\r\n\r\n"
        peer = socket.create_connection(("127.0.0.1", port_of(node)))
        peer.sendall(request.encode())
        wait_until(lambda: len(node.requests) > node_requests)
        time.sleep(0.1)  # so that it stands where it will stand for ever
        start = time.monotonic()
    assert time.monotonic() - start < 10
    peer.close()


def test_its_clients_try_again_at_once(holdfast_node):
    with running_node() as node:
        assert node.config.retries == holdfast_node.config.retries
        assert max(node.config.retries.base, node.config.retries.cap) <= 0.1


def test_no_thread_outlives_its_node():
    before = set(threading.enumerate())
    with running_node() as node, Client.init(node.config) as client:
        client.store([1])
    assert set(threading.enumerate()) <= before


def test_every_setting_of_a_node_is_a_keyword_of_running_node():
    names = {field.name for field in fields(NodeSettings)} - {"tokens"}
    assert Settings.__annotations__.keys() == names
