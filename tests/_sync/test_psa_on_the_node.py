# WARNING: this file is generated from tests/_async/test_psa_on_the_node.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for the Pinning Services API against the node, and copies to it."""

import pytest

from holdfast import Client, compute_cid
from holdfast.errors import NotFoundError, ProviderError, UnsupportedError
from holdfast.provider import PinInfo
from holdfast.testing import ScriptedServer, running_node
from tests.psa import results, row
from tests.support import HELLO_CID, config_for

NOWHERE = compute_cid(b"the content of this CID is on no node")
PUBLIC = "/ip4/203.0.114.7/tcp/4001/p2p/12D3KooWKubo"


@pytest.fixture
def target(empty_node):
    """A node that fetches from `empty_node`, and its configuration as a pinning service."""
    with running_node(gateways=(empty_node.gateway_url,)) as node:
        yield node


@pytest.fixture
def psa(target):
    config = target.config.with_options(provider="psa", pin_api_url=f"{target.api_url}/psa")
    with Client.init(config) as client:
        yield client


@pytest.fixture
def source(empty_node):
    with Client.init(empty_node.config) as client:
        yield client


def test_content_is_pinned_found_changed_read_and_revoked(source, psa):
    assert psa.test_connection() is True
    data = b"a file " * 300_000
    cid = (source.upload(data)).cid
    pin = psa.pin(cid, name="tides", keyvalues={"sea": "north"}, wait=30)
    assert (pin.state, pin.name, pin.cid) == ("pinned", "tides", cid)
    assert (psa.pin(cid)).id == pin.id
    assert [each.id for each in psa.pins(name="TID", keyvalues={"sea": "north"})] == [pin.id]
    assert [each.id for each in psa.pins(cid=cid, since=pin.created, until=pin.created)]
    assert psa.pins(since=pin.created + 1) == []
    changed = psa.update(cid, name="ebb", keyvalues={"sea": None, "n": 1})
    assert (changed.name, changed.keyvalues) == ("ebb", {"n": "1"})
    assert [each.name for each in psa.pins()] == ["ebb"]
    assert (psa.download(cid)).read() == data
    assert psa.revoke(cid) is True
    assert psa.pins() == []
    with pytest.raises(NotFoundError, match="is not pinned"):
        psa.revoke(cid)


@pytest.mark.slow
def test_what_is_nowhere_fails_with_the_words_of_the_service(psa):
    with pytest.raises(ProviderError, match="did not find the content"):
        psa.pin(NOWHERE, wait=30)
    assert psa.pins() == []
    assert psa.revoke(NOWHERE) is True  # the request that has failed


def test_pins_are_copied_by_their_cid(source, psa, target):
    source.store({"a": 1}, name="json", keyvalues={"k": "v"})
    source.upload(b"a file", name="file.txt")
    outcomes = [each for each in source.copy_pins(to=psa, pin_by_cid=True, wait=30)]
    assert [each.result().how for each in outcomes] == ["pin", "pin"]
    assert {pin.name: pin.keyvalues for pin in psa.pins()} == {
        "json": {"k": "v"},
        "file.txt": {},
    }
    assert len(target.repository.pins()) == 2
    again = [each.result() for each in source.copy_pins(to=psa, pin_by_cid=True)]
    assert [each.duplicate for each in again] == [True, True]
    # The content was not read for that: only its CID was sent.
    assert not [each for each in target.requests if "pinFileToIPFS" in each]


@pytest.mark.slow
def test_a_source_that_is_on_no_network_cannot_be_copied_from(source, psa, here):
    cid = (here.store([1])).cid
    with pytest.raises(UnsupportedError, match="stores nothing itself") as caught:
        here.copy(cid, to=psa)
    assert "pin_by_cid=True" in caught.value.__notes__[0]
    assert psa.pins() == []


@pytest.mark.parametrize("status", [200, 403])
def test_the_addresses_of_a_kubo_node_are_told_if_they_are_public(server, status):
    """Others would be refused by services; without any, the network is searched."""
    private = [
        "/ip4/10.0.0.1/tcp/4001/p2p/12D3KooWKubo",
        "/ip4/127.0.0.1/tcp/4001/p2p/12D3KooWKubo",
    ]
    config = config_for(server, provider="kubo", gateway_url=None)
    server.reply(200, {"Keys": {HELLO_CID: {"Type": "recursive", "Name": "hello"}}})
    server.reply(status, {"ID": "12D3KooWKubo", "Addresses": [*private, PUBLIC]})
    with ScriptedServer() as service:
        service.reply(200, results())
        service.reply(200, results())
        service.reply(202, row(status="queued", name="hello"))
        psa_config = config_for(service, provider="psa")
        with Client.init(config) as kubo, Client.init(psa_config) as psa:
            copied = kubo.copy(HELLO_CID, to=psa, wait=0)
        assert (copied.how, copied.state) == ("pin", "queued")
        body = service.requests[-1].json()
    told = {"origins": [PUBLIC]} if status == 200 else {}
    assert body == {"cid": HELLO_CID, "name": "hello", **told}


@pytest.mark.slow
def test_a_service_can_be_told_where_content_is(psa, source):
    cid = (source.upload(b"hello")).cid
    pin = psa.provider.pin_from(cid, PinInfo(), [PUBLIC])
    assert pin.cid == cid
