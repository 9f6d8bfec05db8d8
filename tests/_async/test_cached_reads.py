"""The cache of verified blocks on disk: what is read again is not asked for again."""

import os
import random
from dataclasses import replace
from functools import partial

import pytest

from holdfast import AsyncClient
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.errors import NetworkError, VerificationError
from holdfast.testing import Scripted, ScriptedServer
from tests.faulty import flipped
from tests.gateways import ODD_LAYOUT, config_for_all, gateway, kind_of, kinds, pin, pin_tree
from tests.support import closed_port_url, config_for

DATA = random.Random(7).randbytes(3_300_000)  # noqa: S311
PROFILES = [UNIXFS_V1_2025, UNIXFS_V0_2015, ODD_LAYOUT]
LENGTH = len(DATA)
CACHE = 16 << 20


def cached_files(folder):
    return [path for path in (folder / "blocks").rglob("*") if path.is_file()]


@pytest.fixture
def config(tmp_path):
    return partial(config_for, cache_path=tmp_path, cache_bytes=CACHE)


async def read(config, cid, start=0, stop=LENGTH):
    async with await AsyncClient.init(config) as client, await client.open(cid) as file:
        file.seek(start)
        return await file.read(stop - start)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_what_was_read_is_not_asked_for_again(node, config, profile):
    cid = pin(node, DATA, profile)
    with gateway(node) as server:
        assert await read(config(server), cid, 100_000, 900_000) == DATA[100_000:900_000]
        assert set(kinds(server)) == {"raw"}
        before = len(server.requests)
        assert await read(config(server), cid, 150_000, 400_000) == DATA[150_000:400_000]
        assert kinds(server)[before:] == []
        assert await read(config(server), cid) == DATA
        assert len(kinds(server)[before:]) > 0


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("data", [b"", b"hello"], ids=["empty", "small"])
async def test_a_small_file_is_read_without_a_network(node, config, profile, data):
    cid = pin(node, data, profile)
    with gateway(node) as server:
        assert await read(config(server), cid) == data
        away = config(server).with_options(gateway_url=closed_port_url())
    assert await read(away, cid) == data
    with pytest.raises(NetworkError):
        await read(away.with_options(cache_bytes=0), cid)


@pytest.mark.parametrize(
    ("cache_bytes", "refuse"), [(0, ()), (CACHE, ("raw", "car"))], ids=["no size", "no blocks"]
)
async def test_without_a_size_or_blocks_nothing_is_kept(node, tmp_path, cache_bytes, refuse):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    with gateway(node, refuse=refuse) as server:
        config = config_for(server, cache_path=tmp_path, cache_bytes=cache_bytes)
        assert await read(config, cid) == DATA
    assert cached_files(tmp_path) == []


async def test_a_wrong_block_is_not_kept(node, config, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)

    def lie(kind, request, reply):
        return replace(reply, body=flipped(reply.body, len(reply.body) // 2))

    with gateway(node, lie) as liar:
        with pytest.raises(VerificationError):
            await read(config(liar), cid)
        assert cached_files(tmp_path) == []
        with gateway(node) as honest:
            both = config_for_all(liar, honest, cache_path=tmp_path, cache_bytes=CACHE)
            assert await read(both, cid) == DATA


@pytest.mark.parametrize("damage", ["changed", "cut", "empty", "long"])
async def test_a_damaged_file_is_removed_and_its_block_fetched_again(
    node, config, tmp_path, damage
):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    with gateway(node) as server:
        await read(config(server), cid)
        files = cached_files(tmp_path)
        for path in files:
            block = path.read_bytes()
            wrong = {
                "changed": flipped(block, len(block) - 1),
                "cut": block[:-1],
                "empty": b"",
                "long": block + bytes(5 << 20),
            }
            path.write_bytes(wrong[damage])
        before = len(server.requests)
        assert await read(config(server), cid) == DATA
        assert len(kinds(server)[before:]) == len(files)
        assert sorted(cached_files(tmp_path)) == sorted(files)
        before = len(server.requests)
        assert await read(config(server), cid) == DATA
        assert kinds(server)[before:] == []


async def test_a_folder_that_cannot_be_used_is_no_obstacle(node, tmp_path, caplog):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    (tmp_path / "blocks").write_text("not a folder")
    with gateway(node) as server:
        config = config_for(server, cache_path=tmp_path, cache_bytes=CACHE)
        assert await read(config, cid) == DATA
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert warning.message.startswith("the cache of blocks cannot be used: ")


async def test_a_file_of_one_block_that_is_too_large_for_one(config, tmp_path):
    data = os.urandom(3 << 20)
    types = {"raw": "application/vnd.ipld.raw", "plain": "text/plain"}

    def script(request):
        return Scripted(body=data, headers={"Content-Type": types[kind_of(request)]})

    with ScriptedServer(script) as server:
        assert await read(config(server), str(CID.of_raw(data)), 0, len(data)) == data
    assert cached_files(tmp_path) == []


async def test_a_path_is_followed_through_cached_directories(node, config, tmp_path):
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner/a.txt").write_bytes(b"hello")
    (folder / "inner/b.txt").write_bytes(b"world")
    root = pin_tree(node, folder, UNIXFS_V1_2025)
    with gateway(node) as server:
        assert await read(config(server), f"{root}/inner/a.txt") == b"hello"
        assert kinds(server) == ["raw", "raw", "raw"]
        before = len(server.requests)
        assert await read(config(server), f"{root}/inner/b.txt") == b"world"
        assert await read(config(server), f"{root}/inner/a.txt") == b"hello"
        assert kinds(server)[before:] == ["raw"]
