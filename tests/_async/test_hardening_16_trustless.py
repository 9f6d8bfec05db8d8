"""Gateways that answer only trustless requests: blocks and archives, and no plain content.

In front of a real node; the same against Kubo is in `test_hardening_16_kubo.py`.
"""

import os
from dataclasses import replace

import pytest

from holdfast import AsyncClient
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.errors import NetworkError, NotFoundError, ProviderError, VerificationError
from holdfast.sources.importing import import_content
from holdfast.testing import Scripted
from tests.gateways import gateway, kind_of, kinds, pin
from tests.support import EMPTY_FILE_V0, config_for, raw_cid

DATA = os.urandom(3_000_000)
KINDS = pytest.mark.parametrize("refuse", [(), ("raw",), ("car",)], ids=["all", "car", "raw"])
PROFILES = pytest.mark.parametrize(
    "profile", [UNIXFS_V1_2025, UNIXFS_V0_2015], ids=lambda each: each.name
)


def trustless(node, refuse=(), status=406, change=lambda kind, request, reply: reply):
    def answer(kind, request, reply):
        if kind == "plain":
            return Scripted(status=status, body=b"only trustless requests")
        return change(kind, request, reply)

    return gateway(node, answer, refuse=refuse)


@KINDS
@PROFILES
@pytest.mark.parametrize("size", [0, 5, 3_000_000])
async def test_files_are_downloaded_and_opened(node, tmp_path, profile, refuse, size):
    data = DATA[:size]
    cid = pin(node, data, profile)
    with trustless(node, refuse) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            assert (await client.download(cid)).read() == data
            await client.download(cid, to=tmp_path / "copy")
            async with await client.open(cid) as file:
                file.seek(size // 2)
                assert await file.read(100_000) == data[size // 2 : size // 2 + 100_000]
    assert (tmp_path / "copy").read_bytes() == data


@KINDS
async def test_a_path_is_followed(node, tmp_path, refuse):
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "a.json").write_bytes(b'{"deep":true}')
    (tmp_path / "tree" / "large").write_bytes(DATA)
    with node.repository.adding() as adding:
        part = import_content(tmp_path / "tree", UNIXFS_V1_2025, adding.put)
        adding.pin(part.cid, name="tree", size=part.dag_size)
    with trustless(node, refuse) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            assert await client.retrieve(f"{part.cid}/sub/a.json") == {"deep": True}
            assert (await client.download(f"{part.cid}/large")).read() == DATA
            with pytest.raises(NotFoundError):
                await client.download(f"{part.cid}/missing")


@pytest.mark.parametrize("status", [406, 501])
async def test_plain_content_is_asked_for_once_and_then_no_more(node, status):
    block, tree = pin(node, b"[1]", UNIXFS_V1_2025), pin(node, DATA, UNIXFS_V1_2025)
    with trustless(node, status=status) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            for _ in range(2):
                assert await client.retrieve(block) == [1]
                assert (await client.download(tree)).read() == DATA
    assert kinds(server) == ["plain", "raw", "car", "raw", "car"]


async def test_a_broken_download_goes_on_where_it_was(node, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)

    def die(kind, request, reply):
        return replace(reply, cut=2_500_000) if kind == "car" else reply

    config = {"cache_path": tmp_path / "cache"}
    with trustless(node, change=die) as server:
        async with await AsyncClient.init(config_for(server, **config)) as client:
            with pytest.raises(NetworkError):
                await client.download(cid, to=tmp_path / "copy")
    (kept,) = [path.stat().st_size for path in (tmp_path / "cache" / "partial").iterdir()]
    assert kept in {1 << 20, 2 << 20}
    with trustless(node) as server:
        async with await AsyncClient.init(config_for(server, **config)) as client:
            await client.download(cid, to=tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == DATA
    (car,) = [each.target for each in server.requests if kind_of(each) == "car"]
    assert f"entity-bytes={kept}:*" in car


async def test_wrong_blocks_are_found(node):
    cid = pin(node, b"hello", UNIXFS_V1_2025)

    def lie(kind, request, reply):
        return replace(reply, body=b"hellO")

    with trustless(node, change=lie) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            with pytest.raises(VerificationError):
                await client.download(cid)


async def test_what_the_gateway_does_not_have_is_not_found(empty_node):
    with trustless(empty_node) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            for cid in (EMPTY_FILE_V0, raw_cid(b"nowhere")):
                with pytest.raises(NotFoundError):
                    await client.download(cid)


async def test_a_gateway_that_refuses_everything_says_why(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    with trustless(node, refuse={"raw", "car"}) as server:
        async with await AsyncClient.init(config_for(server)) as client:
            with pytest.raises(ProviderError) as caught:
                await client.download(cid)
    assert caught.value.status == 406


async def test_without_verify_and_in_a_race_it_is_read_too(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    with trustless(node) as first, trustless(node) as second:
        urls = [f"{each.url}/ipfs" for each in (first, second)]
        config = config_for(first, gateway_url=urls)
        async with await AsyncClient.init(config, verify=False) as client:
            assert (await client.download(cid)).read() == DATA
        async with await AsyncClient.init(config, hedge_after=0.01) as client:
            assert (await client.download(cid)).read() == DATA
