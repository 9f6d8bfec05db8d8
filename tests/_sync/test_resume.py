# WARNING: this file is generated from tests/_async/test_resume.py
# by scripts/generate_sync.py. Change the original instead.
"""Downloads to a file go on where an earlier one was interrupted, from what is verified."""

import os
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.errors import NetworkError
from tests._sync.parallel import in_parallel
from tests.gateways import gateway, kinds, pin
from tests.support import config_for, raw_cid

DATA = os.urandom(5_000_000)


def config(server, tmp_path, **changes):
    return config_for(server, cache_path=tmp_path / "cache", **changes)


def partials(tmp_path):
    return sorted((tmp_path / "cache" / "partial").iterdir())


def cutting(size):
    def die(kind, request, reply):
        return replace(reply, cut=size) if kind == "plain" else reply

    return die


def interrupted(node, cid, tmp_path, size=3_500_000):
    with gateway(node, cutting(size)) as server:
        with Client.init(config(server, tmp_path)) as client:
            with pytest.raises(NetworkError):
                client.download(cid, to=tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("profile", [UNIXFS_V1_2025, UNIXFS_V0_2015], ids=lambda each: each.name)
def test_the_next_download_asks_for_the_rest(node, tmp_path, profile):
    cid = pin(node, DATA, profile)
    interrupted(node, cid, tmp_path)
    (kept,) = [path.stat().st_size for path in partials(tmp_path)]
    assert kept % profile.chunk_size == 0
    assert 2_000_000 < kept < 3_500_000
    with gateway(node) as server:
        with Client.init(config(server, tmp_path)) as client:
            blob = client.download(cid, to=tmp_path / "copy")
    assert blob.read() == DATA
    assert [each.headers.get("range") for each in server.requests] == [None, f"bytes={kept}-"]
    assert kinds(server) == ["raw", "plain"]
    assert partials(tmp_path) == []


def test_the_partial_file_does_not_lie_beside_the_target(node, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    (tmp_path / "here").mkdir()
    seen = []

    def look(done, total):
        seen.append([path.name for path in (tmp_path / "here").iterdir()])

    with gateway(node) as server:
        with Client.init(config(server, tmp_path)) as client:
            client.download(cid, to=tmp_path / "here" / "copy", progress=look)
    assert seen
    assert all(names == [] for names in seen)
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["copy"]


def test_what_was_kept_is_proven_again(node, tmp_path):
    """Somebody, or the disk, may have changed it."""
    cid = pin(node, DATA, UNIXFS_V1_2025)
    interrupted(node, cid, tmp_path)
    (left,) = partials(tmp_path)
    kept = bytearray(left.read_bytes())
    kept[1_500_000] ^= 1
    left.write_bytes(kept)
    with gateway(node) as server:
        with Client.init(config(server, tmp_path)) as client:
            blob = client.download(cid, to=tmp_path / "copy")
    assert blob.read() == DATA
    assert server.requests[-1].headers["range"] == "bytes=1048576-"


def test_a_longer_partial_file_than_the_content_is_cut(node, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    interrupted(node, cid, tmp_path)
    (left,) = partials(tmp_path)
    left.write_bytes(DATA + b"more")
    with gateway(node) as server:
        with Client.init(config(server, tmp_path)) as client:
            assert (client.download(cid, to=tmp_path / "copy")).read() == DATA


def test_a_partial_file_that_is_whole_needs_no_body(node, tmp_path):
    """As after a kill between the last byte and the renaming."""
    cid = pin(node, DATA, UNIXFS_V1_2025)
    interrupted(node, cid, tmp_path)
    (left,) = partials(tmp_path)
    left.write_bytes(DATA)
    with gateway(node) as server:
        with Client.init(config(server, tmp_path)) as client:
            assert (client.download(cid, to=tmp_path / "copy")).read() == DATA
    assert kinds(server) == ["raw"]


def test_a_server_that_knows_no_ranges_sends_all_and_the_beginning_is_skipped(node, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    interrupted(node, cid, tmp_path)

    def whole(kind, request, reply):
        if kind == "plain":
            return replace(reply, status=200, body=DATA, headers={})
        return reply

    with gateway(node, whole) as server:
        with Client.init(config(server, tmp_path)) as client:
            assert (client.download(cid, to=tmp_path / "copy")).read() == DATA
    assert len(server.requests) == 2


def test_without_blocks_a_download_begins_anew(node, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    interrupted(node, cid, tmp_path)
    with gateway(node, refuse={"raw"}) as server:
        with Client.init(config(server, tmp_path)) as client:
            assert (client.download(cid, to=tmp_path / "copy")).read() == DATA
    assert partials(tmp_path) == []


def test_what_is_not_proven_is_not_kept(node, tmp_path):
    """A raw block proves itself at its end only."""
    cid = raw_cid(DATA)
    with gateway(node) as server:
        server.reply(200, DATA, cut=4_000_000)
        with Client.init(config(server, tmp_path)) as client:
            with pytest.raises(NetworkError):
                client.download(cid, to=tmp_path / "copy")
    assert partials(tmp_path) == []


def test_many_downloads_of_the_same_content_at_once_do_not_meet(node, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    targets = [tmp_path / f"copy-{number}" for number in range(8)]
    with gateway(node) as server:
        with Client.init(config(server, tmp_path)) as client:
            in_parallel([partial(client.download, cid, to=each) for each in targets])
    assert all(target.read_bytes() == DATA for target in targets)
    assert partials(tmp_path) == []


def test_where_there_can_be_no_cache_the_download_works_all_the_same(node, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    (tmp_path / "cache").write_bytes(b"a file where the folder should be")
    (tmp_path / "here").mkdir()
    with gateway(node) as server:
        with Client.init(config(server, tmp_path)) as client:
            client.download(cid, to=tmp_path / "here" / "copy")
    assert (tmp_path / "here" / "copy").read_bytes() == DATA
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["copy"]


@pytest.fixture
def elsewhere(tmp_path):
    """A folder on another file system."""
    places = [Path("/dev/shm"), Path(tempfile.gettempdir())]  # noqa: S108 - in memory, on disk
    here = tmp_path.stat().st_dev
    other = next((each for each in places if each.is_dir() and each.stat().st_dev != here), None)
    if other is None:
        pytest.skip("no other file system here")
    with tempfile.TemporaryDirectory(dir=other) as folder:
        yield Path(folder)


def test_the_target_may_lie_on_another_file_system(node, tmp_path, elsewhere):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    with gateway(node) as server:
        with Client.init(config(server, tmp_path)) as client:
            blob = client.download(cid, to=elsewhere / "copy")
    assert blob.read() == DATA
    assert [path.name for path in elsewhere.iterdir()] == ["copy"]
    assert partials(tmp_path) == []


def test_the_mode_of_a_file_that_is_replaced_stays(node, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    target = tmp_path / "copy"
    target.write_bytes(b"before")
    target.chmod(0o640)
    with gateway(node) as server:
        with Client.init(config(server, tmp_path)) as client:
            client.download(cid, to=target)
    assert target.stat().st_mode & 0o777 == 0o640
