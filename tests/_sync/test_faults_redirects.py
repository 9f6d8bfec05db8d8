# WARNING: this file is generated from tests/_async/test_faults_redirects.py
# by scripts/generate_sync.py. Change the original instead.
"""Redirects: the pinning API's are never followed; a gateway's are, with care and without tokens.

A gateway out in the world is one behind a proxy here: the proxy answers for every host, and sees
each request that would have left this machine.
"""

import hashlib
import time
from dataclasses import replace

import pytest

from holdfast import Client
from holdfast.content.profiles import KUBO_LEGACY_CIDV1
from holdfast.errors import NotAFileError, ProviderError, VerificationError
from holdfast.testing import Scripted, ScriptedServer
from tests import tls
from tests.content import Blocks
from tests.faulty import assert_shows_no_token, gateway_of, patient_config
from tests.support import GATEWAY_TOKEN, HELLO_CID, TOKEN

STATUSES = [301, 302, 303, 307, 308]
WORLD = "http://gateway.example"

CALLS = {
    "store": ({"a": "private words"},),
    "send": ("alice", "private words"),
    "upload": (b"private words" * 1000,),
    "revoke": (HELLO_CID,),
    "test_connection": (),
}


@pytest.fixture
def client(server, tmp_path):
    config = patient_config(server, gateway_token=GATEWAY_TOKEN, cache_path=tmp_path / "cache")
    with Client.init(config) as client:
        yield client


def failed_download(client, folder, kind=ProviderError):
    """What a download raises, in time, without a token, and with no file left behind."""
    start = time.monotonic()
    with pytest.raises(kind) as caught:
        client.download(HELLO_CID, to=folder / "copy")
    assert time.monotonic() - start < 10
    assert_shows_no_token(caught.value)
    assert not (folder / "copy").exists()
    return caught.value


def redirect(location, status=302):
    return {"status": status, "headers": {"Location": location}}


# The pinning API.


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("call", CALLS)
def test_a_redirect_of_the_api_is_an_error_after_one_request(
    server, other_server, client, call, status
):
    server.reply(**redirect(f"{other_server.url}/pinning/pinJSONToIPFS", status))
    start = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        getattr(client, call)(*CALLS[call])
    assert time.monotonic() - start < 10
    assert_shows_no_token(caught.value)
    assert (str(caught.value), caught.value.status) == (f"HTTP error {status}", status)
    assert len(server.requests) == 1
    assert other_server.connections == 0


@pytest.mark.parametrize(
    "location",
    [
        "/elsewhere",
        "file:///etc/passwd",
        "http://169.254.169.254/latest",
        "http://localhost/",
        "http://user:pass@127.0.0.1/",
        "http://[",
        "",
    ],
)
def test_wherever_the_api_redirects_to_it_is_not_followed(server, client, location):
    server.reply(**redirect(location, 307))
    with pytest.raises(ProviderError, match=r"^HTTP error 307$"):
        client.store(1)
    assert len(server.requests) == 1


def test_a_location_in_the_reply_to_an_upload_is_left_alone(server, other_server, client):
    # Where a resumable upload would go on: nothing is sent there, least of all the token.
    location = {"Location": f"{other_server.url}/files/1"}
    server.reply(201, {"IpfsHash": HELLO_CID}, headers=location)
    assert (client.upload(b"hello")).cid == HELLO_CID
    assert len(server.requests) == 1
    assert other_server.connections == 0


# Gateways.


@pytest.mark.parametrize("status", STATUSES)
def test_a_redirect_of_a_gateway_is_followed_without_a_token(server, other_server, client, status):
    server.reply(**redirect(f"{other_server.url}/elsewhere", status))
    other_server.reply(200, b"hello")
    assert (client.download(HELLO_CID)).read() == b"hello"
    assert server.requests[0].headers["x-pinata-gateway-token"] == GATEWAY_TOKEN
    (request,) = other_server.requests
    assert (request.method, request.target, request.body) == ("GET", "/elsewhere", b"")
    for secret in (TOKEN, GATEWAY_TOKEN):
        assert secret.encode() not in request.raw
    assert not {"authorization", "cookie", "referer"} & set(request.headers)


def test_a_redirect_on_the_same_origin_keeps_the_gateways_token(server, client):
    server.reply(**redirect(f"/elsewhere/{HELLO_CID}"))
    server.reply(200, b"hello")
    assert (client.download(HELLO_CID)).read() == b"hello"
    for request in server.requests:
        assert request.headers["x-pinata-gateway-token"] == GATEWAY_TOKEN
        assert TOKEN.encode() not in request.raw


def test_wrong_bytes_behind_a_redirect_are_wrong(server, other_server, client, tmp_path):
    server.reply(**redirect(f"{other_server.url}/elsewhere"))
    other_server.reply(200, b"hellO")
    failed_download(client, tmp_path, VerificationError)
    assert len(server.requests) == len(other_server.requests) == 1


def test_a_failure_behind_a_redirect_starts_anew_at_the_gateway(server, other_server, client):
    for _ in range(2):
        server.reply(**redirect(f"{other_server.url}/elsewhere"))
    other_server.reply(503)
    other_server.reply(200, b"hello")
    assert (client.download(HELLO_CID)).read() == b"hello"
    assert len(server.requests) == len(other_server.requests) == 2


def test_a_redirect_from_https_to_http_is_not_followed(other_server, tmp_path):
    with ScriptedServer(tls=tls.serving()) as secure:
        secure.reply(**redirect(f"{other_server.url}/elsewhere"))
        config = patient_config(secure, ssl_context=tls.trusting(), cache_path=tmp_path / "cache")
        with Client.init(config) as client:
            error = failed_download(client, tmp_path)
        assert str(error) == (
            f"127.0.0.1:{secure.port} redirects from https to http; it was not followed"
        )
        assert error.status == 302
        assert len(secure.requests) == 1
    assert other_server.connections == 0


def test_a_loop_of_two_gateways_ends_after_ten_redirects(server, other_server, client, tmp_path):
    for _ in range(20):
        server.reply(**redirect(f"{other_server.url}/b"))
        other_server.reply(**redirect(f"{server.url}/a"))
    error = failed_download(client, tmp_path)
    assert "redirects more than 10 times" in str(error)
    # Nor does it help to go round again.
    assert (len(server.requests), len(other_server.requests)) == (6, 5)
    for request in other_server.requests:
        assert GATEWAY_TOKEN.encode() not in request.raw


def hops(count):
    """A script that redirects so many times, each time to another place, and then has the file."""

    def script(request):
        number = int(request.target.partition("hop=")[2] or 0)
        if number < count:
            return Scripted(**redirect(f"/somewhere?hop={number + 1}"))
        return Scripted(body=b"hello")

    return script


def test_ten_hops_are_followed():
    with ScriptedServer(hops(10)) as server:
        with Client.init(patient_config(server)) as client:
            assert (client.download(HELLO_CID)).read() == b"hello"
        assert len(server.requests) == 11


def test_twenty_one_hops_are_not(tmp_path):
    with ScriptedServer(hops(21)) as server:
        config = patient_config(server, cache_path=tmp_path / "cache")
        with Client.init(config) as client:
            error = failed_download(client, tmp_path)
        assert "redirects more than 10 times" in str(error)
        assert len(server.requests) == 11


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("file:///etc/passwd", "to a URL that is not http or https"),
        ("ftp://127.0.0.1/x", "to a URL that is not http or https"),
        ("data:text/plain,hello", "to a URL that is not http or https"),
        ("javascript:alert(1)", "to a URL that is not http or https"),
        ("http://[", "to an invalid URL"),
        ("http://127.0.0.1:0/", "to an invalid URL"),
        ("http://127.0.0.1:99999/", "to an invalid URL"),
    ],
    ids=["file", "ftp", "data", "javascript", "half an address", "port 0", "port 99999"],
)
def test_a_redirect_off_the_web_is_not_followed(server, client, tmp_path, location, words):
    server.reply(**redirect(location))
    error = failed_download(client, tmp_path)
    peer = f"127.0.0.1:{server.port}"
    assert str(error) == f"{peer} redirects {words}; it was not followed"
    assert error.status == 302
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "user",
    ["user", "user:pass-0123456789", ":pass-0123456789", ""],
    ids=["name", "name and password", "password", "empty name"],
)
def test_a_redirect_with_a_user_name_is_not_followed(server, other_server, client, tmp_path, user):
    server.reply(**redirect(f"http://{user}@127.0.0.1:{other_server.port}/x"))
    error = failed_download(client, tmp_path)
    assert str(error).endswith("redirects to a URL with a user name; it was not followed")
    assert "pass-0123456789" not in repr(error)
    assert len(server.requests) == 1
    assert other_server.connections == 0


def world_client(proxy, folder, **changes):
    """A client whose gateway is out in the world."""
    fields = {
        "gateway_url": f"{WORLD}/ipfs",
        "proxy": proxy.url,
        "gateway_token": GATEWAY_TOKEN,
        "allow_insecure": True,
        "cache_path": folder / "cache",
    }
    return Client.init(patient_config(proxy, **{**fields, **changes}))


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "2852039166",
        "0xa9fea9fe",
        "169.254.43518",
        "10.0.0.1",
        "192.168.1.1",
        "[fe80::1]",
        "[fd00::1]",
        "100.64.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "sub.localhost",
        "127.0.0.1",
        "127.1",
        "0",
        "0.0.0.0",  # noqa: S104 - nothing is bound
        "[::1]",
        "[::]",
    ],
)
def test_a_redirect_from_the_world_into_a_private_network_is_not_followed(server, tmp_path, host):
    server.reply(**redirect(f"http://{host}/latest/meta-data"))
    with world_client(server, tmp_path) as client:
        error = failed_download(client, tmp_path)
    assert str(error) == ("gateway.example redirects into a private network; it was not followed")
    assert [request.target for request in server.requests] == [f"{WORLD}/ipfs/{HELLO_CID}"]


def test_a_private_gateway_may_redirect_to_its_neighbour(server, other_server, client):
    server.reply(**redirect(other_server.url.replace("127.0.0.1", "localhost")))
    other_server.reply(200, b"hello")
    assert (client.download(HELLO_CID)).read() == b"hello"


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]", "2852039166", "0xa9fea9fe"]
)
def test_a_redirect_to_the_metadata_service_is_not_followed_from_anywhere(server, client, host):
    server.reply(**redirect(f"http://{host}/latest/meta-data"))
    with pytest.raises(ProviderError, match="into a private network"):
        client.download(HELLO_CID)
    assert len(server.requests) == 1


def test_a_gateway_that_redirects_badly_leaves_the_next_one_its_turn(server, tmp_path):
    server.reply(**redirect("http://169.254.169.254/latest"))
    server.reply(200, b"hello")
    gateways = (f"{WORLD}/ipfs", "http://other.example/ipfs")
    with world_client(server, tmp_path, gateway_url=gateways) as client:
        assert (client.download(HELLO_CID)).read() == b"hello"
    assert server.requests[1].target == f"http://other.example/ipfs/{HELLO_CID}"


# Subdomain gateways.

CONTENT = hashlib.shake_128(b"content").digest(600_000)
TREE, BLOCKS = Blocks.of_file(CONTENT, KUBO_LEGACY_CIDV1)


def plain(request):
    """The content, or the part of it that was asked for."""
    if "range" not in request.headers:
        return Scripted(body=CONTENT)
    first, _, last = request.headers["range"].removeprefix("bytes=").partition("-")
    stop = int(last) + 1 if last else len(CONTENT)
    span = f"bytes {first}-{stop - 1}/{len(CONTENT)}"
    return Scripted(status=206, body=CONTENT[int(first) : stop], headers={"Content-Range": span})


def subdomains(request):
    """A proxy's script: the gateway sends each CID to a host of its own, which has the content."""
    path, mark, query = request.target.partition("?")
    if path.startswith(f"{WORLD}/ipfs/"):
        cid = path.rpartition("/")[2]
        return Scripted(**redirect(f"http://{cid}.ipfs.gateway.example/{mark}{query}", 301))
    cid, _, rest = path.removeprefix("http://").partition(".")
    assert rest == "ipfs.gateway.example/"
    return gateway_of(BLOCKS, plain)(replace(request, target=f"/{cid}{mark}{query}"))


def test_a_redirect_from_a_path_to_a_subdomain_works(tmp_path):
    with ScriptedServer(subdomains) as proxy:
        with world_client(proxy, tmp_path) as client:
            client.download(str(TREE), to=tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == CONTENT
        there = f"http://{TREE}.ipfs.gateway.example/"
        assert [request.target for request in proxy.requests] == [
            f"{WORLD}/ipfs/{TREE}",
            there,
            f"{WORLD}/ipfs/{TREE}?format=raw",
            f"{there}?format=raw",
        ]
        tokens = [request.headers.get("x-pinata-gateway-token") for request in proxy.requests]
        assert tokens == [GATEWAY_TOKEN, None] * 2


def test_a_part_of_a_file_is_asked_for_behind_the_redirect_too(tmp_path):
    with ScriptedServer(subdomains) as proxy:
        with (
            world_client(proxy, tmp_path) as client,
            client.open(str(TREE)) as file,
        ):
            file.seek(-1000, 2)
            assert file.read() == CONTENT[-1000:]
        parts = [each for each in proxy.requests if "range" in each.headers]
        assert len(parts) == 2  # here and there
        assert parts[0].headers["range"] == parts[1].headers["range"]


def test_a_redirect_to_the_same_path_with_a_slash_is_a_directory(server, client, tmp_path):
    server.reply(**redirect(f"/ipfs/{HELLO_CID}/", 301))
    error = failed_download(client, tmp_path, NotAFileError)
    assert str(error).startswith(f"{HELLO_CID} is a directory; read a file in it by its path, or")
    assert len(server.requests) == 1
