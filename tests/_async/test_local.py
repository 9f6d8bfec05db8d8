"""The embedded provider, through the client."""

import os

import pytest

from holdfast import AsyncClient, AsyncLocalProvider, Usage, compute_cid
from holdfast.content.profiles import PROFILES
from holdfast.errors import NotFoundError, UnsupportedError
from holdfast.provider import AsyncWrappingProvider


async def test_local_is_the_default_and_needs_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    async with await AsyncClient.init() as client:
        assert isinstance(client.provider, AsyncLocalProvider)
        record = await client.store({"hello": "world"})
        assert record.cid == compute_cid(b'{"hello":"world"}')
        assert await client.retrieve(record.cid) == {"hello": "world"}
    assert (tmp_path / "holdfast").is_dir()


async def test_what_was_revoked_is_there_until_it_is_collected(local):
    data = os.urandom(3_000_000)
    record = await local.upload(data, name="a.bin")
    assert local.url(record.cid) == f"ipfs://{record.cid}"
    assert await local.revoke(record.cid) is True
    with pytest.raises(NotFoundError) as caught:
        await local.revoke(record.cid)
    assert str(caught.value) == f"The current user has not pinned the cid: {record.cid}"
    assert (await local.download(record.cid)).read() == data
    local.provider.repository.collect_garbage()
    with pytest.raises(NotFoundError, match=f"{record.cid} is not in this store"):
        await local.download(record.cid)


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_profile_decides_the_cid(tmp_path, profile):
    data = os.urandom(1_400_000)
    settings = {"profile": profile, "cid_version": PROFILES[profile].cid_version}
    async with await AsyncClient.init(path=tmp_path, **settings) as client:
        assert (await client.upload(data)).cid == compute_cid(data, profile=profile)
        assert (await client.upload(b"x")).cid == compute_cid(b"x", profile=profile)


async def test_a_name_that_is_no_text_is_kept_as_far_as_it_is(local):
    record = await local.upload(b"1", name="odd\udcff.bin")
    assert [pin.name for pin in await local.pins()] == ["odd?.bin"]
    assert [pin.cid for pin in await local.pins(name="d\udcff")] == [record.cid]


async def test_the_target_of_a_download_may_be_the_second_argument(local, tmp_path):
    record = await local.store([1, 2])
    blob = await local.download(record.cid, tmp_path / "out.json")
    assert (tmp_path / "out.json").read_bytes() == blob.read() == b"[1,2]"


async def test_the_type_of_a_file_in_a_folder_is_that_of_its_name(local, tmp_path):
    folder = tmp_path / "folder" / "inner"
    folder.mkdir(parents=True)
    for name in ("a.json", "b.html", "c"):
        (folder / name).write_bytes(b"[1]")
    record = await local.upload(folder.parent)
    await local.upload(b"[1]", name="same.txt")  # the same content under a name of its own
    for name, media_type in {
        "a.json": "application/json",
        "b.html": "text/html; charset=utf-8",
        "c": "text/plain; charset=utf-8",  # that of the content, because the name says nothing
    }.items():
        assert (await local.download(f"{record.cid}/inner/{name}")).type == media_type
        async with local.open(f"{record.cid}/inner/{name}") as file:
            assert file.type == media_type


async def test_usage_counts_pins_and_their_bytes(local):
    assert await local.usage() == Usage(pins=0, bytes=0)
    record = await local.upload(b"hello")
    await local.store([1, 2])
    wrapped = AsyncClient(AsyncWrappingProvider(local.provider))
    assert await local.usage() == await wrapped.usage() == Usage(pins=2, bytes=10)
    await local.revoke(record.cid)
    assert (await local.usage()).pins == 1


@pytest.mark.parametrize(
    "fields", [{"provider": "gateway"}, {"provider": "pinata", "provider_token": "a.b.c"}], ids=str
)
async def test_usage_that_nothing_says_is_an_error(fields):
    async with await AsyncClient.init(**fields) as client:
        with pytest.raises(UnsupportedError, match=r"does not report its usage|only reads"):
            await client.usage()
