# WARNING: this file is generated from tests/_async/test_pinata_links.py
# by scripts/generate_sync.py. Change the original instead.
"""Signed links of the v3 API: for others, and for our own reads of private files."""

import time
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from holdfast import Client, compute_cid
from holdfast.errors import AuthenticationError, ProviderError, UnsupportedError, VerificationError
from holdfast.hints import hint_of
from holdfast.testing import Scripted, ScriptedServer
from tests.pinata import GROUP, LINK_QUERY, v3_config
from tests.support import HELLO_CID, TOKEN, raw_cid

SIGNATURE = LINK_QUERY.rpartition("=")[2]


class PrivateService:
    """The API signs links to its own gateway, which serves files for links it has signed."""

    def __init__(self, content):
        self.content = content
        self.signed = set()

    def __call__(self, request):
        if request.target == "/v3/files/private/download_link":
            asked = request.json()
            parts = urlsplit(asked["url"])
            self.signed.add(f"{parts.path}?{LINK_QUERY}")
            return Scripted(body={"data": f"{asked['url']}?{LINK_QUERY}"})
        if request.target not in self.signed:
            return Scripted(status=401, body=b"no signature - ERR_ID:00024")
        cid = urlsplit(request.target).path.rpartition("/")[2]
        if cid not in self.content:
            return Scripted(status=404, body={"error": "not found"})
        data = self.content[cid]
        first, _, last = request.headers.get("range", "bytes=0-")[6:].partition("-")
        if first != "0" or last:
            stop = int(last) + 1 if last else len(data)
            part = f"bytes {first}-{stop - 1}/{len(data)}"
            headers = {"Content-Range": part}
            return Scripted(status=206, body=data[int(first) : stop], headers=headers)
        return Scripted(body=data, headers={"Content-Type": "text/plain"})


@pytest.fixture
def private():
    """Private files of one block, of three, and JSON, by their CIDs."""
    large = bytes(range(256)) * 2600
    contents = (b"hello", large, b'{"a":1}')
    return {compute_cid(data, profile="kubo-legacy-cidv1"): data for data in contents}


@pytest.fixture
def service(private):
    with ScriptedServer(PrivateService(private)) as server:
        yield server


@pytest.fixture
def reader(service):
    with Client.init(v3_config(service, network="private")) as client:
        yield client


def test_private_files_are_read_through_signed_links(reader, private, tmp_path):
    for cid, data in private.items():
        blob = reader.download(cid, to=tmp_path / "file")
        assert (blob.read(), blob.type) == (data, "text/plain")
        with reader.open(cid) as file:
            file.seek(2)
            assert file.read(3) == data[2:5]
        assert (reader.stat(cid)).size == len(data)
    assert reader.retrieve(raw_cid(b'{"a":1}')) == {"a": 1}


def test_a_link_is_asked_for_a_file_and_only_the_file_is_requested(service, reader, private):
    cid = next(cid for cid in private if not cid.startswith("bafkrei"))
    reader.download(cid)
    sign, *others = service.requests
    asked = sign.json()
    assert abs(asked.pop("date") - time.time()) < 60
    assert asked == {"url": f"{service.url}/files/{cid}", "expires": 3600, "method": "GET"}
    assert {request.target for request in others} == {f"/files/{cid}?{LINK_QUERY}"}


def test_other_bytes_than_the_cid_names_are_an_error(service, reader, private):
    for cid in list(private):
        private[cid] = private[cid][:-1] + b"x"
        with pytest.raises(VerificationError):
            reader.download(cid)


def test_each_gateway_has_a_link_of_its_own(service, private):
    with ScriptedServer(lambda request: Scripted(status=503)) as broken:
        gateways = [broken.url, f"{service.url}/files"]
        config = v3_config(service, network="private", gateway_url=gateways)
        with Client.init(config) as client:
            assert (client.download(HELLO_CID)).read() == b"hello"
        assert {request.target for request in broken.requests} == {
            f"/files/{HELLO_CID}?{LINK_QUERY}"
        }
        assert all(TOKEN.encode() not in request.raw for request in broken.requests)


def test_a_link_to_another_host_is_not_used(server, other_server):
    server.reply(200, {"data": f"{other_server.url}/files/{HELLO_CID}?{LINK_QUERY}"})
    with Client.init(v3_config(server, network="private")) as client:
        with pytest.raises(ProviderError, match="does not lead to the gateway's host"):
            client.download(HELLO_CID)
    assert other_server.requests == []


def test_there_are_no_private_directories(reader):
    with pytest.raises(UnsupportedError, match="has files only"):
        reader.entries(HELLO_CID)


def test_private_content_is_not_given_block_by_block(reader, service):
    with pytest.raises(UnsupportedError, match="cannot send content block by block"):
        reader.provider.require("export_archive")
    with Client.init(v3_config(service)) as public:
        assert public.provider.require("export_archive") is public.provider


def test_a_key_that_may_not_sign_is_an_error_of_the_read(server):
    server.reply(401, {"error": {"code": 401, "message": "Not Authorized"}})
    with Client.init(v3_config(server, network="private")) as client:
        with pytest.raises(AuthenticationError):
            client.retrieve(HELLO_CID)


# Links for others


def test_a_signed_url_works_for_those_who_have_it(reader, service):
    link = reader.signed_url(HELLO_CID, expires=timedelta(minutes=2))
    assert link == f"{service.url}/files/{HELLO_CID}?{LINK_QUERY}"
    assert SIGNATURE in repr(link)
    assert service.requests[0].json()["expires"] == 120


@pytest.mark.parametrize(
    ("gateway", "private"),
    [
        ("https://example.mypinata.cloud", "https://example.mypinata.cloud/files"),
        ("https://ipfs.example.com/ipfs", "https://ipfs.example.com/files"),
        ("https://ipfs.example.com/files", "https://ipfs.example.com/files"),
        ("https://example.com/a/ipfs/", "https://example.com/a/files"),
    ],
)
def test_private_files_have_a_path_of_their_own(server, gateway, private):
    server.reply(200, {"data": f"{private}/{HELLO_CID}?{LINK_QUERY}"})
    config = v3_config(server, network="private", gateway_url=gateway)
    with Client.init(config) as client:
        client.signed_url(HELLO_CID, expires=5)
    assert server.requests[0].json()["url"] == f"{private}/{HELLO_CID}"


def test_a_signed_url_is_for_private_content(server):
    with Client.init(v3_config(server)) as client:
        with pytest.raises(UnsupportedError, match="public content needs no signed link; use url"):
            client.signed_url(HELLO_CID, expires=5)
        assert client.url(HELLO_CID) == f"{server.url}/ipfs/{HELLO_CID}"
    with Client.init(v3_config(server, network="private")) as client:
        with pytest.raises(UnsupportedError, match="no public address; sign a link") as caught:
            client.url(HELLO_CID)
    assert "holdfast link CID" in hint_of(caught.value).on_command_line
    assert server.requests == []


def test_a_link_for_uploads_says_what_may_be_uploaded(server):
    server.reply(200, {"data": "https://uploads.pinata.cloud/v3/files/0190c0de"})
    with Client.init(v3_config(server, group=GROUP)) as client:
        link = client.signed_upload_url(expires=30, max_bytes=1000, types=["image/*"])
    assert link == "https://uploads.pinata.cloud/v3/files/0190c0de"
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/v3/files/sign")
    asked = request.json()
    assert abs(asked.pop("date") - time.time()) < 60
    assert asked == {
        "expires": 30,
        "network": "public",
        "group_id": GROUP,
        "max_file_size": 1000,
        "allow_mime_types": ["image/*"],
    }


@pytest.mark.parametrize("data", ["", "no link", "javascript:alert(1)", 5, None], ids=repr)
def test_a_reply_that_is_no_link_is_an_error(server, data):
    server.reply(200, {"data": data})
    with Client.init(v3_config(server)) as client:
        with pytest.raises(ProviderError, match="not a link"):
            client.signed_upload_url(expires=30)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"expires": 0}, ValueError),
        ({"expires": float("nan")}, ValueError),
        ({"expires": timedelta(days=-1)}, ValueError),
        ({"expires": "60"}, TypeError),
        ({"expires": True}, TypeError),
        ({"expires": 60, "max_bytes": 0}, ValueError),
        ({"expires": 60, "max_bytes": 1.5}, TypeError),
        ({"expires": 60, "types": "image/*"}, TypeError),
        ({"expires": 60, "types": [5]}, TypeError),
        ({"expires": 60, "types": []}, ValueError),
        ({"expires": 60, "types": ["png"]}, ValueError),
    ],
    ids=str,
)
def test_wrong_arguments_are_named_before_anything_is_sent(server, arguments, error):
    with Client.init(v3_config(server)) as client:
        with pytest.raises(error, match=r"^(expires|max_bytes|types|a media type)"):
            client.signed_upload_url(**arguments)
    assert server.requests == []
