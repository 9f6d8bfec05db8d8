"""The provider for v3 with a real node: uploads, private files, links, and keys with few scopes."""

import urllib.error
import urllib.request
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from holdfast import AsyncClient, compute_cid
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.errors import NotFoundError, PermissionDeniedError
from holdfast.node.settings import NodeToken
from holdfast.providers import AsyncPinataProvider
from holdfast.testing import running_node
from tests.pinata import KIB_256, PROFILES, SIZES_AROUND_NODES

READ_ONLY, V3_ONLY, OLDER_ONLY = "read-only-key", "v3-only-key", "older-only-key"


def of_v3(node, *, token=None, **options):
    changes = {"provider": "pinata", "provider_options": options}
    return node.config.with_options(
        **changes, **({} if token is None else {"provider_token": token})
    )


@pytest.fixture(scope="module")
def keys_node():
    """A node with keys of few scopes."""
    older = frozenset({"pinJSONToIPFS", "pinFileToIPFS", "unpin"})
    tokens = (
        NodeToken(token=READ_ONLY, scopes=frozenset({"org:files:read"})),
        NodeToken(token=V3_ONLY, scopes=frozenset({"org:files:write"})),
        NodeToken(token=OLDER_ONLY, scopes=older),
    )
    with running_node(tokens=tokens) as node:
        yield node


@pytest.fixture(params=["public", "private"])
async def v3_client(request, empty_node):
    async with AsyncClient.init(of_v3(empty_node, network=request.param)) as client:
        yield client


async def test_everything_comes_back(v3_client):
    value = await v3_client.store({"name": "Zoë", "n": 1e-7}, keyvalues={"n": 1})
    assert value.cid == compute_cid('{"name":"Zoë","n":1e-07}'.encode())
    assert await v3_client.retrieve(value.cid) == {"name": "Zoë", "n": 1e-7}
    note = await v3_client.send("alice", "hi")
    assert (await v3_client.receive(note.cid)).payload == "hi"
    file = await v3_client.upload(b"hello", name="hello.txt")
    assert (await v3_client.download(file.cid)).read() == b"hello"
    assert [pin.cid for pin in await v3_client.pins()] == [file.cid, note.cid, value.cid]
    assert [pin.cid for pin in await v3_client.pins(keyvalues={"n": 1})] == [value.cid]
    assert await v3_client.test_connection()


async def test_pins_are_changed_and_removed(v3_client):
    record = await v3_client.upload(b"hello", name="draft.txt", keyvalues={"draft": True})
    again = await v3_client.upload(b"hello", name="final.txt")
    assert (record.duplicate, again.duplicate) == (False, True)
    pin = await v3_client.update(record.cid, keyvalues={"draft": None, "n": 2})
    assert (pin.name, pin.keyvalues) == ("final.txt", {"n": "2"})
    assert await v3_client.pins() == [pin]
    assert await v3_client.revoke(record.cid)
    assert await v3_client.pins() == []
    with pytest.raises(NotFoundError, match="is not pinned"):
        await v3_client.revoke(record.cid)


async def test_the_networks_are_apart(empty_node):
    async with (
        AsyncClient.init(of_v3(empty_node, network="private")) as private,
        AsyncClient.init(of_v3(empty_node)) as public,
    ):
        record = await private.upload(b"only for us")
        assert await public.pins() == []
        with pytest.raises(NotFoundError):
            await public.download(record.cid)
        with pytest.raises(NotFoundError, match="not pinned in the public network"):
            await public.revoke(record.cid)
        assert (await private.download(record.cid)).read() == b"only for us"


async def test_folders_are_public(empty_node, tmp_path):
    (tmp_path / "album").mkdir()
    (tmp_path / "album/kelp.txt").write_bytes(b"kelp")
    async with AsyncClient.init(of_v3(empty_node)) as client:
        album = await client.upload(tmp_path / "album")
        assert [entry.name for entry in await client.entries(album.cid)] == ["kelp.txt"]
        assert (await client.download(f"{album.cid}/kelp.txt")).read() == b"kelp"
        assert [pin.name for pin in await client.pins()] == ["album"]


async def test_pin_by_cid_waits_for_the_content(empty_node):
    async with AsyncClient.init(of_v3(empty_node)) as client:
        record = await client.upload(b"hello")
        assert (await client.pin(record.cid, name="x")).name == "x"
        pin = await client.pin(compute_cid(b"nobody has this"))
        assert pin.state in {"queued", "pinning"}


def get(url):
    with urllib.request.urlopen(url) as response:  # noqa: S310 - a node of our own
        return response.read()


async def test_a_signed_url_needs_no_key_and_expires(empty_node):
    async with AsyncClient.init(of_v3(empty_node, network="private")) as client:
        record = await client.upload(b"only for friends")
        link = await client.signed_url(record.cid, expires=3600)
        assert get(link) == b"only for friends"
        for wrong in (link.partition("?")[0], link[:-1] + ("0" if link[-1] != "0" else "1")):
            with pytest.raises(urllib.error.HTTPError):
                get(wrong)


@pytest.mark.parametrize("network", ["public", "private"])
async def test_a_link_for_uploads_needs_no_key(empty_node, network):
    body = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n'
        b"Content-Type: text/plain\r\n\r\nhello\r\n--x--\r\n"
    )
    async with AsyncClient.init(of_v3(empty_node, network=network)) as client:
        link = await client.signed_upload_url(expires=60, max_bytes=5, types=["text/*"])
        assert urlsplit(link).netloc == urlsplit(empty_node.api_url).netloc
        request = urllib.request.Request(  # noqa: S310 - a node of our own
            link, body, {"Content-Type": "multipart/form-data; boundary=x"}
        )
        get(request)
        (pin,) = await client.pins()
        assert (await client.download(pin.cid)).read() == b"hello"
        request.data = body.replace(b"hello", b"hello!")
        with pytest.raises(urllib.error.HTTPError):
            get(request)


@pytest.mark.parametrize(
    ("token", "lacking"),
    [(READ_ONLY, "org:files:write"), (OLDER_ONLY, "org:files:read and org:files:write")],
)
async def test_the_permission_that_a_key_lacks_is_named(keys_node, token, lacking):
    async with AsyncClient.init(of_v3(keys_node, token=token)) as client:
        with pytest.raises(PermissionDeniedError) as caught:
            await client.test_connection()
    assert caught.value.__notes__ == [f"give a key with the permission {lacking}"]
    assert keys_node.repository.pins() == []


async def test_a_key_for_v3_is_refused_by_the_older_provider_alone(keys_node):
    config = keys_node.config.with_options(provider_token=V3_ONLY)
    async with AsyncClient.init(config) as client:
        assert await client.test_connection()
        with pytest.raises(PermissionDeniedError) as caught:
            await client.store(1)
    assert 'use provider="pinata"' in caught.value.__notes__[0]
    async with AsyncClient.init(of_v3(keys_node, token=V3_ONLY)) as client:
        record = await client.store({"v": 3})
        assert await client.retrieve(record.cid) == {"v": 3}
        assert await client.revoke(record.cid)


@pytest.mark.slow  # files of 45 MiB and more
@pytest.mark.parametrize("network", ["public", "private"])
@pytest.mark.parametrize("version", [0, 1])
async def test_cids_are_ours_around_all_boundaries(node, version, network, caplog):
    caplog.set_level("INFO", logger="holdfast")
    config = of_v3(node, network=network).with_options(cid_version=version)
    async with AsyncClient.init(config) as client:
        for size in SIZES_AROUND_NODES:
            data = bytes([size % 251, version]) * (size // 2) + b"." * (size % 2)
            record = await client.upload(data)
            assert record.cid == compute_cid(data, profile=PROFILES[version]), size
            assert (await client.download(record.cid)).read() == data
            assert await client.revoke(record.cid)
    assert not [each for each in caplog.messages if "no known layout" in each]


@pytest.mark.slow  # test_everything_comes_back has a small one
@pytest.mark.parametrize("size", [KIB_256 - 2, KIB_256 - 1, KIB_256])
async def test_the_cid_of_json_is_known_beforehand(v3_client, size):
    text = "a" * size
    profile = "kubo-legacy-cidv1"
    assert (await v3_client.store(text)).cid == compute_cid(f'"{text}"'.encode(), profile=profile)
    assert await v3_client.retrieve(compute_cid(f'"{text}"'.encode(), profile=profile)) == text


# Copies: the service stores files in other leaves than folders, which it takes by the older call


class Counting(AsyncPinataProvider):
    """Notes the sizes of the files that are uploaded, also by copies of it with other settings."""

    sizes: ClassVar[list[int]] = []

    async def add_file(self, source, info, call, progress):
        self.sizes.append(source.size)
        return await super().add_file(source, info, call, progress)


async def copied_to(node, here):
    """Copy all pins of `here`, the newest first, one by one; return the CIDs that arrived."""
    Counting.sizes.clear()
    provider = Counting(of_v3(node))
    service = AsyncClient(provider)
    try:
        outcomes = here.copy_pins(to=service, concurrency=1)
        done = [outcome.item.cid async for outcome in outcomes if outcome.error is None]
        assert {pin.cid for pin in await service.pins()} == set(done)
    finally:
        await provider.aclose()
    return done


async def test_content_with_one_cid_in_several_layouts_is_copied_by_any(here, empty_node):
    add = here.provider.repository.add
    small = [add(b"small %d" % n, UNIXFS_V1_2025)[0].cid for n in range(3)]
    large = [add(b"%d" % n * 300_000, UNIXFS_V1_2025)[0].cid for n in range(3)]
    fitting = add(b"x" * 300_000, KUBO_LEGACY_CIDV1)[0].cid
    older = add(b"y" * 300_000, UNIXFS_V0_2015)[0].cid
    last = add(b"z" * 300_000, UNIXFS_V1_2025)[0].cid
    done = await copied_to(empty_node, here)
    assert {*done} == {older, fitting, *small}
    assert not {*done} & {*large, last}
    assert Counting.sizes.count(300_000) == 3  # one upload has shown the layout


async def test_the_layout_of_folders_says_nothing_about_files(here, empty_node, tmp_path):
    add = here.provider.repository.add
    folders = []
    for number, layout in enumerate((UNIXFS_V1_2025, KUBO_LEGACY_CIDV1)):
        folder = tmp_path / f"folder-{number}"
        folder.mkdir()
        (folder / "data").write_bytes(b"%d" % number * 300_000)
        folders.append((folder, layout))
    small = tmp_path / "small"
    small.mkdir()
    (small / "data").write_bytes(b"small")
    file = add(b"x" * 300_000, KUBO_LEGACY_CIDV1)[0].cid
    small_folder = add(small, KUBO_LEGACY_CIDV1)[0].cid
    fitting, _ = [add(*each)[0].cid for each in folders]  # the second one is copied first
    assert {*await copied_to(empty_node, here)} == {file, small_folder, fitting}
