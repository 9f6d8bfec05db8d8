# WARNING: this file is generated from tests/_async/test_value_copies.py
# by scripts/generate_sync.py. Change the original instead.
"""DAGs of other codecs, pinned and moved like any other: stores, services, Kubo, a cluster."""

import json

import pytest

from holdfast import Client
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.errors import UnprovenError, UnsupportedError
from holdfast.testing import Scripted, ScriptedServer
from tests._sync.test_cluster_replies import NOT_PINNED, PIN, states
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


def check(client, dag=DAG):
    """Check that a client reads everything, value by value."""
    assert client.retrieve(str(dag.cbor)) == dag.value
    assert client.retrieve(f"{dag.json}/token/name") == dag.value["name"]
    assert client.retrieve(f"{dag.plain['json']}/a/0") == 1
    assert (client.download(f"{dag.top}/json/token/image")).read() == dag.read(dag.photo)


def test_a_store_keeps_all_below_a_value_until_it_is_unpinned(local):
    fill(local)
    repository = local.provider.repository
    repository.collect_garbage()
    assert blocks_in(local) == set(DAG)
    assert list(repository.check()) == []
    check(local)
    for name in ("folder", "dag-json", "cbor", "json"):
        local.revoke(str(DAG.roots[name]))
    repository.collect_garbage()
    assert blocks_in(local) == {cid for cid, _ in DAG.depth_first(DAG.cbor)}
    local.revoke(str(DAG.cbor))
    repository.collect_garbage()
    assert blocks_in(local) == set()


def test_an_archive_that_lacks_what_a_value_links_to_is_refused(local):
    blocks = [(cid, block) for cid, block in DAG.depth_first(DAG.json) if cid != DAG.photo]
    with pytest.raises(UnprovenError, match=f"block {DAG.photo} is missing"):
        local.provider.repository.import_car([b"".join(write_car([DAG.json], blocks))])
    assert blocks_in(local) == set()


def test_values_are_copied_with_all_below_them(source, target):
    fill(source)
    copied = {outcome.result().name for outcome in source.copy_pins(to=target)}
    assert copied == set(DAG.roots)
    check(target)
    for root in DAG.roots.values():
        archive = [piece for piece in target.provider.export_archive(str(root))]
        roots, blocks = read_archive(archive)
        assert (roots, dict(blocks)) == ([root], dict(DAG.depth_first(root)))


def test_a_store_pins_values_through_a_gateway(tmp_path):
    with ScriptedServer(serving(DAG)) as server:
        url = f"{server.url}/ipfs"
        with Client.init(path=tmp_path / "store", gateway_url=url) as client:
            for root in DAG.roots.values():
                assert (client.pin(str(root))).state == "pinned"
    with Client.init(path=tmp_path / "store") as client:
        check(client)


def test_a_service_that_takes_no_archives_cannot_be_sent_a_value(source, node):
    """An upload of its bytes would have another CID, and nothing is left of it."""
    fill(source)
    with Client.init(node.config) as service:
        for root in (DAG.cbor, DAG.plain["json"]):
            with pytest.raises(UnsupportedError, match="a different CID"):
                source.copy(str(root), to=service)
        assert [pin for pin in service.iter_pins() if CID.parse(pin.cid) in DAG] == []


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


def test_a_cluster_that_cannot_read_a_codec_names_it(source):
    fill(source)
    with ScriptedServer(refusing_peer()) as server:
        options = {"pin_api_url": server.url, "retries": {"attempts": 1}}
        with Client.init(provider="cluster", **options) as target:
            with pytest.raises(UnsupportedError, match=r"codec dag-json: pin the CID"):
                source.copy(str(DAG.json), to=target)
            assert [sent.method for sent in server.requests].count("POST") == 1
            copied = source.copy(str(DAG.json), to=target, pin_by_cid=True)
    assert (copied.how, copied.cid) == ("pin", str(DAG.json))


# Real engines


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_values_go_from_a_store_to_kubo_and_back(source, target, kubo, salt):
    dag = ValueDag(salt)
    fill(source, dag)
    with Client.init(kubo.provider_config()) as client:
        assert len([outcome.result() for outcome in source.copy_pins(to=client)]) == 5
        check(client, dag)
        for root in dag.roots.values():
            assert str(root) in kubo.call("pin/ls", arg=str(root), type="recursive").decode()
            roots, blocks = read_archive([kubo.call("dag/export", arg=str(root))])
            assert (roots, dict(blocks)) == ([root], dict(dag.depth_first(root)))
            client.copy(str(root), to=target)
            assert (client.pin(str(root), wait=30)).state == "pinned"
    check(target, dag)
    content = kubo.call("cat", arg=f"/ipfs/{dag.cbor}/image")
    assert content == PHOTO + salt.encode()
    with Client.init(kubo.config()) as reader:  # through its gateway
        check(reader, dag)
        assert reader.retrieve(f"{dag.top}/cbor/files/1/size") == 1.5


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_cluster_takes_dag_cbor_and_pins_the_others_by_cid(source, target, cluster, salt):
    dag = ValueDag(salt)
    fill(source, dag)
    with Client.init(cluster.provider_config()) as client:
        assert (source.copy(str(dag.cbor), to=client)).how == "archive"
        assert client.retrieve(str(dag.cbor)) == dag.value
        for name in ("dag-json", "cbor", "json"):
            with pytest.raises(UnsupportedError, match=f"the codec {name}: pin"):
                source.copy(str(dag.roots[name]), to=client)
        with pytest.raises(UnsupportedError, match="the codec"):
            source.copy(str(dag.top), to=client)
        for root in dag.roots.values():  # now one of its nodes has them
            cluster.peers[0].kubo.import_car(dag.archive(root))
            copied = source.copy(str(root), to=client, pin_by_cid=True, wait=60)
            assert copied.state == "pinned"
        check(client, dag)
        for outcome in client.copy_pins(to=target):
            if outcome.item.cid in map(str, dag.roots.values()):
                outcome.result()
    check(target, dag)
