import contextlib
import gc
import json
import os

import pytest

from holdfast import AsyncClient
from holdfast._async.reads.state import ReadState
from holdfast.errors import (
    InvalidCIDError,
    NetworkError,
    NotAFileError,
    NotFoundError,
    ProviderError,
    SerializationError,
    UnprovenError,
    VerificationError,
)
from tests.support import (
    EMPTY_DIRECTORY_V0,
    EMPTY_FILE_V0,
    GATEWAY_TOKEN,
    HELLO_CID,
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


async def test_reads_carry_no_token(server, client):
    server.reply(200, b"hello")
    await client.download(HELLO_CID)
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("media_type", ["text/html", "application/octet-stream", ""])
async def test_retrieve_reads_json_whatever_the_content_type(server, client, media_type):
    cid, text = document([1])
    server.reply(200, text, headers={"Content-Type": media_type})
    assert await client.retrieve(cid) == [1]


NOT_JSON = {
    "empty": b"",
    "text": b"not json",
    "trailing": b"[1] trailing",
    "nan": b"NaN",
    "infinity": b"[Infinity]",
    "not utf-8": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "huge int": b"1" * 5000,
    "python": b"{'a': 1}",
}


@pytest.mark.parametrize("text", NOT_JSON.values(), ids=NOT_JSON)
async def test_what_is_not_json_is_a_serialization_error(server, client, text):
    server.reply(200, text)
    with pytest.raises(SerializationError):
        await client.retrieve(raw_cid(text))


async def test_a_byte_order_mark_is_no_error(server, client):
    text = b"\xef\xbb\xbf[1]"
    server.reply(200, text)
    assert await client.retrieve(raw_cid(text)) == [1]


async def test_a_document_above_the_limit_is_a_serialization_error(server):
    cid, text = document("x" * 1000)
    server.reply(200, text)
    async with await AsyncClient.init(config_for(server, max_json_bytes=1000)) as client:
        with pytest.raises(SerializationError, match="max_json_bytes"):
            await client.retrieve(cid)


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


@pytest.mark.parametrize("given", ["not-a-cid", None], ids=str)
@pytest.mark.parametrize("operation", ["retrieve", "download", "receive", "revoke"])
async def test_what_is_not_a_cid_is_invalid_cid_and_nothing_is_sent(
    server, client, given, operation
):
    with pytest.raises(InvalidCIDError) as caught:
        await getattr(client, operation)(given)
    assert str(caught.value) == "Invalid CID"
    assert server.requests == []


async def test_reads_may_carry_a_path(server):
    server.reply(200, b"[1]")
    config = config_for(server, verify=False)
    async with await AsyncClient.init(config) as client:
        assert await client.retrieve(f"/ipfs/{EMPTY_DIRECTORY_V0}/a dir/b%3Fc.json") == [1]
    assert server.requests[0].target == f"/ipfs/{EMPTY_DIRECTORY_V0}/a%20dir/b%3Fc.json"


async def test_the_blob_of_a_path_has_the_last_name(server):
    server.reply(200, b"x")
    async with await AsyncClient.init(config_for(server, verify=False)) as client:
        assert (await client.download(f"{EMPTY_DIRECTORY_V0}/a/b.txt")).name == "b.txt"


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


async def test_wrong_bytes_for_a_raw_cid_are_a_verification_error(server, client):
    server.reply(200, b"hellO")
    with pytest.raises(VerificationError) as caught:
        await client.download(HELLO_CID)
    assert caught.value.cid == HELLO_CID
    assert not isinstance(caught.value, UnprovenError)


async def test_verify_false_is_a_plain_get(server):
    server.reply(200, b"hellO")
    async with await AsyncClient.init(config_for(server, verify=False)) as client:
        assert (await client.download(HELLO_CID)).read() == b"hellO"
    assert len(server.requests) == 1


async def test_a_small_dag_pb_body_is_proven_without_a_further_request(server, client):
    server.reply(200, b"")
    assert (await client.download(EMPTY_FILE_V0)).size == 0
    assert len(server.requests) == 1


async def test_reads_leave_nothing_to_the_garbage_collector(server, client):
    gc.collect()
    gc.disable()  # a cycle would keep the cached blocks of every read for a while
    try:
        for _ in range(10):
            server.reply(200, b"")
            await client.download(EMPTY_FILE_V0)
        assert sum(type(each) is ReadState for each in gc.get_objects()) < 5
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


async def test_download_to_a_file_is_whole_and_the_blob_is_over_it(server, client, tmp_path):
    data = os.urandom(3_000_000)
    server.reply(200, data)
    blob = await client.download(raw_cid(data), to=tmp_path / "copy.bin")
    assert (tmp_path / "copy.bin").read_bytes() == data
    assert (blob.size, blob.name, blob.read()) == (len(data), "copy.bin", data)
    assert [path.name for path in tmp_path.iterdir()] == ["copy.bin"]


@pytest.mark.parametrize(
    "how",
    [{"body": b"x" * 100_000}, {"body": b"y" * 50_000, "cut": 20_000}, {"status": 404}],
    ids=["wrong bytes", "cut", "404"],
)
async def test_a_failed_download_leaves_the_target_as_it_was(server, client, tmp_path, how):
    target = tmp_path / "copy.bin"
    target.write_bytes(b"before")
    server.reply(**how)
    with pytest.raises((VerificationError, NetworkError, ProviderError)):
        await client.download(HELLO_CID, to=target)
    assert target.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["copy.bin"]


async def test_a_target_that_cannot_be_written_is_an_error_before_the_request(
    server, client, tmp_path
):
    with pytest.raises(IsADirectoryError):
        await client.download(HELLO_CID, to=tmp_path)
    with pytest.raises(FileNotFoundError):
        await client.download(HELLO_CID, to=tmp_path / "missing" / "copy.bin")
    assert server.requests == []


async def test_a_directory_is_not_a_file(server, client):
    server.reply(301, headers={"Location": f"/ipfs/{EMPTY_DIRECTORY_V0}/"})
    with pytest.raises(NotAFileError) as caught:
        await client.download(EMPTY_DIRECTORY_V0)
    assert isinstance(caught.value, IsADirectoryError)


async def test_a_gateway_may_redirect_and_no_token_goes_along(server, other_server):
    server.reply(307, headers={"Location": f"{other_server.url}/elsewhere"})
    other_server.reply(200, b"hello")
    config = config_for(server, gateway_token=GATEWAY_TOKEN)
    async with await AsyncClient.init(config) as client:
        assert (await client.download(HELLO_CID)).read() == b"hello"
    assert server.requests[0].headers["x-pinata-gateway-token"] == GATEWAY_TOKEN
    (request,) = other_server.requests
    assert request.target == "/elsewhere"
    assert not {"authorization", "x-pinata-gateway-token", "cookie"} & set(request.headers)


@pytest.mark.parametrize(
    "location",
    ["", "file:///etc/passwd", "ftp://x/y", "http://user:pass@127.0.0.1/x", "http://[", "//"],
)
async def test_a_redirect_to_nowhere_good_is_not_followed(server, client, location):
    server.reply(302, headers={"Location": location})
    with pytest.raises((ProviderError, NetworkError)):
        await client.download(HELLO_CID)
    assert len(server.requests) <= 11


async def test_a_redirect_loop_ends(server, client):
    for _ in range(50):
        server.reply(302, headers={"Location": f"/ipfs/{HELLO_CID}"})
    with pytest.raises(ProviderError, match="redirects more than 10 times"):
        await client.download(HELLO_CID)
    assert len(server.requests) == 11


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


async def test_gateways_are_tried_in_order(server, other_server):
    server.reply(200, b"wrong")
    other_server.reply(200, b"hello")
    config = config_for(server, gateway_url=[closed_port_url(), server.url, other_server.url])
    async with await AsyncClient.init(config) as client:
        assert (await client.download(HELLO_CID)).read() == b"hello"
    assert len(server.requests) == len(other_server.requests) == 1


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
    assert "NotFoundError: HTTP error 404" in notes
    assert "NetworkError" in notes
    assert "HTTP error 500" in "\n".join(missing.value.__notes__)


async def test_compressed_content_is_refused(server, client):
    server.reply(200, b"hello", headers={"Content-Encoding": "gzip"})
    with pytest.raises(ProviderError, match="compressed"):
        await client.download(HELLO_CID)


@pytest.mark.parametrize(
    ("status", "words"), [(404, "HTTP error 404"), (401, "HTTP error 401"), (504, "HTTP error 504")]
)
async def test_a_failed_read_is_a_provider_error(server, client, status, words):
    server.reply(status, b"<html>sorry</html>", headers={"Content-Type": "text/html"})
    with pytest.raises(ProviderError) as caught:
        await client.retrieve(HELLO_CID)
    assert str(caught.value) == words
    assert caught.value.status == status


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
    with pytest.raises(IsADirectoryError):
        await client.download(HELLO_CID, to=f"{tmp_path}/new/")
    with pytest.raises(FileNotFoundError, match=r"missing'$"):
        await client.download(HELLO_CID, to=tmp_path / "missing" / "x")
    assert server.requests == []


async def test_a_replaced_file_keeps_its_mode(server, client, tmp_path):
    (tmp_path / "private").write_bytes(b"")
    (tmp_path / "private").chmod(0o600)
    server.reply(200, b"hello")
    await client.download(HELLO_CID, to=tmp_path / "private")
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600
