"""A node of a cluster dies during writes: nothing that was acknowledged is lost."""

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Client, compute_cid
from tests.clusters import METRICS, running_cluster
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DOCUMENTS = 200
KILLED_AT = 60  # documents


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in range(20):
        (folder / f"{name}.bin").write_bytes(os.urandom(100_000))
    return folder


@pytest.mark.parametrize("number", [0, 2])
def test_a_killed_node_loses_nothing_and_catches_up(own_cluster, commands, photos, number):
    """`number` is of the node: all requests go to the first one while that lives."""
    victim = own_cluster.peers[number]
    with Client.init(own_cluster.provider_config(timeouts={"total": 30})) as client:
        documents, folder = write_while_it_dies(client, victim, photos)
        assert folder == compute_cid(photos)

        # Every read goes on, although the dead node may be the first that is asked.
        for cid, document in documents.items():
            assert client.retrieve(cid) == document
        for path in photos.iterdir():
            assert client.download(f"{folder}/{path.name}").read() == path.read_bytes()
        before = {pin.cid: pin for pin in client.pins()}
        assert set(before) == {*documents, folder}
        # The dead node is shown as such, unless the cluster has chosen another in its place.
        assert {pin.peers.get(victim.name, "replaced") for pin in before.values()} <= {
            "cluster_error",
            "replaced",
        }

        victim.start(*(peer for peer in own_cluster.peers if peer is not victim))
        names = {cid: pin.name for cid, pin in before.items()}
        # Each is asked by itself: one that was down does not know all pins at once.
        for peer in own_cluster.peers:
            with Client.init(own_cluster.provider_config(pin_api_url=peer.api_url)) as one:
                wait_until(lambda one=one: names_of_two_copies(one) == names)
        check_nodes(own_cluster, client)

    where = [f"--pin-api-url={url}" for url in own_cluster.api_urls]
    shown = commands.run("list", "--provider", "cluster", *where).stdout.decode().splitlines()
    assert Counter("  2 pinned   " in line for line in shown) == {True: DOCUMENTS + 1}
    listed = commands.rows("list", "--provider", "cluster", *where)
    assert [list(pin["peers"].values()) for pin in listed] == [["pinned"] * 2] * (DOCUMENTS + 1)


def write_while_it_dies(client, victim, photos):
    """Write documents and a folder, meanwhile kill a node; return what was acknowledged.

    All of it is: a write gets another node as soon as the cluster knows that one is gone.
    """
    may_kill = threading.Event()

    def kill():
        may_kill.wait()
        victim.stop(kill=True)

    killer = threading.Thread(target=kill)
    killer.start()
    documents = {}
    for number in range(DOCUMENTS):
        if number == KILLED_AT:
            may_kill.set()
        if number == KILLED_AT + 1:
            folder = client.upload(photos).cid
        document = {"number": number, "salt": os.urandom(8).hex()}
        documents[client.store(document, name=f"document {number}").cid] = document
    killer.join()
    return documents, folder


def test_writes_do_not_wait_until_the_cluster_notices_that_a_node_died(memory_folder):
    """It takes the dead node for alive for half a minute, and gives it new content meanwhile.

    Other writes are under way when the node dies. What only that node knew is written again.
    """
    late = dict.fromkeys(METRICS, "30s") | {"CLUSTER_MONITORPINGINTERVAL": "15s"}
    with running_cluster(memory_folder, **late) as cluster:
        config = cluster.provider_config(timeouts={"total": 10})
        with Client.init(config) as client, ThreadPoolExecutor(4) as pool:
            documents = [{"number": number, "salt": os.urandom(8).hex()} for number in range(300)]
            writes = [pool.submit(client.store, document) for document in documents]
            wait_until(writes[100].done, 60)
            cluster.peers[0].stop(kill=True)
            try:
                records = [write.result() for write in writes[:160]]
            finally:
                pool.shutdown(cancel_futures=True)
            for record in records:
                (pin,) = client.pins(cid=record.cid)
                living = {name for name, state in pin.peers.items() if state == "pinned"}
                assert living
                assert client.retrieve(record.cid) == record.data


def names_of_two_copies(client):
    return {
        pin.cid: pin.name
        for pin in client.pins()
        if list(pin.peers.values()) == ["pinned", "pinned"]
    }


def check_nodes(cluster, client):
    """Ask the nodes themselves: they have it, not only the cluster's word for it."""
    for pin in client.pins():
        for peer in cluster.peers:
            if peer.name in pin.peers:
                assert pin.cid.encode() in peer.kubo.call("pin/ls", arg=pin.cid)
