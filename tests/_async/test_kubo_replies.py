"""Replies of Kubo's API that are no success, several of them with status 200, and what is sent."""

import base64
import json

import pytest

from holdfast import AsyncClient, ClientConfig
from holdfast.content.cid import CID
from holdfast.errors import (
    AuthenticationError,
    ConfigError,
    NetworkError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RequestTimeoutError,
    VerificationError,
)
from holdfast.testing import Scripted, ScriptedServer
from tests.support import HELLO_CID, TOKEN

NOT_PINNED = {"Message": f"path '{HELLO_CID}' is not pinned", "Code": 0, "Type": "error"}
JSON = {"Content-Type": "application/json", "Server": "kubo/0.43.0"}
AGAIN = {"attempts": 3, "base": 0.01, "cap": 0.02}


def lines(*values):
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def kubo_at(server, **changes):
    fields = {"provider": "kubo", "pin_api_url": server.url, "retries": {"attempts": 1}}
    return ClientConfig(**{**fields, **changes})


@pytest.fixture
async def client(server):
    async with await AsyncClient.init(kubo_at(server)) as client:
        yield client


def commands_of(server):
    return [
        request.target.partition("?")[0].removeprefix("/api/v0/") for request in server.requests
    ]


# Replies that mean failure


@pytest.mark.parametrize(
    "body",
    [
        b"",  # an option that Kubo cannot read
        lines({"Name": "file", "Bytes": 5}),  # the error was in a trailer
        lines({"Name": "file", "Hash": "nonsense"}),
        b'{"Name":"file","Ha',
        b"[]",
    ],
)
async def test_an_upload_without_a_hash_at_its_end_is_no_success(client, server, body):
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(200, body, headers=JSON)
    with pytest.raises(ProviderError, match="Kubo"):
        await client.upload(b"hello")
    assert commands_of(server) == ["pin/ls", "add"]


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        ([], "does not say"),
        ([{"Stats": {"BlockCount": 1}}], "does not say"),
        ([{"Root": {"Cid": {"/": HELLO_CID}, "PinErrorMsg": ""}}], "does not say"),
        (
            [{"Root": {"Cid": {"/": HELLO_CID}, "PinErrorMsg": "not whole"}}, {"Stats": {}}],
            "could not pin it: not whole",
        ),
        (
            [{"Root": {"Cid": {"/": HELLO_CID}, "PinErrorMsg": ""}}, {"Stats": {}}],
            "does not say",  # another root than ours
        ),
    ],
)
async def test_a_folder_that_is_not_wholly_imported_and_pinned_is_no_success(
    client, server, tmp_path, reports, words
):
    (tmp_path / "a.txt").write_bytes(b"hello")
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(200, lines(*reports), headers=JSON)
    with pytest.raises(ProviderError, match=words):
        await client.upload(tmp_path)
    assert commands_of(server) == ["pin/ls", "dag/import"]


async def test_a_pin_that_ends_with_progress_is_no_success(client, server):
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(200, lines({"Progress": 1, "Bytes": 5}), headers=JSON)
    with pytest.raises(ProviderError, match="before it had all of"):
        await client.pin(HELLO_CID)


async def test_a_list_that_ends_within_a_line_is_an_error(client, server):
    server.reply(200, lines({"Cid": HELLO_CID}) + b'{"Cid":"bafk', headers=JSON)
    with pytest.raises(ProviderError, match="does not say"):
        await client.pins()


async def test_a_list_whose_connection_breaks_is_an_error(client, server):
    body = lines(*[{"Cid": HELLO_CID, "Name": "x" * 200}] * 1000)
    server.reply(200, body, headers=JSON, chunked=True, cut=len(body) // 2)
    with pytest.raises(NetworkError):
        await client.pins()


async def test_a_line_without_end_is_an_error(client, server):
    server.reply(200, b'{"Cid":"' + b"x" * 1_000_000, headers=JSON)
    with pytest.raises(ProviderError, match="not that of Kubo's RPC API"):
        await client.pins()


async def test_a_wrong_block_is_an_error(client, server):
    server.reply(200, b"not hello")
    with pytest.raises(VerificationError):
        await client.download(HELLO_CID)


HTML = {"Content-Type": "text/html"}


@pytest.mark.parametrize("status", [200, 404])
async def test_an_api_that_answers_html_is_an_error_with_the_remedy(server, status):
    script = lambda _: Scripted(status=status, headers=HTML, body=b"<html>Sign in</html>")  # noqa: E731
    with ScriptedServer(script) as portal:
        async with await AsyncClient.init(kubo_at(portal)) as client:
            for call in (
                client.test_connection,
                lambda: client.store([1]),
                lambda: client.upload(iter([b"x"])),
                client.pins,
                lambda: client.pin(HELLO_CID),
                lambda: client.revoke(HELLO_CID),
            ):
                with pytest.raises(ProviderError, match="check that pin_api_url") as caught:
                    await call()
                assert caught.value.status == status


async def test_the_words_of_an_error_are_kubos(client, server):
    server.reply(500, {"Message": "no space left on device", "Code": 0, "Type": "error"})
    with pytest.raises(ProviderError, match=r"^no space left on device$") as caught:
        await client.test_connection()
    assert caught.value.status == 500
    assert len(server.requests) == 1  # it is not sent again


async def test_denied_access_is_an_authentication_error(client, server):
    words = "Kubo RPC Access Denied: Please provide a valid authorization token"
    server.reply(403, words.encode(), headers={"Content-Type": "text/plain"})
    with pytest.raises(AuthenticationError, match=words) as caught:
        await client.test_connection()
    assert caught.value.status == 403


async def test_a_proxy_that_asks_for_credentials_is_an_authentication_error(client, server):
    headers = {"Content-Type": "text/html", "WWW-Authenticate": "Basic"}
    server.reply(401, b"<html>401 Authorization Required</html>", headers=headers)
    with pytest.raises(AuthenticationError, match=r"^HTTP error 401$") as caught:
        await client.test_connection()
    assert caught.value.status == 401


async def test_content_that_is_not_found_in_time_is_a_timeout(client, server):
    error = {"Message": "context deadline exceeded", "Code": 0, "Type": "error"}
    server.reply(500, error)
    with pytest.raises(RequestTimeoutError, match=HELLO_CID):
        await client.download(HELLO_CID)
    assert "timeout=54.000s" in server.requests[0].target


async def test_offline_asks_no_other_node(server):
    words = f"block was not found locally (offline): ipld: could not find {HELLO_CID}"
    server.reply(500, {"Message": words})
    config = kubo_at(server, provider_options={"offline": True})
    async with await AsyncClient.init(config) as client:
        with pytest.raises(NotFoundError, match=HELLO_CID):
            await client.download(HELLO_CID)
    assert "offline=true" in server.requests[0].target


@pytest.mark.parametrize("options", [{"ofline": True}, {"offline": "yes"}])
async def test_wrong_options_are_refused(options):
    with pytest.raises(ConfigError, match="provider_options"):
        await AsyncClient.init(provider="kubo", provider_options=options)


# Versions


@pytest.mark.parametrize("server_name", ["kubo/0.36.0", "kubo/0.34.1/abc"])
async def test_an_older_kubo_is_named(client, server, server_name):
    headers = {"Content-Type": "application/json", "Server": server_name}
    server.reply(500, NOT_PINNED, headers=headers)
    with pytest.raises(ProviderError, match=r"too old.*0\.37 or newer"):
        await client.store([1])
    assert commands_of(server) == ["pin/ls"]


async def test_an_older_kubo_behind_a_proxy_is_named_by_its_version(client, server):
    server.reply(200, {"Version": "0.30.0"})
    with pytest.raises(ProviderError, match=r"Kubo 0\.30 is too old"):
        await client.test_connection()


@pytest.mark.parametrize("version", ["0.37.0", "0.99.0-dev", "1.0.0", "12.3.4-rc1"])
async def test_newer_kubos_are_never_refused(client, server, version):
    server.reply(200, {"Version": version}, headers={"Server": f"kubo/{version}"})
    assert await client.test_connection() is True


# What is sent


@pytest.mark.parametrize(
    ("token", "header"),
    [
        (None, None),
        (TOKEN, f"Bearer {TOKEN}"),
        ("bob:pass:word", "Basic " + base64.b64encode(b"bob:pass:word").decode()),
    ],
)
async def test_the_token_is_a_bearer_token_or_a_user_with_a_password(server, token, header):
    server.reply(200, {"Version": "0.43.0"})
    async with await AsyncClient.init(kubo_at(server, provider_token=token)) as client:
        await client.test_connection()
    first, *others = server.requests
    assert {request.headers.get("authorization") for request in server.requests} == {header}
    assert (first.method, first.target) == ("POST", "/api/v0/version")
    assert len(others) == (0 if token is None else 8)  # whether the token may do all that is needed


async def test_a_token_is_tried_with_calls_that_change_nothing(server):
    server.reply(200, {"Version": "0.43.0"})
    server.reply(400, b'file argument "path" is required')
    server.reply(403, b"Kubo RPC Access Denied: no", headers={"Content-Type": "text/plain"})
    server.reply(400, b'argument "ipfs-path" is required')
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(403, b"Kubo RPC Access Denied: no", headers={"Content-Type": "text/plain"})
    config = kubo_at(server, provider_token=TOKEN, gateway_url=server.url)
    async with await AsyncClient.init(config) as client:
        with pytest.raises(PermissionDeniedError, match="not for dag/import, pin/rm\n") as caught:
            await client.test_connection()
    assert (caught.value.status, caught.value.details) == (403, "Kubo RPC Access Denied: no")
    targets = [request.target.removeprefix("/api/v0/") for request in server.requests]
    listing = "pin/ls?arg=bafkqaaa&type=recursive"
    assert targets == ["version", "add", "dag/import", "pin/add", listing, "pin/rm"]
    assert {request.body for request in server.requests} == {b""}


async def test_a_call_that_fails_in_another_way_ends_the_test_of_a_token(server):
    server.reply(200, {"Version": "0.43.0"})
    server.reply(404, b"nothing here")
    async with await AsyncClient.init(kubo_at(server, provider_token=TOKEN)) as client:
        with pytest.raises(ProviderError, match="not that of Kubo's RPC API"):
            await client.test_connection()


@pytest.mark.parametrize(
    "echoed", ["bob:a-long-password", "a-long-password", "Ym9iOmEtbG9uZy1wYXNzd29yZA"]
)
async def test_a_password_that_is_sent_back_is_masked(server, echoed):
    server.reply(500, {"Message": f"no such user: {echoed}"})
    config = kubo_at(server, provider_token="bob:a-long-password")
    async with await AsyncClient.init(config) as client:
        with pytest.raises(ProviderError, match=r"no such user: .*\*{8}") as caught:
            await client.test_connection()
    assert echoed not in str(caught.value)
    assert "password" not in str(caught.value)


async def test_the_token_never_goes_to_the_gateway(server, other_server):
    other_server.reply(200, b"hello")
    config = kubo_at(server, provider_token=TOKEN, gateway_url=other_server.url)
    async with await AsyncClient.init(config) as client:
        assert (await client.download(HELLO_CID)).read() == b"hello"
        assert client.url(HELLO_CID) == f"{other_server.url}/ipfs/{HELLO_CID}"
    assert server.requests == []
    assert all(TOKEN not in str(dict(each.headers)) for each in other_server.requests)


async def test_redirects_are_not_followed(server, other_server):
    server.reply(307, headers={"Location": other_server.url})
    async with await AsyncClient.init(kubo_at(server, provider_token=TOKEN)) as client:
        with pytest.raises(ProviderError, match="HTTP error 307"):
            await client.test_connection()
    assert other_server.requests == []


async def test_every_option_of_the_layout_is_sent(client, server):
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(200, lines({"Name": "file", "Hash": HELLO_CID, "Size": "5"}), headers=JSON)
    await client.upload(b"hello", name="b c.txt")
    _, query = server.requests[1].target.split("?")
    assert sorted(query.split("&")) == [
        "chunker=size-1048576",
        "cid-version=1",
        "fscache=false",
        "hash=sha2-256",
        "inline=false",
        "max-file-links=1024",
        "nocopy=false",
        "pin-name=b+c.txt",
        "pin=true",
        "preserve-mode=false",
        "preserve-mtime=false",
        "progress=false",
        "raw-leaves=true",
        "trickle=false",
        "wrap-with-directory=false",
    ]
    assert b'filename="file"' in server.requests[1].body


async def test_a_revoke_of_what_is_not_pinned_is_a_not_found_error(server):
    words = "not pinned or pinned indirectly"
    server.reply(500, {"Message": words}, headers=JSON)
    server.reply(500, {"Message": "the disk is full"}, headers=JSON)
    async with await AsyncClient.init(kubo_at(server)) as client:
        with pytest.raises(NotFoundError) as caught:
            await client.revoke(HELLO_CID)
        assert (str(caught.value), caught.value.status) == (words, 500)
        with pytest.raises(ProviderError) as caught:
            await client.revoke(HELLO_CID)
        assert type(caught.value) is ProviderError


async def test_a_lost_reply_of_a_revoke_is_asked_for_again(server):
    server.reply(hang_up=True)
    server.reply(500, {"Message": "not pinned or pinned indirectly"}, headers=JSON)
    async with await AsyncClient.init(kubo_at(server, retries=AGAIN)) as client:
        assert await client.revoke(HELLO_CID) is True


async def test_a_broken_connection_is_tried_again(server):
    server.reply(hang_up=True)
    server.reply(200, b"hello")
    server.reply(hang_up=True)
    server.reply(200, lines({"Cid": HELLO_CID}), headers=JSON)
    async with await AsyncClient.init(kubo_at(server, retries=AGAIN)) as client:
        assert (await client.download(HELLO_CID)).read() == b"hello"
        assert [pin.cid for pin in await client.pins()] == [HELLO_CID]


async def test_a_block_that_holds_the_token_is_read_as_it_is(server):
    """Replies are searched for the token, and masked: content never is."""
    data = f"my token is {TOKEN}".encode()
    server.reply(200, data)
    async with await AsyncClient.init(kubo_at(server, provider_token=TOKEN)) as client:
        assert (await client.download(str(CID.of_raw(data)))).read() == data


def test_plain_http_to_another_machine_is_refused_only_with_a_token():
    address = "http://10.0.0.1:5001"
    assert ClientConfig(provider="kubo", pin_api_url=address).api_url == address
    with pytest.raises(ConfigError, match="plain HTTP"):
        ClientConfig(provider="kubo", pin_api_url=address, provider_token=TOKEN)
    ClientConfig(provider="kubo", pin_api_url=address, provider_token=TOKEN, allow_insecure=True)


def test_each_provider_has_an_address_of_its_own():
    assert ClientConfig(provider="kubo").api_url == "http://127.0.0.1:5001"
    assert ClientConfig(provider="pinning").api_url == "https://api.pinata.cloud"
