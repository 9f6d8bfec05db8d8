"""Names and key-values of pins: given, given again, and changed."""

import json

import pytest

from holdfast import AsyncClient
from holdfast.errors import InvalidCIDError, NotFoundError, PermissionDeniedError, UnsupportedError
from tests._async.spec_only import AsyncSpecOnly
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


async def test_a_name_and_key_values_are_stored(client):
    await client.store([1], name="one", keyvalues={"a": "ü", "n": 1.5, "b": False})
    await client.upload(b"2", name="two.txt", keyvalues={"a": 2})
    assert (await client.store([3], keyvalues={"a": 3})).duplicate is False
    assert (await client.store([3])).duplicate is True
    third, second, first = await client.pins()
    assert (first.name, first.keyvalues) == ("one", {"a": "ü", "n": 1.5, "b": False})
    assert (second.name, second.keyvalues) == ("two.txt", {"a": 2})
    assert (third.name[:7], third.keyvalues) == ("client-", {"a": 3})


async def test_update_changes_what_is_given(client):
    cid = (await client.store([1], name="first", keyvalues={"a": 1, "b": 2})).cid
    pin = await client.update(cid, name="second")
    assert (pin.cid, pin.name, pin.keyvalues) == (cid, "second", {"a": 1, "b": 2})
    pin = await client.update(f"ipfs://{cid}", keyvalues={"a": None, "c": True})
    assert (pin.name, pin.keyvalues) == ("second", {"b": 2, "c": True})
    pin = await client.update(cid, name="", keyvalues={"b": "x"})
    assert [pin] == await client.pins(cid=cid)
    assert (pin.name, pin.keyvalues, pin.state) == ("", {"b": "x", "c": True}, "pinned")


async def test_update_of_what_is_not_pinned(client):
    words = f"^The current user has not pinned the cid: {HELLO_CID}$"
    with pytest.raises(NotFoundError, match=words):
        await client.update(HELLO_CID, name="x")
    with pytest.raises(NotFoundError, match=words):
        await client.revoke(HELLO_CID)


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
async def test_bad_changes_are_refused_before_anything_is_sent(server, arguments, kind, words):
    async with await AsyncClient.init(config_for(server)) as client:
        with pytest.raises(kind, match=words):
            await client.update(HELLO_CID, **arguments)
        with pytest.raises(InvalidCIDError):
            await client.update(f"{HELLO_CID}/path", name="x")
    assert server.requests == []


async def test_a_provider_without_names_says_so():
    client = AsyncClient(AsyncSpecOnly())
    with pytest.raises(UnsupportedError, match="SpecOnly cannot change pins; store the content"):
        await client.update(HELLO_CID, name="x")


# As the service is asked


def sent(server):
    return [f"{request.method} {request.target}" for request in server.requests]


async def test_an_upload_sends_metadata_only_with_key_values(server):
    async with await AsyncClient.init(config_for(server)) as client:
        server.reply(200, pinned())
        await client.upload(b"hello", name="a.txt")
        server.reply(200, pinned())
        await client.upload(b"hello", name="a.txt", keyvalues={"a": 1})
    first, second = server.requests
    assert b'filename="a.txt"' in first.body
    assert b"etadata" not in first.raw
    assert b'{"name":"a.txt","keyvalues":{"a":1}}' in second.body


async def test_only_a_duplicate_with_something_given_takes_another_request(server):
    duplicate = {**pinned(), "isDuplicate": True}
    async with await AsyncClient.init(config_for(server)) as client:
        for reply in (pinned(), duplicate):
            server.reply(200, reply)
            assert (await client.upload(b"hello")).duplicate is (reply is duplicate)
        server.reply(200, pinned())
        await client.upload(b"hello", name="x", keyvalues={"a": 1})
        assert set(sent(server)) == {"POST /pinning/pinFileToIPFS"}
        server.reply(200, duplicate)
        server.reply(200, b"OK")
        assert (await client.upload(b"hello", name="x", keyvalues={"a": 1})).duplicate is True
    change = server.requests[-1]
    assert (change.method, change.target) == ("PUT", "/pinning/hashMetadata")
    assert change.json() == {"ipfsPinHash": HELLO_CID, "name": "x", "keyvalues": {"a": 1}}
    assert change.headers["authorization"] == f"Bearer {TOKEN}"
    assert change.headers["content-type"] == "application/json"


async def test_key_values_alone_do_not_rename_a_duplicate(server):
    async with await AsyncClient.init(config_for(server)) as client:
        server.reply(200, {**pinned(), "isDuplicate": True})
        server.reply(200, b"OK")
        await client.store("hello", keyvalues={"a": 1})
    assert server.requests[-1].json() == {"ipfsPinHash": HELLO_CID, "keyvalues": {"a": 1}}


async def test_after_a_lost_reply_it_is_not_known_whether_it_was_a_duplicate(server):
    config = config_for(server, retries={"attempts": 2, "base": 0.01})
    async with await AsyncClient.init(config) as client:
        server.reply(200, hang_up=True)
        server.reply(200, {**pinned(), "isDuplicate": True})
        record = await client.store("hello")
    assert (len(server.requests), record.duplicate) == (2, None)


async def test_a_change_that_is_refused_is_an_error(server):
    async with await AsyncClient.init(config_for(server)) as client:
        server.reply(200, {**pinned(), "isDuplicate": True})
        server.reply(403, {"error": {"details": "no scope hashMetadata"}})
        with pytest.raises(PermissionDeniedError, match="no scope hashMetadata"):
            await client.store("hello", name="x")


async def test_update_sends_the_changes_and_asks_for_the_pin(server):
    async with await AsyncClient.init(config_for(server)) as client:
        server.reply(200, b"OK")
        server.reply(200, {"rows": [ROW]})  # the list lags behind
        pin = await client.update(HELLO_CID, name="new", keyvalues={"a": None, "c": 3})
    change, look = server.requests
    assert json.loads(change.body) == {
        "ipfsPinHash": HELLO_CID,
        "name": "new",
        "keyvalues": {"a": None, "c": 3},
    }
    assert look.target.startswith("/data/pinList?")
    assert (pin.name, pin.keyvalues, pin.size) == ("new", {"b": "2", "c": 3}, 5)


async def test_update_where_the_service_takes_anything_and_lists_nothing(server):
    async with await AsyncClient.init(config_for(server)) as client:
        server.reply(200, b"OK")
        server.reply(200, {"rows": []})
        with pytest.raises(NotFoundError, match="has not pinned the cid"):
            await client.update(HELLO_CID, name="new")
