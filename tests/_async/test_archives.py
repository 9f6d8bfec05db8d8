"""Content as archives (CAR): out of any provider with a reader, and into the embedded store."""

import hashlib
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, count, repeat

import pytest

from holdfast import AsyncClient
from holdfast.content import varint
from holdfast.content.budgets import MAX_UNRELATED
from holdfast.content.car import MAX_SECTION, write_car
from holdfast.content.cid import CID, IDENTITY, RAW
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import (
    MalformedError,
    NotAFileError,
    NotFoundError,
    RequestTimeoutError,
    UnprovenError,
    VerificationError,
)
from holdfast.protocol.gateway import CAR_TYPE
from holdfast.records import PinInfo
from holdfast.testing import Scripted, ScriptedServer
from tests._async.reading import failed_download
from tests.attackers import Attacker
from tests.content import DATA, Blocks, read_archive, stream
from tests.dags import MIB, Dag, archive_gateway, in_version_2, section
from tests.faulty import flipped, gateway_of, patient_config
from tests.folder_dags import FolderDag, serving
from tests.gateways import ODD_LAYOUT, config_for_all, gateway, kinds
from tests.support import GATEWAY_TOKEN, HELLO_CID, config_for

LARGE = b"".join(stream("archives", 3_000_000))
FOLDER = DATA / "subdir-with-mixed-block-files.car"


async def pieces_of(*pieces):
    for piece in pieces:
        yield piece


async def exported(provider, cid):
    return [piece async for piece in provider.export_archive(cid)]


async def test_content_inside_the_cid_has_no_blocks(source, target):
    archive = await exported(source.provider, "bafkqaaa")
    assert read_archive(archive) == ([CID.parse("bafkqaaa")], [])
    info = PinInfo(name="empty")
    added = await target.provider.import_archive("bafkqaaa", pieces_of(*archive), info)
    assert (added.cid, added.duplicate) == ("bafkqaaa", False)


async def test_an_archive_of_a_pinning_service_is_one_request(node, target):
    (pin,) = node.repository.import_car([FOLDER.read_bytes()])
    events = []
    config = node.config.with_options(on_event=events.append)
    async with AsyncClient.init(config) as client:
        archive = await exported(client.provider, pin.cid)
    assert read_archive(archive) == read_archive(node.repository.export_car(CID.parse(pin.cid)))
    assert len([event for event in events if event.kind == "request"]) == 1
    info = PinInfo(name="folder")
    added = await target.provider.import_archive(pin.cid, pieces_of(*archive), info)
    assert added.cid == pin.cid
    (copy,) = await target.provider.list_pins()
    assert (copy.name, copy.type, copy.size) == ("folder", "directory", pin.size)


def without_a_block(archive):
    roots, blocks = read_archive([archive])
    return b"".join(write_car(roots, blocks[:-1]))


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda archive: archive[:-10], MalformedError, "CAR: the archive is cut off"),
        (
            lambda archive: flipped(archive, len(archive) - 1),
            VerificationError,
            "the block does not match its CID {last}",
        ),
        (without_a_block, UnprovenError, "block {last} is missing"),
        (None, MalformedError, "CAR: the root must be {other}, not {cid}"),
    ],
    ids=["cut off", "a wrong block", "a missing block", "another root"],
)
async def test_a_bad_archive_leaves_nothing(source, target, change, kind, words):
    cid = (await source.upload(LARGE)).cid
    archive = b"".join(await exported(source.provider, cid))
    unknown, last = str(CID.of_raw(b"x")), read_archive([archive])[1][-1][0]
    root, archive = (unknown, archive) if change is None else (cid, change(archive))
    with pytest.raises(VerificationError) as caught:
        await target.provider.import_archive(root, pieces_of(archive), PinInfo())
    assert type(caught.value) is kind
    assert str(caught.value) == words.format(cid=cid, last=last, other=unknown)
    assert await target.provider.list_pins() == []
    assert target.provider.repository.collect_garbage().blocks == 0


# Gateways that do not give the whole archive


async def through(server, node, pin):
    """The archive from a gateway, and the kinds of requests that it took."""
    async with AsyncClient.init(config_for_all(server)) as client:
        archive = await exported(client.provider, pin.cid)
    assert read_archive(archive) == read_archive(node.repository.export_car(CID.parse(pin.cid)))
    return kinds(server)


async def test_a_gateway_without_archives_gives_blocks(node):
    (pin,) = node.repository.import_car([FOLDER.read_bytes()])
    with gateway(node, refuse=("car",)) as server:
        asked = await through(server, node, pin)
    assert asked[0] == "car"
    assert set(asked[1:]) == {"raw"}
    blocks = read_archive(node.repository.export_car(CID.parse(pin.cid)))[1]
    assert len(asked) == 1 + len(blocks)


@pytest.mark.parametrize("broken", ["cut", "wrong"])
async def test_what_an_archive_lacks_is_fetched_as_blocks(node, broken):
    pin, _ = node.repository.add(LARGE, ODD_LAYOUT)

    def change(kind, _request, reply):
        middle = len(reply.body) // 2
        body = reply.body[:middle] if broken == "cut" else flipped(reply.body, middle)
        return replace(reply, body=body) if kind == "car" else reply

    with gateway(node, change) as server:
        asked = await through(server, node, pin)
    assert asked[0] == "car"
    assert 5 < len(asked) <= (25 if broken == "cut" else 41)  # of 39 blocks
    assert set(asked[1:]) == {"raw"}


# Archives and directories that lie, or bring nothing that is needed, or too slowly (T8, T10)

# No known layout cuts a file like this, so its plain body proves nothing.
ODD_CHUNKS = replace(UNIXFS_V1_2025, chunk_size=100_000)
CONTENT = hashlib.shake_128(b"odd").digest(250_000)
ROOT, BLOCKS = Blocks.of_file(CONTENT, ODD_CHUNKS)
LEAVES = [cid for cid in BLOCKS if cid != ROOT]

GOOD = b"".join(write_car([ROOT], [(cid, BLOCKS[cid]) for cid in (ROOT, *LEAVES)]))
HEADER, SECTIONS = GOOD[: GOOD[0] + 1], GOOD[GOOD[0] + 1 :]


def archive_of(*cids):
    return b"".join(write_car([ROOT], [(cid, BLOCKS[cid]) for cid in cids]))


TINY = section(bytes(CID(1, RAW, IDENTITY, b"x")) + b"x") * 20_000
SHA1 = CID(1, RAW, 0x11, bytes(20))

BAD_ARCHIVES = {
    "section over the cap": (HEADER + varint.encode(MAX_SECTION + 1) + SECTIONS, MalformedError),
    "section cut off": (GOOD[:-1], MalformedError),
    "block is another": (flipped(GOOD, len(GOOD) - 1), VerificationError),
    "root missing": (archive_of(*LEAVES), UnprovenError),
    "child missing": (archive_of(ROOT, *LEAVES[1:]), UnprovenError),
    "many tiny blocks and nothing else": (HEADER + TINY, UnprovenError),
    "trailing bytes": (GOOD + b"trailing", MalformedError),
    "no archive at all": (b"<html>sorry</html>", MalformedError),
    "empty": (b"", MalformedError),
}

GOOD_ARCHIVES = {
    "version 2": in_version_2(GOOD),
    "every block three times": GOOD + SECTIONS * 2,
    "children before their parent": archive_of(*LEAVES, ROOT),
    "many tiny blocks before": HEADER + TINY + SECTIONS,
    "a block that is not needed, of an unknown hash": (
        HEADER + section(bytes(SHA1) + b"x") + SECTIONS
    ),
}


async def failure(server, reference, folder, kind):
    """The error that a download ends with, having left nothing at its target or on its way."""
    config = patient_config(server, gateway_token=GATEWAY_TOKEN, cache_path=folder / "cache")
    async with await AsyncClient.init(config) as client:
        error = await failed_download(client, reference, folder, kind, within=50)
    assert list((folder / "cache").rglob("*.part")) == []
    assert type(error) is kind
    return error


@pytest.mark.parametrize(("archive", "kind"), BAD_ARCHIVES.values(), ids=BAD_ARCHIVES)
async def test_a_bad_archive_ends_a_download_and_leaves_nothing(tmp_path, archive, kind):
    with ScriptedServer(archive_gateway(archive, CONTENT)) as server:
        await failure(server, str(ROOT), tmp_path, kind)
    # The plain body, a block and the archive, each once: what is wrong stays wrong.
    forms = [request.target.partition("format=")[2][:3] for request in server.requests]
    assert forms == ["", "raw", "car"]


@pytest.mark.parametrize("archive", GOOD_ARCHIVES.values(), ids=GOOD_ARCHIVES)
async def test_an_unusual_archive_is_read(tmp_path, archive):
    with ScriptedServer(archive_gateway(archive, CONTENT)) as server:
        async with await AsyncClient.init(patient_config(server)) as client:
            await client.download(str(ROOT), to=tmp_path / "file")
        assert len(server.requests) == 3
    assert (tmp_path / "file").read_bytes() == CONTENT


# T10: what stands under a name of a directory


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        ("link", NotAFileError, "{link} is a symbolic link, not a file"),
        ("link/x", NotFoundError, "{link} is not a directory"),
        ("twice/a/x", MalformedError, "{twice}: a directory with a doubled name"),
    ],
)
async def test_a_path_leads_through_no_link_and_no_doubled_name(tmp_path, path, kind, words):
    dag = FolderDag()
    leaf, link = dag.file(b"hello"), dag.link("dir")
    folder = dag.folder(x=leaf)
    twice = dag.folder(("a", leaf), ("a", folder))
    root = dag.folder(("dir", folder), ("link", link), ("twice", twice))
    with ScriptedServer(serving(dag, kinds=("raw",))) as server:
        error = await failure(server, f"{root}/{path}", tmp_path, kind)
    assert words.format(link=link, twice=twice) in str(error)


@pytest.mark.parametrize("cache", ["cache", "victim"], ids=["by the cache", "beside the target"])
async def test_a_symbolic_link_at_the_target_is_replaced_and_not_followed(server, tmp_path, cache):
    victim, target = tmp_path / "victim", tmp_path / "target"
    victim.write_bytes(b"precious")
    target.symlink_to(victim)
    server.reply(200, b"hello")
    # Where a file is in the place of the cache folder, the download lies beside its target.
    async with await AsyncClient.init(config_for(server, cache_path=tmp_path / cache)) as client:
        await client.download(HELLO_CID, to=target)
    assert not target.is_symlink()
    assert (target.read_bytes(), victim.read_bytes()) == (b"hello", b"precious")


# Archives and open files that bring nothing that is needed, or too slowly


@asynccontextmanager
async def client_of(archive, **options):
    """A client of a gateway that sends the pieces of an archive, and refuses everything else."""

    refused = [b"HTTP/1.1 406 No\r\nContent-Length: 0\r\n\r\n"]
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {CAR_TYPE}\r\n\r\n".encode()
    replies = chain([refused, chain([head], archive)], repeat(refused))
    with Attacker(partial(next, replies)) as attacker:
        async with await AsyncClient.init(config_for(attacker, **options)) as client:
            yield client, attacker


def small_file():
    """A DAG of two blocks, its root, and the archive of the root alone."""
    dag = Dag()
    root = dag.inner((dag.raw(b"x"), 1))
    return dag, str(root), b"".join(write_car([], [(root, dag.blocks[root])]))


def with_unrelated(archive, size, pause=0.0):
    """An archive, and then blocks that nothing links to, without an end."""
    yield archive
    for number in count():
        time.sleep(pause)
        block = number.to_bytes(4, "big") * (size // 4)
        yield section(CID.of_raw(block), block)


@pytest.mark.parametrize("size", [4, MIB])
@pytest.mark.slow
async def test_an_archive_of_endless_unrelated_blocks_is_given_up(size):
    _, root, archive = small_file()
    async with client_of(with_unrelated(archive, size)) as (client, attacker):
        with pytest.raises(UnprovenError, match="bytes of blocks that the file does not need"):
            await client.download(root)
    assert attacker.sent < MAX_UNRELATED + 16 * MIB  # buffers of the sockets, too


@pytest.mark.slow
async def test_a_drip_of_unrelated_blocks_ends_after_the_time_for_a_read():
    _, root, archive = small_file()
    read = 1.2  # a machine that stalls must not look like an attacker that says nothing
    begun = time.monotonic()
    drip = with_unrelated(archive, 8, read / 40)
    async with client_of(drip, timeouts={"read": read}) as (client, _):
        with pytest.raises(RequestTimeoutError, match=r"nothing that .* needs in time"):
            await client.download(root)
    assert time.monotonic() - begun < 15


async def test_an_archive_that_comes_slowly_is_read_to_its_end():
    """The bytes of a block that is wanted count, also before it is whole."""
    dag = Dag()
    root = dag.inner((dag.raw(bytes(100_000)), 100_000))
    archive = dag.archive()

    def slow():
        for start in range(0, len(archive), 10_000):
            time.sleep(0.15)
            yield archive[start : start + 10_000]
        raise OSError

    async with client_of(slow(), timeouts={"read": 1.2}) as (client, _):
        assert (await client.download(str(root))).read() == bytes(100_000)


async def test_what_follows_a_file_in_its_archive_does_not_matter():
    dag, root, _ = small_file()
    async with client_of(with_unrelated(dag.archive(), MIB)) as (client, _):
        assert (await client.download(root)).read() == b"x"


async def test_blocks_that_an_archive_repeats_are_not_unrelated():
    """As for a file of zeros from a gateway that sends a block for every link to it."""
    dag = Dag()
    zeros, end = dag.raw(bytes(MIB)), dag.raw(b"end")
    repeats = MAX_UNRELATED // MIB + 4
    root = dag.inner(*[(zeros, MIB)] * repeats, (end, 3))
    order = [root, *[zeros] * repeats, end]
    archive = b"".join(write_car([], [(cid, dag.blocks[cid]) for cid in order]))
    with ScriptedServer(archive_gateway(archive)) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            assert (await client.download(str(root))).size == repeats * MIB + 3


async def test_each_range_of_an_open_file_has_its_total():
    data = bytes(range(256)) * 12_000
    root, blocks = Blocks.of_file(data, UNIXFS_V1_2025)
    slow = []

    def part(request):
        start, stop = map(int, request.headers["range"].removeprefix("bytes=").split("-"))
        headers = {"Content-Range": f"bytes {start}-{stop}/{len(data)}"}
        body = data[start : stop + 1]
        return Scripted(status=206, body=body, headers=headers, drip=0.01 if slow else 0)

    with ScriptedServer(gateway_of(blocks, part)) as server:
        config = config_for(server, timeouts={"read": 5, "total": 1.5})
        async with await AsyncClient.init(config) as client, await client.open(str(root)) as file:
            slow.append(True)
            begun = time.monotonic()
            with pytest.raises(RequestTimeoutError):
                await file.read(10)
            assert time.monotonic() - begun < 6
            slow.clear()
            assert await file.read(10) == data[:10]


@pytest.mark.parametrize("way", ["block", "body"])
async def test_a_file_that_is_opened_whole_has_the_total_too(way):
    data = bytes(100_000)
    root = CID.of_raw(data) if way == "block" else Blocks.of_file(data * 20, UNIXFS_V1_2025)[0]
    with ScriptedServer(gateway_of({}, lambda _: Scripted(body=data, drip=0.01))) as server:
        config = config_for(server, timeouts={"read": 5, "total": 0.6})
        begun = time.monotonic()
        async with await AsyncClient.init(config) as client:
            with pytest.raises(RequestTimeoutError):
                await client.open(str(root))
        assert time.monotonic() - begun < 12
