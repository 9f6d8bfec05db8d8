"""DAGs of other codecs, pinned and moved like any other: stores, services, Kubo, a cluster."""

import json

import pytest

from holdfast import AsyncClient
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.errors import UnprovenError, UnsupportedError
from holdfast.testing import Scripted, ScriptedServer
from tests._async.test_cluster_replies import NOT_PINNED, PIN, states
from tests.content import read_archive
from tests.folder_dags import serving
from tests.value_dags import PHOTO, ValueDag

DAG = ValueDag()


def fill(client, dag=DAG):
    """Pin every root of `dag` in a local store, under its name."""
    for name, root in dag.roots.items():
        client.provider.repository.import_car([dag.archive(root)])
        client.provider.repository.update_pin(root, name=name)


def blocks_in(client):
    return {cid for cid in DAG if client.provider.repository.has(cid)}


async def check(client, dag=DAG):
    """Check that a client reads everything, value by value."""
    assert await client.retrieve(str(dag.cbor)) == dag.value
    assert await client.retrieve(f"{dag.json}/token/name") == dag.value["name"]
    assert await client.retrieve(f"{dag.plain['json']}/a/0") == 1
    assert (await client.download(f"{dag.top}/json/token/image")).read() == dag.read(dag.photo)


async def test_a_store_keeps_all_below_a_value_until_it_is_unpinned(local):
    fill(local)
    repository = local.provider.repository
    repository.collect_garbage()
    assert blocks_in(local) == set(DAG)
    assert list(repository.check()) == []
    await check(local)
    for name in ("folder", "dag-json", "cbor", "json"):
        await local.revoke(str(DAG.roots[name]))
    repository.collect_garbage()
    assert blocks_in(local) == {cid for cid, _ in DAG.depth_first(DAG.cbor)}
    await local.revoke(str(DAG.cbor))
    repository.collect_garbage()
    assert blocks_in(local) == set()


async def test_an_archive_that_lacks_what_a_value_links_to_is_refused(local):
    blocks = [(cid, block) for cid, block in DAG.depth_first(DAG.json) if cid != DAG.photo]
    with pytest.raises(UnprovenError, match=f"block {DAG.photo} is missing"):
        local.provider.repository.import_car([b"".join(write_car([DAG.json], blocks))])
    assert blocks_in(local) == set()


async def test_values_are_copied_with_all_below_them(source, target):
    fill(source)
    copied = {outcome.result().name async for outcome in source.copy_pins(to=target)}
    assert copied == set(DAG.roots)
    await check(target)
    for root in DAG.roots.values():
        archive = [piece async for piece in target.provider.export_archive(str(root))]
        roots, blocks = read_archive(archive)
        assert (roots, dict(blocks)) == ([root], dict(DAG.depth_first(root)))


async def test_a_store_pins_values_through_a_gateway(tmp_path):
    with ScriptedServer(serving(DAG)) as server:
        url = f"{server.url}/ipfs"
        async with AsyncClient.init(path=tmp_path / "store", gateway_url=url) as client:
            for root in DAG.roots.values():
                assert (await client.pin(str(root))).state == "pinned"
    async with AsyncClient.init(path=tmp_path / "store") as client:
        await check(client)


async def test_a_service_that_takes_no_archives_cannot_be_sent_a_value(source, node):
    """An upload of its bytes would have another CID, and nothing is left of it."""
    fill(source)
    async with AsyncClient.init(node.config) as service:
        for root in (DAG.cbor, DAG.plain["json"]):
            with pytest.raises(UnsupportedError, match="a different CID"):
                await source.copy(str(root), to=service)
        assert [pin async for pin in service.iter_pins() if CID.parse(pin.cid) in DAG] == []


# IPFS Cluster takes archives of some codecs only


NO_DECODER = "could not choose a decoder: no decoder registered for multicodec code 297 (0x129)"


def refusing_peer():
    """A script of a peer that refuses archives as the real one does, and pins by CID."""
    pin = {**PIN, "cid": str(DAG.json)}
    pinned = []

    def answer(request):
        status, body = 200, pin
        if request.target.startswith("/add"):
            status, body = 500, {"code": 500, "message": NO_DECODER}
        elif request.method == "POST":
            pinned.append(request.target)
        elif request.target.startswith("/pins"):
            body = states("pinned", "pinned", cid=str(DAG.json))
        elif not pinned:
            status, body = 404, NOT_PINNED
        headers = {"Content-Type": "application/json"}
        return Scripted(status=status, body=json.dumps(body).encode(), headers=headers)

    return answer


async def test_a_cluster_that_cannot_read_a_codec_names_it(source):
    fill(source)
    with ScriptedServer(refusing_peer()) as server:
        options = {"pin_api_url": server.url, "retries": {"attempts": 1}}
        async with AsyncClient.init(provider="cluster", **options) as target:
            with pytest.raises(UnsupportedError, match=r"codec dag-json: pin the CID"):
                await source.copy(str(DAG.json), to=target)
            assert [sent.method for sent in server.requests].count("POST") == 1
            copied = await source.copy(str(DAG.json), to=target, pin_by_cid=True)
    assert (copied.how, copied.cid) == ("pin", str(DAG.json))


# Real engines


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_values_go_from_a_store_to_kubo_and_back(source, target, kubo, salt):
    dag = ValueDag(salt)
    fill(source, dag)
    async with AsyncClient.init(kubo.provider_config()) as client:
        assert len([outcome.result() async for outcome in source.copy_pins(to=client)]) == 5
        await check(client, dag)
        for root in dag.roots.values():
            assert str(root) in kubo.call("pin/ls", arg=str(root), type="recursive").decode()
            roots, blocks = read_archive([kubo.call("dag/export", arg=str(root))])
            assert (roots, dict(blocks)) == ([root], dict(dag.depth_first(root)))
            await client.copy(str(root), to=target)
            assert (await client.pin(str(root), wait=30)).state == "pinned"
    await check(target, dag)
    content = kubo.call("cat", arg=f"/ipfs/{dag.cbor}/image")
    assert content == PHOTO + salt.encode()
    async with AsyncClient.init(kubo.config()) as reader:  # through its gateway
        await check(reader, dag)
        assert await reader.retrieve(f"{dag.top}/cbor/files/1/size") == 1.5


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_cluster_takes_dag_cbor_and_pins_the_others_by_cid(source, target, cluster, salt):
    dag = ValueDag(salt)
    fill(source, dag)
    async with AsyncClient.init(cluster.provider_config()) as client:
        assert (await source.copy(str(dag.cbor), to=client)).how == "archive"
        assert await client.retrieve(str(dag.cbor)) == dag.value
        for name in ("dag-json", "cbor", "json"):
            with pytest.raises(UnsupportedError, match=f"the codec {name}: pin"):
                await source.copy(str(dag.roots[name]), to=client)
        with pytest.raises(UnsupportedError, match="the codec"):
            await source.copy(str(dag.top), to=client)
        for root in dag.roots.values():  # now one of its nodes has them
            cluster.peers[0].kubo.import_car(dag.archive(root))
            copied = await source.copy(str(root), to=client, pin_by_cid=True, wait=60)
            assert copied.state == "pinned"
        await check(client, dag)
        async for outcome in client.copy_pins(to=target):
            if outcome.item.cid in map(str, dag.roots.values()):
                outcome.result()
    await check(target, dag)
