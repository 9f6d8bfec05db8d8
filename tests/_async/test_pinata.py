"""The provider for the service's v3 API, on literal replies of the service."""

import json

import pytest

from holdfast import AsyncClient, ClientConfig, compute_cid
from holdfast.errors import (
    AuthenticationError,
    ConfigError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    UnsupportedError,
    VerificationError,
)
from tests.pinata import DENIED, FILE_ID, GROUP, file_row, files, uploaded, v3_config
from tests.support import EMPTY_FILE_V0, HELLO_CID, TOKEN, form_parts, pinned, raw_cid

OTHER_ID = "ac5308a1-de49-40a3-9f5c-d20f1bb6206d"
NO_SCOPES = {
    "error": {
        "reason": "NO_SCOPES_FOUND",
        "details": "This key does not have the required scopes associated with it",
    }
}


@pytest.fixture
async def v3_client(server):
    async with AsyncClient.init(v3_config(server)) as client:
        yield client


def form_of(request):
    """The fields of a form; the headers of its file, and its bytes."""
    *fields, file = form_parts(request)
    texts = {head.partition('name="')[2].partition('"')[0]: body.decode() for head, body in fields}
    return texts, *file


# Uploads


async def test_json_is_a_file_of_exactly_the_bytes_that_are_sent(server, v3_client):
    text = b'{"name":"Zo\xc3\xab","n":1.0}'
    server.reply(200, uploaded(raw_cid(text)))
    record = await v3_client.store({"name": "Zoë", "n": 1.0}, name="zoë", keyvalues={"a": 1})
    assert (record.cid, record.size, record.duplicate) == (raw_cid(text), 22, False)
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/v3/files")
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    fields, head, content = form_of(request)
    assert content == text
    assert head.endswith('filename="data.json"\r\nContent-Type: application/json')
    assert fields == {
        "network": "public",
        "cid_version": "v1",
        "name": "zoë",
        "keyvalues": '{"a":"1"}',
    }


async def test_a_file_is_sent_with_all_that_the_options_say(server):
    config = v3_config(server, network="private", group=GROUP, expires=60, cid_version=0)
    server.reply(200, uploaded(compute_cid(b"hello", profile="unixfs-v0-2015"), group_id=GROUP))
    async with AsyncClient.init(config) as client:
        record = await client.upload(b"hello", name="hello.txt")
    fields, head, content = form_of(server.requests[0])
    assert content == b"hello"
    assert head.endswith('filename="hello.txt"\r\nContent-Type: application/octet-stream')
    assert abs(int(fields.pop("expires_at")) * 1000 - 60_000 - record.timestamp) < 10_000
    assert fields == {
        "network": "private",
        "cid_version": "v0",
        "name": "hello.txt",
        "group_id": GROUP,
    }


@pytest.mark.parametrize("call", ["store", "upload"])
async def test_a_raw_cid_of_other_bytes_is_an_error(server, v3_client, call):
    server.reply(200, uploaded(raw_cid(b"other bytes")))
    with pytest.raises(VerificationError):
        await getattr(v3_client, call)(b"hello" if call == "upload" else "hello")


async def test_a_tree_of_an_unknown_layout_is_logged_and_kept(server, v3_client, caplog):
    caplog.set_level("INFO", logger="holdfast")
    server.reply(200, uploaded(EMPTY_FILE_V0))
    assert (await v3_client.store("hello")).cid == EMPTY_FILE_V0
    assert "which no known layout gives" in caplog.text


async def test_known_content_gets_the_name_that_is_given(server, v3_client):
    server.reply(200, uploaded(is_duplicate=True))
    server.reply(200, {"data": file_row(name="new", keyvalues={"a": "true"})})
    record = await v3_client.upload(b"hello", name="new", keyvalues={"a": True})
    assert record.duplicate
    change = server.requests[1]
    assert (change.method, change.target) == ("PUT", f"/v3/files/public/{FILE_ID}")
    assert change.json() == {"name": "new", "keyvalues": {"a": "true"}}
    server.reply(200, uploaded(is_duplicate=True))
    assert (await v3_client.upload(b"hello")).duplicate  # nothing was given to change it
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "body",
    [b"<html>login</html>", b"{}", {"data": None}, {"data": {"cid": "pending"}}, {"data": []}],
    ids=str,
)
async def test_a_reply_without_a_file_is_an_error(server, v3_client, body):
    server.reply(200, body)
    with pytest.raises(ProviderError, match=r"not from the v3 API|names no file"):
        await v3_client.store(1)


# Folders, by the older call


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"a")
    return folder


async def test_a_folder_is_sent_by_the_older_call(server, photos):
    cid = compute_cid(photos, profile="kubo-legacy-cidv1")
    server.reply(200, pinned(cid))
    async with AsyncClient.init(v3_config(server, group=GROUP)) as client:
        assert (await client.upload(photos)).cid == cid
    (request,) = server.requests
    assert request.target == "/pinning/pinFileToIPFS"
    fields, head, _ = form_of(request)
    assert 'filename="photos/a.txt"' in head
    assert json.loads(fields["pinataOptions"]) == {"cidVersion": 1, "groupId": GROUP}


async def test_a_key_without_the_older_scopes_is_told_what_a_folder_needs(
    server, v3_client, photos
):
    server.reply(403, NO_SCOPES)
    with pytest.raises(PermissionDeniedError, match="required scopes") as caught:
        await v3_client.upload(photos)
    assert "pinFileToIPFS" in caught.value.__notes__[0]


@pytest.mark.parametrize("options", [{"network": "private"}, {"expires": 60}], ids=str)
async def test_a_folder_that_only_v3_could_take_and_does_not_is_refused(server, photos, options):
    async with AsyncClient.init(v3_config(server, **options)) as client:
        with pytest.raises(UnsupportedError, match="cannot store folders"):
            await client.upload(photos)
    assert server.requests == []


# Pins


async def test_update_changes_the_file_with_the_cid(server, v3_client):
    server.reply(200, files(file_row()))
    server.reply(200, {"data": file_row(name="final", keyvalues={"n": "2"})})
    pin = await v3_client.update(HELLO_CID, name="final", keyvalues={"n": 2, "draft": None})
    assert (pin.name, pin.keyvalues) == ("final", {"n": "2"})
    assert server.requests[1].json() == {"name": "final", "keyvalues": {"n": "2", "draft": None}}


async def test_revoke_deletes_every_file_with_the_cid(server, v3_client):
    server.reply(200, files(file_row(), file_row(id=OTHER_ID)))
    server.reply(200, {"data": None})
    server.reply(200, {"data": None})
    assert await v3_client.revoke(HELLO_CID)
    assert [(request.method, request.target) for request in server.requests] == [
        ("GET", f"/v3/files/public?limit=1000&order=DESC&cid={HELLO_CID}"),
        ("DELETE", f"/v3/files/public/{FILE_ID}"),
        ("DELETE", f"/v3/files/public/{OTHER_ID}"),
    ]


@pytest.mark.parametrize("call", ["revoke", "update"])
async def test_what_is_not_pinned_is_an_error(server, v3_client, call):
    server.reply(200, files())
    with pytest.raises(NotFoundError, match=f"^{HELLO_CID} is not pinned"):
        await getattr(v3_client, call)(HELLO_CID, **({"name": "x"} if call == "update" else {}))


async def test_a_file_that_a_lost_attempt_deleted_is_deleted(server):
    config = v3_config(server, retries={"attempts": 2, "base": 0.01})
    server.reply(200, files(file_row()))
    server.reply(hang_up=True)
    server.reply(404, {"error": {"code": 404, "message": "file not found"}})
    async with AsyncClient.init(config) as client:
        assert await client.revoke(HELLO_CID)


# Pins by CID


def job(status):
    return {"id": "job-1", "cid": HELLO_CID, "name": "x", "status": status, "group_id": None}


async def test_pin_waits_for_its_job_and_then_for_the_file(server):
    server.reply(200, files())
    server.reply(200, {"data": job("prechecking")})
    server.reply(200, {"data": {"jobs": [job("retrieving")], "next_page_token": None}})
    server.reply(200, {"data": {"jobs": [], "next_page_token": None}})
    server.reply(200, files(file_row()))
    async with AsyncClient.init(v3_config(server, group=GROUP)) as client:
        pin = await client.pin(HELLO_CID, name="x", keyvalues={"n": 1}, wait=10)
    assert (pin.id, pin.state) == (FILE_ID, "pinned")
    assert server.requests[1].target == "/v3/files/public/pin_by_cid"
    assert server.requests[1].json() == {
        "cid": HELLO_CID,
        "name": "x",
        "keyvalues": {"n": "1"},
        "group_id": GROUP,
    }
    assert server.requests[2].target == f"/v3/files/public/pin_by_cid?cid={HELLO_CID}&limit=100"


async def test_the_private_network_pins_nothing_by_cid_that_it_does_not_have(server):
    server.reply(200, files())
    server.reply(200, files(file_row()))
    async with AsyncClient.init(v3_config(server, network="private")) as client:
        with pytest.raises(UnsupportedError, match="public network only"):
            await client.pin(HELLO_CID)
        assert (await client.pin(HELLO_CID)).id == FILE_ID


# Credentials and configuration


async def test_a_connection_is_tested_for_reading_and_writing(server, v3_client):
    server.reply(200, files())
    server.reply(200, {"data": "https://uploads.pinata.cloud/v3/files/abc"})
    assert await v3_client.test_connection()
    read, write = server.requests
    assert (read.method, read.target) == ("GET", "/v3/files/public?limit=1&order=DESC")
    assert (write.method, write.target) == ("POST", "/v3/files/sign")
    assert write.json() | {"date": 0} == {
        "date": 0,
        "expires": 1,
        "network": "public",
        "max_file_size": 1,
    }


@pytest.mark.parametrize(
    ("statuses", "lacking"),
    [
        ((403, 200), "org:files:read"),
        ((200, 403), "org:files:write"),
        ((403, 403), "org:files:read and org:files:write"),
    ],
)
async def test_a_missing_permission_is_named(server, v3_client, statuses, lacking):
    for status, body in zip(statuses, (files(), {"data": "https://example.com/x"}), strict=True):
        server.reply(status, DENIED if status == 403 else body)
    with pytest.raises(PermissionDeniedError) as caught:
        await v3_client.test_connection()
    assert str(caught.value) == "Forbidden"
    assert caught.value.__notes__ == [f"give a key with the permission {lacking}"]


async def test_a_key_that_is_not_valid_is_an_authentication_error(server, v3_client):
    server.reply(401, {"error": {"code": 401, "message": "Not Authorized"}})
    with pytest.raises(AuthenticationError, match=r"^HTTP error 401$") as caught:
        await v3_client.test_connection()
    assert caught.value.details == "Not Authorized"
    assert len(server.requests) == 1


async def test_the_older_provider_tells_holders_of_newer_keys_what_to_use(server, client):
    server.reply(403, NO_SCOPES)
    with pytest.raises(PermissionDeniedError) as caught:
        await client.store(1)
    assert str(caught.value) == "This key does not have the required scopes associated with it"
    assert caught.value.__notes__ == [
        'the key may be for the service\'s v3 API: use provider="pinata"'
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": "secret"}, "network must be 'public' or 'private'"),
        ({"group": 5}, "group must be the id of a group"),
        ({"expires": 0}, "expires must be a whole number"),
        ({"upload_url": "ftp://x"}, "upload_url must be"),
        ({"upload_url": "https://me:pass@example.com"}, "no user name and no query"),
        ({"upload_url": "http://example.com/v3"}, "would carry the token over plain HTTP"),
        ({"network": "private", "gateway_url": None}, "gateway_url is missing"),
        ({"provider_token": None}, "provider_token is missing"),
        (
            {"provider_options": {"netwrok": "private"}},
            "takes network, group, expires, upload_url, spool, not 'netw",
        ),
    ],
    ids=str,
)
async def test_a_wrong_configuration_is_named(server, changes, message):
    with pytest.raises(ConfigError, match=message):
        await AsyncClient.init(v3_config(server, **changes))


@pytest.mark.parametrize(
    ("fields", "api", "uploads"),
    [
        ({}, "https://api.pinata.cloud", "https://uploads.pinata.cloud/v3"),
        ({"pin_api_url": "https://a.example"}, "https://a.example", "https://a.example/v3"),
        ({"pin_api_url": "https://a.example/v3"}, "https://a.example", "https://a.example/v3"),
        (
            {
                "pin_api_url": "https://a.example",
                "provider_options": {"upload_url": "https://up.example/v3/"},
            },
            "https://a.example",
            "https://up.example/v3",
        ),
    ],
)
async def test_the_address_for_uploads_follows_that_of_the_api(fields, api, uploads):
    config = ClientConfig(provider="pinata", provider_token=TOKEN, **fields)
    async with AsyncClient.init(config) as client:
        assert client.provider._api.base_url == f"{api}/v3"
        assert client.provider._api.options.upload_url == uploads


async def test_options_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("HOLDFAST_PROVIDER_OPTIONS", '{"network": "private"}')
    assert ClientConfig.from_env().provider_options == {"network": "private"}
    for wrong in ("network=private", "[1]", "[" * 100_000):
        monkeypatch.setenv("HOLDFAST_PROVIDER_OPTIONS", wrong)
        with pytest.raises(ConfigError, match="HOLDFAST_PROVIDER_OPTIONS must be a JSON object"):
            ClientConfig.from_env()
