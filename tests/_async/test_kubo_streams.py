"""Streams of a real Kubo, for large files, folders and copies: each verified, and never trusted."""

import os
import shutil
from contextlib import contextmanager
from dataclasses import replace

import pytest

from holdfast import AsyncClient, compute_cid
from holdfast.content.car import CarReader
from holdfast.content.profiles import PROFILES
from holdfast.errors import NotFoundError, RequestTimeoutError, VerificationError
from holdfast.providers import AsyncKuboProvider
from holdfast.testing import Scripted, ScriptedServer, forward_to
from tests.engines import running_kubo

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
SIZE = 12_000_000  # larger than a file that is read block by block


@contextmanager
def between(kubo, change=lambda command, reply: reply):
    """A server that passes requests on to `kubo`, and changes its replies."""
    forward = forward_to(kubo.api_url)
    with ScriptedServer(lambda request: change(command_of(request), forward(request))) as server:
        yield server


def command_of(request):
    return request.target.partition("?")[0].removeprefix("/api/v0/")


def commands_of(server):
    return [command_of(request) for request in server.requests]


def flipped(body):
    return body[: len(body) // 2] + bytes([body[len(body) // 2] ^ 1]) + body[len(body) // 2 + 1 :]


# What a stream may be instead of what was asked for. An error of Kubo is in a trailer, so that the
# stream only ends too early.
FAULTS = {
    "refused": lambda _reply: Scripted(status=403, body=b"Kubo RPC Access Denied"),
    "a page": lambda _reply: Scripted(headers={"Content-Type": "text/html"}, body=b"<html>"),
    "empty": lambda reply: replace(reply, body=b""),
    "ends too early": lambda reply: replace(reply, body=reply.body[: len(reply.body) // 2]),
    "breaks off": lambda reply: replace(reply, cut=len(reply.body) // 2),
    "wrong": lambda reply: replace(reply, body=flipped(reply.body)),
    "too long": lambda reply: replace(reply, body=reply.body * 2),
}
each_fault = pytest.mark.parametrize("fault", FAULTS)
some_faults = pytest.mark.parametrize("fault", ["refused", "ends too early", "breaks off", "wrong"])


@contextmanager
def faulty(kubo, stream, fault):
    """A server in front of `kubo` whose replies to one command have a fault."""

    def change(command, reply):
        return FAULTS[fault](reply) if command == stream else reply

    with between(kubo, change) as server:
        yield server


def read(archive):
    """The roots and the blocks of an archive."""
    reader = CarReader()
    blocks = [block for piece in archive for block in reader.update(piece)]
    reader.finish()
    return reader.roots, blocks


async def exported(config, cid):
    provider = AsyncKuboProvider(config)
    try:
        return [piece async for piece in provider.export_archive(cid)]
    finally:
        await provider.aclose()


def client_of(kubo, server=None):
    """A client of `kubo`, through a server in front of it."""
    address = {} if server is None else {"pin_api_url": server.url}
    return AsyncClient.init(kubo.provider_config(**address))


@pytest.fixture
def many_files(tmp_path):
    """A folder of small files, some of them often, and a large one."""
    folder = tmp_path / "many"
    (folder / "below" / "deep").mkdir(parents=True)
    for number in range(200):
        (folder / f"{number:03}.bin").write_bytes(os.urandom(60_000))
        if number % 3 == 0:
            shutil.copy(folder / "000.bin", folder / "below" / f"{number}.bin")
        (folder / "below" / "deep" / f"{number}.txt").write_text(f"{number % 7}")
    (folder / "zz large.bin").write_bytes(os.urandom(SIZE))
    (folder / "empty").touch()
    return folder


# Large files


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_large_file_is_one_stream_and_a_few_blocks(kubo, profile):
    version = PROFILES[profile].cid_version
    data = os.urandom(SIZE)
    config = kubo.provider_config(profile=profile, cid_version=version)
    async with await AsyncClient.init(config) as client:
        record = await client.upload(data)
    with between(kubo) as server:
        async with client_of(kubo, server) as client:
            steps = []
            blob = await client.download(record.cid, progress=lambda *step: steps.append(step))
    assert blob.read() == data
    assert commands_of(server) == ["block/get", "cat"]
    assert steps[-1] == (SIZE, SIZE)
    assert steps == sorted(steps)


@each_fault
async def test_a_stream_with_a_fault_is_completed_by_blocks(kubo, fault, tmp_path):
    data = os.urandom(SIZE)
    with faulty(kubo, "cat", fault) as server:
        async with client_of(kubo, server) as client:
            record = await client.upload(data)
            await client.download(record.cid, to=tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data
    assert "cat" in commands_of(server)


async def test_wrong_bytes_and_wrong_blocks_are_an_error(kubo, tmp_path):
    data = os.urandom(SIZE)

    def change(command, reply):
        if command == "cat" or (command == "block/get" and len(reply.body) > 500_000):
            return FAULTS["wrong"](reply)
        return reply

    with between(kubo, change) as server:
        async with client_of(kubo, server) as client:
            record = await client.upload(data)
            with pytest.raises(VerificationError):
                await client.download(record.cid, to=tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", [0, 5, -1])
async def test_a_block_that_kubo_lacks_is_named(kubo, missing, tmp_path):
    """Kubo's error comes in a trailer, after a part of the file."""
    cid, leaves = add_unpinned(kubo, os.urandom(SIZE))
    kubo.call("block/rm", arg=leaves[missing])
    async with client_of(kubo) as client:
        with pytest.raises(NotFoundError, match=leaves[missing]):
            await client.download(cid, to=tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotFoundError, match=leaves[missing]):
        await exported(kubo.provider_config(), cid)


def add_unpinned(kubo, data):
    """Add a file that is not pinned; its CID, and those of its leaves."""
    options = {"cid_version": 1, "raw_leaves": True, "chunker": "size-1048576", "pin": False}
    cid = kubo.add(data, **options)
    blocks = read([kubo.call("dag/export", arg=cid, offline=True)])[1]
    return cid, [str(leaf) for leaf, _ in blocks[1:]]


# Folders


async def test_a_folder_of_many_files_is_one_archive(kubo, many_files, tmp_path):
    async with client_of(kubo) as client:
        record = await client.upload(many_files)
    with between(kubo) as server:
        async with client_of(kubo, server) as client:
            await client.download_folder(record.cid, tmp_path / "copy")
    assert compute_cid(tmp_path / "copy") == record.cid
    asked = commands_of(server)
    assert asked.count("dag/export") == 1
    assert len(asked) < 80  # of more than 400 files: the copies of one come singly


@some_faults
async def test_an_archive_with_a_fault_is_completed_by_blocks(kubo, many_files, fault, tmp_path):
    """Where a folder is downloaded, and where it is exported."""
    with faulty(kubo, "dag/export", fault) as server:
        async with client_of(kubo, server) as client:
            record = await client.upload(many_files)
            await client.download_folder(record.cid, tmp_path / "copy")
        archive = await exported(kubo.provider_config(pin_api_url=server.url), record.cid)
    assert compute_cid(tmp_path / "copy") == record.cid
    assert commands_of(server).count("dag/export") >= 2
    assert read(archive)[1] == read([kubo.call("dag/export", arg=record.cid)])[1]


# Copies


# Content of other nodes


@pytest.fixture
def two_kubos(memory_folder):
    """Two Kubos that are connected: the first has the content, the second asks for it."""

    def change(settings):
        settings["Addresses"]["Swarm"] = ["/ip4/127.0.0.1/tcp/0"]

    with (
        running_kubo(memory_folder / "one", is_online=True, change=change) as first,
        running_kubo(memory_folder / "two", is_online=True, change=change) as second,
    ):
        second.connect(first)
        yield first, second


async def test_what_another_node_has_is_read_and_pinned(two_kubos, many_files, tmp_path):
    first, second = two_kubos
    data = os.urandom(SIZE)
    async with await AsyncClient.init(first.provider_config()) as client:
        file = await client.upload(data)
        folder = await client.upload(many_files)
        other = await client.upload(os.urandom(100_000))
        unknown = await client.upload(os.urandom(100_000))
    async with await AsyncClient.init(second.provider_config()) as client:
        assert (await client.download(file.cid)).read() == data
        await client.download_folder(folder.cid, tmp_path / "copy")
        assert compute_cid(tmp_path / "copy") == folder.cid
        assert (await client.pin(other.cid, name="here")).name == "here"
    offline = second.provider_config(provider_options={"offline": True})
    async with await AsyncClient.init(offline) as client:
        assert (await client.download(other.cid)).size == 100_000
        with pytest.raises(NotFoundError):
            await client.download(unknown.cid)
    first.stop()
    config = second.provider_config(timeouts={"total": 3})
    async with await AsyncClient.init(config) as client:
        with pytest.raises(RequestTimeoutError, match=unknown.cid):
            await client.download(unknown.cid)
