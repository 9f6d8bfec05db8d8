# WARNING: this file is generated from tests/_async/test_redirects.py
# by scripts/generate_sync.py. Change the original instead.
"""Redirects: the pinning API's are never followed; a gateway's are, with care and without tokens.

A gateway out in the world is one behind a proxy here: the proxy answers for every host, and sees
each request that would have left this machine. Where the address counts that a name resolves to, a
table stands in place of the system's resolver: a gateway in the world is one on 127.0.0.2, which
counts as public, and the servers inside are on 127.0.0.1. Each form of an address is a row of
`tests/test_protocol.py`.
"""

import hashlib
import socket
from dataclasses import replace

import pytest

from holdfast import Client
from holdfast.content.profiles import KUBO_LEGACY_CIDV1
from holdfast.errors import NetworkError, NotAFileError, ProviderError
from holdfast.protocol import host_privacy
from holdfast.testing import Scripted, ScriptedServer
from tests import tls
from tests._sync.reading import failed_download, failure_of
from tests.attackers import Attacker
from tests.content import Blocks
from tests.faulty import gateway_of, patient_config
from tests.support import GATEWAY_TOKEN, HELLO_CID, TOKEN, config_for

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


def redirect(location, status=302):
    return {"status": status, "headers": {"Location": location}}


# The pinning API.


@pytest.mark.parametrize(
    ("call", "status"),
    [*(("store", status) for status in STATUSES), *((call, 307) for call in CALLS)],
)
def test_a_redirect_of_the_api_is_an_error_after_one_request(
    server, other_server, client, call, status
):
    server.reply(**redirect(f"{other_server.url}/pinning/pinJSONToIPFS", status))
    error = failure_of(lambda: getattr(client, call)(*CALLS[call]), ProviderError)
    assert (str(error), error.status) == (f"HTTP error {status}", status)
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
            error = failed_download(client, HELLO_CID, tmp_path, ProviderError)
        assert str(error) == (
            f"127.0.0.1:{secure.port} redirects from https to http; it was not followed"
        )
        assert error.status == 302
        assert len(secure.requests) == 1
    assert other_server.connections == 0


def hops(count):
    """A script that redirects so many times, each time to another place, and then has the file."""

    def script(request):
        number = int(request.target.partition("hop=")[2] or 0)
        if number < count:
            return Scripted(**redirect(f"/somewhere?hop={number + 1}"))
        return Scripted(body=b"hello")

    return script


def test_ten_hops_are_followed_and_eleven_are_not(tmp_path):
    for count in (10, 11):
        with ScriptedServer(hops(count)) as server:
            config = patient_config(server, cache_path=tmp_path / "cache")
            with Client.init(config) as client:
                if count == 10:
                    assert (client.download(HELLO_CID)).read() == b"hello"
                else:
                    error = failed_download(client, HELLO_CID, tmp_path, ProviderError)
                    assert "redirects more than 10 times" in str(error)
            assert len(server.requests) == 11


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("file:///etc/passwd", "to a URL that is not http or https"),
        ("data:text/plain,hello", "to a URL that is not http or https"),
        ("http://[", "to an invalid URL"),
        ("http://127.0.0.1:0/", "to an invalid URL"),
        ("http://127.0.0.1:99999/", "to an invalid URL"),
    ],
    ids=["file", "data", "half an address", "port 0", "port 99999"],
)
def test_a_redirect_off_the_web_is_not_followed(server, client, tmp_path, location, words):
    server.reply(**redirect(location))
    error = failed_download(client, HELLO_CID, tmp_path, ProviderError)
    peer = f"127.0.0.1:{server.port}"
    assert str(error) == f"{peer} redirects {words}; it was not followed"
    assert error.status == 302
    assert len(server.requests) == 1


@pytest.mark.parametrize("user", ["user", "user:pass-0123456789", ":pass-0123456789", ""])
def test_a_redirect_with_a_user_name_is_not_followed(server, other_server, client, tmp_path, user):
    server.reply(**redirect(f"http://{user}@127.0.0.1:{other_server.port}/x"))
    error = failed_download(client, HELLO_CID, tmp_path, ProviderError)
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
    "host", ["169.254.169.254", "2852039166", "10.0.0.1", "[fd00::1]", "LOCALHOST.", "[::1]"]
)
def test_a_redirect_from_the_world_into_a_private_network_is_not_followed(server, tmp_path, host):
    server.reply(**redirect(f"http://{host}/latest/meta-data"))
    with world_client(server, tmp_path) as client:
        error = failed_download(client, HELLO_CID, tmp_path, ProviderError)
    assert str(error) == ("gateway.example redirects into a private network; it was not followed")
    assert [request.target for request in server.requests] == [f"{WORLD}/ipfs/{HELLO_CID}"]


# Subdomain gateways.

CONTENT = hashlib.shake_128(b"content").digest(600_000)
TREE, BLOCKS = Blocks.of_file(CONTENT, KUBO_LEGACY_CIDV1)


def plain(request):
    """The part of the content that was asked for."""
    first, last = map(int, request.headers["range"].removeprefix("bytes=").split("-"))
    headers = {"Content-Range": f"bytes {first}-{last}/{len(CONTENT)}"}
    return Scripted(status=206, body=CONTENT[first : last + 1], headers=headers)


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
        with (
            world_client(proxy, tmp_path) as client,
            client.open(str(TREE)) as file,
        ):
            file.seek(-1000, 2)
            assert file.read() == CONTENT[-1000:]
    target = f"http://{TREE}.ipfs.gateway.example/"
    asked = [(request.target, request.headers.get("range")) for request in proxy.requests]
    part = "bytes=524288-599999"
    assert asked == [
        (f"{WORLD}/ipfs/{TREE}?format=raw", None),
        (f"{target}?format=raw", None),
        (f"{WORLD}/ipfs/{TREE}", part),
        (target, part),
    ]
    tokens = [request.headers.get("x-pinata-gateway-token") for request in proxy.requests]
    assert tokens == [GATEWAY_TOKEN, None] * 2


def test_a_redirect_to_the_same_path_with_a_slash_is_a_directory(server, client, tmp_path):
    server.reply(**redirect(f"/ipfs/{HELLO_CID}/", 301))
    error = failed_download(client, HELLO_CID, tmp_path, NotAFileError)
    assert str(error).startswith(f"{HELLO_CID} is a directory; read a file in it by its path, or")
    assert len(server.requests) == 1


# Names, and the addresses that they resolve to

PUBLIC, INSIDE = "127.0.0.2", "127.0.0.1"
WORDS = "redirects into a private network; it was not followed"
METADATA = {
    "metadata.example": [["169.254.169.254"]],
    "oracle.example": [["192.0.0.192"]],
    "mapped.example": [["::ffff:169.254.169.254"]],
}


class Names:
    """What each name resolves to: its answers one after the other, the last one for ever."""

    def __init__(self):
        self.answers = {}
        self._system = socket.getaddrinfo

    def __call__(self, host, *args, **kwargs):
        if host not in self.answers:
            return self._system(host, *args, **kwargs)
        answers = self.answers[host]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        if not addresses:
            raise socket.gaierror(socket.EAI_AGAIN, "not now")
        return [row for address in addresses for row in self._system(address, *args, **kwargs)]


@pytest.fixture
def names(monkeypatch):
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names)
    real = host_privacy.privacy
    seen = lambda host: host_privacy.WORLD if host == PUBLIC else real(host)  # noqa: E731
    monkeypatch.setattr(host_privacy, "privacy", seen)
    names.answers = {"gateway.example": [[PUBLIC]], "inside.example": [[INSIDE]]}
    return names


def redirecting_to(location, host=PUBLIC):
    """A server at `host` that redirects every request."""
    reply = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    return Attacker(lambda: iter([reply.encode()]), host=host)


def client_of(gateway, **changes):
    fields = {
        "gateway_url": f"http://gateway.example:{gateway.port}/ipfs",
        "gateway_token": GATEWAY_TOKEN,
        "allow_insecure": True,
    }
    return Client.init(config_for(gateway, **{**fields, **changes}))


@pytest.mark.parametrize("operation", ["download", "retrieve", "open"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_redirect_to_a_name_in_a_private_network_is_not_followed(
    names, server, operation, scheme
):
    with redirecting_to(f"{scheme}://inside.example:{server.port}/secret") as gateway:
        with client_of(gateway) as client:
            with pytest.raises(ProviderError) as caught:
                getattr(client, operation)(HELLO_CID)
    assert str(caught.value) == f"gateway.example:{gateway.port} {WORDS}"
    assert caught.value.status == 302
    assert server.connections == 0


def test_a_redirect_to_a_name_in_the_world_is_followed(names):
    names.answers["other.example"] = [[PUBLIC]]
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    with (
        Attacker(lambda: iter([body]), host=PUBLIC) as other,
        redirecting_to(f"http://other.example:{other.port}/x") as gateway,
    ):
        with client_of(gateway) as client:
            assert (client.download(HELLO_CID)).read() == b"hello"


@pytest.mark.parametrize(
    ("host", "answers", "words"),
    [
        ("other.example", [[INSIDE, PUBLIC]], "cannot connect to other"),
        # The gateway itself does it: its second name server gives another answer.
        ("gateway.example", [[PUBLIC], [INSIDE]], f"cannot connect|{WORDS}"),
        ("inside.example", [[], [INSIDE]], f"cannot find|{WORDS}"),
    ],
    ids=["one of several addresses", "moved after it was asked", "resolved at the second try"],
)
def test_no_answer_for_a_name_leads_inside(names, server, host, answers, words):
    retries = {"attempts": 1 + ([] in answers), "base": 0.01}
    names.answers[host] = list(answers)
    with redirecting_to(f"http://{host}:{server.port}/x") as gateway:
        with client_of(gateway, retries=retries) as client:
            with pytest.raises((ProviderError, NetworkError), match=words):
                client.download(HELLO_CID)
    assert server.requests == []
    if [] not in answers:  # else the address may be seen only when the connection is there
        assert server.connections == 0


def test_a_kept_connection_into_a_private_network_is_not_used(names, server):
    # It was made for a gateway of the user's own. By now the name leads elsewhere.
    server.reply(404)
    server.reply(404)
    with redirecting_to(f"http://inside.example:{server.port}/secret") as gateway:
        own = f"http://inside.example:{server.port}/ipfs"
        public = f"http://gateway.example:{gateway.port}/ipfs"
        with client_of(gateway, gateway_url=own) as client:
            with pytest.raises(ProviderError):
                client.download(HELLO_CID)
            asked = len(server.requests)
            names.answers["inside.example"] = [[PUBLIC]]
            other = client.with_options(gateway_url=public)
            with pytest.raises(ProviderError, match=WORDS):
                other.download(HELLO_CID)
        assert gateway.requests > 0
    assert len(server.requests) == asked
    assert server.connections == 1


def test_a_private_gateway_may_redirect_to_a_private_name(names, server, other_server):
    names.answers["own.example"] = [[INSIDE]]
    server.reply(302, headers={"Location": f"http://inside.example:{other_server.port}/x"})
    other_server.reply(200, b"hello")
    url = f"http://own.example:{server.port}/ipfs"
    with Client.init(config_for(server, gateway_url=url)) as client:
        assert (client.download(HELLO_CID)).read() == b"hello"


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "0xa9fea9fe", *METADATA])
def test_a_redirect_to_the_metadata_service_is_not_followed_from_anywhere(
    names, server, client, host
):
    names.answers |= METADATA
    server.reply(**redirect(f"http://{host}/latest/meta-data"))
    with pytest.raises(ProviderError, match=WORDS):
        client.download(HELLO_CID)
    assert len(server.requests) == 1


def test_behind_a_proxy_a_name_is_the_proxys_to_resolve(names, server):
    server.reply(302, headers={"Location": "http://inside.example/x"})
    server.reply(200, b"hello")
    config = config_for(
        server,
        gateway_url="http://gateway.example/ipfs",
        proxy=server.url,
        allow_insecure=True,
    )
    with Client.init(config) as client:
        assert (client.download(HELLO_CID)).read() == b"hello"
    assert server.requests[1].target == "http://inside.example/x"
