"""A store whose database is lost, damaged, old or another's: nothing is deleted, and `repair`."""

import os
import shutil

import pytest

from holdfast import Client
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.disk.locks import try_lock
from holdfast.errors import ClientError, ConfigError, ProviderError, VerificationError
from holdfast.repository import Repository
from holdfast.repository.upkeep import repair as repair_module
from holdfast.repository.upkeep.checking import UNLISTED
from holdfast.testing import running_node
from tests import stores
from tests.disks import fill_up
from tests.programs import start_program
from tests.stores import (
    CONTENTS,
    DATABASE,
    ID,
    assert_full,
    block_files,
    change,
    damage_page,
    fill,
    pages_of,
)

SMALL = "pins, and blocks of less than 16 KiB"
INCOMPLETE = f"{SMALL}: the database could not be read completely"
FOREIGN = f"{SMALL}: {DATABASE} was not the database of this store, by its id"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


def cid_of(pin):
    return CID.parse(pin.cid)


def assert_takes_no_change(repository, words="`holdfast repair`"):
    for change_of_store in (
        repository.collect_garbage,
        lambda: repository.add(b"more", UNIXFS_V1_2025),
        lambda: repository.unpin(CID.of_raw(CONTENTS["small"])),
    ):
        with pytest.raises(VerificationError, match=words):
            change_of_store()


# A database that is lost


def delete(path):
    path.unlink()


def empty(path):
    path.write_bytes(b"")


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def garble(path):
    path.write_bytes(b"not a database at all" * 1000)


def scramble(path):
    """Damage every page but the first, as a disk may."""
    for page in range(1, pages_of(path.parent)):
        damage_page(path.parent, page)


def exchange(path):
    """Put the database of another store into the place of this one's."""
    other = path.parent.parent / "other"
    with Repository(other) as repository:
        repository.add(b"of another store", UNIXFS_V1_2025)
    shutil.copy(other / path.name, path)


def keep_only_blocks(path):
    path.unlink()
    (path.parent / ID).unlink()


HARMS = [delete, empty, cut, garble, scramble, exchange, keep_only_blocks]


@pytest.mark.parametrize("harm", HARMS)
def test_with_a_lost_database_nothing_is_deleted_and_a_repair_names_what_is_lost(folder, harm):
    fill(folder)
    files = block_files(folder)
    assert len(files) == 4
    harm(folder / DATABASE)
    with Repository(folder) as repository:
        assert next(repository.check()).cid == ""
        assert_takes_no_change(repository)
        assert block_files(folder) == files
        repaired = repository.repair(pin_roots=True)
        assert repaired.blocks >= len(files)
        assert {damage.what for damage in repaired.lost} & {INCOMPLETE, FOREIGN}
        repository.collect_garbage()
        assert list(repository.check()) == []
        large = CID.of_raw(CONTENTS["large"])
        assert b"".join(repository.read(large)) == CONTENTS["large"]
        assert repository.find_pin(large).name in {"large", "recovered"}
    assert block_files(folder) == files


@pytest.mark.parametrize("name", [DATABASE, ID])
def test_a_file_that_is_removed_under_a_running_process_stops_its_changes(folder, name):
    fill(folder)
    with Repository(folder) as repository:
        repository.add(CONTENTS["small"], UNIXFS_V1_2025)
        (folder / name).unlink()
        assert_takes_no_change(repository, f"{name} is missing.*holdfast repair")
        if name == DATABASE:
            with pytest.raises(VerificationError, match=f"{name} is missing"):
                repository.pins()
        repository.repair()
        repository.add(b"more", UNIXFS_V1_2025)


# A database that is older than the block files


@pytest.mark.parametrize("how", ["an old backup", "a lost log"])
def test_what_an_old_database_does_not_list_stays_and_is_taken_in(folder, tmp_path, how):
    fill(folder)
    old = (folder / DATABASE).read_bytes()
    with Repository(folder) as repository:
        contents = [os.urandom(30_000 + number) for number in range(3)]
        for data in contents:
            repository.add(data, UNIXFS_V1_2025)
        expected, files = repository.pins(), block_files(folder)
        if how == "a lost log":
            shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("*-wal"))
            folder = tmp_path / "copy"
    if how == "an old backup":
        (folder / DATABASE).write_bytes(old)
    for path in (folder / "blocks").rglob("*"):
        os.utime(path, (0, 0))
    unlisted = {(str(CID.of_raw(data)), UNLISTED) for data in contents}
    with Repository(folder) as repository:
        assert {*repository.check()} == unlisted
        assert repository.collect_garbage().blocks == 1  # what `fill` unpinned
        assert block_files(folder) == files
        assert {*repository.check()} == unlisted
        repaired = repository.repair(pin_roots=True)
        assert (repaired.lost, repaired.notes) == ([], [])
        assert {root.cid for root in repaired.roots} == {cid for cid, _ in unlisted}
        repository.collect_garbage()
        assert {pin.cid for pin in repository.pins()} == {pin.cid for pin in expected}
        assert list(repository.check()) == []
    assert block_files(folder) == files


def test_a_damaged_file_without_a_row_is_named(folder):
    fill(folder)
    data = bytes(20_000)
    name = bytes(CID.of_raw(data)).hex()
    path = folder / "blocks" / name[-3:-1] / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data[1:])
    with Repository(folder) as repository:
        for _ in range(2):
            (damage,) = repository.check()
            assert damage.cid == str(CID.of_raw(data))
            assert damage.what.startswith("its file is not in the database, and is damaged: ")
            assert damage.what.endswith(f"remove {path}")
            assert damage.cid in {lost.cid for lost in repository.repair().lost}


def test_adding_the_content_of_a_file_without_a_row_lists_it_again(folder):
    data = bytes(20_000)
    with Repository(folder) as repository:
        repository.add(data, UNIXFS_V1_2025)
        change(folder, "DELETE FROM pins", "DELETE FROM blocks")
        assert [damage.what for damage in repository.check()][1:] == [UNLISTED]
        repository.add(data, UNIXFS_V1_2025)
        assert b"".join(repository.read(CID.of_raw(data))) == data


# The id of the folder


@pytest.mark.parametrize("text", [None, "", "f" * 32, "\0" * 300])
def test_without_its_id_a_store_is_read_but_not_changed_until_a_repair(folder, text):
    pins = fill(folder)
    (folder / ID).unlink()
    if text is not None:
        (folder / ID).write_text(text)
    with Repository(folder) as repository:
        assert ID in next(repository.check()).what
        assert repository.pins() == pins
        assert_takes_no_change(repository)
        repaired = repository.repair()
        assert repaired.lost == ([("", FOREIGN)] if text == "f" * 32 else [])
        pin, _ = repository.add(b"more", UNIXFS_V1_2025)
        assert repository.unpin(cid_of(pin))
        assert repository.collect_garbage().blocks == 2
    assert_full(folder, pins)


@pytest.mark.parametrize("version", [3, 99, -1])
@pytest.mark.parametrize("log", [False, True], ids=["closed", "with a log"])
def test_a_store_of_another_schema_is_refused_before_anything_is_written(folder, version, log):
    fill(folder)
    change(folder, f"PRAGMA user_version = {version}")
    if log:
        (folder / f"{DATABASE}-wal").write_bytes(b"what another process has not moved yet")
    before = stores.snapshot(folder)
    words = rf"another version of Holdfast \(schema {version}, this one reads 4\): use that version"
    for _ in range(2):
        with pytest.raises(ConfigError, match=words):
            Repository(folder)
    assert stores.snapshot(folder) == before


# Damaged pages


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A store whose database has some pages of each kind; the last pin, and all small blocks."""
    path = tmp_path_factory.mktemp("template") / "store"
    blocks = [b"%d " % number * 50 for number in range(300)]
    with Repository(path) as repository:
        with repository.adding() as adding:
            for data in blocks:
                adding.put(CID.of_raw(data), data)
            pin, _ = adding.pin(CID.of_raw(data))
            for number, data in enumerate(blocks[:100]):
                adding.pin(CID.of_raw(data), name=f"name-{number:03}")
        repository.add(b"x" * 3_000_000, UNIXFS_V1_2025, name="large")
    return path, pin, blocks


@pytest.fixture
def store(template, folder):
    return shutil.copytree(template[0], folder)


@pytest.mark.parametrize("kind", ["zeros", "noise", "cut"])
def test_a_damaged_page_is_a_typed_error_in_every_call(tmp_path, template, kind):
    source, pin, _ = template
    pages = pages_of(source)
    assert pages > 30
    errors = []
    for page in {0, 1, 2, 3, 4, 5, 7, pages // 3, pages // 2, pages - 1}:
        store = shutil.copytree(source, tmp_path / str(page))
        damage_page(store, page, kind)
        errors += stores.open_and_call_all(store, cid_of(pin))
    assert len(errors) > 10


def test_a_page_that_is_damaged_while_the_store_is_open_is_a_typed_error(template, store):
    pin = template[1]
    with Repository(store) as repository, Client.init(path=store) as client:
        scramble(store / DATABASE)
        errors = stores.call_all(repository, cid_of(pin))
        assert any("holdfast repair" in str(error) for error in errors)
        for call in (client.pins, lambda: client.retrieve(pin.cid), lambda: client.revoke(pin.cid)):
            with pytest.raises(ClientError):
                call()


def test_the_node_says_that_its_store_is_damaged(template, store):
    with running_node(store) as node, Client.init(node.config) as client:
        scramble(store / DATABASE)
        for call in (client.pins, lambda: client.store(1), lambda: client.revoke(template[1].cid)):
            with pytest.raises(ProviderError, match="The node's store is damaged") as caught:
                call()
            assert caught.value.status == 500


def pages_with(store, *texts):
    """The pages of the database that hold one of these texts."""
    data = (store / DATABASE).read_bytes()
    pages = {data.index(text) // 4096 for text in texts}
    assert len(pages) == len(texts)
    return pages


@pytest.mark.parametrize("kind", ["zeros", "noise"])
def test_a_repair_reads_every_row_that_is_not_on_a_damaged_page(template, store, kind):
    blocks = template[2]
    for page in pages_with(store, blocks[2], blocks[100], blocks[200], blocks[299]):
        damage_page(store, page, kind)
    with Repository(store) as repository:
        repaired = repository.repair()
        lost = {damage.cid: damage.what for damage in repaired.lost}
        back = [repository.has(CID.of_raw(data)) for data in blocks]
        assert repository.totals().pins == 102  # no page of a pin was damaged
        named = [str(CID.of_raw(data)) in lost for data in blocks]
        assert [one != other for one, other in zip(back, named, strict=True)] == [True] * 300
        # Four pages, and rows between each two of them.
        assert 4 <= back.count(False) < 100
        assert all(back[number] for number in (50, 150, 250))
        assert any("is now called" in note for note in repaired.notes)
        # What pins need is still missing; adding it again heals them.
        for data in (*blocks, b"x" * 3_000_000):
            repository.add(data, UNIXFS_V1_2025)
        assert list(repository.check()) == []


def test_a_repair_names_the_pins_that_were_on_a_damaged_page(template, store):
    blocks = template[2]
    for page in pages_with(store, b"name-030", b"name-080"):
        damage_page(store, page)
    with Repository(store) as repository:
        repaired = repository.repair()
        assert all(repository.has(CID.of_raw(data)) for data in blocks)
        lost = {damage.cid for damage in repaired.lost}
        assert {damage.what for damage in repaired.lost} == {
            INCOMPLETE,
            "its pin in the database could not be read",
        }
        pinned = {pin.cid for pin in repository.pins()}
        assert not lost & pinned
        assert {str(CID.of_raw(data)) for data in blocks[:100]} <= lost | pinned
        assert {"name-000", "name-055"} <= {pin.name for pin in repository.pins()}
        assert list(repository.check()) == []


def test_a_repair_of_a_database_that_was_cut_reads_what_is_left(template, store):
    blocks = template[2]
    (page,) = pages_with(store, blocks[290])
    damage_page(store, page, "cut")
    size = (store / DATABASE).stat().st_size
    with Repository(store) as repository:
        assert repository.repair().lost
        assert sum(repository.has(CID.of_raw(data)) for data in blocks) > 100
    (aside,) = store.glob("*.aside-*")
    assert aside.stat().st_size == size


def test_rows_that_cannot_be_read_cost_no_other_row(folder):
    """Ids far apart, above a value that is too long, are found from the other end."""
    pins = fill(folder)
    values = "x'01', 20000000, zeroblob(20000000), 0"
    change(folder, f"INSERT INTO blocks VALUES (0, {values})")  # noqa: S608
    change(folder, "UPDATE blocks SET id = 1 << 62 WHERE id = 1")
    with Repository(folder) as repository:
        assert any("too big" in damage.what for damage in repository.check())
        repository.repair()
    assert_full(folder, pins)


# The repair itself


def test_a_repair_of_a_sound_store_changes_nothing_that_counts(folder):
    pins = fill(folder)
    files = block_files(folder)
    names = {path.name for path in folder.iterdir()}
    for _ in range(2):
        with Repository(folder) as repository:
            repaired = repository.repair()
            assert (repaired.pins, repaired.lost, repaired.notes) == (len(pins), [], [])
            assert [root.cid for root in repaired.roots] == [str(CID.of_raw(b"unpinned"))]
        assert {path.name for path in folder.iterdir()} == names
        assert block_files(folder) == files
        assert_full(folder, pins)


def cid_in(name):
    """The CID of the block in a file of this name."""
    return str(CID.from_bytes(bytes.fromhex(name)))


def test_a_repair_says_which_pins_lack_blocks_and_which_files_are_damaged(folder):
    pins = fill(folder)
    damaged, gone = sorted((folder / "blocks").glob("[!t]*/*"), key=lambda p: p.stat().st_size)[:2]
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    gone.unlink()
    with Repository(folder) as repository:
        repaired = repository.repair()
        assert repaired.pins == len(pins)
        lost = {cid: what.partition(":")[2].split()[2] for cid, what in repaired.lost}
        assert lost == {cid_in(damaged.name): "damaged:", cid_in(gone.name): "missing"}
        assert {cid for cid, _ in repository.check()} == set(lost)
    assert damaged.exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", stores.SCENARIOS)
def test_what_is_killed_at_any_statement_loses_nothing(tmp_path, what):
    assert stores.killed_at_all_points(what, tmp_path) > 30


KILL = """
import os, sys
from pathlib import Path
from holdfast.repository import Repository
rename = Path.replace
def replace(self, target):
    if self.name == "holdfast.repair.sqlite3":
        os._exit(9)
    return rename(self, target)
Path.replace = replace
with Repository(sys.argv[1]) as repository:
    repository.repair()
"""


def test_a_repair_that_is_killed_before_its_last_rename_loses_nothing(template, store):
    (page,) = pages_with(store, template[2][200])
    damage_page(store, page)
    with start_program(KILL, store) as process:
        assert process.wait() == 9
    assert not (store / DATABASE).exists()
    with Repository(store) as repository:
        assert [damage.what for damage in repository.check()] == [f"{DATABASE} is missing"]
        repaired = repository.repair()
        assert repaired.notes == ["an earlier repair was interrupted: its database is used"]
        assert repository.totals().pins == 102
        assert sum(repository.has(CID.of_raw(data)) for data in template[2]) > 250
    assert not list(store.glob("holdfast.repair*"))


HOLD = """
import sys
from holdfast.repository import Repository
with Repository(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.readline()
"""


def test_a_store_that_another_process_has_open_is_not_repaired(folder):
    pins = fill(folder)
    with Repository(folder) as repository:
        with start_program(HOLD, folder) as process:
            assert process.stdout.readline() == "open\n"
            with pytest.raises(ProviderError, match="in use"):
                repository.repair()
            assert repository.pins() == pins
            process.communicate("\n")
        assert repository.repair().lost == []


def test_a_store_is_not_opened_while_it_is_repaired(folder, monkeypatch):
    pins = fill(folder)
    tried = []

    def read_id(path, read=repair_module.read_id):
        with pytest.raises(ConfigError, match="being repaired"):
            Repository(path)
        tried.append(path)
        return read(path)

    monkeypatch.setattr(repair_module, "read_id", read_id)
    with Repository(folder) as repository:
        repository.repair()
    assert tried
    assert_full(folder, pins)


def test_on_a_full_disk_a_repair_changes_nothing(small_disk):
    folder = small_disk / "store"
    pins = fill(folder)
    (folder / ID).unlink()
    filler = fill_up(small_disk)
    with Repository(folder) as repository:
        with pytest.raises(OSError, match=r"space|full"):
            repository.repair()
        filler.unlink()
        assert repository.repair().lost == []
    assert_full(folder, pins)


def test_the_command_line_names_the_repair_and_does_it(commands):
    commands.text("store", '{"a": 1}')
    large = commands.text("upload", "-", stdin=CONTENTS["large"])
    folder = commands.folder.parent / "data/holdfast"
    database = (folder / DATABASE).read_bytes()
    (folder / DATABASE).unlink()
    for name in ("check", "gc"):
        result = commands.run(name)
        assert result.returncode == 14
        assert b"`holdfast repair`" in result.stderr
    assert commands.json("repair") == {
        "blocks": 1,
        "pins": 0,
        "roots": [large],
        "incomplete": [],
        "lost": [{"cid": "", "what": INCOMPLETE}],
        "notes": [f"{DATABASE} was damaged: it is missing"],
    }
    assert "`repair --pin-roots` pins them" in commands.text("repair")
    commands.text("repair", "--pin-roots")
    more = commands.text("upload", "-", stdin=bytes(20_000))
    (folder / DATABASE).write_bytes(database)
    assert commands.json("gc") == {"blocks": 0, "size": 0}
    result = commands.run("check")
    assert result.returncode == 14
    assert result.stdout.decode() == f"{more}: {UNLISTED}\n"
    assert result.stderr.decode().splitlines() == [
        "error: 1 block is not in the database: it is an old one, or a process was killed",
        "hint: stop everything that uses the store, then run `holdfast repair`",
    ]
    assert commands.json("repair")["roots"] == [more]


def test_a_repair_that_is_refused_locks_nothing(folder):
    fill(folder)
    (folder / "holdfast.repair.sqlite3").mkdir()
    with Repository(folder) as repository:
        with pytest.raises(ConfigError, match="remove it") as refused:
            repository.repair()
        repository.add(b"at once", UNIXFS_V1_2025)
    assert refused.value is not None  # with its frames, and what they hold


@pytest.mark.parametrize("name", ["owners", "owners/repair.lock", ID])
def test_what_stands_in_the_place_of_a_file_is_named_with_the_remedy(folder, name):
    fill(folder)
    path = folder / name
    if path.is_dir():
        shutil.rmtree(path)
        path.write_bytes(b"a file")
    else:
        path.unlink(missing_ok=True)
        path.mkdir()
    with pytest.raises(ConfigError, match=f"{path.name} .*: remove it"):  # noqa: SIM117
        with Repository(folder) as repository:
            repository.repair()


def test_those_who_open_a_store_do_not_take_each_other_for_a_repair(folder):
    fill(folder)
    with Repository(folder) as repository:
        repository.repair()
    looking = os.open(folder / "owners/repair.lock", os.O_RDWR)
    try:
        assert try_lock(looking, shared=True)  # as an opening does, for a moment
        Repository(folder).close()
    finally:
        os.close(looking)
