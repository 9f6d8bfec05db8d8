"""Downloads to a file go on where an earlier one was interrupted, from what is verified."""

import os
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from holdfast import AsyncClient
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.errors import NetworkError
from tests._async.parallel import in_parallel
from tests._async.reading import client_of
from tests.faulty import flipped
from tests.gateways import cut_at, gateway, kinds, pin
from tests.support import config_for, raw_cid

DATA = os.urandom(5_000_000)


@pytest.fixture
def cid(node):
    return pin(node, DATA, UNIXFS_V1_2025)


def partials(tmp_path):
    return sorted((tmp_path / "cache" / "partial").iterdir())


async def downloaded(cid, tmp_path, served, target="copy"):
    """Download the rest from this gateway; return its server."""
    async with client_of(served, cache_path=tmp_path / "cache") as (client, server):
        assert (await client.download(cid, to=tmp_path / target)).read() == DATA
    return server


async def interrupted(node, cid, tmp_path):
    """Leave the beginning of a file in the cache; return the path of that."""
    dying = gateway(node, cut_at(3_500_000))
    async with client_of(dying, cache_path=tmp_path / "cache") as (client, _):
        with pytest.raises(NetworkError):
            await client.download(cid, to=tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    (path,) = partials(tmp_path)
    return path


@pytest.mark.parametrize("profile", [UNIXFS_V1_2025, UNIXFS_V0_2015], ids=["v1", "v0"])
async def test_the_next_download_asks_for_the_rest(node, tmp_path, profile):
    cid = pin(node, DATA, profile)
    saved = (await interrupted(node, cid, tmp_path)).stat().st_size
    assert saved % profile.chunk_size == 0
    assert 2_000_000 < saved < 3_500_000
    server = await downloaded(cid, tmp_path, gateway(node))
    ranges = [request.headers.get("range") for request in server.requests]
    assert ranges == [None, f"bytes={saved}-"]
    assert kinds(server) == ["raw", "plain"]
    assert partials(tmp_path) == []


@pytest.mark.parametrize(
    ("changed", "ranges"),
    [
        # Of the piece that does not match, its block is asked for too.
        (flipped(DATA[: 3 << 20], 1_500_000), [None, None, "bytes=1048576-"]),
        (DATA + b"more", [None]),
        (DATA, [None]),  # as after a kill between the last byte and the renaming
    ],
    ids=["changed", "longer", "whole"],
)
async def test_what_was_saved_is_verified_again(node, cid, tmp_path, changed, ranges):
    """Somebody, or the disk, may have changed it."""
    (await interrupted(node, cid, tmp_path)).write_bytes(changed)
    server = await downloaded(cid, tmp_path, gateway(node))
    assert [request.headers.get("range") for request in server.requests] == ranges
    assert kinds(server)[0] == "raw"


async def test_a_server_that_knows_no_ranges_sends_all_and_the_beginning_is_skipped(
    node, cid, tmp_path
):
    await interrupted(node, cid, tmp_path)

    def whole(kind, request, reply):
        return replace(reply, status=200, body=DATA, headers={}) if kind == "plain" else reply

    server = await downloaded(cid, tmp_path, gateway(node, whole))
    assert len(server.requests) == 2


async def test_without_blocks_a_download_begins_anew(node, cid, tmp_path):
    await interrupted(node, cid, tmp_path)
    await downloaded(cid, tmp_path, gateway(node, refuse={"raw"}))
    assert partials(tmp_path) == []


async def test_what_is_not_proven_is_not_kept(server, tmp_path):
    """A raw block proves itself at its end only."""
    server.reply(200, DATA, cut=4_000_000)
    config = config_for(server, cache_path=tmp_path / "cache")
    async with await AsyncClient.init(config) as client:
        with pytest.raises(NetworkError):
            await client.download(raw_cid(DATA), to=tmp_path / "copy")
    assert partials(tmp_path) == []


@pytest.mark.slow
async def test_many_downloads_of_the_same_content_at_once_do_not_meet(node, cid, tmp_path):
    targets = [tmp_path / f"copy-{number}" for number in range(8)]
    async with client_of(gateway(node), cache_path=tmp_path / "cache") as (client, _):
        await in_parallel([partial(client.download, cid, to=target) for target in targets])
    assert all(target.read_bytes() == DATA for target in targets)
    assert partials(tmp_path) == []


async def test_where_there_can_be_no_cache_the_download_works_all_the_same(node, cid, tmp_path):
    (tmp_path / "cache").write_bytes(b"a file where the folder should be")
    (tmp_path / "here").mkdir()
    await downloaded(cid, tmp_path, gateway(node), "here/copy")
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["copy"]


@pytest.fixture
def elsewhere(tmp_path):
    """A folder on another file system."""
    places = [Path("/dev/shm"), Path(tempfile.gettempdir())]  # noqa: S108 - in memory, on disk
    here = tmp_path.stat().st_dev
    other = next((path for path in places if path.is_dir() and path.stat().st_dev != here), None)
    if other is None:
        pytest.skip("no other file system here")
    with tempfile.TemporaryDirectory(dir=other) as folder:
        yield Path(folder)


async def test_the_target_may_lie_on_another_file_system(node, cid, tmp_path, elsewhere):
    await downloaded(cid, tmp_path, gateway(node), elsewhere / "copy")
    assert [path.name for path in elsewhere.iterdir()] == ["copy"]
    assert partials(tmp_path) == []


async def test_the_mode_of_a_file_that_is_replaced_stays(node, cid, tmp_path):
    target = tmp_path / "copy"
    target.write_bytes(b"before")
    target.chmod(0o640)
    await downloaded(cid, tmp_path, gateway(node))
    assert target.stat().st_mode & 0o777 == 0o640
