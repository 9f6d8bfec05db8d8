"""Our CIDs on a real Kubo and a real cluster in every profile, and what Kubo has cut otherwise."""

import hashlib
import json
import os

import pytest

from holdfast import Client, compute_cid
from holdfast.content.car import CarReader
from holdfast.content.cid import CID
from holdfast.content.hashes import BLAKE3
from holdfast.content.profiles import PROFILES
from holdfast.sources.sources import open_source
from tests.content import VECTORS, make_directory
from tests.engines import ADD_OPTIONS
from tests.wrapping import PREFIX, PrefixedSource, unwrapped

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
each_profile = pytest.mark.parametrize("profile", PROFILES)


@pytest.fixture(params=["kubo", "cluster"])
def engine(request):
    return request.getfixturevalue(request.param)


def config_of(engine, profile, **changes):
    version = PROFILES[profile].cid_version
    return engine.provider_config(profile=profile, cid_version=version, **changes)


def kubos_of(engine, pin):
    """The nodes that have a pin."""
    if pin.peers is None:
        return [engine]
    return [peer.kubo for peer in engine.peers if peer.name in pin.peers]


def sizes_of(profile):
    """Sizes around the borders of a chunk, of several chunks, and of a full node."""
    chunk, width = PROFILES[profile].chunk_size, PROFILES[profile].width
    borders = [chunk, 2 * chunk]
    if width * chunk < 100 << 20:
        borders.append(width * chunk)
    return [0, 1, *(border + step for border in borders for step in (-1, 0, 1))]


def data_of(size):
    return hashlib.shake_128(b"kubo %d" % size).digest(size)


@each_profile
def test_files_have_our_cids_and_the_nodes_read_them(engine, profile):
    with Client.init(config_of(engine, profile)) as client:
        for size in sizes_of(profile):
            data = data_of(size)
            for source in (data, iter([data[: size // 2], data[size // 2 :]])):
                record = client.upload(source)
                assert (size, record.cid) == (size, compute_cid(data, profile=profile))
            (pin,) = client.pins(cid=record.cid)
            for kubo in kubos_of(engine, pin):
                assert kubo.call("cat", arg=record.cid, offline=True) == data
                assert sum(link["Size"] for link in links_of(kubo, record.cid)) == (
                    size if size > PROFILES[profile].chunk_size else 0  # one block has no links
                )
                check_export(kubo, record.cid)
            assert client.download(record.cid).read() == data


@each_profile
def test_kubo_gets_leaves_that_end_where_a_source_says(kubo, profile):
    data = data_of(3_000_000)
    with Client.init(config_of(kubo, profile)) as client:
        for plain in (data, iter([data[:9], data[9:]])):
            seen = []
            source = PrefixedSource(open_source(plain), leaf_ends=(PREFIX,))
            record = client.upload(source, progress=lambda *sizes: seen.append(sizes))  # noqa: B023
            content = kubo.call("cat", arg=record.cid)
            assert unwrapped(content) == data
            again = open_source(content)
            again.leaf_ends = (PREFIX,)
            assert record.cid == compute_cid(again, profile=profile)
            assert [link["Size"] for link in links_of(kubo, record.cid)] == [PREFIX, len(data)]
            assert seen[-1] == (len(content), len(content))
            check_export(kubo, record.cid)
            assert client.download(record.cid).read() == content


def links_of(kubo, cid, **options):
    (listed,) = json.loads(kubo.call("ls", arg=cid, **options))["Objects"]
    return listed["Links"]


def check_export(kubo, cid):
    """Kubo has all blocks of `cid`."""
    archive = CarReader()
    assert archive.update(kubo.call("dag/export", arg=cid, offline=True))
    archive.finish()
    assert [str(root) for root in archive.roots] == [cid]


@pytest.mark.parametrize("size", [(174 << 20) + 1, 1 << 30, (1 << 30) + 1])
def test_a_file_of_more_chunks_than_a_node_links_has_our_cid(engine, memory_folder, size):
    """A cluster's own layout links 174 chunks. Zeros, so that the nodes keep one or two chunks."""
    large = memory_folder / "zeros"
    with large.open("wb") as file:
        file.truncate(size)
    with Client.init(config_of(engine, "unixfs-v1-2025")) as client:
        record = client.upload(large)
        assert record.cid == compute_cid(large)
        assert client.stat(record.cid).size == size
        for kubo in kubos_of(engine, *client.pins(cid=record.cid)):
            check_export(kubo, record.cid)


@each_profile
@pytest.mark.parametrize("vector", VECTORS["directories"], ids=lambda vector: vector["name"])
def test_directories_have_our_cids_and_the_nodes_list_them(engine, profile, vector, memory_folder):
    """Flat, nested, and on both sides of the size from which on a directory is sharded."""
    folder = make_directory(memory_folder / "folder", vector)
    cid = compute_cid(folder, profile=profile)
    with Client.init(config_of(engine, profile)) as client:
        assert client.upload(folder).cid == cid
        (pin,) = client.pins(cid=cid)
    shown = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    files = [path for path in folder.iterdir() if path.name in shown and path.is_file()]
    for kubo in kubos_of(engine, pin):
        listed = links_of(kubo, cid, offline=True, size=False)
        assert sorted(link["Name"] for link in listed) == sorted(shown)
        for path in files[:1]:
            assert kubo.call("cat", arg=f"/ipfs/{cid}/{path.name}") == path.read_bytes()
        check_export(kubo, cid)


@pytest.mark.parametrize("count", [5_000, 5_461, 5_462, 5_700])
@each_profile
def test_a_directory_near_the_threshold_of_shards_has_our_cid(kubo, profile, count, memory_folder):
    """Kubo's `add` gives such a directory another CID, whatever options it gets."""
    for number in range(count):
        (memory_folder / f"{number:010d}").touch()
    with Client.init(config_of(kubo, profile)) as client:
        record = client.upload(memory_folder)
    assert record.cid == compute_cid(memory_folder, profile=profile)
    assert len(links_of(kubo, record.cid, size=False, resolve_type=False)) == count
    check_export(kubo, record.cid)


UNUSUAL = {
    "rabin": {"chunker": "rabin-16384-65536-131072"},
    "buzhash": {"chunker": "buzhash"},
    "size-1000": {"chunker": "size-1000"},
    "trickle": {"trickle": True, "chunker": "size-10000"},
    "trickle with dag-pb leaves": {"trickle": True, "raw_leaves": False, "cid_version": 0},
    "inline": {"inline": True, "inline_limit": 100, "chunker": "size-64"},
    "raw leaves under CIDv0": {"cid_version": 0, "raw_leaves": True},
    "dag-pb leaves under CIDv1": {"raw_leaves": False},
    "mtime": {"mtime": 1_700_000_000, "mode": 0o644},
    "sha2-512": {"hash": "sha2-512"},
    "blake2b": {"hash": "blake2b-256"},
    "blake3": {"hash": "blake3"},
}


@pytest.mark.parametrize("way", ["gateway", "trustless gateway", "blocks", "stream"])
@pytest.mark.parametrize("name", UNUSUAL)
def test_what_kubo_has_cut_in_unusual_ways_is_read(kubo, trustless_kubo, way, name):
    node = trustless_kubo if way == "trustless gateway" else kubo
    size = 6_000_000 if way == "stream" else 700_000
    data = data_of(5_000 if name == "inline" else size)
    cid = node.add(data, **{"cid_version": 1, **UNUSUAL[name]})
    address = {"gateway_url": node.gateway_url} if "gateway" in way else {}
    with Client.init(node.provider_config(**address)) as client:
        assert client.download(cid).read() == data
        with client.open(cid) as file:
            file.seek(len(data) // 2)
            assert file.read(1000) == data[len(data) // 2 :][:1000]


def test_what_we_have_hashed_by_blake3_is_read_by_the_nodes(engine, tmp_path):
    """A file and a folder, whose CIDs are those that `ipfs add --hash blake3` gives."""
    data = data_of(700_000)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(data)
    profile = PROFILES["unixfs-v1-2025"].with_hash(BLAKE3)
    with (
        Client.init(path=tmp_path / "store") as store,
        Client.init(config_of(engine, "unixfs-v1-2025")) as client,
    ):
        for content, path in ((data, ""), (tmp_path / "folder", "/file")):
            cid = store.provider.repository.add(content, profile)[0].cid
            assert CID.parse(cid).hash_code == BLAKE3
            assert store.copy(cid, to=client).state == "pinned"
            (pin,) = client.pins(cid=cid)
            for kubo in kubos_of(engine, pin):
                assert kubo.call("cat", arg=f"/ipfs/{cid}{path}") == data
                if not path:
                    assert kubo.add(data, hash="blake3", **ADD_OPTIONS["unixfs-v1-2025"]) == cid
            assert client.download(f"{cid}{path}").read() == data


def test_thousands_of_pins_are_listed_as_they_come(kubo):
    salt = os.urandom(4).hex()
    with Client.init(kubo.provider_config()) as client:
        for number in range(2000):
            client.store([salt, number], name=f"{salt} {number}")
        names = {pin.name for pin in client.iter_pins(name=salt)}
        assert names == {f"{salt} {number}" for number in range(2000)}
        # A list that is left early does no harm to what follows.
        for _ in client.iter_pins():
            break
        assert client.test_connection() is True


def test_kubo_may_reply_before_the_end_of_an_upload_is_noticed(kubo, memory_folder):
    """The end is in the bytes; that no more of them follow comes later where their length is not
    known beforehand."""
    with Client.init(kubo.provider_config()) as client:
        for _ in range(100):
            (memory_folder / "a.txt").write_bytes(os.urandom(100))
            for source in (memory_folder, iter([os.urandom(100)])):
                assert client.upload(source).duplicate is False
