"""Uploads keep their blocks, whatever the clock says and whoever is killed; new stores; forks."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.errors import ConfigError, ProviderError
from holdfast.repository import Repository, owners
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


@pytest.fixture
def tmp_path(memory_folder):
    return memory_folder


def start(code, *arguments, clock=None, library=None):
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
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


@pytest.fixture
def uploader(tmp_path):
    """Another process in the middle of an upload to the store in `tmp_path`."""
    process = start(HALTED_UPLOAD, tmp_path)
    assert process.stdout.readline() == "half\n"
    yield process
    process.kill()
    process.communicate()


def run(code, *arguments):
    """Run a program that writes no error; what it wrote."""
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)  # noqa: S603
    assert done.stderr == ""
    return done.stdout


def collect_at(folder, seconds):
    """Collect garbage in a process whose clock is `seconds` ahead."""
    return int(run(COLLECT, folder, seconds))


def begin(repository, size=10 * MIB):
    """Begin an upload whose first batch, of 8 MiB, is in the store."""
    adding = repository.adding()
    importer = FileImporter(UNIXFS_V1_2025, adding.put)
    importer.update(os.urandom(size))
    return adding, importer


@pytest.mark.parametrize("size", [8 * MIB, 10 * MIB])
@pytest.mark.parametrize("days", [2, -2])
def test_a_collection_with_another_clock_takes_nothing_from_a_running_upload(tmp_path, days, size):
    with Repository(tmp_path) as repository:
        first, importer = begin(repository, size)
        assert collect_at(tmp_path, days * 86400) == 0
        # It once took the number of the first, whose lease was gone.
        second, _ = begin(repository)
        part = importer.finish()
        first.pin(part.cid, size=part.dag_size)
        first.close()
        second.close()
        repository.collect_garbage()
        assert list(repository.check()) == []
        assert sum(map(len, repository.read(part.cid))) == size


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
        with pytest.raises(ProviderError, match="given up"):
            first.pin(importer.finish().cid)
        first.close()
        second.close()


def test_repositories_of_one_process_leave_each_others_uploads_alone(tmp_path):
    with Repository(tmp_path) as one, Repository(tmp_path) as other:
        adding, importer = begin(one)
        assert other.collect_garbage().blocks == 0
        adding.pin(importer.finish().cid)
        adding.close()
        assert list(other.check()) == []


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
    assert run(code, tmp_path) == "0\nTrue\n[]\n"


def test_an_owner_is_gone_when_its_repository_is(tmp_path):
    with Repository(tmp_path):
        assert len(list((tmp_path / "owners").iterdir())) == 1
    assert list((tmp_path / "owners").iterdir()) == []


def test_where_the_file_system_has_no_locks_uploads_are_not_given_up(tmp_path, monkeypatch):
    def no_locks(_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(owners, "try_lock", no_locks)
    with Repository(tmp_path) as one, Repository(tmp_path) as other:
        adding, importer = begin(one)
        assert other.collect_garbage().blocks == 0
        adding.pin(importer.finish().cid)
        adding.close()


def test_a_link_in_the_place_of_the_owners_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "owners").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        Repository(tmp_path / "store")
    assert list((tmp_path / "elsewhere").iterdir()) == []


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


def test_a_new_folder_may_be_opened_by_several_at_once_and_one_be_killed(tmp_path):
    folder = tmp_path / "store"
    processes = [start(OPEN, folder, number) for number in range(5)]
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


FORKING = """
import os, sys, threading
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
    assert run(FORKING, tmp_path) == "0 2\n"


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


def find_libfaketime():
    """The library that gives a process another clock, if it is installed."""
    return next(iter(sorted(Path("/usr").glob("lib*/**/faketime/libfaketime.so.1"))), None)


def kill(process):
    """Kill it; what it had said by then. A last line that was cut was not said."""
    process.send_signal(signal.SIGKILL)
    output, errors = process.communicate()
    assert errors == ""
    return output.splitlines()[: output.count("\n")]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_sixty_kills_with_clocks_that_jump_lose_nothing_that_was_acknowledged(tmp_path):
    library = find_libfaketime()
    acknowledged, collections = [], 0
    stalled = start(HALTED_UPLOAD, tmp_path)
    assert stalled.stdout.readline() == "half\n"
    try:
        for turn in range(KILLS):
            clocks = CLOCKS[turn % 3], CLOCKS[(turn // 3 + 1) % 3]
            writer = start(WRITER, tmp_path, f"w{turn}", clock=clocks[0], library=library)
            collector = start(COLLECTOR, tmp_path, clock=clocks[1], library=library)
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
