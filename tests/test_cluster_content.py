"""Our CIDs on a real cluster in every profile: files and directories, read from its nodes."""

import hashlib
import json

import pytest

from holdfast import Client, compute_cid
from holdfast.content.profiles import PROFILES
from tests.content import VECTORS, make_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
each_profile = pytest.mark.parametrize("profile", PROFILES)


def config_of(cluster, profile):
    version = PROFILES[profile].cid_version
    return cluster.provider_config(profile=profile, cid_version=version)


def sizes_of(profile):
    """Sizes around the borders of a chunk, of several chunks, and of a full node of 174."""
    chunk = PROFILES[profile].chunk_size
    around = (border + step for border in (chunk, 2 * chunk) for step in (-1, 0, 1))
    full = [174 * chunk, 174 * chunk + 1] if 174 * chunk < 100 << 20 else []
    return [0, 1, *around, *full]


def data_of(size):
    return hashlib.shake_128(b"cluster %d" % size).digest(size)


def kubos_of(cluster, pin):
    return [peer.kubo for peer in cluster.peers if peer.name in pin.peers]


@each_profile
def test_files_have_our_cids_and_the_nodes_read_them(cluster, profile):
    with Client.init(config_of(cluster, profile)) as client:
        for size in sizes_of(profile):
            data = data_of(size)
            for source in (data, iter([data[: size // 2], data[size // 2 :]])):
                record = client.upload(source)
                assert (size, record.cid) == (size, compute_cid(data, profile=profile))
            (pin,) = client.pins(cid=record.cid)
            for kubo in kubos_of(cluster, pin):
                assert kubo.call("cat", arg=record.cid, offline=True) == data


@pytest.mark.parametrize("size", [(174 << 20) + 1, (1 << 30) + 1])
def test_a_file_of_more_chunks_than_the_cluster_links_has_our_cid(cluster, memory_folder, size):
    """The cluster's own layout links 174 chunks. Zeros, so that its nodes keep one chunk."""
    large = memory_folder / "zeros"
    with large.open("wb") as file:
        file.truncate(size)
    with Client.init(config_of(cluster, "unixfs-v1-2025")) as client:
        record = client.upload(large)
        assert record.cid == compute_cid(large)
        assert client.stat(record.cid).size == size


@each_profile
@pytest.mark.parametrize(
    "vector",
    [each for each in VECTORS["directories"] if each.get("generated", {}).get("count", 0) < 6000],
    ids=lambda vector: vector["name"],
)
def test_directories_have_our_cids_and_the_nodes_list_them(cluster, profile, vector, memory_folder):
    """Flat, nested, and on both sides of the size from which on a directory is sharded."""
    folder = make_directory(memory_folder / "folder", vector)
    cid = compute_cid(folder, profile=profile)
    with Client.init(config_of(cluster, profile)) as client:
        assert client.upload(folder).cid == cid
        (pin,) = client.pins(cid=cid)
    shown = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    for kubo in kubos_of(cluster, pin):
        (listed,) = json.loads(kubo.call("ls", arg=cid, offline=True, size=False))["Objects"]
        assert sorted(link["Name"] for link in listed["Links"]) == sorted(shown)
