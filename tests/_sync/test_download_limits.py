# WARNING: this file is generated from tests/_async/test_download_limits.py
# by scripts/generate_sync.py. Change the original instead.
"""How much a download may write: `max_bytes`, and the space on the disk.

A small DAG can stand for a file or folder of any size.
"""

import errno
import os
import shutil

import pytest

from holdfast import Client
from holdfast.content import dag_pb
from holdfast.content.cid import CID
from holdfast.content.dag_pb import Link
from holdfast.content.unixfs import data
from holdfast.disk import disk_space
from holdfast.errors import TooLargeError
from holdfast.testing import Scripted, ScriptedServer
from tests._sync.test_verified import GATEWAYS, bomb
from tests.dags import MIB, Dag, block_gateway
from tests.folder_dags import FolderDag, serving
from tests.gateways import config_for_all, kinds
from tests.support import config_for


def nothing_in(folder):
    return not list(folder.iterdir())


@pytest.mark.parametrize("target", [False, True], ids=["blob", "file"])
@pytest.mark.parametrize(("make", "asked"), GATEWAYS.values(), ids=GATEWAYS)
def test_a_file_larger_than_max_bytes_is_refused_by_its_root(tmp_path, make, asked, target):
    dag, root = bomb("raw", MIB, 2000, 2000)
    to = tmp_path / "file" if target else None
    with ScriptedServer(make(dag)) as server, ScriptedServer(make(dag)) as other:
        with Client.init(config_for_all(server, other)) as client:
            with pytest.raises(TooLargeError, match="max_bytes") as caught:
                client.download(root, to=to, max_bytes=1 << 40)
        assert (caught.value.limit, caught.value.size) == (1 << 40, 4_000_000 * MIB)
        assert kinds(server) == asked
        assert other.requests == []  # the size is verified: it is the same everywhere
    assert nothing_in(tmp_path)


@pytest.mark.parametrize("target", [False, True], ids=["blob", "file"])
@pytest.mark.parametrize(("make", "asked"), GATEWAYS.values(), ids=GATEWAYS)
def test_a_file_that_no_disk_has_space_for_is_not_begun(tmp_path, make, asked, target):
    dag, root = bomb("raw", MIB, 2000, 2000, 100)
    to = tmp_path / "file" if target else None
    with ScriptedServer(make(dag)) as server:
        with Client.init(config_for(server)) as client:
            with pytest.raises(OSError, match="are free") as caught:
                client.download(root, to=to)
        assert caught.value.errno == errno.ENOSPC
        assert kinds(server) == asked
    assert nothing_in(tmp_path)


def test_content_of_max_bytes_is_read(tmp_path):
    dag, root = bomb("raw", 1000, 10)
    with ScriptedServer(block_gateway(dag.blocks)) as server:
        with Client.init(config_for(server)) as client:
            assert (client.download(root, max_bytes=10_000)).size == 10_000
            blob = client.download(root, to=tmp_path / "file", max_bytes=10_000)
            assert blob.size == 10_000
            with pytest.raises(TooLargeError):
                client.download(root, max_bytes=9_999)


@pytest.mark.parametrize("size", [40_000, 2 * MIB], ids=["small", "large"])
@pytest.mark.parametrize("ways", [{}, {"chunked": True}], ids=["with a length", "chunked"])
def test_a_gateway_that_sends_too_much_does_not_keep_the_next_from_being_asked(size, ways):
    content = os.urandom(size)
    cid = str(Dag().raw(content))
    with (
        ScriptedServer(lambda _: Scripted(body=content + b"x", **ways)) as liar,
        ScriptedServer(lambda _: Scripted(body=content)) as honest,
    ):
        with Client.init(config_for_all(liar, honest)) as client:
            assert (client.download(cid, max_bytes=size)).read() == content
        with Client.init(config_for(honest)) as client:
            with pytest.raises(TooLargeError):
                client.download(cid, max_bytes=size - 1)


def test_without_verification_the_length_that_is_declared_counts(server):
    cid = str(Dag().raw(b"hello"))
    with Client.init(config_for(server, verify=False)) as client:
        server.reply(200, b"hello world")
        with pytest.raises(TooLargeError):
            client.download(cid, max_bytes=10)
        server.reply(200, b"hello world", chunked=True)
        with pytest.raises(TooLargeError):
            client.download(cid, max_bytes=10)


def test_the_local_store_has_the_same_limits(tmp_path):
    dag, root = bomb("raw", 1000, 5000, 5000)
    _, vast = dag.repeated(CID.parse(root), 25_000_000_000, 1000, 1000)
    vast = str(list(dag.blocks)[-1])
    (tmp_path / "copies").mkdir()
    with Client.init(path=tmp_path / "store") as client:
        with client.provider.repository.adding() as adding:
            for cid, block in dag.blocks.items():
                adding.put(cid, block)
            adding.flush()
            for to in (None, tmp_path / "copies" / "file"):
                with pytest.raises(TooLargeError):
                    client.download(root, to=to, max_bytes=MIB)
                with pytest.raises(OSError, match="are free"):
                    client.download(vast, to=to)
    assert nothing_in(tmp_path / "copies")


@pytest.mark.parametrize("target", [False, True], ids=["blob", "file"])
def test_a_download_ends_when_the_disk_gets_full(tmp_path, monkeypatch, target):
    dag, root = bomb("raw", MIB, 8)
    monkeypatch.setattr(disk_space, "CHECKED_EVERY", 2 * MIB)
    checks = 0

    def shrinking(_folder):
        nonlocal checks
        checks += 1
        return 1 << 40 if checks == 1 else 1000

    monkeypatch.setattr(disk_space, "free_bytes", shrinking)
    with ScriptedServer(block_gateway(dag.blocks)) as server:
        with Client.init(config_for(server)) as client:
            with pytest.raises(OSError, match="are free"):
                client.download(root, to=tmp_path / "file" if target else None)
    assert nothing_in(tmp_path)


@pytest.mark.parametrize("cached", [False, True], ids=["another disk", "the same disk"])
def test_a_real_disk_has_no_space_for_the_file(small_disk, tmp_path, cached):
    dag, root = bomb("raw", MIB, 20)
    cache = (small_disk if cached else tmp_path) / "cache"
    fits, small = bomb("raw", MIB, 4)
    with ScriptedServer(block_gateway(dag.blocks | fits.blocks)) as server:
        with Client.init(config_for(server, cache_path=cache)) as client:
            with pytest.raises(OSError, match="are free") as caught:
                client.download(root, to=small_disk / "file")
            assert caught.value.errno == errno.ENOSPC
            assert caught.value.filename == str(small_disk)
            client.download(small, to=small_disk / "file")
    assert [each.name for each in small_disk.iterdir() if each.name != "cache"] == ["file"]


def test_all_files_of_a_folder_count(tmp_path):
    dag = FolderDag()
    names = [f"{number}" for number in range(20)]
    files = [dag.file(name.encode() * 100_000) for name in names]  # more than one kind of file
    root = str(dag.folder(*zip(names, files, strict=True), ("sub", dag.folder(("a", files[0])))))
    size = sum(100_000 * len(name) for name in names) + 100_000
    for kinds_served in (("raw", "car", "plain"), ("raw", "plain"), ("raw",)):
        with ScriptedServer(serving(dag, kinds=kinds_served)) as server:
            with Client.init(config_for(server)) as client:
                with pytest.raises(TooLargeError, match="max_bytes"):
                    client.download_folder(root, tmp_path / "copy", max_bytes=size - 1)
                assert nothing_in(tmp_path)
                to = tmp_path / "-".join(kinds_served)
                client.download_folder(root, to, max_bytes=size)
                shutil.rmtree(to)


def test_a_folder_with_a_vast_file_is_refused_by_the_root_of_the_file(tmp_path):
    dag = FolderDag()
    bombs, vast = bomb("raw", MIB, 2000, 2000, 4)
    dag.update(bombs.blocks)
    root = str(dag.folder(("vast", CID.parse(vast))))
    with ScriptedServer(serving(dag, kinds=("raw",))) as server:
        with Client.init(config_for(server)) as client:
            with pytest.raises(OSError, match="are free"):
                client.download_folder(root, tmp_path / "copy")
            with pytest.raises(TooLargeError):
                client.download_folder(root, tmp_path / "copy", max_bytes=10)
        assert len(server.requests) <= 6
    assert nothing_in(tmp_path)


def test_a_folder_that_declares_more_than_the_disk_has_is_refused_by_its_root(tmp_path):
    dag = FolderDag()
    links = [Link(dag.file(b"%d" % n), b"%d" % n, 1 << 50) for n in range(10)]
    root = str(dag.put(dag_pb.encode(links, data.DIRECTORY)))
    with ScriptedServer(serving(dag)) as server:
        with Client.init(config_for(server)) as client:
            with pytest.raises(OSError, match="are free"):
                client.download_folder(root, tmp_path / "copy")
        assert len(server.requests) == 1
    assert nothing_in(tmp_path)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "1"])
def test_max_bytes_is_a_whole_number(server, tmp_path, wrong):
    with Client.init(config_for(server)) as client:
        kind = ValueError if wrong in (0, -1) else TypeError
        with pytest.raises(kind, match="max_bytes"):
            client.download(str(Dag().raw(b"")), max_bytes=wrong)
        with pytest.raises(kind, match="max_bytes"):
            client.download_folder(str(Dag().raw(b"")), tmp_path / "x", max_bytes=wrong)
    assert server.requests == []
