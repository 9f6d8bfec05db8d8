"""A store on a disk that is full, or that can only be read."""

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import ProviderError
from holdfast.repository import Repository
from holdfast.repository.database.database import RESERVE
from holdfast.repository.database.opening import unchanged
from holdfast.testing import running_node
from tests import disks
from tests.disks import fill_up, mount, unmount
from tests.programs import run_program, start_program
from tests.psa import ALL, PSACaller
from tests.stores import DATABASE, snapshot

FULL = r"disk of the store is full|No space left"


# A full disk


@pytest.fixture
def disk(tmp_path):
    """A disk of 16 MiB."""
    with disks.disk(tmp_path / "disk", "size=16m") as folder:
        yield folder


def fill_by_storing(client):
    """Store small documents until there is no space for one more."""
    cids = []
    try:
        while True:
            cids.append(client.store({"number": len(cids), "text": os.urandom(7500).hex()}).cid)
    except OSError as error:
        assert error.errno == errno.ENOSPC  # noqa: PT017
    return cids


@pytest.mark.parametrize("how", ["this process", "another"])
def test_revoke_and_gc_free_a_disk_that_another_program_filled(disk, how):
    store = disk / "store"
    client = Client.init(path=store)
    pinned = client.store({"pinned": 1}).cid
    large = client.upload(os.urandom(6_000_000)).cid
    small = [client.store({"number": number}).cid for number in range(50)]
    if how == "another":
        client.close()
    fill_up(disk)
    client = Client.init(path=store) if how == "another" else client
    with client:
        assert client.retrieve(pinned) == {"pinned": 1}
        with pytest.raises(OSError, match=FULL):
            client.store({"more": 1})
        with pytest.raises(OSError, match=FULL):
            client.upload(os.urandom(100_000))
        for cid in (large, *small):
            assert client.revoke(cid) is True
        # Nothing of what was kept for this was used up.
        assert (store / "holdfast.reserve").stat().st_size > RESERVE - (1 << 20)
        assert client.provider.repository.collect_garbage().blocks >= 50
        assert client.retrieve(pinned) == {"pinned": 1}
        assert list(client.provider.repository.check()) == []
        assert client.upload(os.urandom(3_000_000)).size == 3_000_000
    with Repository(store) as repository:
        assert list(repository.check()) == []
        assert repository.totals().pins == 2


@pytest.mark.slow
def test_revoke_and_gc_free_a_disk_that_small_documents_filled(disk):
    """All of it lies in the databases: they must give their space back to the disk."""
    store = disk / "store"
    with Client.init(path=store) as client:
        cids = fill_by_storing(client)
        assert len(cids) > 100
        # What was acknowledged is there, also for those who come later.
    with Client.init(path=store) as client:
        assert all(client.retrieve(cid)["number"] == n for n, cid in enumerate(cids))
        for cid in cids[10:]:
            assert client.revoke(cid) is True
        assert client.provider.repository.collect_garbage().blocks >= len(cids) - 10
        assert list(client.provider.repository.check()) == []
        more = fill_by_storing(client)
        assert len(more) > len(cids) // 2
        for cid in cids[:10]:
            client.retrieve(cid)


def test_the_commands_free_a_full_disk(commands, disk):
    store = disk / "store"
    variables = {"HOLDFAST_PATH": str(store)}
    with Client.init(path=store) as client:
        large = client.upload(os.urandom(8_000_000)).cid
        pinned = client.store({"pinned": 1}).cid
    fill_up(disk)
    code, lines = commands.failure("store", "1", **variables)
    assert code == 1
    assert "the disk of the store is full" in lines[0]
    assert commands.text("retrieve", pinned, "--json", **variables) == '{"pinned": 1}'
    commands.text("revoke", large, **variables)
    assert commands.text("gc", **variables).startswith("removed 9 blocks")
    commands.text("store", "1", **variables)


@pytest.mark.slow
def test_uploads_that_fill_the_disk_leave_room_to_clean_up(disk):
    with Client.init(path=disk / "store") as client:
        pinned = client.store({"pinned": 1}).cid
        for _ in range(3):
            with pytest.raises(OSError, match=FULL):
                client.upload(os.urandom(40_000_000))
        assert client.revoke(pinned) is True
        client.provider.repository.collect_garbage()
        assert client.upload(os.urandom(6_000_000)).size == 6_000_000
        assert list(client.provider.repository.check()) == []


@pytest.mark.slow
def test_a_full_disk_for_temporary_files_stops_neither_check_nor_gc(commands, small_disk, tmp_path):
    with Repository(tmp_path / "store") as repository:
        repository.add(os.urandom(64 * 60_000), replace(UNIXFS_V1_2025, chunk_size=64))
    fill_up(small_disk)
    commands.environment["SQLITE_TMPDIR"] = str(small_disk)
    assert commands.text("check", "--path", tmp_path / "store").startswith("sound: 1 pin")
    assert commands.text("gc", "--path", tmp_path / "store").startswith("removed 0 blocks")


# A store that can only be read


BYTES = bytes(range(251)) * 10_000


def make_store(path):
    with Client.init(path=path) as client:
        return client.store({"hello": 1}).cid, client.upload(BYTES).cid


def read_all(client, document, large):
    assert client.retrieve(document) == {"hello": 1}
    assert client.download(large).read() == BYTES
    with client.open(large) as file:
        assert file.read(5) == BYTES[:5]
    assert {pin.cid for pin in client.pins()} == {document, large}
    assert list(client.provider.repository.check()) == []
    exported = b"".join(client.provider.repository.export_car(CID.parse(large)))
    assert len(exported) > len(BYTES)
    assert client.test_connection() is True


def assert_readable(path, document, large):
    with Client.init(path=path) as client:
        read_all(client, document, large)
        repository = client.provider.repository
        assert repository.read_only
        for change in (
            lambda: client.store(2),
            lambda: client.upload(b"z" * 100_000),
            lambda: client.revoke(document),
            repository.collect_garbage,
            lambda: repository.update_pin(CID.parse(document), name="other"),
            lambda: repository.pin(CID.parse(document)),
            repository.repair,
        ):
            with pytest.raises(OSError, match=r"read-only") as caught:
                change()
            assert caught.value.errno == errno.EROFS


def test_a_store_on_a_read_only_disk_can_be_read(tmp_path, read_only_disk, commands):
    made = make_store(tmp_path / "store")
    before = snapshot(tmp_path / "store")
    read_only_disk(tmp_path / "store")
    assert_readable(tmp_path / "store", *made)
    variables = {"HOLDFAST_PATH": str(tmp_path / "store")}
    assert commands.text("check", **variables).startswith("sound: 2 pins")
    code, lines = commands.failure("gc", **variables)
    assert code == 1
    assert "read-only" in lines[0]
    with running_node(tmp_path / "store") as node, Client.init(node.config) as client:
        assert client.download(made[1]).read() == BYTES
        for call in (lambda: client.store(1), lambda: client.revoke(made[0])):
            with pytest.raises(ProviderError, match="The store of the node is read-only"):
                call()
        caller = PSACaller(node)
        assert caller.count(status=ALL) == 2
        assert caller.failure("POST", json={"cid": made[0]}) == (500, "INTERNAL_SERVER_ERROR")
    assert snapshot(tmp_path / "store") == before


def test_a_read_only_copy_without_its_empty_folders_is_checked(tmp_path, read_only_disk):
    store = tmp_path / "store"
    with Client.init(path=store) as client:
        client.store({"hello": 1})
    shutil.rmtree(store / "blocks")
    read_only_disk(store)
    with Client.init(path=store) as client:
        assert list(client.provider.repository.check()) == []


KILLED = """
import os, signal, sys
from holdfast import Client
client = Client.init(path=sys.argv[1])
data = bytes(range(251)) * 10_000
print(client.store({"hello": 1}).cid, client.upload(data).cid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_what_is_only_in_the_log_is_read_as_well(tmp_path, read_only_disk):
    """A process was killed, and its disk is now read-only."""
    store = tmp_path / "store"
    with start_program(KILLED, store) as process:
        cids = process.stdout.read().split()
    assert (store / f"{DATABASE}-wal").stat().st_size
    read_only_disk(store)
    assert_readable(store, *cids)


def test_a_reading_of_what_changes_is_refused_and_ctrl_c_stays_ctrl_c(tmp_path):
    make_store(tmp_path)
    for error, expected in ((ValueError, ProviderError), (KeyboardInterrupt, KeyboardInterrupt)):
        with pytest.raises(expected), unchanged(tmp_path / DATABASE):  # noqa: PT012
            os.utime(tmp_path / DATABASE)
            raise error


WRITING = """
import sys
from holdfast import Client
with Client.init(path=sys.argv[1]) as client:
    for line in sys.stdin:
        print(client.store(line).cid, flush=True)
"""


@pytest.mark.slow
def test_another_may_write_what_is_read_only_here(tmp_path):
    """Through another mount, say. What is read is the old or the new, and never a mixture."""
    store = tmp_path / "store"
    document, _ = make_store(store)
    view = tmp_path / "view"
    view.mkdir()
    mount(view, "--bind", str(store))
    try:
        mount(view, "-o", "remount,ro,bind")
        with Client.init(path=view) as reader:
            assert reader.retrieve(document) == {"hello": 1}
            with start_program(WRITING, store, bufsize=1) as writer:
                for number in range(300):
                    writer.stdin.write(f"{number}\n")
                    cid = writer.stdout.readline().strip()
                    assert reader.retrieve(cid) == f"{number}\n"
            assert len(list(reader.pins())) == 302
            assert list(reader.provider.repository.check()) == []
    finally:
        unmount(view)


AS_USER = """
import os, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from holdfast import Client
from tests.test_store_disks import assert_readable, make_store, read_all
folder, whose = Path(sys.argv[1]), sys.argv[2]
made = make_store(folder / "root")
with Client.init(path=folder / "root") as client:
    read_all(client, *made)  # what it imports may lie in a folder that is root's alone
os.setgid(65534), os.setuid(65534)
if whose == "own":
    make_store(folder / "own/store")
    for path in [folder / "own/store", *(folder / "own/store").rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
assert_readable(folder / ("own/store" if whose == "own" else "root"), *made)
print("read")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize("whose", ["own", "root"])
def test_a_store_without_write_permission_can_be_read(public_folder, whose):
    """One's own with its permissions taken away, and one of root's."""
    own = public_folder / "own"
    own.mkdir()
    os.chown(own, 65534, 65534)
    root = Path(__file__).parent.parent
    assert run_program(AS_USER, public_folder, whose, root) == "read\n"
