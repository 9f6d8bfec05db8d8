# WARNING: this file is generated from tests/_async/test_on_the_node.py
# by scripts/generate_sync.py. Change the original instead.
"""The spec, through the provider and the real node. The contract of providers has the rest."""

import os
import time

import pytest

from holdfast import Blob, Client, ClientMessage, compute_cid
from holdfast.content.cid import CID
from holdfast.errors import (
    AuthenticationError,
    NotFoundError,
    PermissionDeniedError,
    SerializationError,
)
from holdfast.node.settings import NodeToken
from holdfast.repository import PinQuery
from holdfast.testing import running_node
from tests.content import VECTORS, file_pieces
from tests.support import HELLO_CID

READER = NodeToken(token="may-only-list-0123456789", scopes=frozenset({"pinList"}))


@pytest.fixture(scope="module")
def one_node():
    with running_node(tokens=(READER,)) as node:
        yield node


@pytest.fixture
def node(one_node):
    """It holds nothing when a test begins."""
    for pin in one_node.repository.pins():
        one_node.repository.unpin(CID.parse(pin.cid))
    one_node.repository.collect_garbage()
    return one_node


@pytest.fixture
def client(node):
    with Client.init(node.config) as client:
        yield client


def only_pin(node):
    (pin,) = node.repository.pins()
    return pin


def test_store_and_retrieve(node, client):
    data = {"name": "Zoë", "tags": ["a", 1, None, True, 1.5], "emoji": "🌊"}
    before = time.time_ns() // 1_000_000
    record = client.store(data)
    text = '{"name":"Zoë","tags":["a",1,null,true,1.5],"emoji":"🌊"}'
    assert record.cid == compute_cid(text.encode())
    assert record.data is data
    assert record.size == len(text)
    assert before <= record.timestamp <= time.time_ns() // 1_000_000
    assert client.retrieve(record.cid) == data
    prefix, _, stamp = only_pin(node).name.partition("-")
    assert prefix == "client"
    assert before <= int(stamp) <= record.timestamp


@pytest.mark.filterwarnings("ignore:encrypt=True")
def test_options_have_no_effect(node, client):
    record = client.store([1], {"label": "my label", "encrypt": True})
    assert client.retrieve(record.cid) == [1]
    assert "my label" not in only_pin(node).name


def test_upload_and_download(node, client, tmp_path):
    data = os.urandom(3_000_000)
    (tmp_path / "photo.jpg").write_bytes(data)
    record = client.upload(tmp_path / "photo.jpg")
    assert record.cid == compute_cid(data)
    assert (record.data, record.size) == (None, len(data))
    assert only_pin(node).name == "photo.jpg"
    client.download(record.cid, to=tmp_path / "copy.jpg")
    assert (tmp_path / "copy.jpg").read_bytes() == data
    small = client.upload(Blob(b"<h1>hi</h1>", type="text/html", name="a.html"))
    blob = client.download(small.cid)
    assert blob.read() == b"<h1>hi</h1>"
    assert blob.type.startswith("text/html")


def test_a_plain_blob_is_called_client_file(node, client):
    client.upload(b"hello")
    assert only_pin(node).name == "client-file"


@pytest.mark.parametrize("version", [0, 1])
def test_cids_equal_the_vectors(node, version):
    profile = ["unixfs-v0-2015", "unixfs-v1-2025"][version]
    config = node.config.with_options(cid_version=version)
    with Client.init(config) as client:
        for vector in VECTORS["files"]:
            if vector["size"] <= 5_000_000:
                data = b"".join(file_pieces(vector))
                record = client.upload(data)
                assert record.cid == vector["cids"][profile]
                assert (client.download(record.cid)).read() == data


def test_messages(client):
    record = client.send("älice", "hi 🌊\n")
    assert isinstance(record.data, ClientMessage)
    assert client.receive(record.cid) == record.data
    stored = client.retrieve(record.cid)
    assert list(stored) == ["recipientId", "payload", "timestamp"]
    other = client.store([1])
    with pytest.raises(SerializationError):
        client.receive(other.cid)


def test_revoke(node, client):
    record = client.store({"a": 1})
    assert client.revoke(record.cid) is True
    assert node.repository.pins(PinQuery(held=True)) == []
    with pytest.raises(NotFoundError) as caught:
        client.revoke(record.cid)
    assert str(caught.value) == f"The current user has not pinned the cid: {record.cid}"
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "form",
    [
        "{cid}",
        "  {cid}\n",
        "/ipfs/{cid}",
        "https://ipfs.io/ipfs/{cid}/",
        "https://ipfs.io/ipfs/{cid}?download=true",
        "ipfs://{cid}",
        "https://{cid}.ipfs.dweb.link/",
    ],
)
def test_cids_are_normalised(client, form):
    record = client.store([1])
    given = form.format(cid=record.cid)
    assert client.retrieve(given) == [1]
    assert (client.download(given)).read() == b"[1]"
    assert client.revoke(given) is True


def test_wrong_tokens(node, client):
    with Client.init(node.config, provider_token="wrong") as stranger:
        for call in (
            lambda: stranger.store(1),
            lambda: stranger.upload(b"x"),
            lambda: stranger.revoke(HELLO_CID),
            lambda: stranger.send("alice", "hi"),
            stranger.test_connection,
        ):
            with pytest.raises(AuthenticationError) as caught:
                call()
            assert str(caught.value) == "HTTP error 401"
            assert caught.value.details == "Invalid/expired credentials"
    with Client.init(node.config, provider_token=READER.token) as reader:
        assert reader.test_connection() is True
        with pytest.raises(PermissionDeniedError, match="required scopes"):
            reader.store(1)
    assert node.repository.totals().pins == 0
