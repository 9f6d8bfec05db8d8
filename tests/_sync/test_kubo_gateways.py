# WARNING: this file is generated from tests/_async/test_kubo_gateways.py
# by scripts/generate_sync.py. Change the original instead.
"""Reads through the gateways of a real Kubo: trustless ones, and files in very many small pieces.

With Gateway.DeserializedResponses=false, Kubo gives blocks and CARs, and 406 to a plain GET.
"""

import hashlib
import io
import json
import time
from dataclasses import replace

import pytest
import urllib3

from holdfast import Client
from holdfast.content.cid import CID
from holdfast.content.profiles import PROFILES
from holdfast.errors import ClientError, NotAFileError, NotFoundError, UnprovenError
from holdfast.repository import Repository
from tests.content import DATA, Blocks
from tests.engines import ADD_OPTIONS
from tests.gateways import gateway

TREE = hashlib.shake_128(b"tree").digest(2_300_000)
SMALL = b'{"depth":[1,2,3]}'
JSON_TREE = b"[" + b",".join(b'"%d"' % number for number in range(200_000)) + b"]"
FILES = {"empty": b"", "small.json": SMALL, "tree": TREE, "tree.json": JSON_TREE}
ARCHIVES = ["dir-with-files", "subdir-with-mixed-block-files"]
HAMT = "single-layer-hamt-with-multi-block-files"
MANY = 174_000
FEW = 4_000
CPU_PER_LEAF = 250e-6  # seconds; ten times the figure of `make bench`

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # the quick tests read from scripts


@pytest.fixture(params=[(), ("raw",), ("car",)], ids=["all", "car only", "blocks only"])
def trustless(trustless_kubo, request):
    """A trustless gateway; in front of it one that also refuses blocks, or CARs."""
    with gateway(trustless_kubo, refuse=request.param) as server:
        yield server


def client_of(trustless_kubo, server, **changes):
    return Client.init(trustless_kubo.config(gateway_url=f"{server.url}/ipfs", **changes))


@pytest.fixture
def client(trustless_kubo, trustless):
    with client_of(trustless_kubo, trustless) as client:
        yield client


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


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", FILES)
def test_files_are_downloaded_and_opened(trustless_kubo, client, name, profile, tmp_path):
    data = FILES[name]
    same = io.BytesIO(data)
    cid = add(trustless_kubo, data, profile)
    for to in (None, tmp_path / "file"):
        assert (client.download(cid, to=to)).read() == data
    if name.endswith("json"):
        assert client.retrieve(cid) == json.loads(data)
    with client.open(cid) as file:
        assert file.size == len(data)
        for place, size in ((0, 5), (len(data) // 2, 300_000), (max(0, len(data) - 3), 9)):
            file.seek(place)
            same.seek(place)
            assert file.read(size) == same.read(size)


@pytest.mark.parametrize("archive", [*ARCHIVES, HAMT])
def test_files_in_directories_are_read_by_their_path(trustless_kubo, client, archive):
    root, files = entries_of(trustless_kubo, archive)
    assert files
    # Of the sharded directory, which has a thousand files, a few.
    for path in list(files)[:: max(1, len(files) // 4)]:
        assert (client.download(root + path)).read() == files[path]
        with client.open(root + path) as file:
            assert file.read() == files[path]


@pytest.mark.parametrize("archive", [*ARCHIVES, HAMT])
def test_a_directory_is_not_a_file(trustless_kubo, client, archive):
    root, _ = entries_of(trustless_kubo, archive)
    for call in (client.download, client.retrieve, client.open):
        with pytest.raises(NotAFileError):
            call(root)


def test_a_name_that_is_not_in_a_directory_is_not_found(trustless_kubo, client):
    root, _ = entries_of(trustless_kubo, ARCHIVES[0])
    for call in (client.download, client.retrieve, client.open):
        with pytest.raises(NotFoundError):
            call(f"{root}/nothing-of-the-kind")


def test_content_that_the_gateway_lacks_is_not_found(trustless_kubo, client):
    absent = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
    for call in (client.download, client.retrieve, client.open):
        # In place of a CAR that it lacks, Kubo sends a CAR that ends in words: all that can be
        # told from it is that it is incomplete.
        with pytest.raises((NotFoundError, UnprovenError)) as caught:
            call(absent)
        is_told = isinstance(caught.value, NotFoundError)
        assert is_told or "incomplete" in str(caught.value)


def test_without_verification_it_is_read_all_the_same(trustless_kubo, trustless):
    cid = add(trustless_kubo, TREE, "unixfs-v1-2025")
    with client_of(trustless_kubo, trustless, verify=False) as client:
        assert (client.download(cid)).read() == TREE


def test_a_transfer_that_breaks_off_is_gone_on_with(trustless_kubo, tmp_path):
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
        with client_of(trustless_kubo, server, retries=retries) as client:
            client.download(cid, to=target)
    assert target.read_bytes() == TREE


def test_the_next_gateway_is_asked_where_a_trustless_one_lacks_it(kubo, trustless_kubo, trustless):
    data = hashlib.shake_128(b"elsewhere").digest(700_000)
    cid = add(kubo, data, "unixfs-v0-2015")
    urls = [f"{trustless.url}/ipfs", kubo.gateway_url]
    with Client.init(trustless_kubo.config(gateway_url=urls)) as client:
        assert (client.download(cid)).read() == data


# One byte in a leaf, as the chunker `size-1` makes them


def text_of(size):
    """JSON of exactly `size` bytes: a text of hexadecimal digits."""
    return b'"%s"' % hashlib.shake_128(b"pieces").hexdigest(size)[: size - 2].encode()


def add_pieces(kubo, size, raw_leaves):
    options = {"cid_version": 1, "raw_leaves": raw_leaves, "chunker": "size-1"}
    return kubo.add(text_of(size), **options, max_file_links=174)


@pytest.mark.parametrize(("size", "raw_leaves"), [(FEW, True), (FEW, False), (MANY, False)])
@pytest.mark.parametrize("strategy", ["body", "archive", "trustless"])
def test_a_file_of_one_byte_pieces_is_read(kubo, trustless_kubo, strategy, size, raw_leaves):
    node = trustless_kubo if strategy == "trustless" else kubo
    cid, text = add_pieces(node, size, raw_leaves), text_of(size)
    with gateway(node, refuse=["raw"] if strategy == "archive" else []) as server:
        config = node.config(gateway_url=f"{server.url}/ipfs", timeouts={"total": None})
        with Client.init(config) as client:
            start = time.process_time()
            assert (client.download(cid)).read() == text
            assert time.process_time() - start < CPU_PER_LEAF * size
            assert client.retrieve(cid) == text[1:-1].decode()
            with client.open(cid) as file:
                file.seek(size // 2)
                assert file.read(1000) == text[size // 2 :][:1000]


@pytest.mark.parametrize("raw_leaves", [True, False], ids=["raw", "dag-pb"])
def test_a_gateway_of_blocks_alone_gives_a_file_of_one_byte_pieces(trustless_kubo, raw_leaves):
    cid = add_pieces(trustless_kubo, 1_500, raw_leaves)
    with gateway(trustless_kubo, refuse=["car"]) as server:
        config = trustless_kubo.config(gateway_url=f"{server.url}/ipfs")
        with Client.init(config) as client:
            assert (client.download(cid)).read() == text_of(1_500)


@pytest.mark.parametrize("raw_leaves", [True, False], ids=["raw", "dag-pb"])
@pytest.mark.parametrize("size", [FEW, MANY])
def test_an_archive_of_one_byte_pieces_is_imported(kubo, tmp_path, size, raw_leaves):
    cid = add_pieces(kubo, size, raw_leaves)
    archive = kubo.call("dag/export", arg=cid)
    start = time.process_time()
    with Repository(tmp_path) as repository:
        (pin,) = repository.import_car([archive])
        assert str(pin.cid) == cid
        assert b"".join(repository.read(CID.parse(cid))) == text_of(size)
    assert time.process_time() - start < CPU_PER_LEAF * size
