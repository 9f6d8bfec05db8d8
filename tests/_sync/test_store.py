# WARNING: this file is generated from tests/_async/test_store.py
# by scripts/generate_sync.py. Change the original instead.
import logging
import time

import pytest

from holdfast import Client, StoreOptions, __version__
from holdfast.errors import SerializationError
from tests.support import HELLO_CID, TOKEN, config_for, pinned, raw_cid


def test_store_posts_the_data_under_the_content_field_with_a_generated_name(server, client):
    server.reply(200, pinned())
    before = time.time_ns() // 1_000_000
    client.store({"hello": "world"})
    after = time.time_ns() // 1_000_000

    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/pinning/pinJSONToIPFS")
    assert request.headers["content-type"] == "application/json"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["user-agent"] == f"holdfast/{__version__}"
    body = request.json()
    name = body["pinataMetadata"].pop("name")
    assert body == {
        "pinataContent": {"hello": "world"},
        "pinataMetadata": {},
        "pinataOptions": {"cidVersion": 1},
    }
    prefix, _, timestamp = name.partition("-")
    assert prefix == "client"
    assert before <= int(timestamp) <= after


def test_store_returns_a_record_of_the_providers_cid_the_data_and_its_json_length(server, client):
    server.reply(200, pinned())
    data = {"name": "Zoë", "tags": ["a", 1, None, True, 1.5], "emoji": "🌊"}
    before = time.time_ns() // 1_000_000
    record = client.store(data)
    after = time.time_ns() // 1_000_000

    assert record.cid == HELLO_CID
    assert record.data is data
    assert record.size == len('{"name":"Zoë","tags":["a",1,null,true,1.5],"emoji":"🌊"}')
    assert isinstance(record.timestamp, int)
    assert before <= record.timestamp <= after


def test_the_json_text_goes_into_the_body_to_the_letter(server, client):
    server.reply(200, pinned())
    client.store({"z": 1, "a": "ü", "10": (1, 2)})
    assert server.requests[0].body.startswith(
        '{"pinataContent":{"z":1,"a":"ü","10":[1,2]},"pinataMetadata"'.encode()
    )


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "text", [], {}, [[]], ""])
def test_any_json_value_can_be_stored(server, client, value):
    server.reply(200, pinned())
    record = client.store(value)
    assert record.data == value
    assert server.requests[0].json()["pinataContent"] == value


@pytest.mark.parametrize(
    "options", [None, {}, {"label": "x"}, StoreOptions(label="x"), {"encrypt": False}]
)
def test_options_have_no_effect(server, client, options):
    server.reply(200, pinned())
    client.store([1], options)
    body = server.requests[0].json()
    assert body["pinataContent"] == [1]
    assert list(body["pinataMetadata"]) == ["name"]
    assert body["pinataMetadata"]["name"].startswith("client-")
    assert body["pinataOptions"] == {"cidVersion": 1}


def test_encrypt_warns_before_anything_is_sent(server, client):
    server.reply(200, pinned())
    with pytest.warns(UserWarning, match="stored in the clear") as caught:
        client.store([1], {"encrypt": True})
    assert caught[0].filename == __file__
    assert len(server.requests) == 1


@pytest.mark.parametrize("options", [{"lable": "x"}, 5, "label", {"label": 5}, {"encrypt": 1}])
def test_wrong_options_are_a_type_error_and_nothing_is_sent(server, client, options):
    with pytest.raises(TypeError):
        client.store([1], options)
    assert server.requests == []


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        deep(),
        float("nan"),
        float("inf"),
        {"x": -float("inf")},
        b"bytes",
        {1, 2},
        {1: "key"},
        {None: 1},
        [{"a": {True: 1}}],
        ({"a": ({2: 1},)},),
        object(),
        "\ud800",
        {"\udfff": 1},
        10**5000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_say_is_a_serialization_error_and_nothing_is_sent(server, client, value):
    with pytest.raises(SerializationError):
        client.store(value)
    assert server.requests == []


def test_cid_version_is_always_sent(server):
    server.reply(200, pinned("QmUbsYUqP4DXDvXDipKDG6hKhKnb6dADMeBiHHYJiizr25"))
    with Client.init(config_for(server, cid_version=0)) as client:
        record = client.store(1)
    assert server.requests[0].json()["pinataOptions"] == {"cidVersion": 0}
    assert record.cid == "QmUbsYUqP4DXDvXDipKDG6hKhKnb6dADMeBiHHYJiizr25"


def test_a_cid_that_differs_from_ours_is_logged_with_both_and_is_no_error(server, client, caplog):
    server.reply(200, pinned(HELLO_CID))
    with caplog.at_level(logging.WARNING, "holdfast"):
        record = client.store({"a": 1.0})
    assert record.cid == HELLO_CID
    (message,) = [entry.getMessage() for entry in caplog.records]
    assert HELLO_CID in message
    assert raw_cid(b'{"a":1.0}') in message


def test_a_cid_that_equals_ours_is_not_logged(server, client, caplog):
    server.reply(200, pinned(raw_cid(b'{"a":1}')))
    server.reply(200, pinned(HELLO_CID))
    with caplog.at_level(logging.INFO, "holdfast"):
        client.store({"a": 1})
        client.with_options(verify=False).store({"a": 1})  # nothing is compared
    assert caplog.records == []
