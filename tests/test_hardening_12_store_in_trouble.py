"""A store in trouble: checked beside writers, on a damaged or full disk, or only to be read."""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import ClientError, ProviderError
from holdfast.repository import PinQuery, Repository
from holdfast.repository.database.database import RESERVE
from holdfast.testing import running_node
from tests import disks
from tests.disks import mount, unmount
from tests.stores import make_version_1

DATABASE, COPY = "holdfast.sqlite3", "holdfast.copy.sqlite3"
FULL = r"disk of the store is full|No space left"


@pytest.fixture
def tmp_path(memory_folder):
    return memory_folder


def cid_of(pin):
    return CID.parse(pin.cid)


# check beside gc

CHURN = """
import os, sys
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.repository import Repository
with Repository(sys.argv[1]) as repository:
    print("ready", flush=True)
    while not os.path.exists(sys.argv[2]):
        pins = [repository.add(os.urandom(20_000), UNIXFS_V1_2025)[0] for _ in range(5)]
        pins.append(repository.add(os.urandom(300), UNIXFS_V1_2025)[0])
        for pin in pins:
            repository.unpin(CID.parse(pin.cid))
        repository.collect_garbage()
"""


def test_a_check_beside_collections_finds_no_damage(tmp_path):
    store, end = tmp_path / "store", tmp_path / "end"
    with Repository(store) as repository:
        for _ in range(20):
            repository.add(os.urandom(20_000), UNIXFS_V1_2025)
        other = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", CHURN, str(store), str(end)], stdout=subprocess.PIPE
        )
        other.stdout.readline()

        def churn():
            with Repository(store) as writer:
                while not end.exists():
                    pins = [writer.add(os.urandom(20_000), UNIXFS_V1_2025)[0] for _ in range(5)]
                    for pin in pins:
                        writer.unpin(cid_of(pin))
                    writer.collect_garbage()

        thread = threading.Thread(target=churn)
        thread.start()
        try:
            found = [damage for _ in range(20) for damage in repository.check()]
        finally:
            end.touch()
            thread.join()
            other.communicate()
        assert found == []
        assert other.returncode == 0


def test_what_is_damaged_in_truth_is_still_found(tmp_path):
    with Repository(tmp_path) as repository:
        pins = [repository.add(bytes([n]) * 20_000, UNIXFS_V1_2025)[0] for n in range(5)]
        for pin, harm in zip(pins, ("gone", "other bytes", "links", "", ""), strict=True):
            path = repository._files.path(bytes(cid_of(pin)))
            if harm == "gone":
                path.unlink()
            elif harm == "other bytes":
                path.write_bytes(b"x")
        with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
            connection.execute("INSERT INTO links SELECT id, key FROM blocks WHERE id = 3")
        found = {damage.cid: damage.what for damage in repository.check()}
    assert list(found) == [pins[0].cid, pins[1].cid, pins[2].cid]
    gone, other, links = found.values()
    assert gone == "its file is gone"
    assert other.startswith("it is damaged")
    assert links == "the database has other links for it than the block"


# Damaged pages

CALLS = (
    lambda r, pin: b"".join(r.read(cid_of(pin))),
    lambda r, pin: r.has(cid_of(pin)),
    lambda r, pin: r.pins(PinQuery(held=None)),
    lambda r, pin: r.pins(PinQuery(sort="name", name_contains="n")),
    lambda r, pin: r.count_pins(),
    lambda r, pin: r.find_pin(cid_of(pin)),
    lambda r, pin: r.totals(),
    lambda r, pin: list(r.check()),
    lambda r, pin: b"".join(r.export_car(cid_of(pin))),
    lambda r, pin: r.pin(cid_of(pin)),
    lambda r, pin: r.update_pin(cid_of(pin), name="other"),
    lambda r, pin: r.add(os.urandom(100), UNIXFS_V1_2025),
    lambda r, pin: r.add(os.urandom(50_000), UNIXFS_V1_2025),
    lambda r, pin: r.unpin(cid_of(pin)),
    lambda r, pin: r.collect_garbage(),
)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A store whose databases have some pages of each kind."""
    path = tmp_path_factory.mktemp("template") / "store"
    with Repository(path) as repository:
        with repository.adding() as adding:
            for number in range(300):
                data = b"%d" % number * 50
                adding.put(CID.of_raw(data), data)
            pin, _ = adding.pin(CID.of_raw(data))
            for number in range(100):
                adding.pin(CID.of_raw(b"%d" % number * 50), name=f"name-{number}")
        repository.add(b"x" * 3_000_000, UNIXFS_V1_2025, name="large")
    return path, pin


def damage_page(path, number, kind):
    with path.open("r+b") as file:
        file.seek(number * 4096)
        if kind == "cut":
            file.truncate()
        else:
            file.write({"zeros": bytes(4096), "noise": b"\xa5\x5a\x0d" * 1365}[kind])


@pytest.mark.parametrize("kind", ["zeros", "noise", "cut"])
def test_a_damaged_page_is_a_typed_error_in_every_call(tmp_path, template, kind):
    source, pin = template
    pages = (source / DATABASE).stat().st_size // 4096
    assert pages > 30
    errors = 0
    for name in (DATABASE, COPY):
        for page in {0, 1, 2, 3, 4, 5, 7, pages // 3, pages // 2, pages - 1}:
            store = tmp_path / f"{name}-{page}"
            shutil.copytree(source, store)
            damage_page(store / name, page, kind)
            try:
                with Repository(store) as repository:
                    for call in CALLS:
                        try:
                            call(repository, pin)
                        except ClientError as error:
                            assert "\n" not in str(error)  # noqa: PT017
                            errors += 1
            except ClientError:
                errors += 1
            shutil.rmtree(store)
    assert errors > 10


def test_a_page_that_is_damaged_while_the_store_is_open_is_a_typed_error(tmp_path, template):
    source, pin = template
    shutil.copytree(source, tmp_path / "store")
    with (
        Repository(tmp_path / "store") as repository,
        Client.init(path=tmp_path / "store") as client,
    ):
        path = tmp_path / "store" / DATABASE
        for page in range(1, path.stat().st_size // 4096):
            damage_page(path, page, "noise")
        errors = 0
        for call in CALLS:
            try:
                call(repository, pin)
            except ClientError as error:
                errors += "holdfast repair" in str(error)
        assert errors
        for call in (client.pins, lambda: client.retrieve(pin.cid), lambda: client.revoke(pin.cid)):
            with pytest.raises(ClientError):
                call()


def test_the_node_says_that_its_store_is_damaged(tmp_path, template):
    source, pin = template
    store = shutil.copytree(source, tmp_path / "store")
    with running_node(store) as node, Client.init(node.config) as client:
        for page in range(1, (store / DATABASE).stat().st_size // 4096):
            damage_page(store / DATABASE, page, "noise")
        for call in (client.pins, lambda: client.store(1), lambda: client.revoke(pin.cid)):
            with pytest.raises(ProviderError, match="The store of the node is damaged") as caught:
                call()
            assert caught.value.status == 500


def test_the_command_line_calls_damage_by_its_name(commands, template):
    source, pin = template
    store = commands.folder / "store"
    shutil.copytree(source, store)
    for page in range(1, (store / DATABASE).stat().st_size // 4096):
        damage_page(store / DATABASE, page, "noise")
    for command in (["list"], ["store", "1"], ["retrieve", pin.cid]):
        code, lines = commands.failure(*command, "--path", store)
        assert code in {3, 14}
        assert "damaged" in lines[0] or "no sound repository" in lines[0]
        assert "holdfast repair" in "".join(lines)
        assert "fault in holdfast" not in "".join(lines)


def test_a_store_that_is_locked_for_too_long_is_a_provider_error(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.repository.database.opening.BUSY_SECONDS", 0.1)
    with Repository(tmp_path) as repository:
        with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(ProviderError, match=r"in use.*try again"):
                repository.add(b"x", UNIXFS_V1_2025)
        repository.add(b"x", UNIXFS_V1_2025)


# A full disk


@pytest.fixture
def disk(tmp_path):
    """A disk of 16 MiB."""
    with disks.disk(tmp_path / "disk", "size=16m") as folder:
        yield folder


def fill(disk):
    """Use up every byte of the disk, as another program would."""
    with (disk / "filler").open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 12))
    assert shutil.disk_usage(disk).free == 0


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
    kept = client.store({"kept": 1}).cid
    large = client.upload(os.urandom(6_000_000)).cid
    small = [client.store({"number": number}).cid for number in range(50)]
    if how == "another":
        client.close()
    fill(disk)
    client = Client.init(path=store) if how == "another" else client
    with client:
        assert client.retrieve(kept) == {"kept": 1}
        with pytest.raises(OSError, match=FULL):
            client.store({"more": 1})
        with pytest.raises(OSError, match=FULL):
            client.upload(os.urandom(100_000))
        for cid in (large, *small):
            assert client.revoke(cid) is True
        # Nothing of what was kept for this was used up.
        assert (store / "holdfast.reserve").stat().st_size > RESERVE - (1 << 20)
        assert client.provider.repository.collect_garbage().blocks >= 50
        assert client.retrieve(kept) == {"kept": 1}
        assert list(client.provider.repository.check()) == []
        again = client.upload(os.urandom(3_000_000))
        assert again.size == 3_000_000
    with Repository(store) as repository:
        assert list(repository.check()) == []
        assert repository.totals().pins == 2


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
        kept = client.store({"kept": 1}).cid
    fill(disk)
    code, lines = commands.failure("store", "1", **variables)
    assert code == 1
    assert "the disk of the store is full" in lines[0]
    assert commands.text("retrieve", kept, "--json", **variables) == '{"kept": 1}'
    commands.text("revoke", large, **variables)
    assert commands.text("gc", **variables).startswith("removed 9 blocks")
    commands.text("store", "1", **variables)


def test_uploads_that_fill_the_disk_leave_room_to_clean_up(disk):
    with Client.init(path=disk / "store") as client:
        kept = client.store({"kept": 1}).cid
        for _ in range(3):
            with pytest.raises(OSError, match=FULL):
                client.upload(os.urandom(40_000_000))
        assert client.revoke(kept) is True
        client.provider.repository.collect_garbage()
        assert client.upload(os.urandom(6_000_000)).size == 6_000_000
        assert list(client.provider.repository.check()) == []


# A store that can only be read


@pytest.fixture
def read_only_disk(tmp_path_factory):
    """Something that makes a folder a read-only disk."""
    mounted = []

    def remount(folder):
        mount(folder, "--bind", str(folder))
        mounted.append(folder)
        mount(folder, "-o", "remount,ro,bind")

    yield remount
    for folder in mounted:
        unmount(folder)


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


def snapshot(path):
    return {each: each.stat().st_mtime_ns for each in path.rglob("*")}


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
    assert snapshot(tmp_path / "store") == before


def test_a_store_of_the_first_version_on_a_read_only_disk_is_copied_with_a_journal(
    tmp_path, read_only_disk
):
    """It has no id, so the journal knows it by its folder."""
    store, journal = tmp_path / "store", tmp_path / "journal"
    made = make_store(store)
    with Repository(store) as repository:
        assert repository.id == (store / "holdfast.id").read_text().strip()
    make_version_1(store)
    read_only_disk(store)
    with Client.init(path=store) as client, Client.init(path=tmp_path / "other") as other:
        assert client.provider.repository.id == ""
        for is_earlier in (False, True):
            outcomes = client.copy_pins(to=other, journal=journal)
            results = {each.item.cid: each.result().earlier for each in outcomes}
            assert results == dict.fromkeys(made, is_earlier)
    assert str(store) in journal.read_text()


KILLED = """
import os, signal, sys
from holdfast import Client
client = Client.init(path=sys.argv[1])
data = bytes(range(251)) * 10_000
print(client.store({"hello": 1}).cid, client.upload(data).cid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_is_only_in_the_log_is_read_as_well(tmp_path, read_only_disk):
    """A process was killed, and its disk is now read-only."""
    store = tmp_path / "store"
    command = [sys.executable, "-c", KILLED, str(store)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert (store / f"{DATABASE}-wal").stat().st_size
    read_only_disk(store)
    assert_readable(store, *done.stdout.split())


WRITING = """
import sys
from holdfast import Client
with Client.init(path=sys.argv[1]) as client:
    for line in sys.stdin:
        print(client.store(line).cid, flush=True)
"""


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
            command = [sys.executable, "-c", WRITING, str(store)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            with subprocess.Popen(command, text=True, bufsize=1, **pipes) as writer:  # noqa: S603
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
from tests.test_hardening_12_store_in_trouble import assert_readable, make_store, read_all
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


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize("whose", ["own", "root"])
def test_a_store_without_write_permission_can_be_read(public_folder, whose):
    """One's own with its permissions taken away, and one of root's."""
    own = public_folder / "own"
    own.mkdir()
    os.chown(own, 65534, 65534)
    root = Path(__file__).parent.parent
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", AS_USER, str(public_folder), whose, str(root)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("read\n", "")
