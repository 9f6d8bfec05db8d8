"""The ledger of copies: what it keeps, its locks over processes, and files that are not its own."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from holdfast.content.cid import CID
from holdfast.disk.locks import unlock
from holdfast.errors import ClientClosedError, ConfigError
from holdfast.records import PinInfo, Verdict
from holdfast.repository.ledger import DATABASE, CopyState, Ledger, LedgerRow
from holdfast.repository.pins import PinQuery, add_pins

HELLO = CID.of_raw(b"hello")
PROVEN = CopyState("proven", 1_700_000_000_000, 4, named=True)


@pytest.fixture
def ledger(memory_folder):
    with closing(Ledger(memory_folder / "copies")) as ledger:
        yield ledger


def states_of(row: LedgerRow) -> dict[str, str]:
    return {member: state.state for member, state in row.states.items()}


def test_an_intent_becomes_a_copy(ledger):
    named = PinInfo(name="greeting", keyvalues={"a": 1})
    row = ledger.intend(HELLO, named, ["disk", "kubo"], 2, size=5)
    assert (row.pin.name, row.pin.keyvalues, row.pin.size, row.want) == ("greeting", {"a": 1}, 5, 2)
    assert states_of(row) == {"disk": "sent", "kubo": "sent"}

    ledger.note(HELLO, {"disk": PROVEN, "kubo": None})
    again = ledger.intend(HELLO, PinInfo(name="usual"), ["disk"], 3)
    assert again == LedgerRow(row.pin, want=3, states={"disk": PROVEN})
    (listed,) = ledger.pins(PinQuery(name_contains="GREET"))
    assert listed.peers == {"disk": "proven"}
    assert ledger.totals() == (1, 5)


def test_new_names_are_not_at_the_members_until_it_is_noted(ledger):
    ledger.intend(HELLO, PinInfo(name="old"), [], 1)
    ledger.note(HELLO, {"disk": PROVEN})
    row = ledger.update(HELLO, "new", {"year": 2026})
    assert (row.pin.name, row.pin.keyvalues) == ("new", {"year": 2026})
    assert row.states == {"disk": PROVEN._replace(named=False)}
    ledger.note(HELLO, {"disk": PROVEN})
    row = ledger.intend(HELLO, PinInfo(name="newer", given=True), [], 1)
    assert (row.pin.name, row.pin.keyvalues) == ("newer", {"year": 2026})
    assert row.states == {"disk": PROVEN._replace(named=False)}
    assert ledger.update(CID.of_raw(b"another"), "new", {}) is None


def test_all_rows_come_in_pages(ledger):
    cids = [CID.of_raw(b"%d" % number) for number in range(2500)]
    with ledger._writing() as connection:
        add_pins(connection, [(cid, {}) for cid in cids])
    pages = [*ledger.row_pages()]
    assert [len(page) for page in pages] == [1000, 1000, 500]
    assert {row.pin.cid for page in pages for row in page} == {*map(str, cids)}


def test_a_tombstone_stays_until_every_member_is_done_and_a_write_ends_it(ledger):
    ledger.intend(HELLO, PinInfo(), ["disk", "kubo"], 2)
    ledger.note(HELLO, {"disk": PROVEN})
    assert states_of(ledger.bury(HELLO)) == {"disk": "proven", "kubo": "sent"}
    assert ledger.bury(HELLO) is None
    assert ledger.find(HELLO) is None
    assert ledger.is_buried(HELLO)
    ledger.note(HELLO, {"disk": None})
    (tombstone,) = ledger.unfinished_tombstones(10)
    assert states_of(tombstone) == {"kubo": "sent"}

    ledger.intend(HELLO, PinInfo(), ["disk"], 2)
    assert not ledger.is_buried(HELLO)
    assert ledger.unfinished_tombstones(10) == []


def test_nothing_is_known_of_members_after_a_tombstone(ledger):
    ledger.intend(HELLO, PinInfo(), [], 1)
    ledger.note(HELLO, {"disk": PROVEN})
    ledger.bury(HELLO)
    ledger.intend(HELLO, PinInfo(), [], 1)
    assert states_of(ledger.find(HELLO)) == {"disk": "sent"}


def test_verdicts_end_after_their_time(ledger):
    verdict = Verdict(is_good=False, reason="it fetches what it lacks", since=1_700_000_000_000)
    ledger.note_verdict("kubo", "witness", verdict)
    assert ledger.find_verdict("kubo", "witness") == verdict
    assert ledger.find_verdict("kubo", "witness", age=60) is None
    assert ledger.find_verdict("kubo", "layout") is None
    ledger.note_verdict("kubo", "witness", None)
    assert ledger.find_verdict("kubo", "witness") is None


HOLD = """
import sys
from pathlib import Path
from holdfast.content.cid import CID
from holdfast.records import PinInfo
from holdfast.repository.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]))
ledger.intend(CID.of_raw(b"hello"), PinInfo(), ["disk"], 2)
assert ledger.try_lock(CID.of_raw(b"hello")) is not None
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_lock_holds_over_processes_and_ends_with_a_kill(ledger):
    command = [sys.executable, "-c", HOLD, os.fspath(ledger.folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:  # noqa: S603 - our own
        assert process.stdout.readline() == b"locked\n"
        assert ledger.try_lock(HELLO) is None
        other = ledger.try_lock(CID.of_raw(b"another"))
        assert other is not None
        unlock(other)
        process.kill()
        process.wait()
    lock = ledger.try_lock(HELLO)
    assert lock is not None
    assert ledger.try_lock(HELLO) is None
    unlock(lock)
    assert states_of(ledger.find(HELLO)) == {"disk": "sent"}  # it was written before the kill


def test_a_lock_ends_although_a_forked_child_has_its_file_open(ledger):
    lock = ledger.try_lock(HELLO)
    end, of_the_parent = os.pipe()
    child = os.fork()
    if not child:
        os.close(of_the_parent)
        os.read(end, 1)
        os._exit(0)
    try:
        unlock(lock)
        lock = ledger.try_lock(HELLO)
        assert lock is not None
        unlock(lock)
    finally:
        os.close(of_the_parent)
        os.close(end)
        os.waitpid(child, 0)


def spoil_trigger(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON pins BEGIN DELETE FROM places; END")


def spoil_table(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE places ADD COLUMN token TEXT")


def spoil_version(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


def spoil_bytes(path):
    path.write_bytes(b"not a database, but long enough to be one" * 100)


def spoil_link(path):
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def spoil_other(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (a)")


@pytest.mark.parametrize(
    "spoil", [spoil_trigger, spoil_table, spoil_version, spoil_bytes, spoil_link, spoil_other]
)
def test_a_file_that_is_no_ledger_of_ours_is_refused(memory_folder, spoil):
    Ledger(memory_folder).close()
    spoil(memory_folder / DATABASE)
    with pytest.raises(ConfigError, match="holds no sound"):
        Ledger(memory_folder)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE pins SET keyvalues = '[]'",
        "UPDATE pins SET cid = 'nonsense'",
        "UPDATE places SET state = 'lost'",
        "UPDATE places SET proven = -1",
        "UPDATE places SET member = x'00'",
        "UPDATE copies SET want = 'two'",
    ],
)
def test_a_row_that_we_never_write_is_an_error(ledger, change):
    ledger.intend(HELLO, PinInfo(), ["disk"], 2)
    with closing(sqlite3.connect(ledger.folder / DATABASE)) as connection:
        connection.execute(change)
        connection.commit()
    with pytest.raises(ConfigError, match="holds no sound ledger"):
        ledger.rows()


def test_nobody_else_can_read_it(ledger):
    assert (ledger.folder / DATABASE).stat().st_mode & 0o077 == 0


def test_it_can_be_used_after_a_fork_and_not_after_closing(ledger):
    ledger.intend(HELLO, PinInfo(), [], 1)
    child = os.fork()
    if not child:  # pragma: no cover - in the child
        os._exit(0 if ledger.find(HELLO) is not None else 1)
    assert os.waitpid(child, 0)[1] == 0
    ledger.close()
    ledger.close()
    with pytest.raises(ClientClosedError):
        ledger.find(HELLO)
