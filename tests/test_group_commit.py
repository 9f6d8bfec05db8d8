"""Stores that wait for the disk together: one transaction, and to each its own outcome."""

import asyncio
import errno
import http.client
import json
import os
import sqlite3
import threading
from contextlib import closing, suppress

import pytest

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import ClientClosedError, VerificationError
from holdfast.node.service import StoreQueue
from holdfast.repository import Repository
from holdfast.repository.adding import NewPin, pin_together
from holdfast.repository.database import group_commit
from holdfast.repository.database.group_commit import Change, GroupCommit
from holdfast.repository.rows import STATEMENT_ROWS
from tests.disks import fill_up
from tests.node_process import node_process
from tests.support import wait_until

AT_ONCE = 16


@pytest.fixture
def repository(tmp_path):
    with Repository(tmp_path / "store") as repository:
        yield repository


def transactions(repository):
    """How many transactions the store has had."""
    with repository._database.reading() as connection:
        return connection.execute("SELECT changes FROM store").fetchone()[0]


def document(number, size=100):
    return f"document {number} ".encode() + bytes(size)


def run_at_once(repository, works, meanwhile=lambda: None):
    """Run each work on a thread, all while nobody can write; what each returned or raised."""
    outcomes = {}

    def run(number, work):
        try:
            outcomes[number] = work()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            outcomes[number] = error

    group = repository._database._group
    threads = []
    with repository._database.frozen():
        for number, work in enumerate(works):
            threads.append(threading.Thread(target=run, args=(number, work)))
            threads[-1].start()
            # The first one leads and has its group: it waits for the lock. The others wait for it.
            wait_until(lambda: group._is_busy and len(group._waiting) == len(threads) - 1)
        meanwhile()
    for thread in threads:
        thread.join()
    return [outcomes[number] for number in range(len(works))]


def adds(repository, count, size=100):
    return [
        lambda number=number: repository.add(document(number, size), UNIXFS_V1_2025, name="a")
        for number in range(count)
    ]


def holds(repository, data):
    return repository.find_pin(CID.of_raw(data)) is not None and repository.has(CID.of_raw(data))


def new_pins(repository, contents):
    pins = []
    for data in contents:
        adding = repository.adding()
        adding.put(CID.of_raw(data), data)
        pins.append(NewPin(adding, CID.of_raw(data), {"name": "a"}))
    return pins


@pytest.mark.parametrize("size", [100, 20_000], ids=["rows", "files"])
def test_stores_of_several_threads_share_a_transaction(repository, size):
    before = transactions(repository)
    outcomes = run_at_once(repository, adds(repository, AT_ONCE, size))
    assert transactions(repository) == before + 2  # the first had begun before the others came
    assert [existed for _, existed in outcomes] == [False] * AT_ONCE
    assert len({pin.id for pin, _ in outcomes}) == AT_ONCE
    assert all(holds(repository, document(number, size)) for number in range(AT_ONCE))
    assert list(repository.check()) == []


def test_a_large_group_is_divided(repository, monkeypatch):
    monkeypatch.setattr(group_commit, "GROUP_CHANGES", 5)
    before = transactions(repository)
    run_at_once(repository, adds(repository, 11))
    assert transactions(repository) == before + 3


@pytest.mark.parametrize("size", [10, 20_000])  # all of them are rows, or one is a file
@pytest.mark.parametrize("place", range(3))
def test_a_store_that_fails_does_not_fail_the_others_in_its_group(repository, place, size):
    contents = [document(number, size if number == 1 else 10) for number in range(3)]
    pins = new_pins(repository, contents)
    pins[place] = NewPin(pins[place].adding, pins[place].cid, {"unknown": 1})
    outcomes = pin_together(pins)
    assert [type(outcome) for outcome in outcomes] == [
        TypeError if number == place else tuple for number in range(3)
    ]
    are_pinned = [repository.find_pin(pin.cid) is not None for pin in pins]
    assert are_pinned == [number != place for number in range(3)]
    # Nothing of it is there, and nothing of it is in the way.
    assert not repository.has(pins[place].cid)
    assert list(repository.check()) == []
    assert list((repository.path / "blocks" / "tmp").iterdir()) == []


def test_small_stores_take_few_statements(repository):
    """After each of them, a thread waits for the others."""
    statements = set()  # triggers show that of their statement again
    repository._database._connection.set_trace_callback(statements.add)
    pin_together(new_pins(repository, [document(number) for number in range(2)]))
    of_two = len(statements)
    statements.clear()
    pin_together(new_pins(repository, [document(number) for number in range(10, 60)]))
    assert len(statements) == of_two <= 12
    assert list(repository.check()) == []


def test_the_same_content_in_one_batch_is_one_pin(repository):
    pin, _ = repository.add(document(1), UNIXFS_V1_2025, name="a")
    outcomes = pin_together(new_pins(repository, [document(number) for number in (0, 1, 0)]))
    assert [existed for _, existed in outcomes] == [False, True, True]
    assert outcomes[0][0] == outcomes[2][0]
    assert outcomes[1][0] == pin
    assert list(repository.check()) == []


def test_more_pins_than_one_statement_takes(repository):
    contents = [document(number) for number in range(2 * STATEMENT_ROWS + 1)]
    outcomes = pin_together(new_pins(repository, contents))
    assert [existed for _, existed in outcomes] == [False] * len(contents)
    assert all(holds(repository, data) for data in contents)
    again = pin_together(new_pins(repository, contents))
    assert again == [(pin, True) for pin, _ in outcomes]


def test_a_bad_row_fails_only_the_store_of_that_pin(repository):
    repository.add(document(1), UNIXFS_V1_2025, name="a")
    with repository._database.writing() as connection:
        connection.execute("UPDATE pins SET keyvalues = 'none'")
    outcomes = pin_together(new_pins(repository, [document(number) for number in range(3)]))
    assert [type(outcome) for outcome in outcomes] == [tuple, VerificationError, tuple]
    assert [holds(repository, document(number)) for number in (0, 2)] == [True, True]


def test_an_error_of_sqlite_in_a_group_is_that_of_one_change(repository):
    def fail(connection):
        connection.execute("INSERT INTO links VALUES (1, x'00')")
        connection.execute("INSERT INTO links VALUES (NULL, NULL)")

    changes = [
        Change(lambda connection: connection.execute("SELECT 1").fetchone()),
        Change(fail),
        Change(lambda connection: connection.execute("SELECT count(*) FROM links").fetchone()),
    ]
    repository._database.commit(*changes)
    assert changes[0].result() == (1,)
    with pytest.raises(VerificationError, match="NOT NULL"):
        changes[1].result()
    assert changes[2].result() == (0,)


def test_if_the_commit_fails_all_stores_of_the_group_have_failed(repository, monkeypatch):
    def fail(_):
        raise sqlite3.OperationalError("no")

    monkeypatch.setattr("holdfast.repository.database.schema.advance", fail)
    outcomes = run_at_once(repository, adds(repository, 4))
    assert [type(outcome) for outcome in outcomes] == [VerificationError] * 4
    monkeypatch.undo()
    assert repository.pins() == []
    assert {type(outcome) for outcome in run_at_once(repository, adds(repository, 4))} == {tuple}


def test_on_a_full_disk_each_store_of_a_group_gets_the_error(small_disk):
    with Repository(small_disk / "store") as repository:
        repository.add(b"before", UNIXFS_V1_2025)
        works = adds(repository, 6)
        outcomes = run_at_once(repository, works, lambda: fill_up(small_disk, free=1 << 19))
        assert [getattr(outcome, "errno", None) for outcome in outcomes[1:]] == [errno.ENOSPC] * 5
        (small_disk / "filler").unlink()
        assert holds(repository, b"before")
        assert {type(work()) for work in works} == {tuple}
        assert list(repository.check()) == []


def test_where_a_group_does_not_fit_on_the_disk_its_stores_are_committed_one_by_one(
    repository, monkeypatch
):
    # There is space for twice the bytes of one store, and not for those of two.
    monkeypatch.setattr(repository._database._space, "is_short", lambda size=0: size > 50_000)
    works = adds(repository, 5, size=15_000)
    before = transactions(repository)
    assert {type(outcome) for outcome in run_at_once(repository, works)} == {tuple}
    assert transactions(repository) == before + len(works)


# The threads of a group


class Commits:
    """Stands for the databases: records the groups, and can be made to wait or to fail."""

    def __init__(self):
        self.groups = []
        self.errors = []
        self.may_go = threading.Event()

    def __call__(self, changes):
        self.groups.append(len(changes))
        assert self.may_go.wait(30)
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        for change in changes:
            change.run(None)


def start(group, count, outcomes):
    """Start threads with one change each, one after the other."""
    threads = []
    before = group._is_busy

    def run(change):
        try:
            group.run([change])
            outcomes.append(change.result())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            outcomes.append(error)

    for number in range(count):
        change = Change(lambda _, number=number: number)
        threads.append(threading.Thread(target=run, args=(change,)))
        threads[-1].start()
        waiting = number + before
        wait_until(lambda: group._is_busy and len(group._waiting) == waiting)  # noqa: B023
    return threads


@pytest.mark.parametrize("turn", range(2))
def test_an_interrupt_of_the_thread_that_commits_is_not_that_of_the_others(turn):
    commits, outcomes = Commits(), []
    commits.errors = [None] * turn + [KeyboardInterrupt()]
    group = GroupCommit(commits)
    threads = start(group, 5, outcomes)
    commits.may_go.set()
    for thread in threads:
        thread.join(30)
    assert [type(outcome) for outcome in outcomes].count(KeyboardInterrupt) == 1
    assert sorted(o for o in outcomes if isinstance(o, int)) == [n for n in range(5) if n != turn]
    assert not group._is_busy


def test_a_thread_that_is_interrupted_while_it_waits_leaves_the_others_their_turn():
    commits, outcomes = Commits(), []
    group = GroupCommit(commits)
    threads = start(group, 3, outcomes)
    caller = group._waiting[0]
    group._leave(caller)
    assert len(group._waiting) == 1
    commits.may_go.set()
    threads[0].join(30)
    threads[2].join(30)
    assert sorted(outcomes) == [0, 2]
    caller.is_done = True
    caller.wake.release()
    threads[1].join(30)
    assert commits.groups == [1, 1]


def test_the_next_thread_leads_if_the_one_whose_turn_it_is_was_interrupted():
    commits, outcomes = Commits(), []
    commits.may_go.set()
    group = GroupCommit(commits)
    group._is_busy = True  # as if a thread committed
    threads = start(group, 2, outcomes)
    first = group._waiting[0]
    first.leads = True
    group._leave(first)
    threads[1].join(30)
    assert outcomes == [1]
    first.is_done = True
    first.changes[0].run(None)
    first.wake.release()
    threads[0].join(30)
    assert not group._is_busy


def test_a_forked_child_does_not_wait_for_threads_of_its_parent(repository):
    group = repository._database._group
    group._is_busy = True
    group._waiting.append(group_commit._Caller([]))
    child = os.fork()
    if not child:
        repository.add(b"of the child", UNIXFS_V1_2025)
        os._exit(7)
    group._is_busy = False
    group._waiting.clear()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert holds(repository, b"of the child")


# The queue of the node


def test_the_node_commits_what_waits_in_one_transaction(repository):
    async def store_all(count):
        queue = StoreQueue(repository)
        stores = [queue.add(document(n), UNIXFS_V1_2025, name=str(n)) for n in range(count)]
        return await asyncio.gather(*stores, return_exceptions=True)

    before = transactions(repository)
    outcomes = asyncio.run(store_all(100))
    assert [pin.name for pin, _ in outcomes] == [str(number) for number in range(100)]
    assert all(holds(repository, document(number)) for number in range(100))
    assert transactions(repository) - before <= 3
    # An error of all of them is that of each store.
    repository.close()
    assert [type(error) for error in asyncio.run(store_all(3))] == [ClientClosedError] * 3


def test_a_store_at_the_node_that_fails_or_is_cancelled_leaves_the_others_alone(repository):
    async def store_all():
        queue = StoreQueue(repository)
        tasks = [
            asyncio.create_task(queue.add(document(0), UNIXFS_V1_2025)),
            asyncio.create_task(queue.add(document(1), UNIXFS_V1_2025, unknown=1)),
            asyncio.create_task(queue.add(document(2), UNIXFS_V1_2025)),
        ]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(queue.add(document(n), UNIXFS_V1_2025)) for n in (3, 4)]
        await asyncio.sleep(0)
        tasks[2].cancel()
        tasks[3].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        later = await queue.add(document(5), UNIXFS_V1_2025)
        return outcomes, later

    outcomes, (later, existed) = asyncio.run(store_all())
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [tuple, TypeError, asyncio.CancelledError, asyncio.CancelledError, tuple]
    assert holds(repository, document(0))
    assert holds(repository, document(4))
    assert not holds(repository, document(1))
    assert (later.cid, existed) == (str(CID.of_raw(document(5))), False)


@pytest.mark.slow
def test_a_killed_node_has_every_store_that_it_acknowledged(tmp_path):
    acknowledged = []

    def store(node, name):
        address = node.api_url.removeprefix("http://")
        headers = {"Authorization": f"Bearer {node.token}"}
        with (
            closing(http.client.HTTPConnection(address)) as connection,
            suppress(OSError, http.client.HTTPException, ValueError),
        ):
            for number in range(100_000):
                body = json.dumps({"pinataContent": {"of": name, "number": number}})
                connection.request("POST", "/pinning/pinJSONToIPFS", body, headers)
                acknowledged.append(json.loads(connection.getresponse().read())["IpfsHash"])

    with node_process(tmp_path) as node:
        threads = [threading.Thread(target=store, args=(node, n)) for n in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(acknowledged) > 20 * AT_ONCE)
        node.process.kill()
        for thread in threads:
            thread.join()
    with Repository(tmp_path) as repository:
        assert all(repository.find_pin(CID.parse(cid)) for cid in acknowledged)
        assert all(repository.block(CID.parse(cid)) for cid in acknowledged)
        assert transactions(repository) < len(acknowledged)
        assert list(repository.check()) == []
