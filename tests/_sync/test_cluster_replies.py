# WARNING: this file is generated from tests/_async/test_cluster_replies.py
# by scripts/generate_sync.py. Change the original instead.
"""Replies of a cluster's API that are no success, fail-over between peers, and what is sent."""

import json
import re
from urllib.parse import urlsplit

import pytest

from holdfast import Client, ClientConfig, Usage
from holdfast.content.cid import CID
from holdfast.errors import (
    ConfigError,
    NetworkError,
    NotFoundError,
    ProviderError,
    RequestTimeoutError,
    VerificationError,
)
from holdfast.testing import Scripted, ScriptedServer
from tests.support import HELLO_CID, TOKEN, closed_port_url, query_of

JSON = {"Content-Type": "application/json"}
NOT_PINNED = {"code": 404, "message": "pin is not part of the pinset"}
AGAIN = {"attempts": 3, "base": 0.01, "cap": 0.02}
PIN = {
    "replication_factor_min": 2,
    "replication_factor_max": 3,
    "name": "hello",
    "expire_at": "2030-01-01T00:00:00Z",
    "metadata": {"a": "1"},
    "cid": HELLO_CID,
    "allocations": ["12D3one", "12D3two"],
    "timestamp": "2026-11-16T02:10:01.844957756Z",
}


def states(*statuses, **changes):
    peers = {
        f"12D3{number}": {"peername": f"peer{number}", "status": status, "error": ""}
        for number, status in enumerate(statuses)
    }
    return {"cid": HELLO_CID, "name": "", "allocations": None, "peer_map": peers, **changes}


def line(value):
    return json.dumps(value).encode() + b"\n"


READY = {"cluster_peers": ["12D3"]}
ADDED = [{"name": "x", "cid": HELLO_CID, "allocations": ["12D3one"]}]
DONE = states("pinned", "remote", "pinned")


def cluster_at(*servers, **changes):
    fields = {
        "provider": "cluster",
        "pin_api_url": [server if isinstance(server, str) else server.url for server in servers],
        "gateway_url": closed_port_url(),
        "retries": {"attempts": 1},
    }
    return ClientConfig(**{**fields, **changes})


@pytest.fixture
def client(server):
    with Client.init(cluster_at(server)) as client:
        yield client


@pytest.fixture
def both(server, other_server):
    """A client of two peers."""
    with Client.init(cluster_at(server, other_server)) as client:
        yield client


def reply(server, *bodies):
    for body in bodies:
        server.reply(200, body, headers=JSON)


def script_upload(server, *replies, pinned=None):
    """Queue the replies of an upload, of which the last come from `replies`."""
    server.reply(*((404, NOT_PINNED) if pinned is None else (200, pinned)), headers=JSON)
    for status, body in replies:
        server.reply(status, body, headers=JSON)


def sent_to(server):
    return [f"{sent.method} {sent.target.partition('?')[0]}" for sent in server.requests]


# Replies that mean failure


@pytest.mark.parametrize(
    "body",
    [
        b"",  # the error was in a trailer
        [],
        [{"name": "x", "bytes": 5}],
        [{"name": "x", "cid": "nonsense"}],
        {"cid": HELLO_CID},
        b'[{"cid":"bafk',
    ],
)
def test_an_upload_without_a_cid_at_its_end_is_no_success(client, server, body):
    script_upload(server, (200, body))
    with pytest.raises(ProviderError, match="not that of the REST API of IPFS Cluster"):
        client.upload(b"hello")
    assert sent_to(server) == [f"GET /allocations/{HELLO_CID}", "POST /add"]


def test_another_cid_than_ours_is_an_error(client, server):
    script_upload(server, (200, [{"cid": str(CID.of_raw(b"other"))}]))
    with pytest.raises(VerificationError):
        client.upload(b"hello")


@pytest.mark.parametrize(
    ("pin", "states"),
    [
        ({**PIN, "cid": "nonsense"}, None),
        ({**PIN, "allocations": "x"}, None),
        ({**PIN, "metadata": []}, None),
        ({**PIN, "replication_factor_min": None}, None),
        *((PIN, states) for states in ({}, {"peer_map": 1}, {"peer_map": {"a": 1}}, [])),
    ],
)
def test_a_pin_or_states_of_another_shape_are_an_error(client, server, pin, states):
    reply(server, pin, line(states))
    with pytest.raises(ProviderError, match="not that of the REST API"):
        client.pins(cid=HELLO_CID)


def test_an_empty_list_is_204_and_no_such_path_is_an_error(client, server):
    server.reply(204)
    assert client.pins() == []
    server.reply(404, {"code": 404, "message": "not found"}, headers=JSON)  # not "no such pin"
    with pytest.raises(ProviderError):
        client.pins(cid=HELLO_CID)


# Waiting for copies


def test_a_write_waits_until_enough_peers_have_pinned(client, server):
    waiting = states("pinned", "pinning")
    script_upload(server, (200, ADDED), (200, PIN), (200, waiting), (200, waiting), (200, DONE))
    assert (client.upload(b"hello")).cid == HELLO_CID
    assert sent_to(server)[2:] == [
        f"GET /allocations/{HELLO_CID}",
        *[f"GET /pins/{HELLO_CID}"] * 3,
    ]


def test_too_few_copies_in_time_name_the_state_of_each_peer():
    replies = {"allocations": PIN, "pins": states("pinned", "pin_error", "remote")}
    replies["pins"]["peer_map"]["12D31"]["error"] = "disk is full"

    def script(request):
        first = urlsplit(request.target).path.split("/")[1]
        return Scripted(status=200, headers=JSON, body=replies.get(first, ADDED))

    with ScriptedServer(script) as server:
        config = cluster_at(server, timeouts={"total": 0.5})
        with Client.init(config) as client:
            with pytest.raises(RequestTimeoutError) as caught:
                client.upload(b"hello")
    assert "is on 1 of 2 peers: peer0 pinned, peer1 pin_error (disk is full);" in str(caught.value)


def test_peers_of_one_name_are_told_apart_by_their_ids(client, server):
    twins = states("pinned", "pinned")
    for state in twins["peer_map"].values():
        state["peername"] = "node"
    reply(server, PIN, line(twins))
    (pin,) = client.pins(cid=HELLO_CID)
    assert pin.peers == {"12D30": "pinned", "12D31": "pinned"}


@pytest.mark.parametrize(
    ("statuses", "state"),
    [
        (("pinned", "pinned"), "pinned"),
        (("pinned", "pinning"), "pinning"),
        (("pin_queued", "pin_queued"), "queued"),
        (("cluster_error", "unpinned"), "pinning"),
    ],
)
def test_the_state_of_a_pin_is_that_of_its_peers(client, server, statuses, state):
    """The name comes from the list: a peer that was away may not know it."""
    reply(server, PIN, line(states(*statuses, name="old")))
    (pin,) = client.pins(cid=HELLO_CID)
    assert (pin.name, pin.keyvalues, pin.state) == ("hello", {"a": "1"}, state)
    assert pin.created_ms == 1_794_795_001_000  # whole seconds, as the cluster keeps them
    assert pin.size is None


@pytest.mark.parametrize(
    ("count", "error", "words"),
    [
        (1, "context deadline exceeded", r"peer0 pin_error \(context deadline exceeded\)"),
        (500, "no space\n\x1b[2Jleft " * 20, r"peer0 pin_error \(no space"),
    ],
)
def test_a_pin_that_the_peers_gave_up_is_an_error_in_one_short_line(
    client, server, count, error, words
):
    lost = states(*["pin_error"] * count, *["pinned"] * (count == 1))
    for row in lost["peer_map"].values():
        row["error"] = error if row["status"] == "pin_error" else ""
    reply(server, PIN, states("pin_queued", "pin_queued"), PIN, lost)
    with pytest.raises(ProviderError, match=words) as caught:
        client.pin(HELLO_CID, wait=5)
    assert len(str(caught.value)) < 1_000
    assert str(caught.value).isprintable()


def test_usage_of_a_cluster_is_the_number_of_its_pins(client, server):
    reply(server, 2 * line(PIN))
    assert client.usage() == Usage(pins=2)


def test_waiting_for_a_pin_reports_the_status_at_each_peer(client, server):
    middle, done = states("pinned", "pinning"), states("pinned", "pinned")
    reply(server, PIN, states("pin_queued", "pin_queued"), PIN, middle, PIN, done)
    steps = []
    client.pin(HELLO_CID, wait=20, progress=steps.append)
    assert [(step.state, [*step.peers.values()]) for step in steps] == [
        ("pinning", ["pinned", "pinning"]),
        ("pinned", ["pinned", "pinned"]),
    ]


# What is sent


def test_a_repeated_upload_repeats_all_that_is_known(client, server):
    """A pin replaces the name, the key-values, the copies and the expiry of an earlier one."""
    script_upload(server, (200, ADDED), (200, PIN), (200, DONE), pinned=PIN)
    record = client.upload(b"hello", keyvalues={"b": 2, "c": True})
    assert record.duplicate is True
    assert query_of(server.requests[1]) == {
        "format": "car",
        "stream-channels": "false",
        "mode": "recursive",
        "name": "hello",
        "meta-a": "1",
        "meta-b": "2",
        "meta-c": "true",
        "replication-min": "2",
        "replication-max": "3",
        "expire-at": "2030-01-01T00:00:00Z",
        "user-allocations": "12D3one,12D3two",
    }


def test_an_update_repeats_all_that_is_known(client, server):
    reply(server, PIN, {**PIN, "name": "new"}, DONE)
    pin = client.update(HELLO_CID, name="new", keyvalues={"a": None, "b": 1})
    assert (pin.name, pin.peers) == ("new", {"peer0": "pinned", "peer2": "pinned"})
    assert query_of(server.requests[1]) == {
        "mode": "recursive",
        "name": "new",
        "meta-b": "1",
        "replication-min": "2",
        "replication-max": "3",
        "expire-at": "2030-01-01T00:00:00Z",
    }


# Fail-over


def test_after_a_failure_the_next_peer_is_asked_and_then_first(both, server, other_server):
    server.reply(hang_up=True)
    reply(other_server, *[READY] * 4)
    for _ in range(3):
        assert both.test_connection() is True
    copy = both.with_options(verify=False)
    assert copy.test_connection() is True
    assert len(server.requests) == 1
    assert len(other_server.requests) == 4


def test_when_all_peers_fail_they_are_asked_again(server, other_server):
    server.reply(503)
    other_server.reply(hang_up=True)
    reply(server, READY)
    config = cluster_at(server, other_server, retries=AGAIN, provider_token=TOKEN)
    with Client.init(config) as client:
        assert client.test_connection() is True
    assert (len(server.requests), len(other_server.requests)) == (2, 1)
    for request in server.requests + other_server.requests:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"


def test_the_error_tells_what_each_peer_did(server):
    server.reply(503)
    config = cluster_at(server, closed_port_url())
    with Client.init(config) as client:
        with pytest.raises(NetworkError, match="cannot connect") as caught:
            client.test_connection()
    assert "another peer: HTTP error 503" in caught.value.__notes__


def test_an_unpin_whose_reply_was_lost_may_find_nothing(both, server, other_server):
    server.reply(200, PIN, headers=JSON, cut_head=5)
    other_server.reply(404, NOT_PINNED, headers=JSON)
    assert both.revoke(HELLO_CID) is True
    for peer in (server, other_server):
        peer.reply(404, NOT_PINNED, headers=JSON)
    with pytest.raises(NotFoundError, match="has not pinned the cid"):
        both.revoke(HELLO_CID)


def test_a_wrong_token_is_not_tried_elsewhere(server, other_server):
    server.reply(401, {"code": 401, "message": "unauthorized: access denied"}, headers=JSON)
    config = cluster_at(server, other_server, provider_token=TOKEN)
    with Client.init(config) as client:
        with pytest.raises(ProviderError, match="HTTP error 401"):
            client.test_connection()
    assert other_server.requests == []


TROUBLE = {"code": 500, "message": "dial tcp 127.0.0.1:5001: connect: connection refused"}


def test_a_write_that_fails_at_one_peer_is_tried_at_the_next(both, server, other_server):
    script_upload(server, (500, TROUBLE))
    reply(other_server, ADDED, PIN, DONE)
    assert (both.upload(b"hello")).cid == HELLO_CID
    assert sent_to(server) == [f"GET /allocations/{HELLO_CID}", "POST /add"]
    assert sent_to(other_server)[0] == "POST /add"


def test_a_pin_that_fails_at_all_peers_is_tried_once_at_each(server, other_server):
    server.reply(404, NOT_PINNED, headers=JSON)
    for peer in (server, other_server):
        peer.reply(500, TROUBLE, headers=JSON)
    config = cluster_at(server, other_server, retries=AGAIN)
    with Client.init(config) as client:
        with pytest.raises(ProviderError, match="connection refused"):
            client.pin(HELLO_CID)
    assert sent_to(server)[1:] == sent_to(other_server) == [f"POST /pins/{HELLO_CID}"]


@pytest.mark.parametrize(
    "words",
    [
        f"not enough peers to allocate CID. Needed at least: 3. Wanted at most: 3. {HELLO_CID}",
        "bad replication factors: 3/2",
        "only CAR files with a single root are supported",
        "mismatch in content integrity, expected: a got: b",
    ],
)
def test_what_no_peer_would_do_is_not_tried_elsewhere(both, server, other_server, words):
    script_upload(server, (500, {"code": 500, "message": words}))
    with pytest.raises(ProviderError, match=re.escape(words)) as caught:
        both.upload(b"hello")
    assert caught.value.status == 500
    assert (len(server.requests), other_server.requests) == (2, [])


@pytest.fixture
def impatient(monkeypatch):
    """Writes are repeated at once."""
    for name in ("REPEATED_SOON", "REPEATED_AFTER"):
        monkeypatch.setattr(f"holdfast._sync.providers.cluster.{name}", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_write_that_died_with_its_peer_is_repeated_at_another(both, server, other_server):
    """The first peer has accepted the content, and told nobody."""
    script_upload(server, (200, ADDED))
    server.reply(hang_up=True)
    script_upload(other_server, (200, states("unpinned", "unpinned")))
    script_upload(other_server, (200, ADDED), (200, PIN), (200, DONE))
    assert (both.upload(b"hello", name="tides")).cid == HELLO_CID
    assert sent_to(server)[1] == "POST /add"
    assert sent_to(other_server).count("POST /add") == 1
    again = next(sent for sent in other_server.requests if sent.method == "POST")
    assert query_of(again)["name"] == "tides"
    assert query_of(again)["user-allocations"] == "12D30,12D31"


@pytest.mark.usefixtures("impatient")
def test_a_write_at_a_dead_peer_is_repeated_at_those_that_live(both, server, other_server):
    """The cluster has not noticed yet, and the other peer may not hear of the pin."""
    dead = states("cluster_error", "pinned", "remote")
    script_upload(server, (200, ADDED), (200, PIN), (200, dead))
    script_upload(other_server, (200, ADDED), (200, states("remote", "pinned", "pinned")))
    assert (both.upload(b"hello")).cid == HELLO_CID
    assert sent_to(other_server) == [
        f"GET /allocations/{HELLO_CID}",
        "POST /add",
        f"GET /pins/{HELLO_CID}",
    ]
    assert query_of(other_server.requests[1])["user-allocations"] == "12D31,12D32"
    assert b"hello" in other_server.requests[1].body


@pytest.mark.usefixtures("impatient")
def test_large_content_is_not_sent_again(both, server, other_server, monkeypatch):
    monkeypatch.setattr("holdfast._sync.providers.cluster.MAX_REPEATED", 4)
    dead = states("cluster_error", "pinned", "remote")
    script_upload(server, (200, ADDED), (200, PIN), (200, dead))
    reply(other_server, PIN, states("remote", "pinned", "pinned"))
    assert (both.upload(b"hello")).cid == HELLO_CID
    assert sent_to(other_server) == [f"POST /pins/{HELLO_CID}", f"GET /pins/{HELLO_CID}"]


# Configuration


def test_the_gateways_of_another_machine_must_be_named():
    with Client.init(provider="cluster") as client:
        assert client.url(HELLO_CID) == f"http://127.0.0.1:8080/ipfs/{HELLO_CID}"
    with pytest.raises(ConfigError, match="gateway_url is missing"):
        Client.init(provider="cluster", pin_api_url="https://node1.example.com")
