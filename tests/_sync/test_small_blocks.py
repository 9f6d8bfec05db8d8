# WARNING: this file is generated from tests/_async/test_small_blocks.py
# by scripts/generate_sync.py. Change the original instead.
"""Small raw blocks: read in one piece, and with no more requests than any other content."""

import os

import pytest

from holdfast.content.budgets import SMALL_BLOCK
from holdfast.errors import (
    NetworkError,
    NotFoundError,
    ProviderError,
    SerializationError,
    UnprovenError,
    VerificationError,
)
from holdfast.testing import Scripted, ScriptedServer
from tests._sync.reading import client_of
from tests.gateways import kinds
from tests.support import raw_cid

DATA = os.urandom(1000)
CID_OF_DATA = raw_cid(DATA)


@pytest.mark.parametrize("size", [0, 1, SMALL_BLOCK - 1, SMALL_BLOCK, SMALL_BLOCK + 1, 1 << 20])
def test_a_raw_block_of_any_size_takes_one_request(server, client, size):
    data = os.urandom(size)
    seen = []
    server.reply(200, data, headers={"Content-Type": "image/png"})
    blob = client.download(raw_cid(data), progress=lambda *told: seen.append(told))
    assert (blob.read(), blob.type, seen[-1]) == (data, "image/png", (size, size))
    assert kinds(server) == ["plain"]


@pytest.mark.parametrize(
    "ways",
    [
        {"chunked": True},
        {"framed": False},
        {"headers": {"Content-Encoding": "identity"}},
        {"headers": {"Content-Length": "01000"}},
    ],
    ids=["chunked", "until the connection closes", "identity encoding", "a length with a zero"],
)
def test_a_reply_in_another_form_is_not_asked_for_again(server, client, ways):
    server.reply(200, DATA, **ways)
    assert (client.download(CID_OF_DATA)).read() == DATA
    assert kinds(server) == ["plain"]


def test_a_redirect_is_followed_from_the_reply_that_came(server, client):
    server.reply(302, headers={"Location": f"{server.url}/elsewhere"})
    server.reply(200, DATA)
    assert (client.download(CID_OF_DATA)).read() == DATA
    assert [each.target for each in server.requests] == [f"/ipfs/{CID_OF_DATA}", "/elsewhere"]


def test_a_reply_counts_for_its_gateway_although_that_is_put_last_meanwhile():
    avoided = {}

    def answer(_):
        avoided[f"{first.url}/ipfs"] = float("inf")
        return Scripted(body=b"x" * len(DATA), chunked=True)

    gateways = ScriptedServer(answer), ScriptedServer(lambda _: Scripted(body=DATA))
    with client_of(*gateways) as (client, first, second):
        avoided = client.provider._session.avoided
        assert (client.download(CID_OF_DATA)).read() == DATA
    assert (kinds(first), kinds(second)) == (["plain"], ["plain"])


def test_a_small_download_needs_no_worker_thread(server, client, monkeypatch):
    monkeypatch.setattr("holdfast._sync.reads.state.run_blocking", None)
    server.reply(200, DATA)
    assert (client.download(CID_OF_DATA)).read() == DATA


@pytest.mark.parametrize(
    ("reply", "error", "requests"),
    [
        (Scripted(body=b"x" * 1000), VerificationError, 1),
        (Scripted(body=DATA + b"x"), VerificationError, 1),
        (Scripted(body=DATA[:-1]), VerificationError, 1),
        (Scripted(body=DATA, cut=500), NetworkError, 1),
        (Scripted(body=DATA, headers={"Content-Encoding": "gzip"}), ProviderError, 2),
        (Scripted(status=404), NotFoundError, 2),
        (Scripted(status=500), ProviderError, 1),
    ],
    ids=["other", "longer", "shorter", "broken off", "encoded", "missing", "failed"],
)
def test_a_failure_takes_one_request_and_then_the_next_gateway_is_asked(reply, error, requests):
    with client_of(ScriptedServer(lambda _: reply)) as (client, bad):
        with pytest.raises(error):
            client.download(CID_OF_DATA)
    assert kinds(bad) == ["plain"]
    both = ScriptedServer(lambda _: reply), ScriptedServer(lambda _: Scripted(body=DATA))
    with client_of(*both) as (client, bad, _):
        for _ in range(2):
            assert (client.download(CID_OF_DATA)).read() == DATA
    # A gateway that does not work comes last, so it is not asked the second time.
    assert len(bad.requests) == requests


def test_the_limits_hold_for_a_small_block():
    server = ScriptedServer(lambda _: Scripted(body=DATA))
    with client_of(server, max_unverified_bytes=999, max_json_bytes=999) as (client, _):
        with pytest.raises(UnprovenError, match="max_unverified_bytes"):
            client.download(CID_OF_DATA)
        assert kinds(server) == ["plain", "car"]
        with pytest.raises(SerializationError, match="max_json_bytes"):
            client.with_options(max_unverified_bytes=1 << 20).retrieve(CID_OF_DATA)
        assert kinds(server)[2:] == ["plain"]
