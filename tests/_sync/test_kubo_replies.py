# WARNING: this file is generated from tests/_async/test_kubo_replies.py
# by scripts/generate_sync.py. Change the original instead.
"""Replies of Kubo's API that are no success, several of them with status 200, and what is sent."""

import base64
import json

import pytest

from holdfast import Client, ClientConfig
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
def client(server):
    with Client.init(kubo_at(server)) as client:
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
def test_an_upload_without_a_hash_at_its_end_is_no_success(client, server, body):
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(200, body, headers=JSON)
    with pytest.raises(ProviderError, match="Kubo"):
        client.upload(b"hello")
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
def test_a_folder_that_is_not_wholly_imported_and_pinned_is_no_success(
    client, server, tmp_path, reports, words
):
    (tmp_path / "a.txt").write_bytes(b"hello")
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(200, lines(*reports), headers=JSON)
    with pytest.raises(ProviderError, match=words):
        client.upload(tmp_path)
    assert commands_of(server) == ["pin/ls", "dag/import"]


def test_a_pin_that_ends_with_progress_is_no_success(client, server):
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(200, lines({"Progress": 1, "Bytes": 5}), headers=JSON)
    with pytest.raises(ProviderError, match="before it had all of"):
        client.pin(HELLO_CID)


def test_a_list_that_ends_within_a_line_is_an_error(client, server):
    server.reply(200, lines({"Cid": HELLO_CID}) + b'{"Cid":"bafk', headers=JSON)
    with pytest.raises(ProviderError, match="does not say"):
        client.pins()


def test_a_list_whose_connection_breaks_is_an_error(client, server):
    body = lines(*[{"Cid": HELLO_CID, "Name": "x" * 200}] * 1000)
    server.reply(200, body, headers=JSON, chunked=True, cut=len(body) // 2)
    with pytest.raises(NetworkError):
        client.pins()


def test_a_line_without_end_is_an_error(client, server):
    server.reply(200, b'{"Cid":"' + b"x" * 1_000_000, headers=JSON)
    with pytest.raises(ProviderError, match="not that of Kubo's RPC API"):
        client.pins()


def test_a_wrong_block_is_an_error(client, server):
    server.reply(200, b"not hello")
    with pytest.raises(VerificationError):
        client.download(HELLO_CID)


HTML = {"Content-Type": "text/html"}


@pytest.mark.parametrize("status", [200, 404])
def test_an_api_that_answers_html_is_an_error_with_the_remedy(server, status):
    script = lambda _: Scripted(status=status, headers=HTML, body=b"<html>Sign in</html>")  # noqa: E731
    with ScriptedServer(script) as portal:
        with Client.init(kubo_at(portal)) as client:
            for call in (
                client.test_connection,
                lambda: client.store([1]),
                lambda: client.upload(iter([b"x"])),
                client.pins,
                lambda: client.pin(HELLO_CID),
                lambda: client.revoke(HELLO_CID),
            ):
                with pytest.raises(ProviderError, match="check that pin_api_url") as caught:
                    call()
                assert caught.value.status == status


def test_the_words_of_an_error_are_kubos(client, server):
    server.reply(500, {"Message": "no space left on device", "Code": 0, "Type": "error"})
    with pytest.raises(ProviderError, match=r"^no space left on device$") as caught:
        client.test_connection()
    assert caught.value.status == 500
    assert len(server.requests) == 1  # it is not sent again


def test_denied_access_is_an_authentication_error(client, server):
    words = "Kubo RPC Access Denied: Please provide a valid authorization token"
    server.reply(403, words.encode(), headers={"Content-Type": "text/plain"})
    with pytest.raises(AuthenticationError, match=words) as caught:
        client.test_connection()
    assert caught.value.status == 403


def test_a_proxy_that_asks_for_credentials_is_an_authentication_error(client, server):
    headers = {"Content-Type": "text/html", "WWW-Authenticate": "Basic"}
    server.reply(401, b"<html>401 Authorization Required</html>", headers=headers)
    with pytest.raises(AuthenticationError, match=r"^HTTP error 401$") as caught:
        client.test_connection()
    assert caught.value.status == 401


def test_content_that_is_not_found_in_time_is_a_timeout(client, server):
    error = {"Message": "context deadline exceeded", "Code": 0, "Type": "error"}
    server.reply(500, error)
    with pytest.raises(RequestTimeoutError, match=HELLO_CID):
        client.download(HELLO_CID)
    assert "timeout=54.000s" in server.requests[0].target


def test_offline_asks_no_other_node(server):
    words = f"block was not found locally (offline): ipld: could not find {HELLO_CID}"
    server.reply(500, {"Message": words})
    config = kubo_at(server, provider_options={"offline": True})
    with Client.init(config) as client:
        with pytest.raises(NotFoundError, match=HELLO_CID):
            client.download(HELLO_CID)
    assert "offline=true" in server.requests[0].target


@pytest.mark.parametrize("options", [{"ofline": True}, {"offline": "yes"}])
def test_wrong_options_are_refused(options):
    with pytest.raises(ConfigError, match="provider_options"):
        Client.init(provider="kubo", provider_options=options)


# Versions


@pytest.mark.parametrize("server_name", ["kubo/0.36.0", "kubo/0.34.1/abc"])
def test_an_older_kubo_is_named(client, server, server_name):
    headers = {"Content-Type": "application/json", "Server": server_name}
    server.reply(500, NOT_PINNED, headers=headers)
    with pytest.raises(ProviderError, match=r"too old.*0\.37 or newer"):
        client.store([1])
    assert commands_of(server) == ["pin/ls"]


def test_an_older_kubo_behind_a_proxy_is_named_by_its_version(client, server):
    server.reply(200, {"Version": "0.30.0"})
    with pytest.raises(ProviderError, match=r"Kubo 0\.30 is too old"):
        client.test_connection()


@pytest.mark.parametrize("version", ["0.37.0", "0.99.0-dev", "1.0.0", "12.3.4-rc1"])
def test_newer_kubos_are_never_refused(client, server, version):
    server.reply(200, {"Version": version}, headers={"Server": f"kubo/{version}"})
    assert client.test_connection() is True


# What is sent


@pytest.mark.parametrize(
    ("token", "header"),
    [
        (None, None),
        (TOKEN, f"Bearer {TOKEN}"),
        ("bob:pass:word", "Basic " + base64.b64encode(b"bob:pass:word").decode()),
    ],
)
def test_the_token_is_a_bearer_token_or_a_user_with_a_password(server, token, header):
    server.reply(200, {"Version": "0.43.0"})
    with Client.init(kubo_at(server, provider_token=token)) as client:
        client.test_connection()
    first, *others = server.requests
    assert {request.headers.get("authorization") for request in server.requests} == {header}
    assert (first.method, first.target) == ("POST", "/api/v0/version")
    assert len(others) == (0 if token is None else 8)  # whether the token may do all that is needed


def test_a_token_is_tried_with_calls_that_change_nothing(server):
    server.reply(200, {"Version": "0.43.0"})
    server.reply(400, b'file argument "path" is required')
    server.reply(403, b"Kubo RPC Access Denied: no", headers={"Content-Type": "text/plain"})
    server.reply(400, b'argument "ipfs-path" is required')
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(403, b"Kubo RPC Access Denied: no", headers={"Content-Type": "text/plain"})
    config = kubo_at(server, provider_token=TOKEN, gateway_url=server.url)
    with Client.init(config) as client:
        with pytest.raises(PermissionDeniedError, match="not for dag/import, pin/rm\n") as caught:
            client.test_connection()
    assert (caught.value.status, caught.value.details) == (403, "Kubo RPC Access Denied: no")
    targets = [request.target.removeprefix("/api/v0/") for request in server.requests]
    listing = "pin/ls?arg=bafkqaaa&type=recursive"
    assert targets == ["version", "add", "dag/import", "pin/add", listing, "pin/rm"]
    assert {request.body for request in server.requests} == {b""}


def test_a_call_that_fails_in_another_way_ends_the_test_of_a_token(server):
    server.reply(200, {"Version": "0.43.0"})
    server.reply(404, b"nothing here")
    with Client.init(kubo_at(server, provider_token=TOKEN)) as client:
        with pytest.raises(ProviderError, match="not that of Kubo's RPC API"):
            client.test_connection()


@pytest.mark.parametrize(
    "echoed", ["bob:a-long-password", "a-long-password", "Ym9iOmEtbG9uZy1wYXNzd29yZA"]
)
def test_a_password_that_is_sent_back_is_masked(server, echoed):
    server.reply(500, {"Message": f"no such user: {echoed}"})
    config = kubo_at(server, provider_token="bob:a-long-password")
    with Client.init(config) as client:
        with pytest.raises(ProviderError, match=r"no such user: .*\*{8}") as caught:
            client.test_connection()
    assert echoed not in str(caught.value)
    assert "password" not in str(caught.value)


def test_the_token_never_goes_to_the_gateway(server, other_server):
    other_server.reply(200, b"hello")
    config = kubo_at(server, provider_token=TOKEN, gateway_url=other_server.url)
    with Client.init(config) as client:
        assert (client.download(HELLO_CID)).read() == b"hello"
        assert client.url(HELLO_CID) == f"{other_server.url}/ipfs/{HELLO_CID}"
    assert server.requests == []
    assert all(TOKEN not in str(dict(each.headers)) for each in other_server.requests)


def test_redirects_are_not_followed(server, other_server):
    server.reply(307, headers={"Location": other_server.url})
    with Client.init(kubo_at(server, provider_token=TOKEN)) as client:
        with pytest.raises(ProviderError, match="HTTP error 307"):
            client.test_connection()
    assert other_server.requests == []


def test_every_option_of_the_layout_is_sent(client, server):
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(200, lines({"Name": "file", "Hash": HELLO_CID, "Size": "5"}), headers=JSON)
    client.upload(b"hello", name="b c.txt")
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


def test_a_revoke_of_what_is_not_pinned_is_a_not_found_error(server):
    words = "not pinned or pinned indirectly"
    server.reply(500, {"Message": words}, headers=JSON)
    server.reply(500, {"Message": "the disk is full"}, headers=JSON)
    with Client.init(kubo_at(server)) as client:
        with pytest.raises(NotFoundError) as caught:
            client.revoke(HELLO_CID)
        assert (str(caught.value), caught.value.status) == (words, 500)
        with pytest.raises(ProviderError) as caught:
            client.revoke(HELLO_CID)
        assert type(caught.value) is ProviderError


def test_a_lost_reply_of_a_revoke_is_asked_for_again(server):
    server.reply(hang_up=True)
    server.reply(500, {"Message": "not pinned or pinned indirectly"}, headers=JSON)
    with Client.init(kubo_at(server, retries=AGAIN)) as client:
        assert client.revoke(HELLO_CID) is True


def test_a_broken_connection_is_tried_again(server):
    server.reply(hang_up=True)
    server.reply(200, b"hello")
    server.reply(hang_up=True)
    server.reply(200, lines({"Cid": HELLO_CID}), headers=JSON)
    with Client.init(kubo_at(server, retries=AGAIN)) as client:
        assert (client.download(HELLO_CID)).read() == b"hello"
        assert [pin.cid for pin in client.pins()] == [HELLO_CID]


def test_a_block_that_holds_the_token_is_read_as_it_is(server):
    """Replies are searched for the token, and masked: content never is."""
    data = f"my token is {TOKEN}".encode()
    server.reply(200, data)
    with Client.init(kubo_at(server, provider_token=TOKEN)) as client:
        assert (client.download(str(CID.of_raw(data)))).read() == data


def test_plain_http_to_another_machine_is_refused_only_with_a_token():
    address = "http://10.0.0.1:5001"
    assert ClientConfig(provider="kubo", pin_api_url=address).api_url == address
    with pytest.raises(ConfigError, match="plain HTTP"):
        ClientConfig(provider="kubo", pin_api_url=address, provider_token=TOKEN)
    ClientConfig(provider="kubo", pin_api_url=address, provider_token=TOKEN, allow_insecure=True)


def test_each_provider_has_an_address_of_its_own():
    assert ClientConfig(provider="kubo").api_url == "http://127.0.0.1:5001"
    assert ClientConfig(provider="pinning").api_url == "https://api.pinata.cloud"
