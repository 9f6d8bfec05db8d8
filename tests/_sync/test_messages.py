# WARNING: this file is generated from tests/_async/test_messages.py
# by scripts/generate_sync.py. Change the original instead.
import json
import time

import pytest

from holdfast import ClientMessage
from holdfast.errors import SerializationError
from tests.support import HELLO_CID, pinned, raw_cid


def test_send_stores_a_message_in_the_specs_spelling_and_order(server, client):
    server.reply(200, pinned())
    before = time.time_ns() // 1_000_000
    record = client.send("alice", "hi")
    after = time.time_ns() // 1_000_000

    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/pinning/pinJSONToIPFS")
    stored = request.json()["pinataContent"]
    assert list(stored) == ["recipientId", "payload", "timestamp"]
    assert stored["recipientId"] == "alice"
    assert stored["payload"] == "hi"
    assert isinstance(stored["timestamp"], int)
    assert before <= stored["timestamp"] <= after
    assert request.json()["pinataMetadata"]["name"].startswith("client-")

    assert record.cid == HELLO_CID
    assert record.data == ClientMessage(
        recipient_id="alice", payload="hi", timestamp=stored["timestamp"]
    )
    assert record.size == len(json.dumps(stored, separators=(",", ":")))
    assert before <= record.timestamp <= after


def test_a_cid_from_send_can_be_received(node):
    from holdfast import Client  # noqa: PLC0415

    with Client.init(node.config) as client:
        record = client.send("älice", "hi 🌊\n")
        assert client.receive(record.cid) == record.data


@pytest.mark.parametrize(
    "value",
    [
        [],
        "text",
        None,
        {},
        {"recipientId": "a", "payload": "b"},
        {"recipientId": "a", "payload": "b", "timestamp": "1"},
        {"recipientId": "a", "payload": "b", "timestamp": True},
        {"recipientId": 1, "payload": "b", "timestamp": 1},
        {"recipientId": "a", "payload": None, "timestamp": 1},
        {"recipient_id": "a", "payload": "b", "timestamp": 1},
    ],
)
def test_json_of_another_shape_is_a_serialization_error(server, client, value):
    text = json.dumps(value).encode()
    server.reply(200, text)
    with pytest.raises(SerializationError):
        client.receive(raw_cid(text))


def test_further_members_of_a_message_are_ignored(server, client):
    text = b'{"recipientId":"a","payload":"b","timestamp":1,"more":2}'
    server.reply(200, text)
    assert client.receive(raw_cid(text)) == ClientMessage(
        recipient_id="a", payload="b", timestamp=1
    )


@pytest.mark.parametrize("recipient", ["", "  ", "\n"])
def test_an_empty_recipient_is_a_value_error(server, client, recipient):
    with pytest.raises(ValueError, match="the recipient is empty"):
        client.send(recipient, "hi")
    assert server.requests == []


@pytest.mark.parametrize("arguments", [(5, "hi"), (None, "hi"), ("alice", 5), ("alice", b"hi")])
def test_send_takes_two_strings(server, client, arguments):
    with pytest.raises(TypeError):
        client.send(*arguments)
    assert server.requests == []


def test_an_empty_message_is_a_message(server, client):
    server.reply(200, pinned())
    assert (client.send("alice", "")).data.payload == ""
