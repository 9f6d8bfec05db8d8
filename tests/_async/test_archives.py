"""Content as archives (CAR): out of any provider with a reader, and into the embedded store."""

import os
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from holdfast import AsyncClient, AsyncLocalProvider, AsyncPinProvider, ClientConfig
from holdfast.content.car import CarReader, write_car
from holdfast.content.cid import CID
from holdfast.errors import MalformedError, UnprovenError, VerificationError
from holdfast.records import PinInfo
from tests.content import DATA, stream
from tests.faulty import flipped
from tests.gateways import ODD_LAYOUT, config_for_all, gateway, kinds

LARGE = b"".join(stream("archives", 3_000_000))
FOLDER = DATA / "subdir-with-mixed-block-files.car"


async def pieces_of(*pieces):
    for piece in pieces:
        yield piece


async def exported(provider, cid):
    return [piece async for piece in provider.export_archive(cid)]


def read(archive):
    """The roots and the blocks of an archive."""
    reader = CarReader()
    blocks = [block for piece in archive for block in reader.update(piece)]
    reader.finish()
    return reader.roots, blocks


@asynccontextmanager
async def opened(provider):
    try:
        yield provider
    finally:
        await provider.aclose()


@pytest.fixture
async def local(tmp_path):
    async with opened(AsyncLocalProvider(ClientConfig(path=tmp_path / "store"))) as provider:
        yield provider


@pytest.fixture
async def other(tmp_path):
    async with opened(AsyncLocalProvider(ClientConfig(path=tmp_path / "other"))) as provider:
        yield provider


async def test_content_inside_the_cid_has_no_blocks(local, other):
    archive = await exported(local, "bafkqaaa")
    assert read(archive) == ([CID.parse("bafkqaaa")], [])
    added = await other.import_archive("bafkqaaa", pieces_of(*archive), PinInfo(name="empty"))
    assert (added.cid, added.duplicate) == ("bafkqaaa", False)


async def test_an_archive_of_a_pinning_service_is_one_request(node, other):
    (pin,) = node.repository.import_car([FOLDER.read_bytes()])
    events = []
    config = node.config.with_options(on_event=events.append)
    async with opened(AsyncPinProvider(config)) as provider:
        archive = await exported(provider, pin.cid)
    assert read(archive) == read(node.repository.export_car(CID.parse(pin.cid)))
    assert len([event for event in events if event.kind == "request"]) == 1
    added = await other.import_archive(pin.cid, pieces_of(*archive), PinInfo(name="folder"))
    assert added.cid == pin.cid
    (copy,) = await other.list_pins()
    assert (copy.name, copy.type, copy.size) == ("folder", "directory", pin.size)


async def test_an_import_keeps_the_name_and_the_key_values(local, other):
    record = await AsyncClient(local).upload(LARGE, name="a.bin")
    archive = await exported(local, record.cid)
    info = PinInfo(name="b.bin", keyvalues={"a": 1}, given=True)
    added = await other.import_archive(record.cid, pieces_of(*archive), info)
    assert (added.cid, added.duplicate) == (record.cid, False)
    (pin,) = await other.list_pins()
    assert (pin.name, pin.keyvalues, pin.cid) == ("b.bin", {"a": 1}, record.cid)
    assert (await AsyncClient(other).download(record.cid)).read() == LARGE
    again = PinInfo(name="c.bin", keyvalues={"b": 2}, given=True)
    added = await other.import_archive(record.cid, pieces_of(*archive), again)
    assert added.duplicate is True
    (pin,) = await other.list_pins()
    assert (pin.name, pin.keyvalues) == ("c.bin", {"a": 1, "b": 2})


def without_a_block(archive):
    roots, blocks = read([archive])
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
async def test_a_bad_archive_leaves_nothing(local, other, change, kind, words):
    cid = (await AsyncClient(local).upload(LARGE)).cid
    archive = b"".join(await exported(local, cid))
    unknown, last = str(CID.of_raw(b"x")), read([archive])[1][-1][0]
    root, archive = (unknown, archive) if change is None else (cid, change(archive))
    with pytest.raises(VerificationError) as caught:
        await other.import_archive(root, pieces_of(archive), PinInfo())
    assert type(caught.value) is kind
    assert str(caught.value) == words.format(cid=cid, last=last, other=unknown)
    assert await other.list_pins() == []
    assert other.repository.collect_garbage().blocks == 0


async def test_blocks_that_change_in_the_store_are_not_exported(local):
    data = os.urandom(300_000)
    record = await AsyncClient(local).upload(data)
    (file,) = (
        path
        for path in local.repository.path.rglob("*")
        if path.is_file() and path.stat().st_size == 300_000
    )
    file.chmod(0o600)
    file.write_bytes(data[:-1] + b"?")
    with pytest.raises(VerificationError):
        await exported(local, record.cid)


# Gateways that do not give the whole archive


async def through(server, node, pin):
    """The archive from a gateway, and the kinds of requests that it took."""
    async with opened(AsyncPinProvider(config_for_all(server))) as provider:
        archive = await exported(provider, pin.cid)
    assert read(archive) == read(node.repository.export_car(CID.parse(pin.cid)))
    return kinds(server)


async def test_a_gateway_without_archives_gives_blocks(node):
    (pin,) = node.repository.import_car([FOLDER.read_bytes()])
    with gateway(node, refuse=("car",)) as server:
        asked = await through(server, node, pin)
    assert asked[0] == "car"
    assert set(asked[1:]) == {"raw"}
    blocks = read(node.repository.export_car(CID.parse(pin.cid)))[1]
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
