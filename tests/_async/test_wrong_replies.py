"""Bodies that are not what they should be, and lengths and encodings that lie.

The client has four attempts here: a reply that is wrong by its content is not asked for again, one
that is broken off is.
"""

import gzip
import hashlib

import pytest

from holdfast import AsyncClient, compute_cid
from holdfast.content.profiles import UNIXFS_V0_2015
from holdfast.errors import (
    NetworkError,
    ProviderError,
    SerializationError,
    UnprovenError,
    VerificationError,
)
from holdfast.testing import Scripted, ScriptedServer
from holdfast.testing.provider_cases import memory_below
from tests._async.reading import failed_download, failure_of
from tests.attackers import Attacker
from tests.content import Blocks
from tests.faulty import assert_shows_no_token, gateway_of, patient_config
from tests.support import HELLO_CID, pinned, raw_cid

MIB = 1 << 20

CALLS = {"store": ({"a": 1},), "upload": (b"hello",), "test_connection": ()}
WELCOME = b'{"message":"Congratulations!"}'
PINNED = b'{"IpfsHash":"%b"}' % HELLO_CID.encode()


@pytest.fixture
async def client(server, tmp_path):
    config = patient_config(server, cache_path=tmp_path / "cache")
    async with await AsyncClient.init(config) as client:
        yield client


def with_member(good, value):
    """The JSON object `good` with one more member."""
    return good[:-1] + b',"x":' + value + b"}"


# Bodies of the pinning API

SPOILT = {
    "empty": lambda good: b"",
    "html": lambda good: b"<!DOCTYPE html><html><body>Please log in</body></html>",
    "array": lambda good: b"[" + good + b"]",
    "null": lambda good: b"null",
    "text": lambda good: b"OK",
    "wrong types": lambda good: b'{"IpfsHash":["x"],"message":{"a":1}}',
    "no text": lambda good: b'{"IpfsHash":null,"message":5}',
    "missing": lambda good: b'{"PinSize":5,"ipfsHash":"x"}',
    "nan": lambda good: with_member(good, b"NaN"),
    "infinity": lambda good: with_member(good, b"[-Infinity]"),
    "huge int": lambda good: with_member(good, b"1" * 5000),
    "deep": lambda good: with_member(good, b"[" * 100_000 + b"]" * 100_000),
    "not utf-8": lambda good: with_member(good, b'"\xff\xfe"'),
    "trailing": lambda good: good + b"}",
    "truncated": lambda good: good[:-1],
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize("call", CALLS)
async def test_a_success_with_a_wrong_body_is_a_provider_error_after_one_request(
    server, client, call, spoil
):
    server.reply(200, spoil(WELCOME if call == "test_connection" else PINNED))
    error = await failure_of(lambda: getattr(client, call)(*CALLS[call]), ProviderError)
    assert (type(error), error.status) == (ProviderError, 200)
    if call == "test_connection":
        assert str(error).startswith("the reply is not from the pinning API: no message")
    else:
        assert str(error) == "the provider's reply holds no CID (IpfsHash)"
    # It may have been pinned: another attempt could pin it twice.
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "cid",
    ["", "Qm", "not a cid", HELLO_CID[:-1], f"{HELLO_CID}/path", f"/ipfs/{HELLO_CID}", "b" * 999],
    ids=["empty", "too short", "words", "cut", "path", "address", "too long"],
)
@pytest.mark.parametrize("call", ["store", "upload"])
async def test_a_cid_that_is_no_cid_is_a_provider_error_after_one_request(
    server, client, call, cid
):
    server.reply(200, pinned(cid))
    error = await failure_of(lambda: getattr(client, call)(*CALLS[call]), ProviderError)
    assert str(error) == "the provider's reply holds no CID (IpfsHash)"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda good: b"\xef\xbb\xbf" + good,
        lambda good: b'{"IpfsHash":"Qm","message":5,' + good[1:],
    ],
    ids=["bom", "the last of two keys counts"],
)
@pytest.mark.parametrize("call", ["upload", "test_connection"])
async def test_a_success_with_an_odd_body_is_a_success(server, client, call, spoil):
    server.reply(200, spoil(WELCOME if call == "test_connection" else PINNED))
    result = await getattr(client, call)(*CALLS[call])
    assert result is True if call == "test_connection" else result.cid == HELLO_CID
    assert len(server.requests) == 1


async def test_an_upload_under_the_raw_cid_of_other_bytes_is_a_verification_error(server, client):
    other = raw_cid(b"other")
    server.reply(200, pinned(other))
    error = await failure_of(lambda: client.upload(b"hello"), VerificationError)
    assert str(error) == f"the provider stored the upload as {other}, which is not what was sent"
    assert error.cid == other
    assert len(server.requests) == 1


@pytest.fixture
def endless():
    """A server that announces 1 GiB of JSON, and sends it for as long as somebody reads."""

    def attack():
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 30)
        for _ in range(1 << 14):
            yield b" " * (1 << 16)

    with Attacker(attack) as server:
        yield server


@pytest.mark.parametrize("call", ["store", "test_connection"])
async def test_of_a_gigabyte_of_json_from_the_api_little_is_read(server, endless, call):
    config = patient_config(server, pin_api_url=endless.url)
    async with await AsyncClient.init(config) as client:
        with memory_below(16 * MIB):
            error = await failure_of(lambda: getattr(client, call)(*CALLS[call]), ProviderError)
    assert error.status == 200
    assert endless.requests == 1
    assert endless.sent < 64 * MIB  # nearly all of it in the buffers of the system


# Bodies of gateways


def dag_pb_cid(data):
    return compute_cid(data, profile="unixfs-v0-2015")


IS_JSON = {"array", "null", "wrong types", "no text", "missing"}


@pytest.mark.parametrize("name", sorted(SPOILT.keys() - IS_JSON))
async def test_proven_content_that_is_no_json_is_a_serialization_error_after_one_request(
    server, client, name
):
    text = SPOILT[name](WELCOME)
    server.reply(200, text)
    error = await failure_of(lambda: client.retrieve(raw_cid(text)), SerializationError)
    assert "JSON" in str(error)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [(b"\xef\xbb\xbf[1]", [1]), (b'{"a":1,"a":2}', {"a": 2})],
    ids=["bom", "the last of two keys counts"],
)
async def test_proven_content_that_is_odd_json_is_read(server, client, text, value):
    server.reply(200, text)
    assert await client.retrieve(raw_cid(text)) == value
    assert len(server.requests) == 1


@pytest.mark.parametrize(("name", "requests"), [(raw_cid, 1), (dag_pb_cid, 2)])
async def test_of_a_gigabyte_of_json_from_a_gateway_little_is_read(server, endless, name, requests):
    config = patient_config(server, gateway_url=endless.url, max_json_bytes=MIB)
    async with await AsyncClient.init(config) as client:
        with memory_below(32 * MIB):
            error = await failure_of(lambda: client.retrieve(name(b"[]")), SerializationError)
    assert "max_json_bytes" in str(error)
    assert endless.requests == requests  # one more for the root block, of which as little is read
    assert endless.sent < 64 * MIB * requests


# Lengths and encodings, of gateways

CONTENT = hashlib.shake_128(b"content").digest(600_000)
TREE, BLOCKS = Blocks.of_file(CONTENT, UNIXFS_V0_2015)
NAMES = {"raw": raw_cid(CONTENT), "dag-pb": str(TREE)}
HALF = len(CONTENT) // 2


def raw_reply(*headers, body):
    head = "\r\n".join(["HTTP/1.1 200 OK", *headers])
    return {"raw": head.encode() + b"\r\n\r\n" + body}


def encoded(encoding, body=CONTENT):
    return {"body": body, "headers": {"Content-Encoding": encoding}}


BROKEN = {
    "long content-length": {"body": CONTENT, "cut": HALF},
    "chunked cut": {"body": CONTENT, "chunked": True, "cut": HALF},
    "bad chunk size": raw_reply(
        "Transfer-Encoding: chunked", body=b"5\r\nhello\r\nxyz\r\n" + CONTENT
    ),
    "negative chunk size": raw_reply(
        "Transfer-Encoding: chunked", body=b"5\r\nhello\r\n-5\r\nhello\r\n0\r\n\r\n"
    ),
}
# What looks whole is not asked for again: nothing tells it from a lie.
WRONG = {
    "short content-length": raw_reply(f"Content-Length: {HALF}", body=CONTENT),
    "fewer bytes than the cid names": {"body": CONTENT[:-1]},
    "more bytes than the cid names": {"body": CONTENT + b"\0"},
    "no bytes at all": {"body": b""},
}
ENCODED = {
    "gzip": encoded("gzip", gzip.compress(CONTENT)),
    "gzip truncated": encoded("gzip", gzip.compress(CONTENT)[:HALF]),
    "six stacked encodings": encoded("gzip, gzip, gzip, gzip, gzip, gzip"),
    "unknown encoding": encoded("x-none-of-ours"),
    "identity and gzip": encoded("identity, gzip"),
    "plain bytes that are called gzip": encoded("gzip"),
}


@pytest.fixture(params=NAMES)
def named(request):
    """A CID of the content: of one raw block, or of a tree."""
    return NAMES[request.param]


def plain_requests(server):
    return [request for request in server.requests if "?" not in request.target]


async def failure(how, cid, kind, folder):
    """What downloading `cid` raises where the body comes like that, and the requests for it."""
    with ScriptedServer(gateway_of(BLOCKS, lambda _: Scripted(**how))) as gateway:
        config = patient_config(gateway, cache_path=folder / "cache")
        async with await AsyncClient.init(config) as client:
            error = await failed_download(client, cid, folder, kind)
        return error, len(plain_requests(gateway)), len(gateway.requests)


@pytest.mark.parametrize("how", BROKEN.values(), ids=BROKEN)
async def test_a_body_that_breaks_off_is_asked_for_four_times(named, how, tmp_path):
    error, plain, all_of_them = await failure(how, named, NetworkError, tmp_path)
    assert type(error) is NetworkError
    assert error.transient
    assert plain == 4
    assert all_of_them - plain <= 1  # the root of a tree, once, to prove what came


@pytest.mark.parametrize("how", WRONG.values(), ids=WRONG)
async def test_a_body_of_another_length_is_a_verification_error_and_not_asked_for_again(
    named, how, tmp_path
):
    error, plain, all_of_them = await failure(how, named, VerificationError, tmp_path)
    assert not isinstance(error, UnprovenError)
    assert error.cid == named
    assert plain == 1
    # Of a tree the root block is asked for, and the block that tells why bytes are missing.
    missing = how is not WRONG["more bytes than the cid names"]
    assert all_of_them == (1 if named == NAMES["raw"] else 2 + missing)


async def test_a_body_without_a_length_that_ends_early_may_have_been_cut(named, tmp_path):
    """Nobody can tell; of a tree, the pieces that came are good, and the rest is asked for."""
    how = {"body": CONTENT, "framed": False, "cut": HALF}
    if named == NAMES["raw"]:
        _, plain, _ = await failure(how, named, VerificationError, tmp_path)
        assert plain == 1
    else:
        error, plain, _ = await failure(how, named, NetworkError, tmp_path)
        assert "broke off" in str(error)
        assert plain == 4


@pytest.mark.parametrize("how", ENCODED.values(), ids=ENCODED)
async def test_an_encoded_body_is_refused_and_not_asked_for_again(named, how, tmp_path):
    error, _, requests = await failure(how, named, ProviderError, tmp_path)
    assert str(error) == "the gateway sent compressed content, which was not asked for"
    assert error.status == 200
    assert requests == 1


async def test_a_content_length_beside_chunks_gives_the_content_or_a_network_error(server, client):
    # The standard allows both: the chunks count, or the reply is refused.
    both = ("Content-Length: 5", "Transfer-Encoding: chunked")
    for _ in range(4):
        server.reply(**raw_reply(*both, body=b"5\r\nhello\r\n0\r\n\r\n"))
    requests = 1
    try:
        assert (await client.download(HELLO_CID)).read() == b"hello"
    except NetworkError as error:
        requests = 4
        assert_shows_no_token(error)
    assert len(server.requests) == server.connections == requests


async def test_a_content_length_in_place_of_chunks_is_a_network_error(server, client):
    both = ("Content-Length: 5", "Transfer-Encoding: chunked")
    for _ in range(4):
        server.reply(**raw_reply(*both, body=b"hello"))
    await failure_of(lambda: client.download(HELLO_CID), NetworkError)
    assert len(server.requests) == server.connections == 4


@pytest.mark.parametrize("call", ["store", "test_connection"])
async def test_an_encoding_that_the_api_was_not_asked_for_is_not_undone(server, client, call):
    # Who undoes none cannot be made to undo six.
    good = WELCOME if call == "test_connection" else PINNED
    server.reply(200, gzip.compress(good), headers={"Content-Encoding": "gzip"})
    error = await failure_of(lambda: getattr(client, call)(*CALLS[call]), ProviderError)
    assert error.status == 200
    assert server.requests[0].headers["accept-encoding"] == "identity"
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [206, 200])
async def test_an_encoding_on_a_range_reply_is_refused(status, tmp_path):
    def plain(request):
        assert "range" in request.headers
        return Scripted(
            status=status,
            body=gzip.compress(CONTENT[:1000]),
            headers={"Content-Encoding": "gzip", "Content-Range": "bytes 0-999/600000"},
        )

    with ScriptedServer(gateway_of(BLOCKS, plain)) as gateway:
        async with await AsyncClient.init(patient_config(gateway)) as client:
            file = await client.open(NAMES["dag-pb"])
            error = await failure_of(file.read, ProviderError)
        assert str(error) == "the gateway sent compressed content, which was not asked for"
        assert error.status == status
        assert len(plain_requests(gateway)) == 1
