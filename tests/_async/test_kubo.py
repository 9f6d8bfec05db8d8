"""The provider for Kubo, on a real Kubo: what users do with it, some of it on a cluster as well."""

import io
from dataclasses import replace

import pytest

from holdfast import AsyncClient, Pin, compute_cid
from holdfast.errors import NotFoundError, UnsupportedError, VerificationError
from holdfast.protocol.pin_api import other_version
from holdfast.records import PinInfo
from holdfast.testing import ScriptedServer, forward_to
from tests.support import NOBODY_HAS, closed_port_url


@pytest.fixture
async def client(kubo):
    async with await AsyncClient.init(kubo.provider_config()) as client:
        yield client


@pytest.fixture(params=["kubo", pytest.param("cluster", marks=pytest.mark.slow)])
def engine(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def folder(salted_folder):
    (salted_folder / 'a "b" %22\n.txt').write_bytes(b"names are bytes")
    return salted_folder


async def names_of(client, cid):
    return [pin.name for pin in await client.pins(cid=cid)]


async def test_the_flows_of_the_spec(engine, salt):
    async with await AsyncClient.init(engine.provider_config()) as client:
        assert await client.test_connection() is True
        record = await client.store({"hello": salt})
        assert record.cid == compute_cid(f'{{"hello":"{salt}"}}'.encode())
        assert record.duplicate is False
        assert await client.retrieve(record.cid) == {"hello": salt}
        assert (await names_of(client, record.cid))[0].startswith("client-1")
        file = await client.upload(salt.encode() * 100_000, name="salt.txt")
        assert file.cid == compute_cid(salt.encode() * 100_000)
        assert (await client.download(file.cid)).read() == salt.encode() * 100_000
        note = await client.send("alice", salt)
        assert (await client.receive(note.cid)).payload == salt
        assert await client.revoke(file.cid) is True
        with pytest.raises(NotFoundError, match="not pinned"):
            await client.revoke(file.cid)


@pytest.mark.parametrize("profile", ["unixfs-v1-2025", "unixfs-v0-2015", "kubo-legacy-cidv1"])
async def test_a_folder_has_the_cid_that_we_compute(engine, folder, profile, salt, tmp_path):
    config = engine.provider_config(profile=profile, cid_version=0 if "v0" in profile else 1)
    steps = []
    async with await AsyncClient.init(config) as client:
        record = await client.upload(folder, progress=lambda *step: steps.append(step))
        assert (await client.download(f"{record.cid}/2024/a.txt")).text() == salt
        assert await names_of(client, record.cid) == ["photos"]
        copy = await client.download_folder(record.cid, tmp_path / "copy", symlinks=True)
    assert record.cid == compute_cid(folder, profile=profile) == compute_cid(copy, profile=profile)
    assert steps[-1] == (record.size, record.size)
    assert steps == sorted(steps)


@pytest.mark.parametrize("way", ["blocks", "gateway"])
async def test_a_folder_is_looked_into_and_downloaded(kubo, folder, way, tmp_path):
    changes = {} if way == "blocks" else {"gateway_url": kubo.gateway_url}
    async with await AsyncClient.init(kubo.provider_config(**changes)) as client:
        record = await client.upload(folder)
        entries = {entry.name: entry for entry in await client.entries(record.cid, details=True)}
        assert {name: entry.kind for name, entry in entries.items()} == {
            'a "b" %22\n.txt': "file",
            "2024": "directory",
            "empty": "directory",
            "large.bin": "file",
            "link": "symlink",
        }
        assert entries["large.bin"].size == 3_000_000
        assert (await client.stat(f"{record.cid}/2024")).kind == "directory"
        copy = await client.download_folder(record.cid, tmp_path / "copy", symlinks=True)
    assert compute_cid(copy) == record.cid


# Names


async def test_known_content_keeps_its_name_unless_another_is_given(client, salt):
    first = await client.upload(salt.encode(), name="first")
    assert first.duplicate is False
    for again in (salt.encode(), iter([salt.encode()])):  # the CID of a stream is known at its end
        record = await client.upload(again)
        assert (record.cid, record.duplicate) == (first.cid, True)
        assert await names_of(client, first.cid) == ["first"]
    for number, again in enumerate([salt.encode(), iter([salt.encode()])]):
        await client.upload(again, name=f"name {number}")
        assert await names_of(client, first.cid) == [f"name {number}"]


async def test_a_stream_is_pinned_under_its_name(client, salt):
    record = await client.upload(iter([salt.encode()]))
    assert record.duplicate is False
    assert await names_of(client, record.cid) == ["client-file"]


async def test_a_known_folder_keeps_its_name_unless_another_is_given(client, folder):
    first = await client.upload(folder, name="first")
    again = await client.upload(folder)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert await names_of(client, first.cid) == ["first"]
    await client.upload(folder, name="second")
    assert await names_of(client, first.cid) == ["second"]


async def test_a_long_name_is_cut_if_it_is_ours_and_refused_if_it_is_yours(client, salt):
    file = io.BytesIO(salt.encode())
    file.name = "ü" * 200
    record = await client.upload(file)
    assert await names_of(client, record.cid) == ["ü" * 127]
    with pytest.raises(UnsupportedError, match="255 bytes"):
        await client.upload(b"x", name="ü" * 200)


# Pins


async def test_pins_are_found_by_name_and_cid(client, salt):
    records = [await client.store([salt, number], name=f"{salt} {number}") for number in range(3)]
    pins = {pin.cid: pin.name async for pin in client.iter_pins(name=salt)}
    assert pins == {record.cid: f"{salt} {number}" for number, record in enumerate(records)}
    assert len(await client.pins(name=salt, limit=2)) == 2
    cid = records[0].cid
    (pin,) = await client.pins(cid=cid)
    assert pin == Pin(id=cid, cid=cid, name=f"{salt} 0", size=None)
    assert await client.pins(cid=NOBODY_HAS) == []
    assert await client.pins(cid=cid, name="another") == []


async def test_either_version_of_a_cid_finds_a_pin(engine, salt):
    async with await AsyncClient.init(engine.provider_config(cid_version=0)) as client:
        record = await client.upload(salt.encode(), name="old")
        other = other_version(record.cid)
        assert [pin.cid for pin in await client.pins(cid=other)] == [record.cid]
        assert (await client.update(other, name="new")).name == "new"
        assert (await client.pin(other, name="third")).cid == record.cid
        assert await names_of(client, record.cid) == ["third"]


async def test_what_kubo_has_is_pinned_and_renamed(client, kubo, salt):
    cid = kubo.add(salt.encode(), cid_version=1, pin=False)
    assert await client.pins(cid=cid) == []
    pin = await client.pin(cid, name="by its CID")
    assert (pin.cid, pin.name, pin.state) == (cid, "by its CID", "pinned")
    assert (await client.pin(cid)).name == "by its CID"
    assert (await client.update(cid, name="renamed")).name == "renamed"
    assert await names_of(client, cid) == ["renamed"]


async def test_what_nobody_has_is_not_pinned(client):
    with pytest.raises(NotFoundError, match=NOBODY_HAS):
        await client.pin(NOBODY_HAS)
    with pytest.raises(NotFoundError, match=NOBODY_HAS):
        await client.download(NOBODY_HAS)
    with pytest.raises(NotFoundError, match="is not pinned"):
        await client.update(NOBODY_HAS, name="x")


async def test_what_kubo_cannot_keep_is_refused_before_anything_is_sent(folder):
    config = {"provider": "kubo", "pin_api_url": closed_port_url()}
    async with await AsyncClient.init(config) as client:
        for call in (
            lambda: client.store([], keyvalues={"a": 1}),
            lambda: client.upload(b"", keyvalues={"a": 1}),
            lambda: client.upload(folder, keyvalues={"a": 1}),
            lambda: client.pin(NOBODY_HAS, keyvalues={"a": 1}),
            lambda: client.update(NOBODY_HAS, keyvalues={"a": 1}),
            lambda: client.pins(keyvalues={"a": 1}),
            lambda: client.provider.import_archive(NOBODY_HAS, [], PinInfo(keyvalues={"a": 1})),
            lambda: client.pins(since=0),
            lambda: client.pins(until=0),
        ):
            with pytest.raises(UnsupportedError, match="Kubo does not store"):
                await call()
        with pytest.raises(UnsupportedError):
            client.iter_pins(since=0)


# Where Kubo is not what it should be


async def test_another_layout_than_ours_is_an_error(kubo, salt):
    """Kubo ignores an option that it does not know, and so may cut files in its own way."""
    forward = forward_to(kubo.api_url)

    def change(request):
        target = request.target.replace("chunker=size-1048576", "chunker=size-1000")
        return forward(replace(request, target=target))

    data = salt.encode() * 1000
    with ScriptedServer(change) as server:
        config = kubo.provider_config(pin_api_url=server.url)
        async with await AsyncClient.init(config) as client:
            for source in (data, iter([data])):
                with pytest.raises(VerificationError, match="not what was sent"):
                    await client.upload(source)
