"""Proofs by real Kubo nodes: lost blocks are sent again; a gateway that fetches is no witness."""

import base64
from dataclasses import replace

import pytest

from holdfast import AsyncClient, ClientConfig
from holdfast._async.proving import AsyncProver, CopyProof, dag_cids
from holdfast.content.cid import CID
from holdfast.providers import AsyncPinProvider
from holdfast.testing import ScriptedServer
from holdfast.testing.scripted_server import Scripted, forward_to
from tests.content import stream
from tests.engines import running_kubo
from tests.support import TOKEN

LARGE = b"".join(stream("kubo proofs", 3_000_000))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def can_fetch(settings):
    settings["Addresses"]["Swarm"] = ["/ip4/127.0.0.1/tcp/0"]
    settings["Gateway"]["NoFetch"] = False


@pytest.fixture(scope="module")
def two_kubos(tmp_path_factory):
    """Two nodes that exchange blocks. The gateways of both fetch what they lack."""
    folders = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    with (
        running_kubo(folders[0], is_online=True, change=can_fetch) as first,
        running_kubo(folders[1], is_online=True, change=can_fetch) as second,
    ):
        second.connect(first)
        yield first, second


def lose(kubo, cids):
    """Delete the files of blocks while a node is stopped; its pins stay."""
    kubo.stop()
    names = {base64.b32encode(cid.key[2:]).decode().rstrip("=") for cid in cids}
    files = [path for path in (kubo.folder / "blocks").rglob("*.data") if path.stem in names]
    assert len(files) == len(names)
    for path in files:
        path.unlink()
    kubo.start()


async def blocks_of(client, cid):
    return [block async for page in dag_cids(client.provider, CID.parse(cid)) for block, _ in page]


async def test_blocks_that_kubo_has_lost_are_sent_again_and_the_name_stays(source, tmp_path):
    cid = (await source.upload(LARGE, name="mine")).cid
    with running_kubo(tmp_path / "kubo") as kubo:
        async with AsyncClient.init(kubo.provider_config()) as target:
            copied = await source.copy(cid, to=target, proof=True)
            assert (copied.proof, copied.how) == ("proven", "archive")
        lose(kubo, (await blocks_of(source, cid))[1:])
        async with AsyncClient.init(kubo.provider_config()) as target:
            assert (await source.copy(cid, to=target)).proof == "claimed"  # its list is believed
            copied = await source.copy(cid, to=target, proof=True)
            assert (copied.proof, copied.repaired, copied.name) == ("proven", True, "mine")
            assert (await target.download(cid)).read() == LARGE
            assert [pin.name for pin in await target.pins(cid=cid)] == ["mine"]


async def test_a_name_that_only_the_target_has_survives_a_repair(source, tmp_path):
    cid = source.provider.repository.add(LARGE, source.provider.profile, name="")[0].cid
    with running_kubo(tmp_path / "kubo") as kubo:
        async with AsyncClient.init(kubo.provider_config()) as target:
            await source.copy(cid, to=target)
            await target.update(cid, name="theirs")
        lose(kubo, await blocks_of(source, cid))
        async with AsyncClient.init(kubo.provider_config()) as target:
            assert (await source.copy(cid, to=target, proof=True)).repaired
            assert [pin.name for pin in await target.pins(cid=cid)] == ["theirs"]


class Service:
    """A service that lists nothing. Its content is on the Kubo of the gateway."""

    def __call__(self, request):
        assert request.target.startswith("/data/pinList")
        return Scripted(body={"count": 0, "rows": []})


def without_cache_control(url):
    """Forward requests, without the header that forbids to fetch."""
    forward = forward_to(url)

    def drop(request):
        headers = dict(request.headers)
        del headers["cache-control"]
        return forward(replace(request, headers=headers))

    return drop


async def test_a_kubo_behind_a_proxy_that_drops_cache_control_is_no_witness(two_kubos):
    first, second = two_kubos
    own = CID.parse(second.add(LARGE[:1000], cid_version=1))
    async with AsyncClient.init(first.provider_config()) as other:
        foreign = CID.parse((await other.upload(LARGE[:2000])).cid)
        with (
            ScriptedServer(Service()) as api,
            ScriptedServer(without_cache_control(second.gateway_url)) as proxy,
        ):

            async def prove(gateway):
                options = {"provider": "pinning", "provider_token": TOKEN, "pin_api_url": api.url}
                provider = AsyncPinProvider(ClientConfig(**options, witness=gateway))
                prover = AsyncProver(provider)
                try:
                    verdict = await prover.find_verdict([other.provider])
                    return verdict.reason, await prover.prove([own, foreign])
                finally:
                    await provider.aclose()

            assert await prove(second.gateway_url) == ("", CopyProof(asked=2, missing=1))
            reason, proof = await prove(proxy.url)
            assert "which AsyncPinProvider does not list" in reason
            assert (proof.state, proof.asked) == ("claimed", 0)
        await other.revoke(str(foreign))  # the second one has it now


async def test_the_rpc_of_kubo_is_a_witness_and_one_that_ignores_offline_is_none(two_kubos):
    first, second = two_kubos
    async with AsyncClient.init(first.provider_config()) as other:
        cid = (await other.upload(LARGE[:3000])).cid
        async with AsyncClient.init(second.provider_config()) as client:
            verdict = await AsyncProver(client.provider).find_verdict([other.provider])
            assert (verdict.is_good, verdict.reason) == (True, "")

        def ignore_offline(request):
            target = request.target.replace("offline=true", "timeout=5s")
            return forward_to(second.api_url)(replace(request, target=target))

        with ScriptedServer(ignore_offline) as proxy:
            config = second.provider_config(pin_api_url=proxy.url)
            async with AsyncClient.init(config) as client:
                verdict = await AsyncProver(client.provider).find_verdict([other.provider])
        assert not verdict.is_good
        assert verdict.reason.startswith("its RPC ")
        await other.revoke(cid)


async def test_a_root_that_kubo_has_as_a_part_or_as_garbage_is_no_objection(two_kubos, tmp_path):
    """A new block decides, which is stored at the other node and removed again."""
    first, second = two_kubos
    (tmp_path / "file").write_bytes(LARGE[:4000])
    config = first.provider_config(gateway_url=None)
    async with AsyncClient.init(config) as other, AsyncClient.init(second.provider_config()) as own:
        assert other.provider.is_on_network()
        before = {pin.cid for pin in await other.pins()}
        folder = await own.upload(tmp_path)
        part = (await other.upload(LARGE[:4000])).cid
        garbage = (await own.upload(LARGE[:5000])).cid
        await own.revoke(garbage)
        assert (await other.upload(LARGE[:5000])).cid == garbage
        own_blocks = [await own.provider.own_block(CID.parse(cid)) for cid in (part, garbage)]
        assert [len(block) for block in own_blocks] == [4000, 5000]
        verdict = await AsyncProver(own.provider).find_verdict([other.provider])
        assert (verdict.is_good, verdict.reason) == (True, "")

        def ignore_offline(request):
            target = request.target.replace("offline=true", "timeout=5s")
            return forward_to(second.api_url)(replace(request, target=target))

        with ScriptedServer(ignore_offline) as proxy:
            config = second.provider_config(pin_api_url=proxy.url)
            async with AsyncClient.init(config) as fetching:
                verdict = await AsyncProver(fetching.provider).find_verdict([other.provider])
        assert not verdict.is_good
        assert part not in verdict.reason
        assert garbage not in verdict.reason
        assert {pin.cid for pin in await other.pins()} == {*before, part, garbage}
        await other.revoke(part)
        await other.revoke(garbage)
        await own.revoke(folder.cid)


async def test_blocks_that_all_nodes_of_a_cluster_have_lost_are_sent_again(source, own_cluster):
    cid = (await source.upload(LARGE, name="mine")).cid
    async with AsyncClient.init(own_cluster.provider_config()) as target:
        assert (await source.copy(cid, to=target, proof=True)).proof == "proven"
        blocks = await blocks_of(source, cid)
        names = {base64.b32encode(block.key[2:]).decode().rstrip("=") for block in blocks}
        for peer in own_cluster.peers:
            files = (peer.kubo.folder / "blocks").rglob("*.data")
            peer.kubo.stop()
            for path in [path for path in files if path.stem in names]:
                path.unlink()
            peer.kubo.start()
        copied = await source.copy(cid, to=target, proof=True)
        assert (copied.proof, copied.repaired, copied.name) == ("proven", True, "mine")
        assert (await target.download(cid)).read() == LARGE
