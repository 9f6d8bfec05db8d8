"""Archives (CAR) into a real Kubo: all of the content under the same CID, or nothing."""

import os

import pytest

from holdfast import AsyncClient, compute_cid
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import profile_for
from holdfast.content.unixfs.files import FileImporter
from holdfast.errors import MalformedError, NetworkError, ProviderError, UnsupportedError
from holdfast.providers import AsyncKuboProvider
from holdfast.records import PinInfo
from tests.support import closed_port_url


@pytest.fixture
async def provider(kubo):
    provider = AsyncKuboProvider(kubo.provider_config())
    yield provider
    await provider.aclose()


def blocks_of(data, profile=None):
    """The root of a file and its blocks, the root first."""
    blocks = {}
    importer = FileImporter(profile_for(profile, 1), blocks.__setitem__)
    importer.update(data)
    root = importer.finish().cid
    return root, [(root, blocks.pop(root)), *blocks.items()]


def archive_of(data, *, roots=None):
    root, blocks = blocks_of(data)
    return root, b"".join(write_car([root] if roots is None else roots, blocks))


async def pieces_of(archive, size=100_000):
    for start in range(0, len(archive), size):
        yield archive[start : start + size]


async def names_of(provider, cid):
    return [pin.name for pin in await AsyncClient(provider).pins(cid=str(cid))]


async def test_an_archive_is_stored_under_its_cid_and_name(provider):
    data = os.urandom(3_000_000)
    root, archive = archive_of(data)
    added = await provider.import_archive(str(root), pieces_of(archive), PinInfo(name="a.bin"))
    assert (added.cid, added.duplicate) == (str(root), False)
    assert await names_of(provider, root) == ["a.bin"]
    assert (await AsyncClient(provider).download(str(root))).read() == data


@pytest.mark.slow
async def test_the_name_of_a_pin_stays_unless_another_is_given(provider):
    root, archive = archive_of(os.urandom(3_000_000))
    cid = str(root)
    await provider.import_archive(cid, pieces_of(archive), PinInfo(name="first"))
    added = await provider.import_archive(cid, pieces_of(archive), PinInfo(name="ours"))
    assert added.duplicate is True
    assert await names_of(provider, root) == ["first"]
    given = PinInfo(name="second", given=True)
    assert (await provider.import_archive(cid, pieces_of(archive), given)).duplicate is True
    assert await names_of(provider, root) == ["second"]


@pytest.mark.slow
async def test_a_missing_block_is_an_error_and_nothing_is_pinned(provider):
    root, blocks = blocks_of(os.urandom(3_000_000))
    for left_out in range(len(blocks)):
        kept = [block for number, block in enumerate(blocks) if number != left_out]
        archive = b"".join(write_car([root], kept))
        with pytest.raises(ProviderError, match=f"could not pin it.*{blocks[left_out][0]}"):
            await provider.import_archive(str(root), pieces_of(archive), PinInfo(name="x"))
        assert await names_of(provider, root) == []
        # What was imported so far stays until garbage is collected: other content is needed.
        root, blocks = blocks_of(os.urandom(3_000_000))


@pytest.mark.slow
async def test_a_damaged_archive_is_an_error_and_nothing_is_pinned(provider):
    root, archive = archive_of(os.urandom(3_000_000))
    wrong = bytearray(archive)
    wrong[-1] ^= 1
    for broken, words in ((archive[:-10], "unexpected EOF"), (wrong, "mismatch in content")):
        with pytest.raises(ProviderError, match=words):
            await provider.import_archive(str(root), pieces_of(broken), PinInfo(name="x"))
        assert await names_of(provider, root) == []


@pytest.mark.slow
async def test_another_root_is_refused_before_anything_is_sent(provider):
    other = CID.of_raw(b"x")
    root, archive = archive_of(os.urandom(3_000_000))
    _, two_roots = archive_of(b"y", roots=[CID.of_raw(b"y"), other])
    _, no_roots = archive_of(b"y", roots=[])
    for given, wanted in ((archive, other), (two_roots, CID.of_raw(b"y")), (no_roots, other)):
        with pytest.raises(MalformedError, match="CAR: the root must be"):
            await provider.import_archive(str(wanted), pieces_of(given, 7), PinInfo())
        assert await names_of(provider, wanted) == []
    for given in (b"", archive[:20], b"no archive at all"):
        with pytest.raises(MalformedError, match="CAR"):
            await provider.import_archive(str(root), pieces_of(given), PinInfo())
    assert await names_of(provider, root) == []


@pytest.mark.slow
async def test_an_error_of_the_pieces_is_raised_and_nothing_is_pinned(provider):
    root, archive = archive_of(os.urandom(3_000_000))

    async def broken():
        async for piece in pieces_of(archive[:2_000_000]):
            yield piece
        raise NetworkError("the other side broke off")

    with pytest.raises(NetworkError, match="the other side broke off"):
        await provider.import_archive(str(root), broken(), PinInfo())
    assert await names_of(provider, root) == []


@pytest.mark.slow
async def test_content_inside_the_cid_is_pinned(provider):
    archive = b"".join(write_car([CID.parse("bafkqaaa")], []))
    added = await provider.import_archive("bafkqaaa", pieces_of(archive), PinInfo(name="empty"))
    assert added.cid == "bafkqaaa"
    assert await names_of(provider, "bafkqaaa") == ["empty"]
    await provider.delete("bafkqaaa")


async def test_what_kubo_cannot_keep_is_refused_before_anything_is_sent():
    config = {"provider": "kubo", "pin_api_url": closed_port_url()}
    async with await AsyncClient.init(config) as client:
        info = PinInfo(name="x", keyvalues={"a": 1})
        with pytest.raises(UnsupportedError, match="Kubo keeps no"):
            await client.provider.import_archive(compute_cid(b"x"), pieces_of(b""), info)
