"""The provider for IPFS Cluster on a real one of a single peer; more tests are slow."""

import asyncio
import subprocess

import pytest
from scripts.build_engines import CLUSTER

from holdfast import AsyncClient, Client, compute_cid
from tests.clusters import running_cluster
from tests.engines import engine_path


@pytest.fixture
def small_cluster(memory_folder):
    with running_cluster(memory_folder, size=1) as cluster:
        yield cluster


def test_the_flows_of_the_spec(small_cluster, tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    config = small_cluster.provider_config()
    with Client.init(config) as client:
        assert client.test_connection() is True
        record = client.store({"hello": "world"}, name="first", keyvalues={"kind": "test"})
        assert record.cid == compute_cid(b'{"hello":"world"}')
        assert client.retrieve(record.cid) == {"hello": "world"}
        folder = client.upload(tmp_path)
        assert client.download(f"{folder.cid}/a.txt").text() == "hello"
        (pin,) = client.pins(keyvalues={"kind": "test"})
        assert (pin.cid, pin.name, pin.peers) == (record.cid, "first", {"peer0": "pinned"})
        assert client.revoke(record.cid) is True

    async def example():
        async with AsyncClient.init(config) as client:
            note = await client.send("alice", "hi")
            assert (await client.receive(note.cid)).payload == "hi"
            return await client.pins()

    assert len(asyncio.run(example())) == 2


def test_the_engine_has_the_version_that_we_name():
    version = subprocess.check_output([engine_path(CLUSTER), "version"], text=True)  # noqa: S603
    assert version == "1.1.6\n"
