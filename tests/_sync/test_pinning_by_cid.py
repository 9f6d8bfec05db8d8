# WARNING: this file is generated from tests/_async/test_pinning_by_cid.py
# by scripts/generate_sync.py. Change the original instead.
"""Pinning content that exists already, by its CID."""

import pytest

from holdfast import Client, compute_cid
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.errors import (
    ClientClosedError,
    InvalidCIDError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    UnsupportedError,
)
from holdfast.testing import running_node
from tests._sync.spec_only import SpecOnly
from tests.support import HELLO_CID

JOB = {"id": "job-7", "ipfsHash": HELLO_CID, "status": "prechecking", "name": "x"}
NOTHING = {"rows": []}
ROW = {
    "id": "pin-7",
    "ipfs_pin_hash": HELLO_CID,
    "size": 5,
    "date_pinned": "2024-07-11T23:33:27.665Z",
    "metadata": {"name": "x", "keyvalues": {"a": 1}},
}


def job(status, number=7):
    return {"count": 1, "rows": [{"id": f"job-{number}", "status": status}]}


def states(server, client, *jobs, wait=30.0):
    """Pin with these replies to the questions after the job; return the pin."""
    server.reply(200, NOTHING)
    server.reply(200, JOB)
    for reply in jobs:
        server.reply(200, reply)
    return client.pin(HELLO_CID, wait=wait)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr("holdfast._sync.pin_waiting.FIRST_PAUSE", 0.001)


# The embedded store


def test_what_the_store_has_is_pinned_at_once(tmp_path):
    with Client.init(path=tmp_path) as client:
        cid = (client.upload(b"1", name="old")).cid
        client.revoke(cid)
        assert client.pins() == []
        pin = client.pin(f"/ipfs/{cid}", name="new.txt", keyvalues={"a": 1})
        assert (pin.state, pin.size, pin.type[:10]) == ("pinned", 1, "text/plain")
        assert (pin.cid, pin.name, pin.keyvalues) == (cid, "new.txt", {"a": 1})
        assert client.pins() == [pin]


def test_a_pin_that_exists_gets_what_is_given(tmp_path):
    with Client.init(path=tmp_path) as client:
        cid = (client.upload(b"1", name="old", keyvalues={"a": 1})).cid
        assert (client.pin(cid)).name == "old"
        pin = client.pin(cid, name="new", keyvalues={"b": 2}, wait=5)
        assert (pin.name, pin.keyvalues) == ("new", {"a": 1, "b": 2})
        assert client.pins() == [pin]


def test_what_the_store_does_not_have_is_told_with_the_way_to_get_it(tmp_path):
    with Client.init(path=tmp_path) as client:
        with pytest.raises(NotFoundError) as caught:
            client.pin(HELLO_CID)
        assert str(caught.value) == (
            f"the embedded store does not have all of {HELLO_CID}: import it as an archive (CAR), "
            "or download it with another provider and upload it here"
        )
        block = CID.of_raw(b"hello")
        archive = b"".join(write_car([block], [(block, b"hello")]))
        client.provider.import_car([archive])
        assert (client.pin(HELLO_CID)).state == "pinned"


# The node


def test_the_node_pins_what_another_has(node):
    data = b"0123456789" * 300_000
    with running_node(gateways=(node.gateway_url,)) as other:
        with Client.init(node.config) as uploader:
            cid = (uploader.upload(data)).cid
        with Client.init(other.config) as client:
            pin = client.pin(cid, name="fetched", keyvalues={"a": "b"}, wait=30)
            assert (pin.state, pin.name, pin.keyvalues) == ("pinned", "fetched", {"a": "b"})
            assert [pin] == client.pins()
            again = client.pin(cid, name="again")
            assert (again.state, again.name, again.id) == ("pinned", "again", pin.id)
            assert (client.pins())[0].name == "again"
            assert (client.download(cid)).read() == data


def test_the_node_says_when_nobody_has_it(node):
    missing = compute_cid(b"nobody has this, or ever had")
    with Client.init(node.config) as client:
        pin = client.pin(missing)
        assert (pin.state, pin.size, pin.created) == ("queued", None, None)
        with pytest.raises(ProviderError, match=f"could not pin {missing}: it did not find") as it:
            client.pin(missing, wait=30)
        assert it.value.details == "expired"


# As the service is asked


def test_waiting_follows_the_job_to_its_pin(server, client):
    steps = [job("prechecking"), job("retrieving"), job("expired", 6), NOTHING, NOTHING]
    pin = states(server, client, *steps, {"rows": [ROW]})
    assert (pin.id, pin.state, pin.size, pin.keyvalues) == ("pin-7", "pinned", 5, {"a": 1})
    jobs = [sent for sent in server.requests if sent.target.startswith("/pinning/pinJobs")]
    assert jobs[0].target == f"/pinning/pinJobs?ipfs_pin_hash={HELLO_CID}&sort=DESC&limit=100"
    assert len(jobs) == 4


def test_the_wait_ends_with_the_state_so_far(server, client, monkeypatch):
    monkeypatch.setattr("holdfast._sync.pin_waiting.FIRST_PAUSE", 5.0)
    pin = states(server, client, job("searching"), wait=0.01)
    assert (pin.id, pin.state) == ("job-7", "pinning")
    assert len(server.requests) == 3


def test_a_plan_without_pinning_by_cid_is_the_error_of_the_service(server, client):
    server.reply(200, NOTHING)
    server.reply(403, {"error": {"reason": "PAID_FEATURE_ONLY", "details": "upgrade"}})
    with pytest.raises(PermissionDeniedError, match=r"^upgrade$"):
        client.pin(HELLO_CID)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"name": 5}, TypeError, "name must be a string"),
        ({"keyvalues": {"a": None}}, TypeError, "must be a string, a number or a bool"),
        ({"wait": "1"}, TypeError, "wait must be a number of seconds, not str"),
        ({"wait": True}, TypeError, "wait must be a number of seconds"),
        ({"wait": -1}, ValueError, "and not negative"),
        ({"wait": float("nan")}, ValueError, "wait must be a number of seconds"),
        ({"wait": float("inf")}, ValueError, "wait must be a number of seconds"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_sent(server, client, arguments, kind, words):
    with pytest.raises(kind, match=words):
        client.pin(HELLO_CID, **arguments)
    with pytest.raises(InvalidCIDError):
        client.pin(f"{HELLO_CID}/path")
    with pytest.raises(UnsupportedError, match="SpecOnly cannot pin content by its CID"):
        Client(SpecOnly()).pin(HELLO_CID)
    client.close()
    with pytest.raises(ClientClosedError):
        client.pin(HELLO_CID)
    assert server.requests == []
