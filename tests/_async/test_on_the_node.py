"""The providers for the node's three APIs, on a real node. The contract of providers has the rest.

The pinning API and v3 store content. The Pinning Services API fetches it from another node.
"""

import urllib.error
import urllib.request
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from holdfast import AsyncClient, Usage, compute_cid
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.errors import (
    AuthenticationError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedError,
)
from holdfast.node.settings import NodeToken
from holdfast.providers import AsyncPinataProvider
from holdfast.testing import ScriptedServer, running_node
from tests.pinata import KIB_256, PROFILES, SIZES_AROUND_NODES
from tests.psa import results, row
from tests.support import HELLO_CID, config_for

READ_ONLY, OLDER_ONLY = "read-only-key", "older-only-key"
SCOPES = {
    READ_ONLY: {"org:files:read"},
    OLDER_ONLY: {"pinJSONToIPFS", "pinFileToIPFS", "unpin"},
}
PUBLIC = "/ip4/203.0.114.7/tcp/4001/p2p/12D3KooWKubo"


def of_v3(node, *, token=None, **options):
    changes = {"provider": "pinata", "provider_options": options}
    return node.config.with_options(
        **changes, **({} if token is None else {"provider_token": token})
    )


@pytest.fixture(scope="module")
def keys_node():
    """A node with keys of few scopes."""
    tokens = (NodeToken(token=token, scopes=frozenset(scopes)) for token, scopes in SCOPES.items())
    with running_node(tokens=tuple(tokens)) as node:
        yield node


@pytest.fixture(params=["pinning", "public", "private"])
async def client(request, empty_node):
    network = request.param
    config = empty_node.config if network == "pinning" else of_v3(empty_node, network=network)
    async with AsyncClient.init(config) as client:
        yield client


async def test_everything_comes_back_and_pins_are_changed_and_removed(client):
    value = await client.store({"name": "Zoë", "n": 1e-7}, keyvalues={"n": 1})
    assert value.cid == compute_cid('{"name":"Zoë","n":1e-07}'.encode())
    assert await client.retrieve(value.cid) == {"name": "Zoë", "n": 1e-7}
    note = await client.send("alice", "hi")
    assert (await client.receive(note.cid)).payload == "hi"
    file = await client.upload(b"hello", name="draft.txt", keyvalues={"draft": "yes"})
    assert (await client.download(file.cid)).read() == b"hello"
    assert [pin.cid for pin in await client.pins()] == [file.cid, note.cid, value.cid]
    assert [pin.cid for pin in await client.pins(keyvalues={"n": 1})] == [value.cid]
    again = await client.upload(b"hello", name="final.txt")
    assert (file.duplicate, again.duplicate) == (False, True)
    pin = await client.update(file.cid, keyvalues={"draft": None, "n": "2"})
    assert (pin.name, pin.keyvalues) == ("final.txt", {"n": "2"})
    assert await client.pins(cid=file.cid) == [pin]
    assert await client.revoke(file.cid) is True
    with pytest.raises(NotFoundError, match=r"is not pinned|has not pinned the cid"):
        await client.revoke(file.cid)


# Keys


async def test_wrong_tokens(keys_node):
    async with AsyncClient.init(keys_node.config, provider_token="wrong") as stranger:
        with pytest.raises(AuthenticationError, match=r"^HTTP error 401$") as caught:
            await stranger.store(1)
    assert caught.value.details == "Invalid/expired credentials"
    async with AsyncClient.init(keys_node.config, provider_token=READ_ONLY) as reader:
        assert await reader.test_connection() is True
        with pytest.raises(PermissionDeniedError, match="required scopes"):
            await reader.store(1)
    assert keys_node.repository.totals().pins == 0


@pytest.mark.parametrize(
    ("token", "lacking"),
    [(READ_ONLY, "org:files:write"), (OLDER_ONLY, "org:files:read and org:files:write")],
)
async def test_the_permission_that_a_key_lacks_is_named(keys_node, token, lacking):
    async with AsyncClient.init(of_v3(keys_node, token=token)) as client:
        with pytest.raises(PermissionDeniedError) as caught:
            await client.test_connection()
    assert caught.value.__notes__ == [f"give a key with the permission {lacking}"]


# v3: private files, links and layouts


def get(url):
    with urllib.request.urlopen(url) as response:  # noqa: S310 - a node of our own
        return response.read()


def refused(url):
    try:
        get(url)
    except urllib.error.HTTPError as error:
        error.close()
        return True
    return False


async def test_private_files_are_for_those_who_have_a_link(empty_node):
    async with (
        AsyncClient.init(of_v3(empty_node, network="private")) as private,
        AsyncClient.init(of_v3(empty_node)) as public,
    ):
        cid = (await private.upload(b"only for friends")).cid
        assert await public.pins() == []
        with pytest.raises(NotFoundError):
            await public.download(cid)
        with pytest.raises(NotFoundError, match="not pinned in the public network"):
            await public.revoke(cid)
        link = await private.signed_url(cid, expires=3600)
        assert get(link) == b"only for friends"
        for wrong in (link.partition("?")[0], link[:-1] + ("0" if link[-1] != "0" else "1")):
            assert refused(wrong)


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
        assert refused(request)


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
        text = "a" * (KIB_256 - 1)  # with its quotation marks, more than a leaf
        cid = compute_cid(f'"{text}"'.encode(), profile=PROFILES[version])
        assert (await client.store(text)).cid == cid
    assert not [message for message in caplog.messages if "no known layout" in message]


class Counting(AsyncPinataProvider):
    """Notes the sizes of the files that are uploaded, also by copies of it with other settings."""

    sizes: ClassVar[list[int]] = []

    async def add_file(self, source, info, call, progress):
        self.sizes.append(source.size)
        return await super().add_file(source, info, call, progress)


async def copied_to(node, source):
    """Copy all pins of `source`, the newest first, one by one; return the CIDs that arrived."""
    Counting.sizes.clear()
    provider = Counting(of_v3(node))
    service = AsyncClient(provider)
    try:
        outcomes = source.copy_pins(to=service, concurrency=1)
        done = {outcome.item.cid async for outcome in outcomes if outcome.error is None}
        assert {pin.cid for pin in await service.pins()} == done
    finally:
        await provider.aclose()
    return done


async def test_content_with_one_cid_in_several_layouts_is_copied_by_any(source, empty_node):
    def add(content, layout):
        return source.provider.repository.add(content, layout)[0].cid

    small = {add(b"small %d" % n, UNIXFS_V1_2025) for n in range(3)}
    for number in range(3):
        add(b"%d" % number * 300_000, UNIXFS_V1_2025)
    fitting = {add(b"x" * 300_000, layout) for layout in (KUBO_LEGACY_CIDV1, UNIXFS_V0_2015)}
    add(b"z" * 300_000, UNIXFS_V1_2025)
    assert await copied_to(empty_node, source) == small | fitting
    assert Counting.sizes.count(300_000) == 3  # one upload has shown the layout


async def test_the_layout_of_folders_says_nothing_about_files(source, empty_node, tmp_path):
    """The service stores files in other leaves than folders, which it takes by the older call."""
    add = source.provider.repository.add
    cids = [add(b"x" * 300_000, KUBO_LEGACY_CIDV1)[0].cid]
    for number, (content, layout) in enumerate(
        [
            (b"small", KUBO_LEGACY_CIDV1),
            (b"0" * 300_000, UNIXFS_V1_2025),
            (b"1" * 300_000, KUBO_LEGACY_CIDV1),  # copied first, and its layout does not fit
        ]
    ):
        folder = tmp_path / f"folder-{number}"
        folder.mkdir()
        (folder / "data").write_bytes(content)
        cids.append(add(folder, layout)[0].cid)
    assert await copied_to(empty_node, source) == set(cids[:3])


# The Pinning Services API


@pytest.fixture
def target(empty_node):
    """A node that fetches from `empty_node`."""
    with running_node(gateways=(empty_node.gateway_url,)) as node:
        yield node


@pytest.fixture
async def psa(target):
    config = target.config.with_options(provider="psa", pin_api_url=f"{target.api_url}/psa")
    async with AsyncClient.init(config) as client:
        yield client


@pytest.fixture
async def uploader(empty_node):
    async with AsyncClient.init(empty_node.config) as client:
        yield client


async def test_content_is_pinned_found_changed_read_and_revoked(uploader, psa):
    assert await psa.test_connection() is True
    data = b"a file " * 300_000
    cid = (await uploader.upload(data)).cid
    pin = await psa.pin(cid, name="tides", keyvalues={"sea": "north"}, wait=30)
    assert (pin.state, pin.name, pin.cid) == ("pinned", "tides", cid)
    assert (await psa.pin(cid)).id == pin.id
    assert [listed.id for listed in await psa.pins(name="TID", keyvalues={"sea": "north"})] == [
        pin.id
    ]
    assert [listed.id for listed in await psa.pins(cid=cid, since=pin.created, until=pin.created)]
    assert await psa.pins(since=pin.created_ms + 1) == []
    changed = await psa.update(cid, name="ebb", keyvalues={"sea": None, "n": 1})
    assert (changed.name, changed.keyvalues) == ("ebb", {"n": "1"})
    assert [listed.name for listed in await psa.pins()] == ["ebb"]
    assert await psa.usage() == Usage(pins=1)
    assert await uploader.usage() == Usage(pins=1, bytes=(await uploader.pins())[0].size)
    assert (await psa.download(cid)).read() == data
    assert await psa.revoke(cid) is True
    assert await psa.pins() == []
    with pytest.raises(NotFoundError, match="is not pinned"):
        await psa.revoke(cid)


async def test_pins_are_copied_by_their_cid(uploader, psa, target):
    await uploader.store({"a": 1}, name="json", keyvalues={"k": "v"})
    cid = (await uploader.upload(b"a file", name="file.txt")).cid
    with pytest.raises(UnsupportedError, match="accepts no content") as caught:
        await uploader.copy(cid, to=psa)
    assert "pin_by_cid=True" in caught.value.__notes__[0]
    outcomes = [outcome async for outcome in uploader.copy_pins(to=psa, pin_by_cid=True, wait=30)]
    assert [outcome.result().how for outcome in outcomes] == ["pin", "pin"]
    pins = {pin.name: pin.keyvalues for pin in await psa.pins()}
    assert pins == {"json": {"k": "v"}, "file.txt": {}}
    assert len(target.repository.pins()) == 2
    again = [outcome.result() async for outcome in uploader.copy_pins(to=psa, pin_by_cid=True)]
    assert [copied.duplicate for copied in again] == [True, True]
    # The content was not read for that: only its CID was sent.
    assert not [request for request in target.requests if "pinFileToIPFS" in request]


@pytest.mark.parametrize("status", [200, 403])
async def test_the_addresses_of_a_kubo_node_are_told_if_they_are_public(server, status):
    """Others would be refused by services; without any, the network is searched."""
    private = ["/ip4/10.0.0.1/tcp/1/p2p/12D3KooWKubo", "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWKubo"]
    config = config_for(server, provider="kubo", gateway_url=None)
    server.reply(200, {"Keys": {HELLO_CID: {"Type": "recursive", "Name": "hello"}}})
    server.reply(status, {"ID": "12D3KooWKubo", "Addresses": [*private, PUBLIC]})
    with ScriptedServer() as service:
        service.reply(200, results())
        service.reply(200, results())
        service.reply(202, row(status="queued", name="hello"))
        psa_config = config_for(service, provider="psa")
        async with AsyncClient.init(config) as kubo, AsyncClient.init(psa_config) as psa:
            copied = await kubo.copy(HELLO_CID, to=psa, wait=0)
        assert (copied.how, copied.state) == ("pin", "queued")
        body = service.requests[-1].json()
    origins = {"origins": [PUBLIC]} if status == 200 else {}
    assert body == {"cid": HELLO_CID, "name": "hello", **origins}
