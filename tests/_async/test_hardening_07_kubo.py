"""Files in very many small pieces, as Kubo's `size-1` chunker makes them: one byte in a leaf."""

import hashlib
import time

import pytest

from holdfast import AsyncClient
from holdfast.content.cid import CID
from holdfast.repository import Repository
from tests.gateways import gateway

MANY = 174_000
FEW = 4_000
CPU_PER_LEAF = 250e-6  # seconds; ten times the figure of `make bench`

# The quick tests are in test_hardening_07_small_pieces.py.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
each_size = pytest.mark.parametrize("size", [FEW, MANY])
each_kind_of_leaf = pytest.mark.parametrize("raw_leaves", [True, False], ids=["raw", "dag-pb"])


def text_of(size):
    """JSON of exactly `size` bytes: a text of hexadecimal digits."""
    return b'"%s"' % hashlib.shake_128(b"pieces").hexdigest(size)[: size - 2].encode()


def add(kubo, size, raw_leaves):
    options = {"cid_version": 1, "raw_leaves": raw_leaves, "chunker": "size-1"}
    return kubo.add(text_of(size), **options, max_file_links=174)


@pytest.mark.parametrize(("size", "raw_leaves"), [(FEW, True), (FEW, False), (MANY, False)])
@pytest.mark.parametrize("strategy", ["body", "archive", "trustless"])
async def test_a_file_of_one_byte_pieces_is_read(kubo, trustless_kubo, strategy, size, raw_leaves):
    node = trustless_kubo if strategy == "trustless" else kubo
    cid, text = add(node, size, raw_leaves), text_of(size)
    with gateway(node, refuse=["raw"] if strategy == "archive" else []) as server:
        config = node.config(gateway_url=f"{server.url}/ipfs", timeouts={"total": None})
        async with await AsyncClient.init(config) as client:
            start = time.process_time()
            assert (await client.download(cid)).read() == text
            assert time.process_time() - start < CPU_PER_LEAF * size
            assert await client.retrieve(cid) == text[1:-1].decode()
            async with await client.open(cid) as file:
                file.seek(size // 2)
                assert await file.read(1000) == text[size // 2 :][:1000]


@each_kind_of_leaf
async def test_a_gateway_of_blocks_alone_gives_a_file_of_one_byte_pieces(
    trustless_kubo, raw_leaves
):
    cid = add(trustless_kubo, 1_500, raw_leaves)
    with gateway(trustless_kubo, refuse=["car"]) as server:
        config = trustless_kubo.config(gateway_url=f"{server.url}/ipfs")
        async with await AsyncClient.init(config) as client:
            assert (await client.download(cid)).read() == text_of(1_500)


@each_kind_of_leaf
@each_size
def test_an_archive_of_one_byte_pieces_is_imported(kubo, tmp_path, size, raw_leaves):
    cid = add(kubo, size, raw_leaves)
    archive = kubo.call("dag/export", arg=cid)
    start = time.process_time()
    with Repository(tmp_path) as repository:
        (pin,) = repository.import_car([archive])
        assert str(pin.cid) == cid
        assert b"".join(repository.read(CID.parse(cid))) == text_of(size)
    assert time.process_time() - start < CPU_PER_LEAF * size
