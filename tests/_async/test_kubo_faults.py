"""A real Kubo: its faults are typed errors, and its streams are verified and never trusted."""

import os
import shutil
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from holdfast import AsyncClient, PinProgress, compute_cid
from holdfast.content.profiles import PROFILES
from holdfast.errors import (
    AuthenticationError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RequestTimeoutError,
    VerificationError,
)
from holdfast.providers import AsyncKuboProvider
from holdfast.testing import Scripted, ScriptedServer, forward_to
from holdfast.testing.provider_cases import memory_below
from tests.content import read_archive
from tests.disks import disk
from tests.engines import running_kubo, stopped
from tests.faulty import flipped
from tests.support import NOBODY_HAS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

WRITES = ["/api/v0/add", "/api/v0/dag/import", "/api/v0/pin"]
ACCESS = {
    "alice": {"AuthSecret": "bearer:sekrit-0123", "AllowedPaths": ["/api/v0"]},
    "bob": {"AuthSecret": "basic:bob:pass-0123", "AllowedPaths": ["/api/v0"]},
    "carol": {"AuthSecret": "bearer:only-version", "AllowedPaths": ["/api/v0/version"]},
    "dan": {"AuthSecret": "bearer:only-add-0123", "AllowedPaths": ["/api/v0/add"]},
    "erin": {"AuthSecret": "bearer:no-reads-0123", "AllowedPaths": WRITES},
}


@pytest.fixture
def guarded_kubo(memory_folder):
    """A Kubo that asks for credentials."""

    def change(settings):
        settings["API"] = {"Authorizations": ACCESS}

    with running_kubo(memory_folder, change=change) as kubo:
        yield kubo


@pytest.fixture
def online_kubo(memory_folder):
    """A Kubo that asks the network, in which nobody is."""
    with running_kubo(memory_folder, is_online=True) as kubo:
        yield kubo


@pytest.fixture
def steady_kubo(memory_folder):
    """A Kubo that has the same addresses after a restart."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]

    def change(settings):
        settings["Addresses"]["API"] = f"/ip4/127.0.0.1/tcp/{port}"

    with running_kubo(memory_folder, change=change) as kubo:
        yield kubo


async def test_credentials(guarded_kubo):
    for token in ("sekrit-0123", "bob:pass-0123"):
        config = guarded_kubo.provider_config(provider_token=token)
        async with await AsyncClient.init(config) as client:
            assert await client.test_connection() is True
            record = await client.upload(token.encode(), name="x")
            assert (await client.download(record.cid)).text() == token
    for token in (None, "sekrit-0124", "bob:wrong", "Sekrit-0123"):
        config = guarded_kubo.provider_config(provider_token=token)
        async with await AsyncClient.init(config) as client:
            for call in (client.test_connection, client.pins, lambda: client.store([1])):
                with pytest.raises(AuthenticationError, match="Kubo RPC Access Denied") as caught:
                    await call()
                assert caught.value.status == 403
    config = guarded_kubo.provider_config(provider_token="only-version")
    async with await AsyncClient.init(config) as client:
        with pytest.raises(AuthenticationError):
            await client.store([1])


@pytest.mark.parametrize(
    ("token", "lacking"),
    [
        ("only-version", "add, dag/import, pin/add, pin/ls, pin/rm, block/get, cat, dag/export"),
        ("only-add-0123", "dag/import, pin/add, pin/ls, pin/rm, block/get, cat, dag/export"),
        ("no-reads-0123", "block/get, cat, dag/export"),
    ],
)
async def test_a_token_that_is_not_for_all_commands(guarded_kubo, token, lacking):
    """Kubo says the same to a wrong token and to one that may not do this."""
    async with await AsyncClient.init(guarded_kubo.provider_config(provider_token=token)) as client:
        with pytest.raises(PermissionDeniedError) as caught:
            await client.test_connection()
    error = caught.value
    assert str(error) == f"Kubo accepts the token, but not for {lacking}"
    assert (error.status, error.details[:22]) == (403, "Kubo RPC Access Denied")
    paths = ", ".join(f'"/api/v0/{command}"' for command in lacking.split(", "))
    assert error.__notes__[0].startswith(f"add {paths} to AllowedPaths of this user")


async def test_a_token_that_need_not_read(guarded_kubo):
    """What is asked has no effect, and a gateway needs no right to read."""
    admin = guarded_kubo.provider_config(provider_token="sekrit-0123")
    writer = guarded_kubo.provider_config(
        provider_token="no-reads-0123", gateway_url=guarded_kubo.gateway_url
    )
    async with await AsyncClient.init(admin) as client:
        before = await client.pins()
        assert await client.test_connection() is True
        async with await AsyncClient.init(writer) as other:
            assert await other.test_connection() is True
            record = await other.store([1, 2])
            assert await other.retrieve(record.cid) == [1, 2]
            await other.revoke(record.cid)
        assert await client.pins() == before


async def test_content_that_nobody_has_takes_bounded_time(online_kubo):
    config = online_kubo.provider_config(timeouts={"total": 6})
    async with await AsyncClient.init(config) as client:
        for call in (client.download, client.retrieve, client.open):
            with pytest.raises(RequestTimeoutError, match=NOBODY_HAS):
                await call(NOBODY_HAS)
        # Kubo may have begun its reply with progress: then it cannot say why it stopped.
        with pytest.raises((RequestTimeoutError, ProviderError), match=NOBODY_HAS):
            await client.pin(NOBODY_HAS)
        assert await client.pins(cid=NOBODY_HAS) == []


async def test_a_kubo_that_stops_answering_is_a_timeout(steady_kubo):
    config = steady_kubo.provider_config(timeouts={"read": 1, "write": 1, "total": 2})
    async with await AsyncClient.init(config) as client:
        record = await client.upload(b"known")
        with stopped(steady_kubo):
            for call in (
                client.test_connection,
                client.pins,
                lambda: client.store([1]),
                lambda: client.upload(os.urandom(30_000_000)),
                lambda: client.download(record.cid),
            ):
                with pytest.raises(RequestTimeoutError):
                    await call()
        assert (await client.download(record.cid)).read() == b"known"


def restarting(kubo, at):
    """A function for progress that kills Kubo once, when `at` bytes are sent, and starts it."""
    killed = []

    def progress(done, total):
        if done >= at and not killed:
            killed.append(done)
            kubo.stop(kill=True)
            kubo.start()

    return progress, killed


@pytest.mark.parametrize("kind", ["file", "folder"])
async def test_what_can_be_read_again_is_sent_again_to_a_kubo_that_was_killed(
    steady_kubo, tmp_path, kind
):
    top = tmp_path / "top"
    top.mkdir()
    for number in range(1 if kind == "file" else 30):
        (top / f"{number}.bin").write_bytes(os.urandom(30_000_000 if kind == "file" else 1_000_000))
    path = top / "0.bin" if kind == "file" else top
    progress, killed = restarting(steady_kubo, 10_000_000)
    config = steady_kubo.provider_config(retries={"attempts": 4})
    async with await AsyncClient.init(config) as client:
        record = await client.upload(path, progress=progress)
        assert killed
        assert record.cid == compute_cid(path)
        assert [pin.name for pin in await client.pins(cid=record.cid)] == [path.name]
        stored = record.cid if kind == "file" else f"{record.cid}/0.bin"
        assert (await client.download(stored)).read() == (top / "0.bin").read_bytes()


async def test_a_download_goes_on_after_kubo_was_killed(steady_kubo, tmp_path):
    data = os.urandom(30_000_000)
    progress, killed = restarting(steady_kubo, 10_000_000)
    config = steady_kubo.provider_config(retries={"attempts": 4})
    async with await AsyncClient.init(config) as client:
        record = await client.upload(data)
        await client.download(record.cid, to=tmp_path / "copy", progress=progress)
    assert killed
    assert (tmp_path / "copy").read_bytes() == data


async def test_a_full_disk_is_an_error_with_kubos_words(tmp_path):
    large = tmp_path / "folder" / "large.bin"
    large.parent.mkdir()
    large.write_bytes(os.urandom(80_000_000))
    with disk(tmp_path / "disk", "size=64m") as folder, running_kubo(folder) as kubo:
        async with await AsyncClient.init(kubo.provider_config()) as client:
            for content in (large, iter([large.read_bytes()]), large.parent):
                with pytest.raises(ProviderError, match="no space left on device"):
                    await client.upload(content)
            # The one pin is Kubo's own, of the empty folder.
            assert [pin.name for pin in await client.pins()] == [""]


async def test_a_large_folder_takes_little_memory(kubo, memory_folder):
    for number in range(60):
        (memory_folder / f"{number}.bin").write_bytes(os.urandom(1_000_000))
    async with await AsyncClient.init(kubo.provider_config()) as client:
        with memory_below(24 << 20):
            await client.upload(memory_folder)


async def test_what_is_acknowledged_survives_the_collection_of_garbage(steady_kubo, tmp_path):
    """Kubo collects its garbage all the time, so also between the requests of one upload."""
    over = threading.Event()

    def collect():
        while not over.is_set():
            steady_kubo.call("repo/gc", quiet=True)

    collector = threading.Thread(target=collect)
    collector.start()
    stored = {}
    try:
        async with await AsyncClient.init(steady_kubo.provider_config()) as client:
            for number in range(12):
                data = os.urandom(2_000_000)
                folder = tmp_path / str(number)
                folder.mkdir()
                (folder / "file.bin").write_bytes(data[:1_500_000])
                stored[(await client.upload(data)).cid] = data
                record = await client.upload(folder)
                stored[f"{record.cid}/file.bin"] = data[:1_500_000]
                # A stream that had no name is pinned last: it may be lost, but never silently.
                with suppress(NotFoundError):
                    stored[(await client.upload(iter([data[1_000_000:]]))).cid] = data[1_000_000:]
    finally:
        over.set()
        collector.join()
    config = steady_kubo.provider_config(provider_options={"offline": True})
    async with await AsyncClient.init(config) as client:
        for cid, data in stored.items():
            assert (await client.download(cid)).read() == data
        assert len(await client.pins(name="client-file")) >= 12


# Streams, for large files, folders and copies


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


# What a stream may be instead of what was asked for. An error of Kubo is in a trailer, so that the
# stream only ends too early.
FAULTS = {
    "refused": lambda _reply: Scripted(status=403, body=b"Kubo RPC Access Denied"),
    "a page": lambda _reply: Scripted(headers={"Content-Type": "text/html"}, body=b"<html>"),
    "empty": lambda reply: replace(reply, body=b""),
    "ends too early": lambda reply: replace(reply, body=reply.body[: len(reply.body) // 2]),
    "breaks off": lambda reply: replace(reply, cut=len(reply.body) // 2),
    "wrong": lambda reply: replace(reply, body=flipped(reply.body, len(reply.body) // 2)),
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
    blocks = read_archive([kubo.call("dag/export", arg=cid, offline=True)])[1]
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
    assert read_archive(archive)[1] == read_archive([kubo.call("dag/export", arg=record.cid)])[1]


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
        steps = []
        pin = await client.pin(other.cid, name="here", progress=steps.append)
        assert pin.name == "here"
        assert steps[-1] == PinProgress(blocks=1, bytes=100_000)
        usage = await client.usage()
        assert (usage.pins, usage.limit) == (len(await client.pins()), 10**10)
        assert usage.bytes > SIZE
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
