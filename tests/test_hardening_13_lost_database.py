"""A store whose database is lost or another's: nothing is deleted, and a repair brings it back."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.disk.locks import try_lock
from holdfast.errors import ConfigError, ProviderError, VerificationError
from holdfast.repository import Repository
from tests import stores
from tests.stores import CONTENTS, assert_full, block_files, fill

DATABASE, COPY, ID = "holdfast.sqlite3", "holdfast.copy.sqlite3", "holdfast.id"
DAY = 24 * 3600


@pytest.fixture
def tmp_path(memory_folder):
    return memory_folder


def delete(path):
    path.unlink()


def empty(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(path):
    path.write_bytes(b"not a database at all" * 1000)


def scramble(path):
    """Damage every page but the first, as a disk may."""
    data = bytearray(path.read_bytes())
    for start in range(4096, len(data), 4096):
        data[start : start + 200] = os.urandom(200)
    path.write_bytes(data)


def exchange(path):
    """Put the file of another store into the place of this one's."""
    other = path.parent.parent / "other"
    with Repository(other) as repository:
        repository.add(b"of another store", UNIXFS_V1_2025)
    shutil.copy(other / path.name, path)


def without_blocks(path):
    """Put a sound database that knows nothing: an older version made one by itself."""
    delete(path)
    with sqlite3.connect(path) as connection:
        connection.executescript(stores.SCHEMA_1.read_text())
        connection.execute("PRAGMA user_version = 1")
    connection.close()


HARMS = [delete, empty, cut, garble, scramble, exchange, without_blocks]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


@pytest.mark.parametrize("harm", HARMS)
def test_a_lost_database_deletes_nothing_and_comes_back_whole(folder, harm):
    pins = fill(folder)
    files = block_files(folder)
    assert len(files) == 4
    make_old(folder)
    harm(folder / DATABASE)
    with Repository(folder) as repository:
        assert next(repository.check()).cid == ""
        with pytest.raises(VerificationError, match="`holdfast repair`"):
            repository.collect_garbage()
        assert block_files(folder) == files
        repaired = repository.repair()
        assert repaired.lost == []
        assert repaired.pins == len(pins)
        # What was unpinned before is the one thing that nothing links to.
        assert [root.cid for root in repaired.roots] == [str(CID.of_raw(b"unpinned"))]
        assert repository.pins() == pins
    assert block_files(folder) == files
    assert_full(folder, pins)
    with Repository(folder) as repository:
        assert repository.collect_garbage().blocks == 1
    assert_full(folder, pins)


def make_old(folder):
    """Make every file of a block older than a day."""
    for path in (folder / "blocks").glob("*/*"):
        os.utime(path, (time.time() - 2 * DAY,) * 2)


@pytest.mark.parametrize("harm", HARMS[:4])
def test_what_is_stored_while_the_database_is_lost_is_refused_not_lost_later(folder, harm):
    fill(folder)
    harm(folder / DATABASE)
    with Repository(folder) as repository, pytest.raises(VerificationError, match="repair"):
        repository.add(b"more", UNIXFS_V1_2025)


def test_a_database_that_is_removed_under_a_running_process_takes_no_more_writes(folder):
    pins = fill(folder)
    with Repository(folder) as repository:
        repository.add(CONTENTS["small"], UNIXFS_V1_2025)
        (folder / DATABASE).unlink()
        for attempt in (
            lambda: repository.add(b"more", UNIXFS_V1_2025),
            repository.collect_garbage,
            repository.pins,
        ):
            with pytest.raises(VerificationError, match=r"is missing.*holdfast repair"):
                attempt()
        assert [each.what for each in repository.check()] == [f"{DATABASE} is missing"]
        repository.repair()
        assert repository.pins() == pins
    assert_full(folder, pins)


# The id of the folder


@pytest.mark.parametrize("text", [None, "", "f" * 32, "\0" * 300])
def test_without_its_id_a_store_can_be_used_but_not_collected_until_a_repair(folder, text):
    pins = fill(folder)
    (folder / ID).unlink()
    if text is not None:
        (folder / ID).write_text(text)
    with Repository(folder) as repository:
        assert ID in next(repository.check()).what
        with pytest.raises(VerificationError, match="`holdfast repair`"):
            repository.collect_garbage()
        pin, _ = repository.add(b"more", UNIXFS_V1_2025)
        assert repository.repair().lost == []
        assert repository.unpin(CID.parse(pin.cid))
        assert repository.collect_garbage().blocks == 2
    assert_full(folder, pins)


def test_an_id_that_is_lost_under_a_running_process_stops_its_collections(folder):
    fill(folder)
    with Repository(folder) as repository:
        (folder / ID).unlink()
        with pytest.raises(VerificationError, match=rf"{ID} is missing"):
            repository.collect_garbage()


def test_while_the_ids_match_files_that_nobody_knows_go_after_a_day(folder):
    pins = fill(folder)
    with Repository(folder) as repository:
        kept = block_files(folder)
        for number, age in enumerate((DAY - 600, DAY + 600)):
            name = bytes(CID.of_raw(bytes([number]) * 20_000)).hex()
            path = folder / "blocks" / name[-3:-1] / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(bytes([number]) * 20_000)
            os.utime(path, (time.time() - age,) * 2)
        repository.collect_garbage()
        young = bytes(CID.of_raw(bytes(20_000))).hex()
        assert set(block_files(folder)) == {*kept, young}
    assert_full(folder, pins)


# The second copy


@pytest.mark.parametrize("harm", [delete, empty])
def test_a_second_copy_that_is_gone_is_made_anew(folder, harm):
    pins = fill(folder)
    harm(folder / COPY)
    assert_full(folder, pins)
    (folder / DATABASE).unlink()
    with Repository(folder) as repository:
        assert repository.repair().lost == []
    assert_full(folder, pins)


@pytest.mark.parametrize("harm", [cut, garble, scramble, exchange])
def test_a_damaged_second_copy_is_reported_and_made_anew_by_a_repair(folder, harm):
    pins = fill(folder)
    harm(folder / COPY)
    with Repository(folder) as repository:
        assert COPY in next(repository.check()).what
        assert repository.pins() == pins
        repaired = repository.repair()
        assert repaired.lost == []
        assert any("is now called" in note for note in repaired.notes)
    assert_full(folder, pins)


def test_the_second_copy_follows_all_that_is_done(folder):
    with Repository(folder) as repository:
        pin, _ = repository.add(b"one", UNIXFS_V1_2025, name="one")
        repository.add(b"two", UNIXFS_V1_2025, name="two")
        repository.update_pin(CID.parse(pin.cid), name="uno", change=lambda _: {"a": 1})
        repository.unpin(CID.of_raw(b"two"))
        repository.collect_garbage()
        repository.add(b"three", UNIXFS_V1_2025, name="three")
        expected = repository.pins()
    (folder / DATABASE).unlink()
    with Repository(folder) as repository:
        repaired = repository.repair()
        assert (repaired.blocks, repaired.roots, repaired.lost) == (2, [], [])
        assert repository.pins() == expected


def test_crashes_between_the_two_commits_are_made_good_by_the_next_write(folder):
    for pin in fill(folder):
        with Repository(folder) as repository:
            assert not repository.unpin(CID.of_raw(b"not here"))  # brings it into step
        before = (folder / COPY).read_bytes()
        with Repository(folder) as repository:
            assert repository.unpin(CID.parse(pin.cid))
        (folder / COPY).write_bytes(before)  # SQLite commits the copy second
    with Repository(folder) as repository:
        assert list(repository.check()) == []
        repository.add(b"next", UNIXFS_V1_2025, name="next")
        expected = repository.pins()
        assert list(repository.check()) == []
    (folder / DATABASE).unlink()
    with Repository(folder) as repository:
        assert repository.repair().lost == []
        assert repository.pins() == expected


@pytest.mark.parametrize("name", [DATABASE, COPY])
def test_a_file_from_an_old_backup_is_noticed_and_nothing_newer_is_lost(folder, name):
    fill(folder)
    old = (folder / name).read_bytes()
    with Repository(folder) as repository:
        for number in range(3):
            repository.add(os.urandom(30_000 + number), UNIXFS_V1_2025, name=str(number))
        expected, files = repository.pins(), block_files(folder)
    make_old(folder)
    (folder / name).write_bytes(old)
    with Repository(folder) as repository:
        assert next(repository.check()).what == f"{name} is out of date"
        with pytest.raises(VerificationError, match="`holdfast repair`"):
            repository.collect_garbage()
        assert repository.repair().lost == []
        assert repository.pins() == expected
        assert list(repository.check()) == []
        repository.collect_garbage()
    assert block_files(folder) == files


def test_a_store_may_have_any_name_and_the_current_folder_may_change(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Repository("a?b#c%20 d&mode=ro") as repository:
        repository.add(b"before", UNIXFS_V1_2025)
        monkeypatch.chdir("/")
        repository.add(CONTENTS["large"], UNIXFS_V1_2025)
        assert repository.collect_garbage().blocks == 0
        assert list(repository.check()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["a?b#c%20 d&mode=ro"]


def test_a_store_that_is_copied_while_it_is_closed_is_sound(folder, tmp_path):
    pins = fill(folder)
    shutil.copytree(folder, tmp_path / "twin")
    assert_full(tmp_path / "twin", pins)
    with Repository(tmp_path / "twin") as repository:
        assert repository.collect_garbage().blocks == 1


# Both lost


def test_with_both_databases_lost_the_files_are_found_and_the_rest_is_named(folder):
    fill(folder)
    files = block_files(folder)
    (folder / DATABASE).unlink()
    (folder / COPY).unlink()
    with Repository(folder) as repository:
        assert next(repository.check()).what == f"{DATABASE} is missing"
        repaired = repository.repair(pin_roots=True)
        assert (repaired.blocks, repaired.pins) == (4, 0)
        assert {root.whole for root in repaired.roots} == {True}
        (lost,) = repaired.lost
        assert lost.what.startswith("pins, and blocks of less than 16 KiB")
        repository.collect_garbage()
        assert {pin.name for pin in repository.pins()} == {"recovered"}
        assert list(repository.check()) == []
    assert block_files(folder) == files


def test_only_the_block_files_are_left(folder):
    """Of a store of before, say: there is no id either."""
    fill(folder)
    files = block_files(folder)
    make_old(folder)
    for name in (DATABASE, COPY, ID):
        (folder / name).unlink()
    with Repository(folder) as repository:
        with pytest.raises(VerificationError, match="`holdfast repair`"):
            repository.collect_garbage()
        assert len(repository.repair().roots) == len(files) == 4
    assert block_files(folder) == files


def test_a_repair_says_which_pins_lack_blocks_and_which_files_are_damaged(folder):
    pins = fill(folder)
    damaged, gone = sorted((folder / "blocks").glob("[!t]*/*"), key=lambda p: p.stat().st_size)[:2]
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    gone.unlink()
    (folder / DATABASE).unlink()
    with Repository(folder) as repository:
        repaired = repository.repair()
        assert repaired.pins == len(pins)
        lost = {each.cid: each.what for each in repaired.lost}
        keys = {str(CID.from_bytes(bytes.fromhex(path.name))): path for path in (damaged, gone)}
        assert set(lost) == set(keys)
        assert sorted(what.partition(":")[2].split()[2] for what in lost.values()) == [
            "damaged:",
            "missing",
        ]
        assert {each.cid for each in repository.check()} == set(keys)
    assert damaged.exists()


# The repair itself


def test_a_repair_of_a_sound_store_changes_nothing_that_counts(folder):
    pins = fill(folder)
    files = block_files(folder)
    names = {path.name for path in folder.iterdir()}
    for _ in range(2):
        with Repository(folder) as repository:
            repaired = repository.repair()
            assert (repaired.pins, repaired.lost, repaired.notes) == (len(pins), [], [])
        assert {path.name for path in folder.iterdir()} == names
        assert block_files(folder) == files
        assert_full(folder, pins)


@pytest.mark.parametrize("what", ["repair-lost", "repair-torn"])
def test_a_repair_that_is_killed_can_be_run_again(tmp_path, what):
    assert stores.killed_at_all_points(what, tmp_path, stride=43) > 1


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", ["repair-lost", "repair-torn"])
def test_a_repair_that_is_killed_at_every_statement_can_be_run_again(tmp_path, what):
    assert stores.killed_at_all_points(what, tmp_path) > 100


HOLD = """
import sys
from holdfast.repository import Repository
with Repository(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.readline()
"""


def test_a_store_that_another_process_has_open_is_not_repaired(folder):
    pins = fill(folder)
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "open\n"
        with Repository(folder) as repository:
            with pytest.raises(ProviderError, match="in use"):
                repository.repair()
            assert repository.pins() == pins
            process.communicate("\n")
            assert repository.repair().lost == []
    finally:
        process.kill()
        process.communicate()


def test_a_store_is_not_opened_while_it_is_repaired(folder, monkeypatch):
    from holdfast.repository.upkeep import repair as module  # noqa: PLC0415

    pins = fill(folder)
    tried = []

    def read_id(path, read=module.read_id):
        with pytest.raises(ConfigError, match="being repaired"):
            Repository(path)
        tried.append(path)
        return read(path)

    monkeypatch.setattr(module, "read_id", read_id)
    with Repository(folder) as repository:
        repository.repair()
    assert tried
    assert_full(folder, pins)


def test_on_a_full_disk_a_repair_changes_nothing(small_disk):
    folder = small_disk / "store"
    pins = fill(folder)
    (folder / DATABASE).unlink()
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1 << 16)):
            pass
    with Repository(folder) as repository:
        with pytest.raises(OSError, match=r"space|full"):
            repository.repair()
        filler.unlink()
        assert repository.repair().lost == []
    assert_full(folder, pins)


# The command line


def test_the_command_line_names_the_repair_and_does_it(commands):
    small = commands.text("store", '{"a": 1}')
    large = commands.text("upload", "-", given=CONTENTS["tree"])
    folder = commands.folder.parent / "data/holdfast"
    (folder / DATABASE).unlink()
    for name in ("check", "gc"):
        result = commands.run(name)
        assert result.returncode == 14
        assert b"`holdfast repair`" in result.stderr
    assert commands.json("repair") == {
        "blocks": 5,
        "pins": 2,
        "roots": [],
        "incomplete": [],
        "lost": [],
        "notes": [f"{DATABASE} was damaged: it is missing"],
    }
    assert commands.text("check").startswith("sound: 2 pins")
    assert json.loads(commands.text("retrieve", small)) == {"a": 1}
    assert commands.run("download", large, "-").returncode == 0
    for name in (DATABASE, COPY):
        (folder / name).unlink()
    text = commands.text("repair")
    assert "`repair --pin-roots` pins them" in text
    assert "lost for good" in text
    commands.text("repair", "--pin-roots")
    assert commands.json("gc") == {"blocks": 0, "size": 0}


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


@pytest.mark.skipif(os.name == "nt", reason="Windows has no shared locks")
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


def test_a_row_that_cannot_be_read_costs_no_other_row(folder):
    pins = fill(folder)
    with contextlib.closing(sqlite3.connect(folder / COPY, isolation_level=None)) as connection:
        for at in (0, 99):
            sql = "INSERT INTO copied_blocks VALUES (?, x'01', zeroblob(20000000))"
            connection.execute(sql, (at,))
    (folder / DATABASE).unlink()
    with Repository(folder) as repository:
        repository.repair()
    assert_full(folder, pins)
