# WARNING: this file is generated from tests/_async/test_changing_pins.py
# by scripts/generate_sync.py. Change the original instead.
"""Names and key-values of pins: given, given again, and changed."""

import json

import pytest

from holdfast import Client
from holdfast.errors import InvalidCIDError, NotFoundError, PermissionDeniedError, UnsupportedError
from tests._sync.spec_only import SpecOnly
from tests.support import HELLO_CID, TOKEN, config_for, pinned

ROW = {
    "id": "1",
    "ipfs_pin_hash": HELLO_CID,
    "size": 5,
    "date_pinned": "2024-07-11T23:33:27.665Z",
    "metadata": {"name": "old", "keyvalues": {"a": "1", "b": "2"}},
}


@pytest.fixture
def client(store_client):
    return store_client


def test_a_name_and_key_values_are_stored(client):
    client.store([1], name="one", keyvalues={"a": "ü", "n": 1.5, "b": False})
    client.upload(b"2", name="two.txt", keyvalues={"a": 2})
    assert (client.store([3], keyvalues={"a": 3})).duplicate is False
    assert (client.store([3])).duplicate is True
    third, second, first = client.pins()
    assert (first.name, first.keyvalues) == ("one", {"a": "ü", "n": 1.5, "b": False})
    assert (second.name, second.keyvalues) == ("two.txt", {"a": 2})
    assert (third.name[:7], third.keyvalues) == ("client-", {"a": 3})


def test_update_changes_what_is_given(client):
    cid = (client.store([1], name="first", keyvalues={"a": 1, "b": 2})).cid
    pin = client.update(cid, name="second")
    assert (pin.cid, pin.name, pin.keyvalues) == (cid, "second", {"a": 1, "b": 2})
    pin = client.update(f"ipfs://{cid}", keyvalues={"a": None, "c": True})
    assert (pin.name, pin.keyvalues) == ("second", {"b": 2, "c": True})
    pin = client.update(cid, name="", keyvalues={"b": "x"})
    assert [pin] == client.pins(cid=cid)
    assert (pin.name, pin.keyvalues, pin.state) == ("", {"b": "x", "c": True}, "pinned")


def test_update_of_what_is_not_pinned(client):
    words = f"^The current user has not pinned the cid: {HELLO_CID}$"
    with pytest.raises(NotFoundError, match=words):
        client.update(HELLO_CID, name="x")
    with pytest.raises(NotFoundError, match=words):
        client.revoke(HELLO_CID)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({}, ValueError, "nothing to change: give a name, keyvalues, or both"),
        ({"keyvalues": {}}, ValueError, "nothing to change"),
        ({"name": 5}, TypeError, "name must be a string"),
        ({"keyvalues": "a=b"}, TypeError, "keyvalues must be a mapping"),
        ({"keyvalues": {"a": [1]}}, TypeError, "must be a string, a number or a bool, not list"),
        ({"keyvalues": {"a": float("inf")}}, ValueError, "must be a finite number"),
        ({"keyvalues": {"\ud800": 1}}, ValueError, "lone surrogates"),
    ],
)
def test_bad_changes_are_refused_before_anything_is_sent(server, arguments, kind, words):
    with Client.init(config_for(server)) as client:
        with pytest.raises(kind, match=words):
            client.update(HELLO_CID, **arguments)
        with pytest.raises(InvalidCIDError):
            client.update(f"{HELLO_CID}/path", name="x")
    assert server.requests == []


def test_a_provider_without_names_says_so():
    client = Client(SpecOnly())
    with pytest.raises(UnsupportedError, match="SpecOnly cannot change pins; store the content"):
        client.update(HELLO_CID, name="x")


# As the service is asked


def sent(server):
    return [f"{request.method} {request.target}" for request in server.requests]


def test_an_upload_sends_metadata_only_with_key_values(server):
    with Client.init(config_for(server)) as client:
        server.reply(200, pinned())
        client.upload(b"hello", name="a.txt")
        server.reply(200, pinned())
        client.upload(b"hello", name="a.txt", keyvalues={"a": 1})
    first, second = server.requests
    assert b'filename="a.txt"' in first.body
    assert b"etadata" not in first.raw
    assert b'{"name":"a.txt","keyvalues":{"a":1}}' in second.body


def test_only_a_duplicate_with_something_given_takes_another_request(server):
    duplicate = {**pinned(), "isDuplicate": True}
    with Client.init(config_for(server)) as client:
        for reply in (pinned(), duplicate):
            server.reply(200, reply)
            assert (client.upload(b"hello")).duplicate is (reply is duplicate)
        server.reply(200, pinned())
        client.upload(b"hello", name="x", keyvalues={"a": 1})
        assert set(sent(server)) == {"POST /pinning/pinFileToIPFS"}
        server.reply(200, duplicate)
        server.reply(200, b"OK")
        assert (client.upload(b"hello", name="x", keyvalues={"a": 1})).duplicate is True
    change = server.requests[-1]
    assert (change.method, change.target) == ("PUT", "/pinning/hashMetadata")
    assert change.json() == {"ipfsPinHash": HELLO_CID, "name": "x", "keyvalues": {"a": 1}}
    assert change.headers["authorization"] == f"Bearer {TOKEN}"
    assert change.headers["content-type"] == "application/json"


def test_key_values_alone_do_not_rename_a_duplicate(server):
    with Client.init(config_for(server)) as client:
        server.reply(200, {**pinned(), "isDuplicate": True})
        server.reply(200, b"OK")
        client.store("hello", keyvalues={"a": 1})
    assert server.requests[-1].json() == {"ipfsPinHash": HELLO_CID, "keyvalues": {"a": 1}}


def test_after_a_lost_reply_it_is_not_known_whether_it_was_a_duplicate(server):
    config = config_for(server, retries={"attempts": 2, "base": 0.01})
    with Client.init(config) as client:
        server.reply(200, hang_up=True)
        server.reply(200, {**pinned(), "isDuplicate": True})
        record = client.store("hello")
    assert (len(server.requests), record.duplicate) == (2, None)


def test_a_change_that_is_refused_is_an_error(server):
    with Client.init(config_for(server)) as client:
        server.reply(200, {**pinned(), "isDuplicate": True})
        server.reply(403, {"error": {"details": "no scope hashMetadata"}})
        with pytest.raises(PermissionDeniedError, match="no scope hashMetadata"):
            client.store("hello", name="x")


def test_update_sends_the_changes_and_asks_for_the_pin(server):
    with Client.init(config_for(server)) as client:
        server.reply(200, b"OK")
        server.reply(200, {"rows": [ROW]})  # the list lags behind
        pin = client.update(HELLO_CID, name="new", keyvalues={"a": None, "c": 3})
    change, look = server.requests
    assert json.loads(change.body) == {
        "ipfsPinHash": HELLO_CID,
        "name": "new",
        "keyvalues": {"a": None, "c": 3},
    }
    assert look.target.startswith("/data/pinList?")
    assert (pin.name, pin.keyvalues, pin.size) == ("new", {"b": "2", "c": 3}, 5)


def test_update_where_the_service_takes_anything_and_lists_nothing(server):
    with Client.init(config_for(server)) as client:
        server.reply(200, b"OK")
        server.reply(200, {"rows": []})
        with pytest.raises(NotFoundError, match="has not pinned the cid"):
            client.update(HELLO_CID, name="new")
