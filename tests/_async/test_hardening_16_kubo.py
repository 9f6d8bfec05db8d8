"""A gateway that answers only trustless requests: Kubo with Gateway.DeserializedResponses=false.

It gives blocks and CARs, and 406 to a plain GET. Everything can be read through it.
"""

import hashlib
import io
from dataclasses import replace

import pytest
import urllib3

from holdfast import AsyncClient
from holdfast.content.profiles import PROFILES
from holdfast.errors import ClientError, NotAFileError, NotFoundError, UnprovenError
from tests.content import DATA, Blocks
from tests.engines import ADD_OPTIONS
from tests.gateways import gateway

TREE = hashlib.shake_128(b"tree").digest(2_300_000)
SMALL = b'{"depth":[1,2,3]}'
JSON_TREE = b"[" + b",".join(b'"%d"' % number for number in range(200_000)) + b"]"
FILES = {"empty": b"", "small": SMALL, "tree": TREE}
ARCHIVES = ["dir-with-files", "subdir-with-mixed-block-files"]
HAMT = "single-layer-hamt-with-multi-block-files"

pytestmark = pytest.mark.slow  # the quick tests are in test_hardening_16_trustless.py

each_file = pytest.mark.parametrize("name", FILES)
each_profile = pytest.mark.parametrize("profile", PROFILES)


@pytest.fixture(params=[(), ("raw",), ("car",)], ids=["all", "car only", "blocks only"])
def trustless(trustless_kubo, request):
    """A trustless gateway; in front of it one that also refuses blocks, or CARs."""
    with gateway(trustless_kubo, refuse=request.param) as server:
        yield server


async def client_of(trustless_kubo, server, **changes):
    return await AsyncClient.init(
        trustless_kubo.config(gateway_url=f"{server.url}/ipfs", **changes)
    )


def add(kubo, data, profile):
    return kubo.add(data, **ADD_OPTIONS[profile])


def entries_of(kubo, archive):
    """Import an archive; return its root and the bytes of every file below it, by path."""
    kubo.import_car((DATA / f"{archive}.car").read_bytes())
    root, blocks = Blocks.of_car(f"{archive}.car")
    return str(root), dict(files_below(blocks, root))


def files_below(blocks, cid, path=""):
    try:
        entries = blocks.list(cid)
    except ClientError:  # it is no directory
        yield path, blocks.read(cid)
        return
    for entry in entries:
        yield from files_below(blocks, entry.cid, f"{path}/{entry.name}")


def test_kubo_refuses_what_is_not_trustless(trustless_kubo):
    cid = add(trustless_kubo, SMALL, "unixfs-v1-2025")
    address = f"{trustless_kubo.gateway_url}/{cid}"
    http = urllib3.PoolManager()
    statuses = [http.request("GET", address + query).status for query in ("", "?format=raw")]
    http.clear()
    assert statuses == [406, 200]


@each_profile
@each_file
async def test_files_are_downloaded(trustless_kubo, trustless, name, profile, tmp_path):
    cid = add(trustless_kubo, FILES[name], profile)
    async with await client_of(trustless_kubo, trustless) as client:
        assert (await client.download(cid)).read() == FILES[name]
        await client.download(cid, to=tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == FILES[name]


@each_profile
@pytest.mark.parametrize("text", [SMALL, JSON_TREE], ids=["one block", "tree"])
async def test_json_is_retrieved(trustless_kubo, trustless, text, profile):
    cid = add(trustless_kubo, text, profile)
    async with await client_of(trustless_kubo, trustless) as client:
        value = await client.retrieve(cid)
    assert value in ({"depth": [1, 2, 3]}, [str(number) for number in range(200_000)])


@each_profile
@each_file
async def test_files_are_opened(trustless_kubo, trustless, name, profile):
    data = FILES[name]
    same = io.BytesIO(data)
    cid = add(trustless_kubo, data, profile)
    async with (
        await client_of(trustless_kubo, trustless) as client,
        await client.open(cid) as file,
    ):
        assert file.size == len(data)
        for place, size in ((0, 5), (len(data) // 2, 300_000), (max(0, len(data) - 3), 9)):
            file.seek(place)
            same.seek(place)
            assert await file.read(size) == same.read(size)


@pytest.mark.parametrize("archive", [*ARCHIVES, HAMT])
async def test_files_in_directories_are_read_by_their_path(trustless_kubo, trustless, archive):
    root, files = entries_of(trustless_kubo, archive)
    assert files
    async with await client_of(trustless_kubo, trustless) as client:
        # Of the sharded directory, which has a thousand files, a few.
        for path in list(files)[:: max(1, len(files) // 4)]:
            assert (await client.download(root + path)).read() == files[path]
            async with await client.open(root + path) as file:
                assert await file.read() == files[path]


@pytest.mark.parametrize("archive", [*ARCHIVES, HAMT])
async def test_a_directory_is_not_a_file(trustless_kubo, trustless, archive):
    root, _ = entries_of(trustless_kubo, archive)
    async with await client_of(trustless_kubo, trustless) as client:
        for call in (client.download, client.retrieve, client.open):
            with pytest.raises(NotAFileError):
                await call(root)


async def test_a_name_that_is_not_in_a_directory_is_not_found(trustless_kubo, trustless):
    root, _ = entries_of(trustless_kubo, ARCHIVES[0])
    async with await client_of(trustless_kubo, trustless) as client:
        for call in (client.download, client.retrieve, client.open):
            with pytest.raises(NotFoundError):
                await call(f"{root}/nothing-of-the-kind")


async def test_content_that_the_gateway_lacks_is_not_found(trustless_kubo, trustless):
    absent = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
    async with await client_of(trustless_kubo, trustless) as client:
        for call in (client.download, client.retrieve, client.open):
            # In place of a CAR that it lacks, Kubo sends a CAR that ends in words: all that can be
            # told from it is that it is incomplete.
            with pytest.raises((NotFoundError, UnprovenError)) as caught:
                await call(absent)
            is_told = isinstance(caught.value, NotFoundError)
            assert is_told or "incomplete" in str(caught.value)


async def test_without_verification_it_is_read_all_the_same(trustless_kubo, trustless):
    cid = add(trustless_kubo, TREE, "unixfs-v1-2025")
    async with await client_of(trustless_kubo, trustless, verify=False) as client:
        assert (await client.download(cid)).read() == TREE


async def test_a_transfer_that_breaks_off_is_gone_on_with(trustless_kubo, tmp_path):
    cid = add(trustless_kubo, TREE, "kubo-legacy-cidv1")
    to_break = {"car": [1], "raw": [2, 5]}  # which replies of each kind end in their middle
    seen = []

    def change(kind, request, reply):
        seen.append(kind)
        broken = seen.count(kind) in to_break.get(kind, [])
        return replace(reply, cut=len(reply.body) // 2) if broken else reply

    target = tmp_path / "file"
    retries = {"attempts": 4, "base": 0.01}
    with gateway(trustless_kubo, change) as server:
        async with await client_of(trustless_kubo, server, retries=retries) as client:
            await client.download(cid, to=target)
    assert target.read_bytes() == TREE


async def test_the_next_gateway_is_asked_where_a_trustless_one_lacks_it(
    kubo, trustless_kubo, trustless
):
    data = hashlib.shake_128(b"elsewhere").digest(700_000)
    cid = add(kubo, data, "unixfs-v0-2015")
    urls = [f"{trustless.url}/ipfs", kubo.gateway_url]
    async with await AsyncClient.init(trustless_kubo.config(gateway_url=urls)) as client:
        assert (await client.download(cid)).read() == data
