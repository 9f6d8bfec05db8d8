"""Uploads keep their blocks, whatever the clock says and whoever is killed; new stores; forks."""

import errno
import fcntl
import os
import random
import signal
import time
from pathlib import Path

import pytest

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.errors import ProviderError
from holdfast.repository import Repository
from tests.programs import run_program, start_program
from tests.stores import HALTED_UPLOAD, assert_whole_after_kills, block_files, change

MIB = 1 << 20
COLLECT = """
import sys, time
real = time.time
time.time = lambda: real() + float(sys.argv[2])
from holdfast.repository import Repository
with Repository(sys.argv[1]) as repository:
    print(repository.collect_garbage().blocks)
"""


def start_at(clock, library, code, *arguments):
    """Start a program whose clock is another one, if there is a library for that."""
    environment = dict(os.environ)
    if clock is not None and library is not None:
        # The monotonic clock stays, and so do the times of files: those are what a jump leaves.
        environment |= {
            "LD_PRELOAD": str(library),
            "FAKETIME": clock,
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
    return start_program(code, *arguments, env=environment)


@pytest.fixture
def uploader(tmp_path):
    """Another process in the middle of an upload to the store in `tmp_path`."""
    process = start_program(HALTED_UPLOAD, tmp_path)
    assert process.stdout.readline() == "half\n"
    yield process
    process.kill()
    process.communicate()


def begin(repository):
    """Begin an upload whose first batch, of 8 MiB, is in the store."""
    adding = repository.adding()
    importer = FileImporter(UNIXFS_V1_2025, adding.put)
    importer.update(os.urandom(10 * MIB))
    return adding, importer


@pytest.mark.slow
@pytest.mark.parametrize("days", [2, -2])
def test_a_collection_with_another_clock_takes_nothing_from_a_running_upload(tmp_path, days):
    with Repository(tmp_path) as repository:
        first, importer = begin(repository)
        assert run_program(COLLECT, tmp_path, days * 86400) == "0\n"
        # It once took the number of the first, whose lease was gone.
        second, _ = begin(repository)
        part = importer.finish()
        first.pin(part.cid, size=part.dag_size)
        first.close()
        second.close()  # what it wrote is garbage
        assert repository.collect_garbage().blocks >= 8
        assert list(repository.check()) == []
        assert list((tmp_path / "blocks/tmp").iterdir()) == []
        assert sum(map(len, repository.read(part.cid))) == 10 * MIB


@pytest.mark.slow
def test_an_upload_of_another_process_goes_on_after_a_collection(tmp_path, uploader):
    with Repository(tmp_path) as repository:
        assert repository.collect_garbage().blocks == 0
        cid, _ = uploader.communicate("\n")
        repository.collect_garbage()
        assert sum(map(len, repository.read(CID.parse(cid.strip())))) == 20 * MIB


def test_what_a_killed_upload_left_is_collected_without_waiting_a_day(tmp_path, uploader):
    with Repository(tmp_path) as repository:
        uploader.send_signal(signal.SIGKILL)
        uploader.wait()
        assert repository.collect_garbage().blocks >= 8
        assert block_files(tmp_path) == {}
        assert len(list((tmp_path / "owners").iterdir())) == 1  # that of this repository


def test_an_upload_whose_lease_is_gone_is_refused_although_others_have_leases(tmp_path):
    with Repository(tmp_path) as repository:
        first, importer = begin(repository)
        change(tmp_path, "DELETE FROM adds")  # as if no lock could be seen from elsewhere
        repository.collect_garbage()
        second, _ = begin(repository)
        with pytest.raises(ProviderError, match="was dropped"):
            first.pin(importer.finish().cid)
        first.close()
        second.close()


@pytest.mark.parametrize("has_locks", [True, False])
def test_repositories_of_one_process_leave_each_others_uploads_alone(
    tmp_path, monkeypatch, has_locks
):
    """Also where the file system has no locks."""

    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    if not has_locks:
        monkeypatch.setattr(fcntl, "flock", no_locks)
    with Repository(tmp_path) as one, Repository(tmp_path) as other:
        adding, importer = begin(one)
        assert other.collect_garbage().blocks == 0
        adding.pin(importer.finish().cid)
        adding.close()
        assert list(other.check()) == []


@pytest.mark.slow
def test_a_forked_child_ends_no_upload_of_its_parent(tmp_path):
    code = """
import os, sys
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.repository import Repository
repository = Repository(sys.argv[1])
adding = repository.adding()
importer = FileImporter(UNIXFS_V1_2025, adding.put)
importer.update(os.urandom(10 << 20))
child = os.fork()
if child == 0:
    own = repository.adding()
    half = FileImporter(UNIXFS_V1_2025, own.put)
    half.update(os.urandom(10 << 20))
    adding.close()
    repository.collect_garbage()
    repository.close()
    sys.exit()
print(os.waitpid(child, 0)[1])
print(repository.collect_garbage().blocks >= 8)  # what the child left
part = importer.finish()
adding.pin(part.cid)
print(list(repository.check()))
repository.close()
"""
    assert run_program(code, tmp_path) == "0\nTrue\n[]\n"


# A new store

OPEN = """
import sys
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.repository import Repository
print("ready", flush=True)
sys.stdin.readline()
with Repository(sys.argv[1]) as repository:
    for number in range(20):
        repository.add(f"{sys.argv[2]} {number}".encode(), UNIXFS_V1_2025)
    print(*repository.check())
"""


@pytest.mark.slow
def test_a_new_folder_may_be_opened_by_several_at_once_and_one_be_killed(tmp_path):
    folder = tmp_path / "store"
    processes = [start_program(OPEN, folder, number) for number in range(5)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    time.sleep(0.01)
    processes[0].kill()
    assert [process.communicate()[0] for process in processes][1:] == ["\n"] * 4
    with Repository(folder) as repository:
        assert repository.totals().pins >= 80
        assert list(repository.check()) == []
    assert list((folder / "owners").iterdir()) == []


FORKING = """
import os, sys, threading, warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded")  # which is what is tested
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.repository import Repository
repository = Repository(sys.argv[1])
inside, go_on = threading.Event(), threading.Event()
def write():
    with repository._database.writing():
        inside.set()
        go_on.wait(0.5)
thread = threading.Thread(target=write)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    repository.add(b"of the child", UNIXFS_V1_2025)
    os._exit(0)
code = os.waitpid(child, 0)[1]
thread.join()
repository.add(b"of the parent", UNIXFS_V1_2025)
print(code, len(repository.pins()))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_is_forked_during_a_transaction_can_write(tmp_path):
    assert run_program(FORKING, tmp_path) == "0 2\n"


# Sixty kills

KILLS = 60
CLOCKS = (None, "+1d", "-1d")
WRITER = """
import os, sys, time
from holdfast import Client
print(time.time(), flush=True)
with Client.init(path=sys.argv[1]) as client:
    for number in range(100_000):
        kind = number % 4
        if kind == 0:
            record = client.store({"writer": sys.argv[2], "number": number})
        elif kind == 1:  # what others store and revoke as well
            record = client.upload(bytes([number % 5]) * 300_000 + sys.argv[2].encode())
        elif kind == 2:
            client.revoke(client.upload(bytes([number % 5]) * 300_000 + b"revoked").cid)
            continue
        else:  # several batches, leased in between
            record = client.upload(os.urandom(1 << 20) * 12 + os.urandom(64))
        print(record.cid, flush=True)
"""
COLLECTOR = """
import sys, time
from holdfast.repository import Repository
print(time.time(), flush=True)
with Repository(sys.argv[1]) as repository:
    while True:
        repository.collect_garbage()
        print("collected", flush=True)
"""


def kill(process):
    """Kill it; what it had said by then. A last line that was cut was not said."""
    process.send_signal(signal.SIGKILL)
    output, errors = process.communicate()
    assert errors == ""
    return output.splitlines()[: output.count("\n")]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_sixty_kills_with_clocks_that_jump_lose_nothing_that_was_acknowledged(tmp_path):
    library = next(iter(sorted(Path("/usr").glob("lib*/**/faketime/libfaketime.so.1"))), None)
    acknowledged, collections = [], 0
    stalled = start_program(HALTED_UPLOAD, tmp_path)
    assert stalled.stdout.readline() == "half\n"
    try:
        for turn in range(KILLS):
            clocks = CLOCKS[turn % 3], CLOCKS[(turn // 3 + 1) % 3]
            writer = start_at(clocks[0], library, WRITER, tmp_path, f"w{turn}")
            collector = start_at(clocks[1], library, COLLECTOR, tmp_path)
            for process, clock in zip((writer, collector), clocks, strict=True):
                offset = float(process.stdout.readline()) - time.time()
                expected = {None: 0, "+1d": 86400, "-1d": -86400}[clock] if library else 0
                assert abs(offset - expected) < 600
            time.sleep(random.uniform(0.1, 1.0))  # noqa: S311
            collections += len(kill(collector))
            acknowledged += kill(writer)
        cid, errors = stalled.communicate("\n")
        assert errors == ""
        acknowledged.append(cid.strip())
    finally:
        stalled.kill()
        stalled.communicate()
    assert len(acknowledged) > KILLS
    assert collections > KILLS
    with Repository(tmp_path) as repository:
        repository.collect_garbage()
        for cid in acknowledged:
            assert repository.find_pin(CID.parse(cid)) is not None
            assert sum(map(len, repository.read(CID.parse(cid)))) > 0
        assert_whole_after_kills(repository)
        assert repository.repair().lost == []
        assert all(repository.find_pin(CID.parse(cid)) is not None for cid in acknowledged)
        assert list(repository.check()) == []
    if library is None:
        pytest.skip("libfaketime is not installed (`make clock`): all clocks were right")
