"""A running node as a plain HTTP client sees it: faults to the byte, mistakes, and its end."""

import http.client
import os
import socket
import threading
import time
from dataclasses import fields

import pytest
import uvicorn

from holdfast import Client, compute_cid
from holdfast.errors import NetworkError, ProviderError, RequestTimeoutError, VerificationError
from holdfast.node.settings import NodeSettings
from holdfast.testing import running_node
from holdfast.testing.provider_cases import memory_below
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
    for set_fault, settings, is_cut in (
        (holdfast_node.corrupt_next, {"on": "any"}, False),
        (holdfast_node.cut_next, {"after": 1}, False),
        (holdfast_node.cut_next, {}, True),
    ):
        set_fault(**settings)
        assert get(connection, target, "HEAD") == (b"", is_cut)
        assert holdfast_node.faults_left == 1 - is_cut
        holdfast_node.heal()


@pytest.mark.parametrize(
    ("reply", "headers", "body"),
    [
        ({}, {}, b""),
        ({"body": ["é"]}, {"content-type": "application/json"}, b'["\\u00e9"]'),
        ({"body": "text"}, {"content-type": "application/json"}, b'"text"'),
        ({"body": b"<html>"}, {}, b"<html>"),
        ({"body": b"<p>", "headers": {"Content-Type": "a/b"}}, {"content-type": "a/b"}, b"<p>"),
        (
            {"body": {"a": 1}, "headers": {"CONTENT-TYPE": "a/b", "X": "é"}},
            {"content-type": "a/b", "x": "é"},
            b'{"a": 1}',
        ),
    ],
)
def test_a_failure_is_sent_as_the_test_says(holdfast_node, connection, reply, headers, body):
    holdfast_node.fail_next(status=502, **reply)
    connection.request("GET", "/")
    response = connection.getresponse()
    assert (response.status, response.read()) == (502, body)
    sent = {name.lower(): value for name, value in response.getheaders() if name != "date"}
    assert sent == {**headers, "content-length": str(len(body))}


@pytest.mark.parametrize(
    ("call", "settings", "message"),
    [
        ("fail_next", {"status": 200}, "status must be that of a failure, 300 to 599, not 200"),
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
        ("cut_next", {"after": -1}, "after must be 0 or more, not -1"),
        ("corrupt_next", {"after": 1.5}, "after must be a whole number, not 1.5"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(holdfast_node, call, settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(holdfast_node, call)(**settings)
    assert holdfast_node.faults_left == 0


# Through a client


STORE = "POST /pinning/pinJSONToIPFS"


def test_the_next_requests_fail_and_do_nothing(holdfast_node, holdfast_client):
    holdfast_node.fail_next(status=503, times=2)
    assert holdfast_node.faults_left == 2
    holdfast_client.store([1])
    assert holdfast_node.requests == [STORE] * 3
    assert holdfast_node.faults_left == 0
    pins = holdfast_node.repository.totals().pins
    holdfast_node.fail_next(times=4)
    with pytest.raises(ProviderError, match=r"^HTTP error 503$"):
        holdfast_client.store(["refused"])
    assert holdfast_node.repository.totals().pins == pins
    holdfast_node.cut_next(after=3, on="api", times=4)
    with pytest.raises(NetworkError):
        holdfast_client.store(["cut"])
    assert holdfast_node.repository.totals().pins == pins + 1  # the request was not lost


def test_a_fault_waits_for_the_request_that_it_is_meant_for(holdfast_node, holdfast_client):
    holdfast_node.fail_next(status=404, on="gateway")
    holdfast_node.fail_next(status=403, on="api")
    with pytest.raises(ProviderError, match="403"):
        holdfast_client.store([1])
    record = holdfast_client.store([1])
    with pytest.raises(ProviderError, match="404"):
        holdfast_client.retrieve(record.cid)
    assert holdfast_client.retrieve(record.cid) == [1]


def test_a_reply_can_be_changed(holdfast_node, connection, target):
    holdfast_node.change_next(method="GET", change=lambda body: body[:3], headers={"X-Odd": "1"})
    assert get(connection, target, "HEAD") == (b"", False)
    connection.request("GET", target)
    reply = connection.getresponse()
    assert (reply.read(), reply.headers["X-Odd"], holdfast_node.faults_left) == (b"xxx", "1", 0)
    assert get(connection, target)[0] == b"x" * 1000


def test_requests_can_be_delayed(holdfast_node, holdfast_client):
    holdfast_node.delay_next(0.3)
    start = time.monotonic()
    assert holdfast_client.test_connection() is True
    assert time.monotonic() - start >= 0.3
    holdfast_node.delay_next(30, times=4)
    with pytest.raises(RequestTimeoutError):
        holdfast_client.with_options(timeouts={"read": 0.1, "total": 0.5}).test_connection()
    holdfast_node.heal()
    assert holdfast_client.test_connection() is True


@pytest.mark.parametrize("after", [0, 2_000_000])
def test_wrong_bytes_are_caught_and_a_cut_is_got_over(holdfast_node, tmp_path, after):
    with Client.init(holdfast_node.config) as client:
        data = os.urandom(3_000_000)
        cid = client.upload(data).cid
        # As many as may come: the body, and the blocks that prove it.
        holdfast_node.corrupt_next(after=after, times=50)
        with pytest.raises(VerificationError):
            client.download(cid, to=tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
        holdfast_node.heal()
        assert (holdfast_node.faults_left, holdfast_node.requests) == (0, [])
    with Client.init(holdfast_node.config) as client:
        holdfast_node.cut_next(after=after, times=2)
        assert client.download(cid).read() == data
        assert len(holdfast_node.requests) > 2
        holdfast_node.cut_next(after=2_000_000)
        client.download(cid, progress=lambda *_: holdfast_node.heal())  # it bites nobody


@pytest.mark.slow
def test_large_bodies_pass_through_in_pieces(holdfast_node, holdfast_client, tmp_path):
    large = tmp_path / "large"
    with large.open("wb") as file:
        for _ in range(32):
            file.write(os.urandom(1 << 20))
    with memory_below(24 << 20):
        holdfast_node.delay_next(0.01, on="api")
        record = holdfast_client.upload(large)
        holdfast_node.cut_next(after=15 << 20, on="gateway")
        holdfast_client.download(record.cid, to=tmp_path / "copy")
    assert compute_cid(tmp_path / "copy") == record.cid


def test_the_token_is_not_shown(holdfast_node, holdfast_client):
    holdfast_client.test_connection()
    for text in (repr(holdfast_node), str(holdfast_node.requests), repr(holdfast_node.config)):
        assert holdfast_node.token not in text


# Its end


HALF = "POST /pinning/pinJSONToIPFS HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
HALF += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "refused", "late", "unread", "unread and cut"])
def test_a_node_ends_at_once_in_the_midst_of_requests(monkeypatch, fault):
    make = uvicorn.Config

    def patient(*args, **settings):  # so that a wait for requests shows
        return make(*args, **{**settings, "timeout_graceful_shutdown": 30})

    monkeypatch.setattr(uvicorn, "Config", patient)
    monkeypatch.setattr("holdfast.node.node_server.GRACE_SECONDS", 30)
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


def test_no_thread_outlives_its_node():
    before = set(threading.enumerate())
    with running_node() as node, Client.init(node.config) as client:
        client.store([1])
    assert set(threading.enumerate()) <= before


def test_every_setting_of_a_node_is_a_keyword_of_running_node():
    names = {field.name for field in fields(NodeSettings)} - {"tokens"}
    assert Settings.__annotations__.keys() == names
