# WARNING: this file is generated from tests/_async/test_cluster.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for IPFS Cluster, on a real cluster of three: copies, key-values, fail-over, faults.

What Kubo can do too is in `test_kubo.py`.
"""

import os
import time

import pytest
import urllib3

from holdfast import Client, compute_cid
from holdfast.errors import AuthenticationError, NetworkError, ProviderError, RequestTimeoutError
from tests.clusters import running_cluster
from tests.disks import in_memory
from tests.engines import stopped
from tests.support import NOBODY_HAS, closed_port_url, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def client(cluster):
    with Client.init(cluster.provider_config()) as client:
        yield client


def pin_of(client, cid):
    (pin,) = client.pins(cid=cid)
    return pin


def test_a_write_returns_when_two_nodes_have_the_content(cluster, client, salt):
    kubos = {peer.name: peer.kubo for peer in cluster.peers}
    for value in ([salt] * 100, {"salt": salt}):
        record = client.store(value)
        pin = pin_of(client, record.cid)
        assert list(pin.peers.values()) == ["pinned", "pinned"]
        for name in pin.peers:
            assert record.cid in kubos[name].call("pin/ls", arg=record.cid).decode()


# Names, key-values, copies


def test_known_content_keeps_what_is_known_about_its_pin(cluster, client, salt):
    options = {"replication_min": 1, "replication_max": 3}
    with Client.init(cluster.provider_config(provider_options=options)) as other:
        first = other.store([salt], name="first", keyvalues={"a": "1", "b": 2})
    before = pin_of(client, first.cid)
    assert (before.name, before.keyvalues) == ("first", {"a": "1", "b": "2"})
    assert list(before.peers) == ["peer0", "peer1", "peer2"]
    assert (client.store([salt])).duplicate is True
    assert (pin_of(client, first.cid)).name == "first"
    client.store([salt], keyvalues={"b": "3"})
    client.update(first.cid, name="second")
    changed = client.update(first.cid, keyvalues={"a": None, "c": 1.5})
    after = pin_of(client, first.cid)
    assert (after.name, after.keyvalues) == ("second", {"b": "3", "c": "1.5"})
    assert (changed.name, changed.keyvalues) == (after.name, after.keyvalues)
    assert list(after.peers) == list(before.peers)


@pytest.mark.parametrize("copies", [1, 3, -1])
def test_the_number_of_copies_can_be_set(cluster, salt, copies):
    config = cluster.provider_config(provider_options={"replication_min": copies})
    with Client.init(config) as client:
        record = client.store([salt])
        pin = pin_of(client, record.cid)
        assert list(pin.peers.values()) == ["pinned"] * (3 if copies < 0 else copies)
        assert pin.state == "pinned"


def test_names_and_key_values_may_be_in_any_language(client, salt):
    name = 'ünï "cøde" & 🌊=%20'
    keyvalues = {"schlüssel &=%": f"wert\n&=+ 🌊 {salt}", "empty": ""}
    record = client.store([salt], name=name, keyvalues=keyvalues)
    pin = pin_of(client, record.cid)
    assert (pin.name, pin.keyvalues) == (name, keyvalues)
    assert [pin.cid for pin in client.pins(keyvalues=keyvalues)] == [record.cid]


def test_what_is_too_long_for_the_cluster_is_an_error_with_the_remedy(client, salt):
    with pytest.raises(ProviderError, match="too long for the cluster"):
        client.store([salt], keyvalues={"a": "x" * 20_000})


# Pins by CID


def test_content_of_another_node_is_pinned(cluster, client, salt):
    cid = cluster.peers[2].kubo.add(salt.encode(), pin=False, cid_version=1)
    pin = client.pin(cid, name="fetched", wait=30)
    assert (pin.state, pin.name, list(pin.peers.values())) == ("pinned", "fetched", ["pinned"] * 2)
    assert (client.pin(cid)).name == "fetched"
    assert (client.download(cid)).text() == salt


def test_content_that_nobody_has_takes_bounded_time(client):
    steps = []
    pin = client.pin(NOBODY_HAS, wait=1, progress=steps.append)
    assert pin.state in {"queued", "pinning"}
    assert (steps[-1].state, steps[-1].peers) == (pin.state, pin.peers)
    assert (client.usage()).pins >= 1
    assert "pinned" not in pin.peers.values()
    assert client.revoke(NOBODY_HAS) is True
    with pytest.raises((ProviderError, NetworkError)):
        client.download(NOBODY_HAS)


# Fail-over


def test_a_peer_that_is_down_is_left_out(cluster, salt):
    down = closed_port_url()
    config = cluster.provider_config(
        pin_api_url=[down, *cluster.api_urls], gateway_url=[f"{down}/ipfs", *cluster.gateway_urls]
    )
    with Client.init(config) as client:
        record = client.upload(iter([salt.encode()]))
        assert (client.download(record.cid)).text() == salt
        assert [pin.cid for pin in client.pins(cid=record.cid)] == [record.cid]
        assert client.pins(limit=1)
        assert client.revoke(record.cid) is True


# Faults, each a typed error


@pytest.fixture(scope="module")
def guarded_cluster():
    """A cluster of one, which asks for credentials."""
    user = "alice:pass-0123"
    with in_memory() as folder, running_cluster(folder, size=1, user=user) as cluster:
        yield cluster


@pytest.fixture
def token(guarded_cluster):
    """A token that the cluster makes for its user."""
    url = f"{guarded_cluster.api_urls[0]}/token"
    headers = urllib3.make_headers(basic_auth="alice:pass-0123")
    return urllib3.request("POST", url, headers=headers).json()["token"]


def test_credentials(guarded_cluster, token):
    for good in ("alice:pass-0123", token):
        config = guarded_cluster.provider_config(provider_token=good)
        with Client.init(config) as client:
            assert client.test_connection() is True
            record = client.upload(os.urandom(20))
            assert [pin.cid for pin in client.pins(cid=record.cid)] == [record.cid]
    for wrong in (None, "alice:pass-0124", f"{token}x", "pass-0123"):
        config = guarded_cluster.provider_config(provider_token=wrong)
        with Client.init(config) as client:
            for call in (
                client.test_connection,
                client.pins,
                lambda: client.store([1]),
                lambda: client.upload(iter([os.urandom(3_000_000)])),
                lambda: client.pin(NOBODY_HAS),
                lambda: client.revoke(NOBODY_HAS),
            ):
                with pytest.raises(AuthenticationError) as caught:
                    call()
                assert str(caught.value) == "HTTP error 401"
                assert "unauthorized" in caught.value.details
                assert str(wrong) not in caught.value.details


def test_too_few_peers_are_an_error_with_the_words_of_the_cluster(cluster):
    config = cluster.provider_config(provider_options={"replication_min": 4})
    with Client.init(config) as client:
        for call in (lambda: client.store(["too few"]), lambda: client.pin(NOBODY_HAS)):
            with pytest.raises(ProviderError, match="not enough peers"):
                call()
        assert client.pins(cid=compute_cid(b'["too few"]')) == []


def test_a_write_that_one_node_does_not_get_names_the_state_of_each(own_cluster):
    """Its Kubo is dead: the cluster says that all is well, and has one copy."""
    victim = own_cluster.peers[1]
    config = own_cluster.provider_config(
        timeouts={"total": 6}, provider_options={"replication_min": 3}
    )
    with Client.init(config) as client:
        client.store(["before"])
        victim.kubo.stop(kill=True)
        with pytest.raises(RequestTimeoutError, match=r"is on 2 of 3 peers: .*peer1 ") as caught:
            client.store(["after"])
        for state in ("peer0 pinned", "peer2 pinned"):
            assert state in str(caught.value)
        assert "peer1 pinned" not in str(caught.value)
        victim.kubo.start()
        wait_until(own_cluster.is_complete)
        assert (client.store(["after"])).duplicate is True
    waits_not = {"wait": False, "replication_min": 3}
    config = own_cluster.provider_config(provider_options=waits_not)
    victim.kubo.stop(kill=True)
    with Client.init(config) as client:
        record = client.store(["at once"])
        (pin,) = client.pins(cid=record.cid)
        assert pin.state == "pinning"


def test_a_peer_that_stops_answering_does_not_take_the_time_of_the_others(own_cluster):
    first = own_cluster.peers[0]
    config = own_cluster.provider_config(timeouts={"total": 9, "read": 9})
    with Client.init(config) as client:
        with stopped(first):
            started = time.monotonic()
            assert client.test_connection() is True
            assert time.monotonic() - started < 8


def test_an_upload_goes_on_at_another_peer(own_cluster, tmp_path):
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(30_000_000))
    first = own_cluster.peers[0]
    killed = []

    def progress(done, total):
        if done > 10_000_000 and not killed:
            killed.append(done)
            first.stop(kill=True)

    config = own_cluster.provider_config(timeouts={"total": 30})
    with Client.init(config) as client:
        record = client.upload(large, progress=progress)
        assert killed
        assert record.cid == compute_cid(large)
        pin = client.pin(record.cid, wait=30)
        assert list(pin.peers.values()) == ["pinned", "pinned"]
        assert first.name not in pin.peers
        assert (client.download(record.cid)).read() == large.read_bytes()
