"""Uploads keep their blocks, whatever the clock says; stores of version 1 are migrated."""

import errno
import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time

import pytest

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.errors import ConfigError, ProviderError, VerificationError
from holdfast.repository import Repository, owners
from tests import stores
from tests.stores import HALTED_UPLOAD, assert_full, block_files, fill, make_version_1

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


@pytest.fixture
def uploader(tmp_path):
    """Another process in the middle of an upload to the store in `tmp_path`."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", HALTED_UPLOAD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "half\n"
    yield process
    process.kill()
    process.communicate()


def collect_at(folder, seconds):
    """Collect garbage in a process whose clock is `seconds` ahead."""
    command = [sys.executable, "-c", COLLECT, str(folder), str(seconds)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return int(result.stdout)


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
        with sqlite3.connect(tmp_path / "holdfast.sqlite3") as connection:
            connection.execute("DELETE FROM adds")  # as if no lock could be seen from elsewhere
        connection.close()
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
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (result.stdout, result.stderr) == ("0\nTrue\n[]\n", "")


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


# Version 1


def test_a_store_of_version_1_is_migrated_with_all_that_is_in_it(tmp_path):
    pins = fill(tmp_path)
    make_version_1(tmp_path)
    assert_full(tmp_path, pins)
    with sqlite3.connect(tmp_path / "holdfast.sqlite3") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    connection.close()
    with Repository(tmp_path) as repository:
        assert repository.collect_garbage().blocks == 1
    assert_full(tmp_path, pins)


def test_a_migration_that_is_killed_anywhere_is_finished_at_the_next_opening(tmp_path):
    assert stores.killed_at_all_points("migrate", tmp_path, stride=13) > 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_migration_that_is_killed_at_every_statement_loses_nothing(tmp_path):
    assert stores.killed_at_all_points("migrate", tmp_path) > 30


def test_a_database_of_version_1_that_knows_none_of_the_block_files_is_not_migrated(tmp_path):
    """It was lost before the upgrade, and made anew: a collection would delete everything."""
    fill(tmp_path)
    make_version_1(tmp_path)
    with sqlite3.connect(tmp_path / "holdfast.sqlite3") as connection:
        for table in ("blocks", "links", "pins"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608
    connection.close()
    files = block_files(tmp_path)
    with Repository(tmp_path) as repository:
        assert "lists none of the files" in next(repository.check()).what
        with pytest.raises(VerificationError, match="holdfast repair"):
            repository.collect_garbage()
        assert len(repository.repair().roots) == len(files)
    assert block_files(tmp_path) == files


VERSION_1 = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("BEGIN IMMEDIATE")
(version,) = connection.execute("PRAGMA user_version").fetchone()
connection.execute("COMMIT")
if version > 1:
    sys.exit(f"schema {version}, this one knows 1")
"""


def test_the_check_of_version_1_refuses_a_newer_store(tmp_path):
    fill(tmp_path)
    command = [sys.executable, "-c", VERSION_1, str(tmp_path / "holdfast.sqlite3")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert result.stderr == "schema 3, this one knows 1\n"


@pytest.mark.slow
def test_holdfast_of_before_refuses_a_store_of_version_2_and_leaves_it_as_it_is(tmp_path):
    commit = "810623a"  # the last with schema version 1
    archive = tmp_path / "old.tar"
    command = ["git", "-C", str(stores.ROOT), "archive", "-o", str(archive), commit, "src"]
    if subprocess.run(command, capture_output=True, check=False).returncode:  # noqa: S603
        pytest.skip("the history of the project is not here")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    pins = fill(tmp_path / "store")
    code = "import sys; from holdfast import Client; Client.init(path=sys.argv[1])"
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, str(tmp_path / "store")],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "written by a newer version of Holdfast (schema 3, this one knows 1)" in result.stderr
    assert_full(tmp_path / "store", pins)


# A new store

OPEN = """
import sys
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.repository import Repository
print("ready", flush=True)
sys.stdin.readline()
with Repository(sys.argv[1]) as repository:
    repository.add(sys.argv[2].encode(), UNIXFS_V1_2025)
    print(*repository.check())
"""


def test_a_new_folder_may_be_opened_by_several_at_once_and_one_be_killed(tmp_path):
    folder = tmp_path / "store"
    processes = [
        subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", OPEN, str(folder), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(5)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    time.sleep(0.01)
    processes[0].kill()
    assert [process.communicate()[0] for process in processes][1:] == ["\n"] * 4
    with Repository(folder) as repository:
        assert repository.totals().pins >= 4
        assert list(repository.check()) == []


def test_a_new_store_whose_maker_is_killed_anywhere_is_finished_at_the_next_opening(tmp_path):
    assert stores.killed_at_all_points("create", tmp_path, stride=17) > 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_new_store_whose_maker_is_killed_at_every_statement_is_finished(tmp_path):
    assert stores.killed_at_all_points("create", tmp_path) > 40


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
    done = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.stdout == "0 2\n", done.stderr
