"""The provider for IPFS Cluster, on a real cluster of three: copies, key-values, fail-over.

What Kubo can do too is in `test_kubo.py`.
"""

import pytest

from holdfast import AsyncClient
from holdfast.errors import (
    NetworkError,
    ProviderError,
)
from tests.support import NOBODY_HAS, closed_port_url

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
async def client(cluster):
    async with await AsyncClient.init(cluster.provider_config()) as client:
        yield client


async def pin_of(client, cid):
    (pin,) = await client.pins(cid=cid)
    return pin


async def test_a_write_returns_when_two_nodes_have_the_content(cluster, client, salt):
    kubos = {peer.name: peer.kubo for peer in cluster.peers}
    for given in ([salt] * 100, {"salt": salt}):
        record = await client.store(given)
        pin = await pin_of(client, record.cid)
        assert list(pin.peers.values()) == ["pinned", "pinned"]
        for name in pin.peers:
            assert record.cid in kubos[name].call("pin/ls", arg=record.cid).decode()


# Names, key-values, copies


async def test_known_content_keeps_what_is_known_about_its_pin(cluster, client, salt):
    options = {"replication_min": 1, "replication_max": 3}
    async with await AsyncClient.init(cluster.provider_config(provider_options=options)) as other:
        first = await other.store([salt], name="first", keyvalues={"a": "1", "b": 2})
    before = await pin_of(client, first.cid)
    assert (before.name, before.keyvalues) == ("first", {"a": "1", "b": "2"})
    assert list(before.peers) == ["peer0", "peer1", "peer2"]
    assert (await client.store([salt])).duplicate is True
    assert (await pin_of(client, first.cid)).name == "first"
    await client.store([salt], keyvalues={"b": "3"})
    await client.update(first.cid, name="second")
    changed = await client.update(first.cid, keyvalues={"a": None, "c": 1.5})
    after = await pin_of(client, first.cid)
    assert (after.name, after.keyvalues) == ("second", {"b": "3", "c": "1.5"})
    assert (changed.name, changed.keyvalues) == (after.name, after.keyvalues)
    assert list(after.peers) == list(before.peers)


async def test_a_repeated_upload_stays_on_its_nodes(client, salt):
    record = await client.store([salt])
    before = await pin_of(client, record.cid)
    for _ in range(5):
        assert (await client.store([salt])).duplicate is True
    # Each pin is made again, which may still be going on.
    assert list((await pin_of(client, record.cid)).peers) == list(before.peers)


@pytest.mark.parametrize("copies", [1, 3, -1])
async def test_the_number_of_copies_can_be_set(cluster, salt, copies):
    config = cluster.provider_config(provider_options={"replication_min": copies})
    async with await AsyncClient.init(config) as client:
        record = await client.store([salt])
        pin = await pin_of(client, record.cid)
        assert list(pin.peers.values()) == ["pinned"] * (3 if copies < 0 else copies)
        assert pin.state == "pinned"


async def test_names_and_key_values_may_be_in_any_language(client, salt):
    name = 'ünï "cøde" & 🌊=%20'
    keyvalues = {"schlüssel &=%": f"wert\n&=+ 🌊 {salt}", "empty": ""}
    record = await client.store([salt], name=name, keyvalues=keyvalues)
    pin = await pin_of(client, record.cid)
    assert (pin.name, pin.keyvalues) == (name, keyvalues)
    assert [each.cid for each in await client.pins(keyvalues=keyvalues)] == [record.cid]


async def test_what_is_too_long_for_the_cluster_is_an_error_with_the_remedy(client, salt):
    with pytest.raises(ProviderError, match="too long for the cluster"):
        await client.store([salt], keyvalues={"a": "x" * 20_000})


# Pins by CID


async def test_content_of_another_node_is_pinned(cluster, client, salt):
    cid = cluster.peers[2].kubo.add(salt.encode(), pin=False, cid_version=1)
    pin = await client.pin(cid, name="fetched", wait=30)
    assert (pin.state, pin.name, list(pin.peers.values())) == ("pinned", "fetched", ["pinned"] * 2)
    assert (await client.pin(cid)).name == "fetched"
    assert (await client.download(cid)).text() == salt


async def test_content_that_nobody_has_takes_bounded_time(client):
    pin = await client.pin(NOBODY_HAS, wait=1)
    assert pin.state in {"queued", "pinning"}
    assert "pinned" not in pin.peers.values()
    assert await client.revoke(NOBODY_HAS) is True
    with pytest.raises((ProviderError, NetworkError)):
        await client.download(NOBODY_HAS)


# Fail-over


async def test_a_peer_that_is_down_is_left_out(cluster, salt):
    down = closed_port_url()
    config = cluster.provider_config(
        pin_api_url=[down, *cluster.api_urls], gateway_url=[f"{down}/ipfs", *cluster.gateway_urls]
    )
    async with await AsyncClient.init(config) as client:
        record = await client.upload(iter([salt.encode()]))
        assert (await client.download(record.cid)).text() == salt
        assert [pin.cid for pin in await client.pins(cid=record.cid)] == [record.cid]
        assert await client.pins(limit=1)
        assert await client.revoke(record.cid) is True
