"""Reads through gateways, and `test_connection` and `revoke`: their requests and replies."""

import contextlib
import gc
import json
import os

import pytest

from holdfast import AsyncClient
from holdfast._async.reads.state import ReadState
from holdfast.content.budgets import SMALL_BLOCK
from holdfast.errors import (
    InvalidCIDError,
    NetworkError,
    NotFoundError,
    ProviderError,
    SerializationError,
    UnprovenError,
    VerificationError,
)
from holdfast.testing import Scripted, ScriptedServer
from tests._async.reading import client_of
from tests.gateways import kinds
from tests.support import (
    EMPTY_FILE_V0,
    GATEWAY_TOKEN,
    HELLO_CID,
    TOKEN,
    closed_port_url,
    config_for,
    raw_cid,
)


def document(value):
    """JSON bytes, and the CID that names them."""
    text = json.dumps(value).encode()
    return raw_cid(text), text


async def test_retrieve_gets_the_cid_from_the_gateway_and_returns_the_json(server, client):
    cid, text = document({"hello": ["world", 1, None]})
    server.reply(200, text)
    assert await client.retrieve(cid) == {"hello": ["world", 1, None]}
    (request,) = server.requests
    assert (request.method, request.target) == ("GET", f"/ipfs/{cid}")
    assert request.headers["accept-encoding"] == "identity"


async def test_download_gets_the_cid_from_the_gateway_and_returns_a_blob(server, client):
    server.reply(200, b"hello", headers={"Content-Type": "text/plain"})
    blob = await client.download(HELLO_CID)
    (request,) = server.requests
    assert (request.method, request.target) == ("GET", f"/ipfs/{HELLO_CID}")
    assert (blob.size, blob.type, blob.name) == (5, "text/plain", None)
    assert blob.read() == b"hello"


@pytest.mark.parametrize("operation", ["retrieve", "download", "revoke"])
async def test_a_cid_is_normalised_before_the_request(server, client, operation):
    cid, text = document([1])
    server.reply(200, text)
    await getattr(client, operation)(f"  https://ipfs.io/ipfs/{cid}/?download=true&x=/y\n")
    prefix = "/pinning/unpin/" if operation == "revoke" else "/ipfs/"
    assert server.requests[0].target == prefix + cid


async def test_a_cid_is_sent_as_given_not_re_encoded(server, client):
    server.reply(200, b"OK")
    upper = HELLO_CID.upper()
    await client.revoke(upper)
    assert server.requests[0].target == f"/pinning/unpin/{upper}"


@pytest.mark.parametrize("reference", ["not-a-cid", None], ids=str)
@pytest.mark.parametrize("operation", ["retrieve", "download", "receive", "revoke"])
async def test_what_is_not_a_cid_is_invalid_cid_and_nothing_is_sent(
    server, client, reference, operation
):
    with pytest.raises(InvalidCIDError) as caught:
        await getattr(client, operation)(reference)
    assert str(caught.value) == "Invalid CID"
    assert server.requests == []


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize(
    ("path", "sent"), [("", "/ipfs"), ("/ipfs", "/ipfs"), ("/custom/path", "/custom/path")]
)
async def test_gateway_urls_work_with_and_without_a_trailing_slash(server, path, sent, slash):
    server.reply(200, b"hello")
    config = config_for(server, gateway_url=server.url + path + slash)
    async with await AsyncClient.init(config) as client:
        await client.download(HELLO_CID)
    assert server.requests[0].target == f"{sent}/{HELLO_CID}"


@pytest.mark.parametrize("slash", ["", "/", "//"])
async def test_pin_api_urls_work_with_and_without_a_trailing_slash(server, slash):
    server.reply(200, {"message": "hi"})
    config = config_for(server, pin_api_url=f"{server.url}/base{slash}")
    async with await AsyncClient.init(config) as client:
        await client.test_connection()
    assert server.requests[0].target == "/base/data/testAuthentication"


async def test_reads_leave_nothing_to_the_garbage_collector(server, client):
    gc.collect()
    gc.disable()  # a cycle would keep the cached blocks of every read for a while
    try:
        for _ in range(10):
            server.reply(200, b"")
            await client.download(EMPTY_FILE_V0)
        assert sum(type(value) is ReadState for value in gc.get_objects()) < 5
    finally:
        gc.enable()


async def test_a_large_download_sits_in_a_temporary_file_without_a_name(
    server, client, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = os.urandom(9_000_000)
    calls = []
    server.reply(200, data)
    blob = await client.download(raw_cid(data), progress=lambda *call: calls.append(call))
    assert blob.read() == data
    assert list(tmp_path.iterdir()) == []
    assert calls[-1] == (len(data), len(data))
    assert calls == sorted(set(calls))


async def test_the_gateway_token_goes_to_the_first_gateway_only(server, other_server):
    server.reply(404, b"", headers={"Content-Type": "text/plain"})
    other_server.reply(200, b"hello")
    config = config_for(
        server, gateway_url=(server.url, other_server.url), gateway_token=GATEWAY_TOKEN
    )
    async with await AsyncClient.init(config) as client:
        assert (await client.download(HELLO_CID)).read() == b"hello"
    assert server.requests[0].headers["x-pinata-gateway-token"] == GATEWAY_TOKEN
    assert "x-pinata-gateway-token" not in other_server.requests[0].headers


async def test_when_all_gateways_fail_the_gravest_failure_is_raised(server, other_server):
    gateways = [server.url, other_server.url, closed_port_url()]
    server.reply(200, b"wrong")
    other_server.reply(404)
    async with await AsyncClient.init(config_for(server, gateway_url=gateways)) as client:
        with pytest.raises(VerificationError) as wrong:
            await client.download(HELLO_CID)
        # The one that lied comes last now.
        server.reply(404)
        other_server.reply(500)
        with pytest.raises(NotFoundError) as missing:
            await client.download(HELLO_CID)
    notes = "\n".join(wrong.value.__notes__)
    assert "/ipfs: HTTP error 404" in notes
    assert "/ipfs: cannot connect to " in notes
    assert "HTTP error 500" in "\n".join(missing.value.__notes__)


async def test_no_gateway_can_keep_the_next_one_from_being_asked(server, other_server):
    config = config_for(server, gateway_url=(server.url, other_server.url), max_json_bytes=1000)
    cid, text = document([1])
    async with await AsyncClient.init(config) as client:
        for how in (
            {"body": b"x" * 2000},
            {"status": 301, "headers": {"Location": f"/ipfs/{cid}/"}},
            {"status": 302, "headers": {"Location": "http://a..b/"}},
            {"status": 302, "headers": {"Location": f"http://{'a' * 64}.example/"}},
            {"body": text, "headers": {"Content-Encoding": "br"}},
            {"body": b"[2]"},
        ):
            server.reply(**how)
            other_server.reply(200, text)
            assert await client.retrieve(cid) == [1]


@pytest.mark.parametrize("length", ["9" * 5000, "-1", "abc", "1, 2"])
async def test_a_senseless_content_length_does_no_harm(server, client, length):
    server.reply(200, b"hello", headers={"Content-Length": length}, framed=False)
    with contextlib.suppress(NetworkError):
        assert (await client.download(HELLO_CID)).read() == b"hello"


@pytest.mark.slow
async def test_a_gateway_that_hangs_leaves_time_for_the_next(server, other_server):
    cid, text = document([1])
    config = config_for(
        server, gateway_url=(server.url, other_server.url), timeouts={"total": 6, "read": 6}
    )
    server.reply(200, text, delay=60)
    other_server.reply(200, text)
    async with await AsyncClient.init(config) as client:
        assert await client.retrieve(cid) == [1]


async def test_a_target_that_is_no_regular_file_is_left_alone(server, client, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for target in (tmp_path / "pipe", tmp_path / "link", "/dev/null"):
        with pytest.raises(OSError, match="not a regular file"):
            await client.download(HELLO_CID, to=target)
    for target in (tmp_path, f"{tmp_path}/new/"):
        with pytest.raises(IsADirectoryError):
            await client.download(HELLO_CID, to=target)
    with pytest.raises(FileNotFoundError, match=r"missing'$"):
        await client.download(HELLO_CID, to=tmp_path / "missing" / "x")
    assert server.requests == []


# Small raw blocks: read in one piece, and with no more requests than any other content

DATA = os.urandom(1000)
CID_OF_DATA = raw_cid(DATA)


@pytest.mark.parametrize("size", [0, 1, SMALL_BLOCK - 1, SMALL_BLOCK, SMALL_BLOCK + 1, 1 << 20])
async def test_a_raw_block_of_any_size_takes_one_request(server, client, size):
    data = os.urandom(size)
    seen = []
    server.reply(200, data, headers={"Content-Type": "image/png"})
    blob = await client.download(raw_cid(data), progress=lambda *sizes: seen.append(sizes))
    assert (blob.read(), blob.type, seen[-1]) == (data, "image/png", (size, size))
    assert kinds(server) == ["plain"]


@pytest.mark.parametrize(
    "ways",
    [
        {"chunked": True},
        {"framed": False},
        {"headers": {"Content-Encoding": "Identity"}},
        {"headers": {"Content-Length": "01000"}},
    ],
    ids=["chunked", "until the connection closes", "identity encoding", "a length with a zero"],
)
async def test_a_reply_in_another_form_is_not_asked_for_again(server, client, ways):
    server.reply(200, DATA, **ways)
    assert (await client.download(CID_OF_DATA)).read() == DATA
    assert kinds(server) == ["plain"]


async def test_a_reply_counts_for_its_gateway_although_that_is_put_last_meanwhile():
    avoided = {}

    def answer(_):
        avoided[f"{first.url}/ipfs"] = float("inf")
        return Scripted(body=b"x" * len(DATA), chunked=True)

    gateways = ScriptedServer(answer), ScriptedServer(lambda _: Scripted(body=DATA))
    async with client_of(*gateways) as (client, first, second):
        avoided = client.provider._session.avoided
        assert (await client.download(CID_OF_DATA)).read() == DATA
    assert (kinds(first), kinds(second)) == (["plain"], ["plain"])


async def test_a_small_download_needs_no_worker_thread(server, client, monkeypatch):
    monkeypatch.setattr("holdfast._async.reads.state.run_blocking", None)
    server.reply(200, DATA)
    assert (await client.download(CID_OF_DATA)).read() == DATA


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
async def test_a_failure_takes_one_request_and_then_the_next_gateway_is_asked(
    reply, error, requests
):
    async with client_of(ScriptedServer(lambda _: reply)) as (client, bad):
        with pytest.raises(error):
            await client.download(CID_OF_DATA)
    assert kinds(bad) == ["plain"]
    both = ScriptedServer(lambda _: reply), ScriptedServer(lambda _: Scripted(body=DATA))
    async with client_of(*both) as (client, bad, _):
        for _ in range(2):
            assert (await client.download(CID_OF_DATA)).read() == DATA
    # A gateway that does not work comes last, so it is not asked the second time.
    assert len(bad.requests) == requests


async def test_the_limits_hold_for_a_small_block():
    server = ScriptedServer(lambda _: Scripted(body=DATA))
    async with client_of(server, max_unverified_bytes=999, max_json_bytes=999) as (client, _):
        with pytest.raises(UnprovenError, match="max_unverified_bytes"):
            await client.download(CID_OF_DATA)
        assert kinds(server) == ["plain", "car"]
        with pytest.raises(SerializationError, match="max_json_bytes"):
            await client.with_options(max_unverified_bytes=1 << 20).retrieve(CID_OF_DATA)
        assert kinds(server)[2:] == ["plain"]


# `test_connection` and `revoke`


async def test_test_connection_asks_for_authentication_and_returns_true(server, client):
    server.reply(200, {"message": "Congratulations! You are communicating with the Pinata API!"})
    assert await client.test_connection() is True
    (request,) = server.requests
    assert (request.method, request.target) == ("GET", "/data/testAuthentication")
    assert request.body == b""
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("status", [200, 202, 204])
async def test_revoke_deletes_the_pin_and_returns_true(server, client, status):
    server.reply(status, b"OK" if status == 200 else b"", headers={"Content-Type": "text/plain"})
    assert await client.revoke(HELLO_CID) is True
    (request,) = server.requests
    assert (request.method, request.target) == ("DELETE", f"/pinning/unpin/{HELLO_CID}")
    assert request.body == b""
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


async def test_revoke_of_a_path_inside_a_cid_is_invalid_cid(server, client):
    with pytest.raises(InvalidCIDError, match=r"^Invalid CID\n"):
        await client.revoke(f"/ipfs/{HELLO_CID}/a.json")
    assert server.requests == []
