"""The provider that only reads, through gateways and without an account."""

import pickle
from dataclasses import replace

import pytest

from holdfast import AsyncClient, AsyncPinProvider, ClientConfig
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import (
    ConfigError,
    NetworkError,
    NotFoundError,
    UnsupportedError,
    VerificationError,
)
from holdfast.providers import AsyncGatewayProvider
from holdfast.registry import writing_providers
from holdfast.sources.sources import Source
from holdfast.testing import AsyncProviderTests, Scripted, ScriptedServer
from tests._async.made_provider import AsyncMade
from tests.contract import OnTheNode
from tests.gateways import gateway, pin, pin_tree
from tests.support import GATEWAY_TOKEN, HELLO_CID, NOBODY_HAS, TOKEN, closed_port_url
from tests.witness import assert_clean, assert_clean_log, assert_no_secret_in

DOCUMENT = b'{"recipientId":"a","payload":"hi","timestamp":1}'


def fields_for(*servers, **changes):
    urls = [f"{server.url}/ipfs" for server in servers]
    return {"provider": "gateway", "gateway_url": urls, "retries": {"attempts": 1}, **changes}


@pytest.fixture
async def client(node):
    async with AsyncClient.init(provider="gateway", gateway_url=node.gateway_url) as client:
        yield client


@pytest.fixture(scope="module")
def folder_cid(node, tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder")
    (folder / "sub").mkdir()
    (folder / "sub/note.json").write_bytes(DOCUMENT)
    return pin_tree(node, folder, UNIXFS_V1_2025)


class StoringOnTheNode(AsyncGatewayProvider):
    """Stores and unpins by the pinning API of the node, so that there is something to read."""

    takes = (Source,)

    def __init__(self, config, node):
        super().__init__(config)
        self._storing = AsyncPinProvider(node.config)

    async def add(self, content, info, call, progress, /):
        return await self._storing.add(content, info, call, progress)

    async def unpin(self, cid, call, /):
        await self._storing.unpin(cid, call)

    async def aclose(self):
        await self._storing.aclose()
        await super().aclose()


@pytest.mark.slow  # the reader is that of `pinning`, which has the quick tests
class TestGateway(OnTheNode, AsyncMade, AsyncProviderTests):
    """The reading part of the contract."""

    def make(self, node):
        config = ClientConfig(provider="gateway", gateway_url=node.gateway_url)
        return StoringOnTheNode(config, node)


async def test_everything_that_reads(client, folder_cid, tmp_path, target):
    note = f"{folder_cid}/sub/note.json"
    assert (await client.retrieve(note))["payload"] == "hi"
    assert (await client.receive(note)).payload == "hi"
    assert (await client.download(note)).read() == DOCUMENT
    async with client.open(note) as file:
        file.seek(2)
        assert await file.read(3) == DOCUMENT[2:5]
    assert [entry.name for entry in await client.entries(folder_cid)] == ["sub"]
    assert (await client.stat(note)).size == len(DOCUMENT)
    to = await client.download_folder(folder_cid, tmp_path / "copy")
    assert (to / "sub/note.json").read_bytes() == DOCUMENT
    assert (await client.copy(folder_cid, to=target)).cid == folder_cid
    assert await target.retrieve(note) == await client.retrieve(note)
    assert client.url(note) == f"{client.config.gateway_url[0]}/{note}"
    with pytest.raises(NotFoundError):
        await client.retrieve(NOBODY_HAS)


async def test_everything_that_writes_names_who_can(client, target, server):
    writing = client.with_options(gateway_url=server.url)
    calls = (
        lambda: writing.store([1]),
        lambda: writing.upload(b"x"),
        lambda: writing.send("a", "hi"),
        lambda: writing.pin(HELLO_CID),
        lambda: writing.update(HELLO_CID, name="x"),
        lambda: writing.revoke(HELLO_CID),
        writing.pins,
        lambda: writing.signed_url(HELLO_CID, expires=9),
        lambda: writing.signed_upload_url(expires=9),
        lambda: target.copy(HELLO_CID, to=writing),
    )
    await target.upload(b"hello")
    for call in calls:
        with pytest.raises(UnsupportedError) as caught:
            await call()
        assert str(caught.value).endswith(
            "only reads; to store or pin, use one of local, pinning, pinata, kubo, cluster, psa, "
            "copies"
        )
    assert server.connections == 0
    assert "gateway" not in writing_providers()
    operations = ("put_json", "put_file", "pin", "find_pins", "update_pin")
    assert [name for name in operations if client.provider.supports(name)] == []


async def test_gateways_are_tried_in_order_and_a_liar_is_avoided(node):
    cid = pin(node, b"[1, 2, 3]", UNIXFS_V1_2025)
    lie = lambda kind, request, reply: replace(reply, body=b"[1, 2, 4]")  # noqa: E731
    with gateway(node, lie) as liar, gateway(node) as honest:
        async with AsyncClient.init(**fields_for(liar, honest)) as client:
            for _ in range(3):
                assert await client.retrieve(cid) == [1, 2, 3]
        assert (len(liar.requests), len(honest.requests)) == (1, 3)
        async with AsyncClient.init(**fields_for(liar)) as client:
            with pytest.raises(VerificationError):
                await client.retrieve(cid)
            unverified = client.with_options(verify=False)
            assert await unverified.retrieve(cid) == [1, 2, 4]


async def test_a_gateway_that_hangs_is_overtaken(node):
    cid = pin(node, b"[1, 2, 3]", UNIXFS_V1_2025)
    with ScriptedServer(lambda _: Scripted(delay=60)) as silent, gateway(node) as honest:
        async with AsyncClient.init(**fields_for(silent, honest, hedge_after=0.05)) as client:
            assert await client.retrieve(cid) == [1, 2, 3]


async def test_the_connection_is_tested_with_the_empty_block(server, other_server):
    server.reply(200, b"")
    async with AsyncClient.init(**fields_for(server)) as client:
        assert await client.test_connection() is True
    assert [request.target for request in server.requests] == ["/ipfs/bafkqaaa?format=raw"]
    # One that answers is enough; a page in place of the block is no gateway.
    other_server.reply(200, b"<html>Log in to the network</html>")
    server.reply(200, b"")
    async with AsyncClient.init(**fields_for(other_server, server)) as client:
        assert await client.test_connection() is True
    other_server.reply(200, b"<html>Log in to the network</html>")
    async with AsyncClient.init(**fields_for(other_server)) as client:
        with pytest.raises(VerificationError):
            await client.test_connection()
    dead = {"provider": "gateway", "gateway_url": closed_port_url(), "retries": {"attempts": 1}}
    async with AsyncClient.init(**dead) as client:
        with pytest.raises(NetworkError):
            await client.test_connection()


async def test_the_token_of_the_gateway_goes_to_the_first_one_only(server, other_server, caplog):
    caplog.set_level("DEBUG", "holdfast")
    with pytest.raises(ConfigError, match="only reads, without an account: use provider='pinning'"):
        await AsyncClient.init(provider="gateway", provider_token=TOKEN)
    fields = fields_for(server, other_server, gateway_token=GATEWAY_TOKEN)
    async with AsyncClient.init(**fields) as client:
        server.reply(404, f"no content for {GATEWAY_TOKEN}")
        other_server.reply(404, "no content")
        with pytest.raises(NotFoundError) as caught:
            await client.retrieve(HELLO_CID)
        assert_clean(repr(client) + repr(client.provider) + repr(client.config))
        assert_no_secret_in(caught.value)
        for value in (client, client.config):
            with pytest.raises(TypeError, match="pickle"):
                pickle.dumps(value)
    sent = [
        [request.headers.get("x-pinata-gateway-token") for request in peer.requests]
        for peer in (server, other_server)
    ]
    assert sent == [[GATEWAY_TOKEN], [None]]
    assert_clean_log(caplog.records)


async def test_options_repr_and_pickle(client, node, server):
    other = client.with_options(gateway_url=server.url)
    assert other.url("bafkqaaa") == f"{server.url}/ipfs/bafkqaaa"
    assert repr(other) == f"<AsyncClient: AsyncGatewayProvider at {server.url}>"
    assert pickle.loads(pickle.dumps(client.config)) == client.config  # noqa: S301
    async with AsyncClient.init(provider="gateway") as usual:
        assert usual.url("bafkqaaa") == "https://trustless-gateway.link/ipfs/bafkqaaa"
        with pytest.raises(ConfigError, match="with_options cannot change proxy"):
            usual.with_options(proxy="http://127.0.0.1:9")
