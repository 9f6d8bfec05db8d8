"""`check` and `gc` of stores that grow: memory, query plans, progress, and others who write."""

import hashlib
import os
import re
import sqlite3
import sys
import threading
import time
from contextlib import closing, contextmanager
from itertools import pairwise

import pytest

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.directories import build_directory
from holdfast.errors import ProviderError, VerificationError
from holdfast.repository import PinQuery, Repository
from holdfast.repository.database import schema
from holdfast.repository.upkeep import garbage
from holdfast.sources.importing import import_content
from tests.commands import Commands
from tests.programs import run_measured, start_program
from tests.stores import DATABASE, change

RAW_SHA256 = bytes.fromhex("01551220")


def fill(folder, count, *, pinned=True):
    """Add `count` small blocks in one transaction, each with a pin or without."""
    blocks, pins = [], []
    for number in range(count):
        data = b"block %d of %d" % (number, count)
        key = RAW_SHA256 + hashlib.sha256(data).digest()
        blocks.append((key, len(data), data))
        pins.append((str(number), str(CID.from_bytes(key)), key, f"name {number}", number))
    with Repository(folder) as repository, repository._database.writing() as connection:
        connection.executemany("INSERT INTO blocks (key, size, data) VALUES (?, ?, ?)", blocks)
        if pinned:
            connection.executemany(
                "INSERT INTO pins (uuid, cid, key, name, keyvalues, size, files, type, created)"
                " VALUES (?, ?, ?, ?, '{}', 10, 0, '', ?)",
                pins,
            )


def add(repository, data):
    return CID.parse(repository.add(data, UNIXFS_V1_2025)[0].cid)


# Memory


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("work", ["gc", "check"])
def test_memory_does_not_grow_with_the_store(tmp_path, work):
    peaks = []
    for count in (20_000, 200_000):
        folder = tmp_path / str(count)
        fill(folder, count)
        if work == "gc":
            with Repository(folder) as store, store._database.writing() as connection:
                connection.execute("UPDATE pins SET removed = 1 WHERE id % 20 = 0")
        program = (
            "import sys; from holdfast.repository import Repository\n"
            "idle = start_measuring()\n"
            "with Repository(sys.argv[1]) as repository:\n"
            "    if sys.argv[2] == 'gc': repository.collect_garbage()\n"
            "    else: assert list(repository.check()) == []\n"
            "print(peak_since(idle))\n"
        )
        peaks.append(int(run_measured(program, folder, work)))
    assert peaks[1] < peaks[0] + (20 << 20), peaks  # only the caches of SQLite fill up


# Query plans


def plans(connection, statement, values=()):
    rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
    return [row[3] for row in rows]


def is_scan(step):
    """Whether a step of a plan reads a table or an index from one end to the other.

    A scan by an index in the wanted order is none: it ends with the page.
    """
    tables = "pins|blocks|links|leases"
    return re.match(rf"SCAN ({tables})\b(?!.*INDEX pins_)", step) or "TEMP B-TREE" in step


def assert_no_scan(connection, statements):
    for statement in statements:
        assert not [step for step in plans(connection, statement) if is_scan(step)], statement


QUERIES = [
    PinQuery(pinned=state, **fields)
    for state in (True, False, None)
    for fields in (
        {},
        {"limit": 10, "offset": 10},
        {"limit": 10, "descending": False},
        {"limit": 10, "cid": str(CID.of_raw(b"x"))},
        {"limit": 10, "name_contains": "x"},
        {"limit": 10, "created_from": 1, "created_to": 2},
        {"limit": 10, "size_min": 1},
    )
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_no_list_scans_or_sorts_all_pins(tmp_path, query):
    with Repository(tmp_path) as repository, repository._database.reading() as connection:
        where, values = query.where()
        sql = f"SELECT id FROM pins WHERE {where} ORDER BY {query.order()} LIMIT 10"  # noqa: S608
        steps = plans(connection, sql, values)
        if query.cid is not None:
            assert any("pins_by_key (key=?" in step for step in steps), steps
            steps = [step for step in steps if step != "USE TEMP B-TREE FOR ORDER BY"]
        elif query.pinned is not None:
            index = "pins_pinned" if query.pinned else "pins_unpinned"
            assert any(index in step for step in steps), steps
    assert not [step for step in steps if is_scan(step)]


@contextmanager
def traced(monkeypatch, note):
    """Call `note` with every statement of connections that are opened in the block."""
    connect = sqlite3.connect

    def traced_connect(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(note)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", traced_connect)
        yield


def test_no_call_of_daily_use_scans_a_table(tmp_path, monkeypatch):
    """Every statement that a call runs is explained; a plan that scans a table fails."""
    seen = set()
    Repository(tmp_path).close()
    with traced(monkeypatch, seen.add), Repository(tmp_path) as repository:
        seen.clear()
        cid = add(repository, b"x" * 1000)
        large = add(repository, b"y" * 3_000_000)
        add(repository, b"x" * 1000)
        repository.find_pin(cid)
        repository.has(cid)
        b"".join(repository.read(large))
        repository.pin(large)
        repository.update_pin(cid, name="other")
        repository.pins(PinQuery(limit=10))
        repository.count_pins()
        repository.totals()
        repository.unpin(cid)
    words = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
    daily = [statement for statement in seen if statement.lstrip().startswith(words)]
    assert len(daily) > 10
    with Repository(tmp_path) as repository, repository._database.locked() as connection:
        assert_no_scan(connection, daily)


def test_a_collection_scans_no_table_for_each_batch(tmp_path, monkeypatch):
    fill(tmp_path, 1_200, pinned=False)
    seen = {}

    def note(statement):
        without_values = re.sub(r"X?'[^']*'|\b\d+\b", "", statement)
        seen.setdefault(without_values, []).append(statement)

    with traced(monkeypatch, note), Repository(tmp_path) as repository:
        assert repository.collect_garbage().blocks == 1_200
    words = ("SELECT", "DELETE", "UPDATE")
    often = [same[0] for same in seen.values() if len(same) > 2 and same[0].startswith(words)]
    assert len(often) > 5
    with (
        Repository(tmp_path) as repository,
        repository._database.surveying(on_disk=False) as connection,
    ):
        garbage.LiveBlocks(connection, 0)
        assert_no_scan(connection, often)


# Numbers of pins


def counted(repository):
    with repository._database.reading() as connection:
        assert schema.counts(connection) == connection.execute(schema.COUNT).fetchone()
        return schema.counts(connection)


def test_the_numbers_of_pins_follow_all_that_is_done(tmp_path):
    with Repository(tmp_path) as repository:
        assert counted(repository) == (0, 0, 0)
        cids = [add(repository, b"x" * size) for size in (10, 20, 30)]
        assert counted(repository) == (3, 0, 60)
        repository.unpin(cids[2])
        repository.update_pin(cids[0], name="other", change=lambda _: {"a": 1})
        assert counted(repository) == (2, 1, 30)
        add(repository, b"x" * 30)
        assert counted(repository) == (3, 1, 60)
        assert repository.totals() == (3, 60)
        numbers = [repository.count_pins(PinQuery(pinned=state)) for state in (True, False, None)]
        assert numbers == [3, 1, 4]
        repository.collect_garbage()
        change(tmp_path, "UPDATE store SET pinned = 7")
        (damage,) = repository.check()
        assert damage.what == "holdfast.sqlite3: its number of pins, or their size, is wrong"
        repository.repair()
        assert list(repository.check()) == []
        assert counted(repository) == (3, 1, 60)


# Progress, and an interrupt


def assert_progress(calls, total):
    assert len(calls) > 2
    assert all(one[0] <= other[0] for one, other in pairwise(calls))
    assert calls[-1] == (total, total)


def test_a_collection_and_a_check_report_their_progress(tmp_path):
    fill(tmp_path, 1_000)
    with Repository(tmp_path) as repository:
        with repository._database.writing() as connection:
            connection.execute("UPDATE pins SET removed = 1 WHERE id % 2 = 0")
        calls = []
        assert list(repository.check(lambda *numbers: calls.append(numbers))) == []
        assert_progress(calls, 1_000)
        calls = []
        assert repository.collect_garbage(lambda *numbers: calls.append(numbers)).blocks == 500
        assert_progress(calls, 1_000)
        assert (500, 1_000) in calls  # when all blocks that are needed were found


def test_the_commands_show_how_far_they_are(commands):
    store = commands.folder / "store"
    fill(store, 300)
    bars = Commands(commands.folder.parent / "bars")
    bars.delay = 0.0
    for command, last in (("check", "sound: 300 pins, 2.93 KiB"), ("gc", "removed 0 blocks, 0 B")):
        code, shown = bars.on_terminal(command, "--path", store)
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
        assert code == 0
        assert re.search(rf"{command} ━+ +300/300 blocks", plain), plain
        assert plain.endswith(f"\n{last}\n")
        assert commands.text(command, "--path", "store") == last


class Interrupt:
    """Raises `KeyboardInterrupt` at the call number `at`, as Ctrl-C does."""

    def __init__(self, at, call=None):
        self.left = at
        self.call = call

    def __call__(self, *arguments, **options):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return None if self.call is None else self.call(*arguments, **options)


@pytest.mark.parametrize("at", [1, 4])
def test_an_interrupt_of_a_check_changes_nothing(tmp_path, at):
    fill(tmp_path, 1_000)
    with Repository(tmp_path) as repository:
        with pytest.raises(KeyboardInterrupt):
            list(repository.check(Interrupt(at)))
        add(repository, b"written after it")
        assert list(repository.check()) == []
        assert repository.totals().pins == 1_001


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("where", ["between transactions", "in a transaction"])
def test_an_interrupt_of_a_collection_leaves_the_store_whole(tmp_path, monkeypatch, where, at):
    with Repository(tmp_path) as repository:
        pinned = add(repository, os.urandom(30_000))
        for _ in range(5):
            repository.unpin(add(repository, os.urandom(30_000)))
    fill(tmp_path, 900, pinned=False)
    with Repository(tmp_path) as repository:
        progress = Interrupt(at) if where == "between transactions" else None
        if progress is None:
            remove = Interrupt(at, repository._files.remove)
            monkeypatch.setattr(repository._files, "remove", remove)
        with pytest.raises(KeyboardInterrupt):
            repository.collect_garbage(progress)
        monkeypatch.undo()
        assert list(repository.check()) == []
        assert len(b"".join(repository.read(pinned))) == 30_000
        again = add(repository, b"after")
        repository.collect_garbage()
        assert change(tmp_path, "SELECT count(*) FROM blocks") == [[(2,)]]
        assert (repository.has(pinned), repository.has(again)) == (True, True)
        assert list(repository.check()) == []


# Others who write beside a collection


class Once:
    """A progress function that does something at its first call."""

    def __init__(self, action):
        self.action = action

    def __call__(self, *_):
        action, self.action = self.action, lambda: None
        action()


def test_what_is_pinned_again_while_garbage_is_collected_stays(tmp_path):
    """All of it was garbage when the blocks of the pins were looked for."""
    large = os.urandom(3_000_000)
    with Repository(tmp_path) as repository, Repository(tmp_path) as other:
        cids = [add(repository, data) for data in (b"small", large, b"garbage")]
        tree = cids[1]
        for cid in cids:
            repository.unpin(cid)
        add(repository, b"kept")

        def pin_again():
            add(other, b"small")
            other.pin(tree)

        assert repository.collect_garbage(Once(pin_again)).blocks == 1
        assert b"".join(repository.read(tree)) == large
        assert list(repository.check()) == []


INNER = b"inner" * 1000


def pin_above(repository):
    """Pin a new directory with the file `INNER`, which is in the store: only the node is new."""
    part = import_content(INNER, UNIXFS_V1_2025, lambda *_: None)
    with repository.adding() as adding:
        root = build_directory([(b"name", part)], UNIXFS_V1_2025, adding.put)
        adding.pin(root.cid)


def test_a_block_that_comes_back_below_a_pin_keeps_what_it_links_to(tmp_path):
    """Its pin missed it, so the collection could not follow its links at first."""
    data = os.urandom(3_000_000)
    with Repository(tmp_path) as repository, Repository(tmp_path) as other:
        root = add(repository, data)
        node = repository.block(root)
        add(repository, b"kept")
        key = f"key = x'{bytes(root).hex()}'"
        change(
            tmp_path,
            f"DELETE FROM links WHERE parent IN (SELECT id FROM blocks WHERE {key})",  # noqa: S608
            f"DELETE FROM blocks WHERE {key}",  # noqa: S608
        )

        def heal():
            with other.adding() as adding:
                adding.put(root, node)
                adding.flush()

        assert repository.collect_garbage(Once(heal)).blocks == 0
        assert b"".join(repository.read(root)) == data


def test_an_id_that_is_used_again_hides_nothing(tmp_path):
    """Another collection removes the last block; the next new block gets its id."""
    with Repository(tmp_path) as repository, Repository(tmp_path) as other:
        inner = add(repository, INNER)
        repository.unpin(inner)
        last = add(repository, b"last")

        def reuse():
            other.unpin(last)
            with other.adding() as keep:
                keep.put(inner, INNER)
                keep.flush()
                assert other.collect_garbage().blocks == 1
            pin_above(other)

        repository.collect_garbage(Once(reuse))
        assert repository.has(inner)
        assert list(repository.check()) == []


@pytest.mark.slow
def test_adds_do_not_wait_for_a_whole_collection(tmp_path, monkeypatch):
    """One transaction takes 0.1 s here, and all of them several seconds."""
    fill(tmp_path, 4_000, pinned=False)
    with Repository(tmp_path) as repository, Repository(tmp_path) as other:
        freeing, stored = repository._database.freeing, []

        def slow(change):
            return freeing(lambda connection: (change(connection), time.sleep(0.1))[0])

        def store():
            stored.extend(add(other, b"number %d" % number) for number in range(3))

        monkeypatch.setattr(repository._database, "freeing", slow)
        thread = threading.Thread(target=store)
        assert repository.collect_garbage(Once(thread.start)).blocks == 4_000
        assert len(stored) == 3
        thread.join()
        assert list(repository.check()) == []


def test_a_database_that_is_replaced_by_an_older_one_is_not_collected(tmp_path):
    with Repository(tmp_path) as repository:
        add(repository, b"old")
        repository.unpin(add(repository, b"garbage"))
        rewind = Once(lambda: change(tmp_path, "UPDATE store SET changes = 1"))
        with pytest.raises(VerificationError, match="replaced by an older one"):
            repository.collect_garbage(rewind)


def test_without_space_for_a_temporary_file_memory_is_used(tmp_path, monkeypatch):
    fill(tmp_path, 500, pinned=False)
    surveys = []
    with Repository(tmp_path) as repository:
        surveying = repository._database.surveying

        def refused(*, on_disk):
            surveys.append(on_disk)
            if on_disk:
                raise OSError(28, "No space left on device")
            return surveying(on_disk=on_disk)

        monkeypatch.setattr(repository._database, "surveying", refused)
        assert repository.collect_garbage().blocks == 500
    assert surveys == [True, False]
    assert garbage.MARKED <= garbage.AT_ONCE  # so that they fit into one statement


# A check beside collections

CHURN = """
import os, sys, threading
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.repository import Repository
def churn():
    with Repository(sys.argv[1]) as repository:
        print("ready", flush=True)
        while not os.path.exists(sys.argv[2]):
            sizes = [20_000] * 5 + [300]
            pins = [repository.add(os.urandom(size), UNIXFS_V1_2025)[0] for size in sizes]
            for pin in pins:
                repository.unpin(CID.parse(pin.cid))
            repository.collect_garbage()
threads = [threading.Thread(target=churn) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.slow
def test_a_check_beside_collections_finds_no_damage(tmp_path):
    store, end = tmp_path / "store", tmp_path / "end"
    with Repository(store) as repository:
        for _ in range(20):
            repository.add(os.urandom(20_000), UNIXFS_V1_2025)
        with start_program(CHURN, store, end) as other:
            other.stdout.readline()
            try:
                damage = [row for _ in range(20) for row in repository.check()]
            finally:
                end.touch()
        assert (damage, other.returncode) == ([], 0)


def test_a_store_that_is_locked_for_too_long_is_a_provider_error(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.repository.database.opening.BUSY_SECONDS", 0.1)
    with Repository(tmp_path) as repository:
        with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(ProviderError, match=r"in use.*try again"):
                repository.add(b"x", UNIXFS_V1_2025)
        repository.add(b"x", UNIXFS_V1_2025)
