# WARNING: this file is generated from tests/_async/test_cluster.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for IPFS Cluster, on a real cluster of three: copies, key-values, fail-over.

What Kubo can do too is in `test_kubo.py`.
"""

import pytest

from holdfast import Client
from holdfast.errors import (
    NetworkError,
    ProviderError,
)
from tests.support import NOBODY_HAS, closed_port_url

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def client(cluster):
    with Client.init(cluster.provider_config()) as client:
        yield client


def pin_of(client, cid):
    (pin,) = client.pins(cid=cid)
    return pin


def test_a_write_returns_when_two_nodes_have_the_content(cluster, client, salt):
    kubos = {peer.name: peer.kubo for peer in cluster.peers}
    for given in ([salt] * 100, {"salt": salt}):
        record = client.store(given)
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


def test_a_repeated_upload_stays_on_its_nodes(client, salt):
    record = client.store([salt])
    before = pin_of(client, record.cid)
    for _ in range(5):
        assert (client.store([salt])).duplicate is True
    # Each pin is made again, which may still be going on.
    assert list((pin_of(client, record.cid)).peers) == list(before.peers)


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
    assert [each.cid for each in client.pins(keyvalues=keyvalues)] == [record.cid]


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
    pin = client.pin(NOBODY_HAS, wait=1)
    assert pin.state in {"queued", "pinning"}
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
