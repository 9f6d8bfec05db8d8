# WARNING: this file is generated from tests/_async/test_download_limits.py
# by scripts/generate_sync.py. Change the original instead.
"""How much a download may write: `max_bytes`, `max_unverified_bytes`, and the space on the disk.

A small DAG can stand for a file or folder of any size.
"""

import errno
import os
import shutil
import time
from dataclasses import replace
from itertools import chain, repeat

import pytest

from holdfast import Client
from holdfast.content import dag_pb
from holdfast.content.cid import CID
from holdfast.content.dag_pb import Link
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.content.reference import Reference
from holdfast.content.unixfs import data
from holdfast.disk import disk_space
from holdfast.disk.disk_space import DiskSpace
from holdfast.errors import TooLargeError, UnprovenError, VerificationError
from holdfast.sinks.entries import DiskUsage
from holdfast.sinks.work_folder import PartFile, WorkFolder
from holdfast.testing import Scripted, ScriptedServer
from tests._sync.reading import client_of
from tests._sync.test_verified import GATEWAYS, bomb
from tests.attackers import Attacker
from tests.content import Blocks
from tests.dags import MIB, Dag, block_gateway
from tests.faulty import gateway_of
from tests.folder_dags import FolderDag, serving
from tests.gateways import config_for_all, kinds
from tests.support import config_for, raw_cid


def nothing_in(folder):
    return not list(folder.iterdir())


@pytest.mark.parametrize("target", [False, True], ids=["blob", "file"])
@pytest.mark.parametrize(("make", "asked"), GATEWAYS.values(), ids=GATEWAYS)
def test_a_file_that_is_too_large_is_refused_by_its_root(tmp_path, make, asked, target):
    cache = tmp_path.with_name(f"{tmp_path.name}-cache")  # the cases have the same root
    dag, root = bomb("raw", MIB, 2000, 2000, 100)
    to = tmp_path / "file" if target else None
    for max_bytes in (1 << 40, None):  # more than the caller takes, or more than any disk has
        gateways = ScriptedServer(make(dag)), ScriptedServer(make(dag))
        with client_of(*gateways, cache_path=cache) as (client, server, other):
            with pytest.raises((TooLargeError, OSError), match=r"max_bytes|are free") as caught:
                client.download(root, to=to, max_bytes=max_bytes)
        if max_bytes:
            assert (caught.value.limit, caught.value.size) == (1 << 40, 400_000_000 * MIB)
        else:
            assert caught.value.errno == errno.ENOSPC
        assert kinds(server) == asked
        assert other.requests == []  # the size is verified: it is the same everywhere
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
        for chunked in (False, True):
            server.reply(200, b"hello world", chunked=chunked)
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


def test_files_that_are_too_much_at_the_same_time_are_all_closed_and_removed(tmp_path):
    """Without one of them, the other is still too much."""
    work = WorkFolder(tmp_path / "copy", Reference.parse(raw_cid(b"")))
    work.open()
    usage = DiskUsage(DiskSpace(tmp_path), max_bytes=9)
    files = [PartFile(work, (n,), CID.of_raw(b""), usage, continues=False) for n in ("a", "b")]
    for file in files:
        file.open()
    for file in files:
        with pytest.raises(TooLargeError):
            file.write(bytes(10))
    for file in files:
        opened = file.read_all()
        file.discard()
        assert opened.closed
    assert nothing_in(work.path / "parts")
    assert (usage.size, usage.written) == (0, 0)
    work.close()


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


# Bodies that can only be verified at their end have a limit, which no gateway can raise.

LIMIT = 3 * MIB
TREE = str(Blocks.of_file(b"{}", UNIXFS_V0_2015)[0])
NAMES = pytest.mark.parametrize("cid", [raw_cid(b"{}"), TREE], ids=["block", "tree"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where temporary and partial files would be."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def only_plain(reply):
    """A gateway that gives neither blocks nor archives."""
    return ScriptedServer(
        lambda request: Scripted(status=406) if "format=" in request.target else reply
    )


@NAMES
@pytest.mark.parametrize("to_file", [False, True], ids=["spooled", "to a file"])
def test_an_endless_body_is_cut_off_at_the_limit(folder, cid, to_file):
    # The plain body first; then a block, and an archive.
    refused = [b"HTTP/1.1 406 No\r\nContent-Length: 0\r\n\r\n"]
    endless = chain([b"HTTP/1.1 200 OK\r\n\r\n"], repeat(b"x" * 65536))
    attacks = [endless, refused, refused]
    options = {"max_unverified_bytes": LIMIT, "retries": {"attempts": 4}}
    with Attacker(lambda: attacks.pop(0)) as attacker:
        config = config_for(attacker, cache_path=folder / "cache", **options)
        with Client.init(config) as client:
            with pytest.raises(UnprovenError, match=rf"max_unverified_bytes \({LIMIT}\)"):
                client.download(cid, to=folder / "file" if to_file else None)
        assert attacker.sent < LIMIT + 16 * MIB  # buffers of the sockets, too
    assert [path for path in folder.rglob("*") if path.is_file()] == []


@NAMES
def test_a_length_above_the_limit_is_refused_before_the_body(folder, cid):
    reply = Scripted(headers={"Content-Length": str(LIMIT + 1)}, body=b"x", cut=1, ending="stall")
    begun = time.monotonic()
    limits = {"max_unverified_bytes": LIMIT, "cache_path": folder}
    with client_of(only_plain(reply), **limits) as (client, _):
        with pytest.raises(UnprovenError, match="max_unverified_bytes"):
            client.download(cid)
    assert time.monotonic() - begun < 10


def test_a_body_within_the_limit_is_read(folder):
    data = bytes(LIMIT)
    cid = str(Blocks.of_file(data, UNIXFS_V1_2025)[0])
    body = only_plain(Scripted(body=data, chunked=True))
    with client_of(body, max_unverified_bytes=LIMIT) as (client, _):
        assert (client.download(cid)).read() == data


def test_the_size_that_a_verified_root_tells_is_the_limit():
    """Its children are refused, so that the rest can only be verified at its end."""
    odd = replace(UNIXFS_V1_2025, chunk_size=1000, width=3)
    root, blocks = Blocks.of_file(bytes(range(200)) * 50, odd)
    plain = lambda _: Scripted(body=bytes(range(200)) * 50 + bytes(4 * MIB))  # noqa: E731
    with ScriptedServer(gateway_of({root: blocks[root]}, plain)) as server:
        with Client.init(config_for(server)) as client:
            with pytest.raises(VerificationError) as caught:
                client.download(str(root))
    assert not isinstance(caught.value, UnprovenError)
    assert str(caught.value) == f"the content does not match the CID {root}"


def test_without_verify_the_length_of_the_gateway_counts_and_else_the_limit():
    data = bytes(LIMIT + 1)
    config = {"max_unverified_bytes": LIMIT, "verify": False}
    with client_of(only_plain(Scripted(body=data)), **config) as (client, _):
        assert (client.download(TREE)).size == len(data)
    with client_of(only_plain(Scripted(body=data, chunked=True)), **config) as (client, _):
        with pytest.raises(UnprovenError, match="max_unverified_bytes"):
            client.download(TREE)
