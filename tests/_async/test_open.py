"""`client.open`: a file to be read anywhere in it, every part verified."""

import io
import os
import random

import pytest

from holdfast import AsyncClient
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.errors import ClientClosedError, ConfigError, NotAFileError, NotFoundError
from tests._async.reading import client_of, opened
from tests._async.spec_only import AsyncSpecOnly
from tests.gateways import ODD_LAYOUT, gateway, kinds, pin, pin_tree

DATA = os.urandom(4_300_000)
PROFILES = [UNIXFS_V1_2025, UNIXFS_V0_2015, ODD_LAYOUT]


async def check_file(file, data):
    """That `file` behaves as one with `data` in memory does."""
    same = io.BytesIO(data)
    assert file.size == len(data)
    assert file.readable()
    assert file.seekable()
    chance = random.Random(5)  # noqa: S311
    for _ in range(10):
        place = chance.randrange(len(data) + 10)
        size = chance.choice([0, 1, 100, 70_000, 300_000])
        assert file.seek(place) == same.seek(place)
        assert await file.read(size) == same.read(size)
        assert file.tell() == same.tell()
    for offset, whence in ((-10, io.SEEK_END), (-5, io.SEEK_CUR), (3, io.SEEK_CUR)):
        assert file.seek(offset, whence) == same.seek(offset, whence)
        assert await file.read(7) == same.read(7)
    for place, size in ((0, 10), (len(data) // 2, 400_000), (len(data) - 3, 10), (len(data), 1)):
        before = file.tell()
        assert await file.pread(size, place) == data[place : place + size]
        assert file.tell() == before
    with pytest.raises(ValueError, match="negative seek position"):
        await file.pread(1, -1)
    with pytest.raises(ValueError, match="negative seek position"):
        file.seek(-1)
    with pytest.raises(ValueError, match="whence"):
        file.seek(0, 7)
    file.seek(0)
    assert await file.read() == data
    assert await file.read() == b""
    assert await file.read(5) == b""


@pytest.mark.parametrize("refuse", [(), ("raw",)], ids=["blocks", "archive"])
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_a_file_behind_a_gateway(node, profile, refuse):
    cid = pin(node, DATA, profile)
    async with client_of(gateway(node, refuse=refuse)) as (client, _):
        async with await client.open(cid) as file:
            await check_file(file, DATA)
        with pytest.raises(ValueError, match="closed"):
            await file.read()


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_a_file_in_the_local_store(tmp_path, profile):
    async with await AsyncClient.init(path=tmp_path) as client:
        pinned, _ = client.provider.repository.add(DATA, profile, name="x")
        async with await client.open(pinned.cid) as file:
            await check_file(file, DATA)


async def test_only_what_is_read_is_asked_for(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    sent = []

    def count(kind, request, reply):
        sent.append(len(reply.body))
        return reply

    async with opened(gateway(node, count), cid) as (file, server):
        assert file.type == ""  # a block says nothing about the file
        file.seek(-10, io.SEEK_END)
        assert await file.read() == DATA[-10:]
    # The root block when it is opened, then the last piece.
    assert kinds(server) == ["raw", "plain"]
    assert server.requests[1].headers["range"] == f"bytes=4194304-{len(DATA) - 1}"
    assert sum(sent) < 300_000


async def test_a_gateway_without_blocks_or_archives_gives_the_whole_file_once(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    async with opened(gateway(node, refuse={"raw", "car"}), cid) as (file, server):
        await check_file(file, DATA)
    assert kinds(server).count("plain") == 1


async def test_a_file_in_a_directory_has_its_name(node, tmp_path):
    (tmp_path / "a.bin").write_bytes(DATA)
    (tmp_path / "b.bin").write_bytes(b"small")
    root = pin_tree(node, tmp_path, UNIXFS_V1_2025)
    async with client_of(gateway(node)) as (client, _):
        for name, data in (("a.bin", DATA), ("b.bin", b"small")):
            async with await client.open(f"{root}/{name}") as file:
                assert file.name == name
                assert await file.read() == data
        with pytest.raises(NotAFileError):
            await client.open(root)
        with pytest.raises(NotFoundError):
            await client.open(f"{root}/c.bin")


async def test_a_provider_that_cannot_open_says_so():
    client = AsyncClient(AsyncSpecOnly())
    with pytest.raises(ConfigError, match="SpecOnly cannot open files in parts"):
        await client.open("bafkqaaa")


LINES = b"".join(b"%d " % number * (number % 900) + b"\n" for number in range(3000)) + b"the end"


async def test_lines_are_those_of_any_file(tmp_path):
    async with await AsyncClient.init(path=tmp_path) as client:
        record = await client.upload(LINES)
        async with await client.open(record.cid) as file:
            lines = [line + b"." async for line in file]
            assert lines == [line + b"." for line in io.BytesIO(LINES)]
            assert await file.readline() == b""
            same = io.BytesIO(LINES)
            file.seek(0)
            for size in (5, 0, -1, None, 10_000, 1):
                assert await file.readline(size) == same.readline(size)
                assert file.tell() == same.tell()
        with pytest.raises(ValueError, match="closed"):
            await file.readline()


async def test_a_file_whose_client_is_closed_says_so(tmp_path):
    async with await AsyncClient.init(path=tmp_path) as client:
        record = await client.upload(LINES)
        file = await client.open(record.cid)
    with pytest.raises(ClientClosedError, match=r"^This client is closed; make a new one"):
        await file.read()


async def test_the_type_is_what_was_stored_or_what_the_name_says(tmp_path):
    async with await AsyncClient.init(path=tmp_path) as client:
        for name, data, media_type in (("a.png", b"1", "image/png"), ("b", b"2", "")):
            record = await client.upload(data, name=name)
            async with await client.open(record.cid) as file:
                assert (file.type, file.name) == (media_type, None)


async def test_a_part_over_the_edge_of_two_subtrees_is_fetched_without_them(node):
    edge = 5**3 * 100_000
    data = os.urandom(edge + 400_000)
    cid = pin(node, data, ODD_LAYOUT)
    async with opened(gateway(node), cid) as (file, server):
        file.seek(edge - 50_000)
        assert await file.read(100_000) == data[edge - 50_000 : edge + 50_000]
    (part,) = [r.headers["range"] for r in server.requests if "range" in r.headers]
    first, last = map(int, part.removeprefix("bytes=").split("-"))
    assert last - first < 3_000_000
