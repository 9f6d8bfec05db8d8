"""Large uploads: leaves are made on several threads, and bodies are received in large pieces."""

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.content.cid import CID
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.disk.folders import Folder, create
from holdfast.node.http_server import http_connection
from holdfast.node.http_server.request_parser import RequestParser
from holdfast.repository import Repository, block_files
from holdfast.repository.adding import FileAdding
from holdfast.repository.block_files import SharedFolder
from tests.node_caller import Caller
from tests.node_process import ON_LINUX

MIB = 1 << 20
PROFILES = [UNIXFS_V1_2025, UNIXFS_V0_2015, KUBO_LEGACY_CIDV1]


@pytest.fixture
def repository(tmp_path):
    with Repository(tmp_path / "store") as repository:
        yield repository


def pieces_of(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]


def temporary_files(repository):
    return list((repository.path / "blocks" / "tmp").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("leaves", [0, 0.01, 0.5, 1, 1.5, 2, 9.25])
@pytest.mark.parametrize("size", [50_000, 3 * MIB + 1])
def test_a_file_has_the_same_blocks_as_without_threads(repository, profile, leaves, size):
    data = os.urandom(int(leaves * profile.chunk_size))
    blocks = {}
    importer = FileImporter(profile, blocks.__setitem__)
    importer.update(data)
    expected = importer.finish()
    with repository.adding() as adding:
        file = FileAdding(adding, profile)
        for piece in pieces_of(data, size):
            file.update(piece)
        assert file.leaf_bytes < profile.chunk_size
        part = file.finish()
        adding.pin(part.cid, size=part.dag_size)
    assert part == expected
    assert all(repository.block(cid) == block for cid, block in blocks.items())
    assert b"".join(repository.read(part.cid)) == data
    assert temporary_files(repository) == []
    assert list(repository.check()) == []


def test_tiny_pieces_are_joined(repository):
    data = os.urandom(20_000)
    with repository.adding() as adding:
        file = FileAdding(adding, UNIXFS_V1_2025)
        for number in range(len(data)):
            file.update(data[number : number + 1])
            assert len(file._pieces) <= 65
        assert file.finish().cid == CID.of_raw(data)


def test_a_block_that_cannot_be_written_fails_the_file_and_leaves_nothing(repository, monkeypatch):
    fsync, calls = os.fsync, []

    def fail(descriptor):
        calls.append(descriptor)
        if len(calls) == 6:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with repository.adding() as adding:
        file = FileAdding(adding, UNIXFS_V1_2025)
        with pytest.raises(OSError, match="No space"):
            file.update(os.urandom(20 * MIB))
        file.close()
    assert temporary_files(repository) == []
    monkeypatch.undo()
    assert repository.pins() == []
    repository.collect_garbage()
    assert list(repository.check()) == []


def names_in(folder):
    return tuple(sorted(path.name for path in folder.iterdir()))


@ON_LINUX
def test_every_block_and_its_name_is_durable_before_its_row_is_committed(repository, monkeypatch):
    fsync, synced, commits, missing = os.fsync, set(), [], []
    blocks = repository.path / "blocks"

    def note(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        state = (path.name, names_in(path)) if path.is_dir() else os.fstat(descriptor).st_ino
        fsync(descriptor)
        synced.add(state)

    def check(statement):  # what it raises is lost
        if statement == "COMMIT":
            folders = [folder for folder in blocks.iterdir() if folder.name != "tmp"]
            files = [file for folder in folders for file in folder.iterdir()]
            needed = {(folder.name, names_in(folder)) for folder in (blocks, *folders)}
            missing.extend(needed.union(file.stat().st_ino for file in files) - synced)
            commits.append(len(files))

    monkeypatch.setattr(os, "fsync", note)
    connection = repository._database._connection
    connection.set_trace_callback(check)
    with repository.adding() as adding:
        file = FileAdding(adding, UNIXFS_V1_2025)
        file.update(os.urandom(30 * MIB))
        part = file.finish()
        adding.pin(part.cid, size=part.dag_size)
    connection.set_trace_callback(None)
    assert missing == []
    assert commits == [8, 24, 30]  # each batch is larger; the rest is committed with the pin


@ON_LINUX
def test_all_files_that_are_added_share_one_open_folder_until_they_end(repository):
    folder = repository.path / "blocks" / "tmp"

    def times_open():
        descriptors = Path("/proc/self/fd").iterdir()
        return [os.path.realpath(path) for path in descriptors].count(str(folder))

    with repository.adding() as adding:
        files = [FileAdding(adding, UNIXFS_V1_2025) for _ in range(3)]
        assert times_open() == 0
        for file in files:
            file.update(os.urandom(2 * MIB))
        assert times_open() == 1
        files[0].finish()
        files[1].close()
        assert times_open() == 1
        files[2].finish()
        assert times_open() == 0


def test_threads_that_come_and_go_always_find_the_folder_open(tmp_path):
    folder = SharedFolder(Folder(tmp_path))

    def use(number):
        for count in range(500):
            with folder.opened() as place:
                os.close(create(place, f"{number}-{count}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    assert len(list(tmp_path.iterdir())) == 4000


def test_few_blocks_are_in_memory_however_many_files_are_added(repository, monkeypatch):
    """The threads have `AT_ONCE` blocks at the most: who has another one waits."""
    monkeypatch.setattr(block_files, "THREADS", 1)
    may_go, begun = threading.Event(), threading.Semaphore(0)

    def job():
        begun.release()
        assert may_go.wait(30)

    threads = repository._files.threads
    futures = [threads.submit(job) for _ in range(block_files.AT_ONCE)]
    assert begun.acquire(timeout=30)
    late = threading.Thread(target=lambda: futures.append(threads.submit(job)))
    late.start()
    late.join(0.2)
    assert late.is_alive()
    may_go.set()
    late.join(30)
    assert not late.is_alive()
    for future in futures:
        future.result(30)


def test_a_forked_child_has_its_own_threads(repository):
    if not hasattr(os, "fork"):
        pytest.skip("no fork")
    repository._files.threads.submit(int).result()
    child = os.fork()
    if not child:
        code = 1
        try:
            with repository.adding() as adding:
                file = FileAdding(adding, UNIXFS_V1_2025)
                file.update(bytes(3 * MIB))
                code = 7 if file.finish().size == 3 * MIB else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


# The body of a request


def test_a_large_body_is_received_in_large_parts(node, monkeypatch):
    sizes = []
    feed = RequestParser.feed
    monkeypatch.setattr(
        RequestParser, "feed", lambda self, data: (sizes.append(len(data)), feed(self, data))[1]
    )
    data = os.urandom(20 * MIB)
    cid = CID.parse(Caller(node).pin(data))
    assert b"".join(node.repository.read(cid)) == data
    assert sizes[0] <= http_connection.RECEIVE_SIZE < max(sizes)


@pytest.mark.parametrize("extra", [-1, 0, 1, 2])
def test_bodies_that_end_at_any_point_are_complete(node, monkeypatch, extra):
    monkeypatch.setattr(http_connection, "BODY_SIZE", 1000)
    data = os.urandom(40_000 + extra)
    assert Caller(node).pin(data) == str(CID.of_raw(data))
