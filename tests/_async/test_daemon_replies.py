"""What the APIs of Kubo and IPFS Cluster have in common: bad replies, tokens, options."""

import base64
import json
from types import SimpleNamespace

import pytest

from holdfast import AsyncClient, ClientConfig
from holdfast.errors import ConfigError, NetworkError, ProviderError
from holdfast.testing import Scripted, ScriptedServer
from tests.support import HELLO_CID, TOKEN, all_calls, closed_port_url

JSON = {"Content-Type": "application/json"}
HTML = {"Content-Type": "text/html"}
READY = {"Version": "0.43.0", "cluster_peers": ["12D3"]}
PIN = {"replication_factor_min": 2, "replication_factor_max": 3}
LINE = json.dumps({"Cid": HELLO_CID, "cid": HELLO_CID, **PIN}).encode() + b"\n"
NOT_OURS = r"check that pin_api_url is its address \(port (5001|9094)"

both = pytest.mark.parametrize("provider", ["kubo", "cluster"])


def config_of(provider, server, **changes):
    fields = {"provider": provider, "pin_api_url": server.url, "retries": {"attempts": 1}}
    return ClientConfig(**{**fields, "gateway_url": closed_port_url(), **changes})


@pytest.fixture(params=["kubo", "cluster"])
async def client(request, server):
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


async def test_a_list_that_ends_within_a_line_is_an_error(client, server):
    server.reply(200, LINE + b'{"Cid":"bafk', headers=JSON)
    with pytest.raises(ProviderError, match=r"does not say|not that of the REST API"):
        await client.pins()


async def test_a_list_whose_connection_breaks_is_an_error(client, server):
    body = LINE * 20
    server.reply(200, body, headers=JSON, chunked=True, cut=len(body) // 2)
    with pytest.raises(NetworkError):
        await client.pins()


@pytest.mark.parametrize("body", [b'{"Cid":"' + b"x" * 2_000_000, LINE + b"[1]\n", b"no JSON\n"])
async def test_a_line_that_is_too_long_or_no_object_is_an_error(client, server, body):
    server.reply(200, body, headers=JSON)
    with pytest.raises(ProviderError, match=NOT_OURS):
        await client.pins()


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
