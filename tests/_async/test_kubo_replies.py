"""Replies of Kubo's API that are no success, several of them with status 200, and what is sent.

At the end, what the APIs of Kubo and IPFS Cluster have in common.
"""

import base64
import json
from types import SimpleNamespace

import pytest

from holdfast import AsyncClient, ClientConfig, PinProgress, Usage
from holdfast.errors import (
    AuthenticationError,
    ConfigError,
    NetworkError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RequestTimeoutError,
)
from holdfast.testing import Scripted, ScriptedServer
from tests.support import HELLO_CID, TOKEN, all_calls, closed_port_url

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
    targets = [request.target.partition("?")[0] for request in server.requests]
    return [target.removeprefix("/api/v0/") for target in targets]


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
        ([], "does not show"),
        ([{"Stats": {"BlockCount": 1}}], "does not show"),
        ([{"Root": {"Cid": {"/": HELLO_CID}, "PinErrorMsg": ""}}], "does not show"),
        ([{"Root": {"Cid": {"/": HELLO_CID}, "PinErrorMsg": "bad"}}, {"Stats": {}}], "it: bad"),
        ([{"Root": {"Cid": {"/": HELLO_CID}}}, {"Stats": {}}], "does not show"),  # not our root
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


REPORTS = ({"Progress": 1}, {"Progress": 2, "Bytes": 5}, {"Progress": "?"}, {"Pins": [HELLO_CID]})


async def test_the_progress_of_a_pin_is_reported_as_kubo_sends_it(client, server):
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(200, lines(*REPORTS), headers=JSON)
    steps = []
    assert (await client.pin(HELLO_CID, progress=steps.append)).state == "pinned"
    assert steps[-1] == PinProgress(blocks=2, bytes=5)


async def test_a_pin_with_progress_fails_and_is_tried_again_like_any_other(server):
    steps = []
    async with await AsyncClient.init(kubo_at(server, retries=AGAIN)) as client:
        server.reply(500, NOT_PINNED, headers=JSON)
        server.reply(503)
        server.reply(200, lines(*REPORTS[:2]), headers=JSON, cut=20)
        server.reply(200, lines(*REPORTS), headers=JSON)
        await client.pin(HELLO_CID, progress=steps.append)
        server.reply(500, NOT_PINNED, headers=JSON)
        server.reply(500, {"Message": "no space left on device"}, headers=JSON)
        with pytest.raises(ProviderError, match="no space left"):
            await client.pin(HELLO_CID, progress=steps.append)
        server.reply(500, NOT_PINNED, headers=JSON)
        server.reply(200, lines({"Progress": 1}), headers=JSON)
        with pytest.raises(ProviderError, match="before it had all of"):
            await client.pin(HELLO_CID, progress=steps.append)
    assert commands_of(server)[:4] == ["pin/ls", "pin/add", "pin/add", "pin/add"]


async def test_usage_is_what_kubo_says_of_its_repository(client, server):
    server.reply(200, {"RepoSize": 123, "StorageMax": 10**10, "NumObjects": 0}, headers=JSON)
    server.reply(200, lines({"Cid": HELLO_CID, "Name": "a"}), headers=JSON)
    assert await client.usage() == Usage(pins=1, bytes=123, limit=10**10)
    server.reply(200, {"RepoSize": "many"}, headers=JSON)
    server.reply(200, b"", headers=JSON)
    assert await client.usage() == Usage(pins=0)


DENIED = "Kubo RPC Access Denied: Please provide a valid authorization token"
PLAIN = {"Content-Type": "text/plain"}
HTML = {"Content-Type": "text/html", "WWW-Authenticate": "Basic"}


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        ((500, {"Message": "no space left on device"}, JSON), ProviderError, "^no space left on"),
        ((403, DENIED.encode(), PLAIN), AuthenticationError, DENIED),
        ((401, b"<html>401</html>", HTML), AuthenticationError, r"^HTTP error 401$"),  # of a proxy
        ((307, b"", {"Location": "http://127.0.0.1:9"}), ProviderError, "^HTTP error 307$"),
    ],
)
async def test_an_error_has_the_words_of_kubo(client, server, reply, kind, words):
    status, body, headers = reply
    server.reply(status, body, headers=headers)
    with pytest.raises(kind, match=words) as caught:
        await client.test_connection()
    assert caught.value.status == status
    assert len(server.requests) == 1  # it is not sent again, and no redirect is followed


@pytest.mark.parametrize(
    ("offline", "words", "kind", "option"),
    [
        (False, "context deadline exceeded", RequestTimeoutError, "timeout=54.000s"),
        (True, "block was not found locally (offline): ipld: x", NotFoundError, "offline=true"),
        (True, "ipld: could not find bafk", NotFoundError, "offline=true"),
    ],
)
async def test_content_that_kubo_does_not_find(server, offline, words, kind, option):
    server.reply(500, {"Message": words})
    config = kubo_at(server, provider_options={"offline": offline})
    async with await AsyncClient.init(config) as client:
        with pytest.raises(kind, match=HELLO_CID):
            await client.download(HELLO_CID)
    assert option in server.requests[0].target


# Versions


@pytest.mark.parametrize("name", ["kubo/0.36.0", "kubo/0.34.1/abc"])
async def test_an_older_kubo_is_named(client, server, name):
    server.reply(500, NOT_PINNED, headers=JSON | {"Server": name})
    with pytest.raises(ProviderError, match=r"too old.*0\.37 or newer"):
        await client.store([1])
    assert commands_of(server) == ["pin/ls"]
    server.reply(200, {"Version": "0.30.0"})  # as it is behind a proxy
    with pytest.raises(ProviderError, match=r"Kubo 0\.30 is too old"):
        await client.test_connection()
    server.reply(200, {"Version": "new"})
    with pytest.raises(ProviderError, match="not that of Kubo's RPC API"):
        await client.test_connection()


@pytest.mark.parametrize("version", ["0.37.0", "0.99.0-dev", "1.0.0", "12.3.4-rc1"])
async def test_newer_kubos_are_never_refused(client, server, version):
    server.reply(200, {"Version": version}, headers={"Server": f"kubo/{version}"})
    assert await client.test_connection() is True


# What is sent


async def test_a_token_is_tried_with_calls_that_change_nothing(server):
    server.reply(200, {"Version": "0.43.0"})
    for status in (400, 403, 400):
        server.reply(status, b"Kubo RPC Access Denied: no", headers=PLAIN)
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(403, b"Kubo RPC Access Denied: no", headers=PLAIN)
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
        with pytest.raises(ProviderError, match="does not have add of Kubo's RPC API"):
            await client.test_connection()


async def test_every_option_of_the_layout_is_sent(client, server):
    server.reply(500, NOT_PINNED, headers=JSON)
    server.reply(200, lines({"Name": "file", "Hash": HELLO_CID, "Size": "5"}), headers=JSON)
    await client.upload(b"hello", name="b c.txt")
    _, query = server.requests[1].target.split("?")
    assert " ".join(sorted(query.split("&"))) == (
        "chunker=size-1048576 cid-version=1 fscache=false hash=sha2-256 inline=false "
        "max-file-links=1024 nocopy=false pin-name=b+c.txt pin=true preserve-mode=false "
        "preserve-mtime=false progress=false raw-leaves=true trickle=false "
        "wrap-with-directory=false"
    )
    assert b'filename="file"' in server.requests[1].body


async def test_a_revoke_of_what_is_not_pinned_is_a_not_found_error(server, client):
    words = "not pinned or pinned indirectly"
    server.reply(500, {"Message": words}, headers=JSON)
    server.reply(500, {"Message": "the disk is full"}, headers=JSON)
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


def test_plain_http_to_another_machine_is_refused_only_with_a_token():
    address = "http://10.0.0.1:5001"
    assert ClientConfig(provider="kubo", pin_api_url=address).api_url == address
    with pytest.raises(ConfigError, match="plain HTTP"):
        ClientConfig(provider="kubo", pin_api_url=address, provider_token=TOKEN)
    ClientConfig(provider="kubo", pin_api_url=address, provider_token=TOKEN, allow_insecure=True)


# What the API of IPFS Cluster does too


READY = {"Version": "0.43.0", "cluster_peers": ["12D3"]}
PIN = {"replication_factor_min": 2, "replication_factor_max": 3}
LINE = json.dumps({"Cid": HELLO_CID, "cid": HELLO_CID, **PIN}).encode() + b"\n"
NOT_OURS = r"check that pin_api_url is its address \(port (5001|9094)"

both = pytest.mark.parametrize("provider", ["kubo", "cluster"])


def config_of(provider, server, **changes):
    fields = {"provider": provider, "pin_api_url": server.url, "retries": {"attempts": 1}}
    return ClientConfig(**{**fields, "gateway_url": closed_port_url(), **changes})


@pytest.fixture(params=["kubo", "cluster"])
async def daemon(request, server):
    async with await AsyncClient.init(config_of(request.param, server)) as client:
        yield client


@both
@pytest.mark.parametrize("status", [200, 404, 405])
async def test_an_api_that_answers_html_is_an_error_with_the_remedy(provider, status):
    script = lambda _: Scripted(status=status, headers=HTML, body=b"<html>Sign in</html>")  # noqa: E731
    with ScriptedServer(script) as portal:
        async with await AsyncClient.init(config_of(provider, portal)) as client:
            for call in (
                client.test_connection,
                client.pins,
                lambda: client.store([1]),
                lambda: client.upload(iter([b"x"])),
                lambda: client.pins(cid=HELLO_CID),
                lambda: client.pin(HELLO_CID),
                lambda: client.update(HELLO_CID, name="x"),
                lambda: client.revoke(HELLO_CID),
            ):
                with pytest.raises(ProviderError, match=NOT_OURS) as caught:
                    await call()
                assert caught.value.status == status


@both
async def test_an_api_that_is_down_is_a_network_error(provider, tmp_path):
    (tmp_path / "a").touch()
    config = config_of(provider, SimpleNamespace(url=closed_port_url()))
    async with await AsyncClient.init(config) as client:
        for call in all_calls(client, tmp_path):
            with pytest.raises(NetworkError, match="cannot connect"):
                await call()


async def test_a_list_that_ends_within_a_line_is_an_error(daemon, server):
    server.reply(200, LINE + b'{"Cid":"bafk', headers=JSON)
    with pytest.raises(ProviderError, match=r"does not show|not that of the REST API"):
        await daemon.pins()


async def test_a_list_whose_connection_breaks_is_an_error(daemon, server):
    body = LINE * 20
    server.reply(200, body, headers=JSON, chunked=True, cut=len(body) // 2)
    with pytest.raises(NetworkError):
        await daemon.pins()


@pytest.mark.parametrize("body", [b'{"Cid":"' + b"x" * 17_000_000, LINE + b"[1]\n", b"no JSON\n"])
async def test_a_line_that_is_too_long_or_no_object_is_an_error(daemon, server, body):
    server.reply(200, body, headers=JSON)
    with pytest.raises(ProviderError, match=NOT_OURS):
        await daemon.pins()


@both
@pytest.mark.parametrize(
    ("token", "header"),
    [
        (None, None),
        (TOKEN, f"Bearer {TOKEN}"),
        ("bob:pass:word", "Basic " + base64.b64encode(b"bob:pass:word").decode()),
    ],
)
async def test_the_token_is_a_bearer_token_or_a_user_with_a_password(
    provider, server, other_server, token, header
):
    """It goes to the API, and to no gateway."""
    server.reply(200, READY, headers=JSON)
    config = config_of(provider, server, provider_token=token, gateway_url=other_server.url)
    async with await AsyncClient.init(config) as client:
        assert await client.test_connection() is True
        other_server.reply(200, b"hello")
        assert (await client.download(HELLO_CID)).read() == b"hello"
        assert client.url(HELLO_CID) == f"{other_server.url}/ipfs/{HELLO_CID}"
    assert {request.headers.get("authorization") for request in server.requests} == {header}
    assert all("authorization" not in request.headers for request in other_server.requests)


@pytest.mark.parametrize(
    ("provider", "options", "words"),
    [
        ("kubo", {"ofline": True}, "kubo takes offline, not 'ofline'"),
        ("kubo", {"offline": "yes"}, "offline must be True or False"),
        ("cluster", {"replicas": 2}, "takes replication_min, replication_max, wait, not 'repl"),
        ("cluster", {"wait": 1}, "wait must be True or False"),
        ("cluster", {"replication_min": 0}, "replication_min must be a whole number of at least 1"),
        ("cluster", {"replication_max": "2"}, "replication_max must be a whole number"),
        ("cluster", {"replication_min": True}, "replication_min must be a whole number"),
        ("cluster", {"replication_min": 3, "replication_max": 2}, "must not be larger than"),
        ("cluster", {"replication_min": -1, "replication_max": 2}, "must both be -1"),
    ],
)
async def test_wrong_options_are_refused(provider, options, words):
    with pytest.raises(ConfigError, match=f"provider_options: .*{words}"):
        await AsyncClient.init(provider=provider, provider_options=options)
