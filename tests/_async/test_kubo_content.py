"""Our CIDs on a real Kubo in every profile, and content that Kubo has cut in unusual ways."""

import hashlib
import json
import os

import pytest

from holdfast import AsyncClient, compute_cid
from holdfast.content.car import CarReader
from holdfast.content.profiles import PROFILES
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.sources import open_source
from tests.content import VECTORS, make_directory
from tests.wrapping import PREFIX, PrefixedSource, size_of, unwrapped

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
each_profile = pytest.mark.parametrize("profile", PROFILES)


def config_of(kubo, profile, **changes):
    version = PROFILES[profile].cid_version
    return kubo.provider_config(profile=profile, cid_version=version, **changes)


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
async def test_files_have_our_cids_and_kubo_reads_them(kubo, profile):
    async with await AsyncClient.init(config_of(kubo, profile)) as client:
        for size in sizes_of(profile):
            data = data_of(size)
            for source in (data, iter([data[: size // 2], data[size // 2 :]])):
                record = await client.upload(source)
                assert (size, record.cid) == (size, compute_cid(data, profile=profile))
            assert kubo.call("cat", arg=record.cid) == data
            assert sum(link["Size"] for link in links_of(kubo, record.cid)) == (
                size if size > PROFILES[profile].chunk_size else 0  # a file of one block has none
            )
            check_export(kubo, record.cid)
            assert (await client.download(record.cid)).read() == data


@each_profile
async def test_kubo_gets_leaves_that_end_where_a_source_says(kubo, profile):
    data = data_of(3_000_000)
    async with await AsyncClient.init(config_of(kubo, profile)) as client:
        for plain in (data, iter([data[:9], data[9:]])):
            seen = []
            source = PrefixedSource(open_source(plain), leaf_ends=(PREFIX,))
            record = await client.upload(source, progress=lambda *each: seen.append(each))  # noqa: B023
            content = kubo.call("cat", arg=record.cid)
            assert unwrapped(content) == data
            again = open_source(content)
            again.leaf_ends = (PREFIX,)
            assert record.cid == compute_cid(again, profile=profile)
            assert [link["Size"] for link in links_of(kubo, record.cid)] == [PREFIX, len(data)]
            assert seen[-1] == (len(content), len(content))
            check_export(kubo, record.cid)
            assert (await client.download(record.cid)).read() == content


@each_profile
async def test_kubo_gets_the_new_content_of_a_mapped_folder(kubo, profile, memory_folder):
    (memory_folder / "folder").mkdir()
    (memory_folder / "folder" / "a").write_bytes(data_of(3_000_000))
    folder = FolderSource.of(memory_folder / "folder").map(PrefixedSource, size_of)
    async with await AsyncClient.init(config_of(kubo, profile)) as client:
        record = await client.upload(folder)
        copy = await client.download_folder(record.cid, memory_folder / "copy")
    assert record.cid == compute_cid(copy, profile=profile)
    assert unwrapped((copy / "a").read_bytes()) == data_of(3_000_000)


def links_of(kubo, cid, **options):
    (listed,) = json.loads(kubo.call("ls", arg=cid, **options))["Objects"]
    return listed["Links"]


def check_export(kubo, cid):
    """Kubo has all blocks of `cid`."""
    archive = CarReader()
    assert archive.update(kubo.call("dag/export", arg=cid, offline=True))
    archive.finish()
    assert [str(root) for root in archive.roots] == [cid]


@pytest.mark.parametrize("beyond", [0, 1])
async def test_a_file_of_about_one_full_node_has_our_cid(kubo, beyond, memory_folder):
    """1024 chunks of 1 MiB: zeros, so that Kubo keeps one or two of them."""
    large = memory_folder / "zeros"
    with large.open("wb") as file:
        file.truncate((1 << 30) + beyond)
    async with await AsyncClient.init(config_of(kubo, "unixfs-v1-2025")) as client:
        record = await client.upload(large)
    assert record.cid == compute_cid(large)
    check_export(kubo, record.cid)


@each_profile
@pytest.mark.parametrize("vector", VECTORS["directories"], ids=lambda vector: vector["name"])
async def test_directories_have_our_cids_and_kubo_lists_them(kubo, profile, vector, memory_folder):
    folder = make_directory(memory_folder / "folder", vector)
    cid = compute_cid(folder, profile=profile)
    async with await AsyncClient.init(config_of(kubo, profile)) as client:
        record = await client.upload(folder)
        assert record.cid == cid
        assert [pin.cid for pin in await client.pins(cid=cid)] == [cid]
    shown = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    assert sorted(link["Name"] for link in links_of(kubo, cid)) == sorted(shown)
    files = [path for path in folder.iterdir() if path.name in shown and path.is_file()]
    for path in files[:1]:
        assert kubo.call("cat", arg=f"/ipfs/{cid}/{path.name}") == path.read_bytes()
    check_export(kubo, cid)


@pytest.mark.parametrize("count", [5_000, 5_461, 5_462, 5_700])
@each_profile
async def test_a_directory_near_the_threshold_of_shards_has_our_cid(
    kubo, profile, count, memory_folder
):
    """Kubo's `add` gives such a directory another CID, whatever options it gets."""
    for number in range(count):
        (memory_folder / f"{number:010d}").touch()
    async with await AsyncClient.init(config_of(kubo, profile)) as client:
        record = await client.upload(memory_folder)
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
}


@pytest.mark.parametrize("way", ["gateway", "trustless gateway", "blocks", "stream"])
@pytest.mark.parametrize("name", UNUSUAL)
async def test_what_kubo_has_cut_in_unusual_ways_is_read(kubo, trustless_kubo, way, name):
    node = trustless_kubo if way == "trustless gateway" else kubo
    size = 6_000_000 if way == "stream" else 700_000
    data = data_of(5_000 if name == "inline" else size)
    cid = node.add(data, **{"cid_version": 1, **UNUSUAL[name]})
    address = {"gateway_url": node.gateway_url} if "gateway" in way else {}
    async with await AsyncClient.init(node.provider_config(**address)) as client:
        assert (await client.download(cid)).read() == data
        async with await client.open(cid) as file:
            file.seek(len(data) // 2)
            assert await file.read(1000) == data[len(data) // 2 :][:1000]


async def test_thousands_of_pins_are_listed_as_they_come(kubo):
    salt = os.urandom(4).hex()
    async with await AsyncClient.init(kubo.provider_config()) as client:
        for number in range(2000):
            await client.store([salt, number], name=f"{salt} {number}")
        names = {pin.name async for pin in client.iter_pins(name=salt)}
        assert names == {f"{salt} {number}" for number in range(2000)}
        # A list that is left early does no harm to what follows.
        async for _ in client.iter_pins():
            break
        assert await client.test_connection() is True


async def test_kubo_may_reply_before_the_end_of_an_upload_is_noticed(kubo, memory_folder):
    """The end is in the bytes; that no more of them follow comes later where their length is not
    known beforehand."""
    async with await AsyncClient.init(kubo.provider_config()) as client:
        for _ in range(100):
            (memory_folder / "a.txt").write_bytes(os.urandom(100))
            for given in (memory_folder, iter([os.urandom(100)])):
                record = await client.upload(given)
                assert record.duplicate is False
