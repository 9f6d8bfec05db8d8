"""No write that returned is lost, whatever happens to one member of a fleet, or to the writer.

`HOLDFAST_FLEET_WRITES` and `HOLDFAST_FLEET_KILLS` say how many writes and kills there are in all.
"""

import json
import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025 as V1
from holdfast.repository import Repository
from holdfast.sources.importing import import_content
from tests import fleet as faults
from tests.content import read_archive
from tests.fleet import KINDS, NodeMember, running_fleet
from tests.fleet_writer import assert_whole, write
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

WRITES = int(os.environ.get("HOLDFAST_FLEET_WRITES", "100"))
KILLS = int(os.environ.get("HOLDFAST_FLEET_KILLS", "50"))

NAMES = [*KINDS]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with running_fleet(tmp_path_factory.mktemp("fleet"), *NAMES) as fleet:
        yield fleet


@pytest.fixture
def connect(fleet, tmp_path, monkeypatch):
    """A function that connects to the copies over members in this order; one ledger for a test."""

    def connect(*order, **options):
        for name, value in fleet.write_settings(tmp_path, *order, **options).items():
            monkeypatch.setenv(name, value)
        return Client.connect("copies")

    return connect


# What happens to a member while others write, and how it ends


@contextmanager
def killed(member):
    member.kill()
    try:
        yield
    finally:
        member.start()


@contextmanager
def emptied(member):
    member.empty()
    yield


@contextmanager
def full(member):
    member.fill()
    try:
        yield
    finally:
        member.make_room()


@contextmanager
def having_nothing(member):
    """It claims all, and what it was sent is gone."""
    with member.faulty(faults.claim_all):
        yield
    member.empty()


def lying(fault):
    return lambda member: member.faulty(fault)


FAULTS = {
    "dripping": lying(faults.drip),
    "cutting": lying(faults.cut),
    "killed": killed,
    "full": full,
    "wrong bytes": lying(faults.wrong_bytes),
    "another CID": lying(faults.other_cid),
    "claiming all": having_nothing,
    "emptied": emptied,
}


def order_from(name):
    """All members, beginning with this one, so that it is asked first."""
    place = NAMES.index(name)
    return NAMES[place:] + NAMES[:place]


def small_store(folder):
    """The roots that the small store beside the ledger still has."""
    with Client.init(path=folder / "ledger" / "store") as client:
        return {pin.cid for pin in client.pins()}


@pytest.mark.parametrize("need", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_no_write_is_lost_by_the_fault_of_a_member(fleet, connect, tmp_path, name, need):
    member = fleet[name]
    count = max(1, WRITES // (len(NAMES) * len(FAULTS)))
    written = {}
    numbers = iter(range(10_000_000))
    base = 1_000_000 * (NAMES.index(name) * 2 + need)  # no content is written by two tests
    for fault in FAULTS.values():
        with closing(connect(*order_from(name), want=2, need=need)) as client, fault(member):
            for _ in range(count):
                number = base + next(numbers)
                cid = written[number] = write(client, number)
                if need == 2:  # at this moment, by bytes
                    assert len(fleet.sites_with(cid)) >= 2
    assert len(written) == count * len(FAULTS)

    with closing(connect(*order_from(name), want=2, need=need)) as client:
        for number, cid in written.items():
            assert_whole(client, number, cid)
    in_store = small_store(tmp_path)
    others = [other for other in fleet if other is not member]
    for cid in written.values():
        assert cid in in_store or any(other.has(cid) for other in others)
    with closing(connect(*order_from(name), want=2, need=need, grace=0)) as client:
        list(client.health(fix=True))
        reports = {report.cid: report for report in client.health()}
    assert set(written.values()) <= set(reports)
    for cid in written.values():
        assert len(reports[cid].proven) >= 2
        assert len(fleet.places_of(cid)) >= 2
    assert small_store(tmp_path) == set()


# The writer is killed


@pytest.fixture(scope="module")
def small_fleet(tmp_path_factory):
    with running_fleet(tmp_path_factory.mktemp("small"), "kubo-a", "v3", "older") as fleet:
        yield fleet


def start(environment, *arguments):
    """Start the program of `tests/fleet_writer.py`, and wait until it has connected."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "tests.fleet_writer", *map(str, arguments)],
        env={**os.environ, **environment},
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b'{"ready": true}\n'
    return process


def read_rows(process):
    """Wait for its end; return what it has printed whole."""
    output, _ = process.communicate()
    lines = output.decode().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def test_nothing_is_lost_when_the_writer_is_killed(small_fleet, tmp_path, monkeypatch):
    choose = random.Random("kills of the writer")  # noqa: S311
    environment = use(small_fleet, tmp_path, monkeypatch, want=2, need=1)
    written, first = {}, 100_000_000
    for _ in range(KILLS):
        writer = start(environment, "write", first, 1000)
        try:
            writer.wait(choose.uniform(0, 1.5))
        except subprocess.TimeoutExpired:
            writer.send_signal(signal.SIGKILL)
        new = {row["number"]: row["cid"] for row in read_rows(writer)}
        assert writer.returncode == -signal.SIGKILL
        written |= new
        first += len(new) + 1

    assert written
    in_store = small_store(tmp_path)
    below = {
        cid: sites
        for cid in written.values()
        if len(sites := small_fleet.sites_with(cid)) < 2 and cid not in in_store
    }
    assert below == {}
    with Client.connect("copies") as client:
        cared_for = {pin.cid for pin in client.pins()}
        assert set(written.values()) <= cared_for
        for number, cid in written.items():
            assert_whole(client, number, cid)
        reports = {report.cid: report for report in client.health()}
        assert set(reports) == cared_for
        for report in reports.values():
            places = small_fleet.places_of(report.cid)
            assert set(report.proven) <= set(places)  # nothing is called proven that is not
            assert len(report.proven) >= 2 or report.cid in in_store


# Health and removal are killed


def kill_at_random(choose, process, most):
    """Kill a process after at most so many seconds; return what it has printed."""
    try:
        process.wait(choose.uniform(0, most))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    rows = read_rows(process)
    assert process.returncode in {0, -signal.SIGKILL}
    return rows


def test_a_run_after_killed_ones_mends_everything(small_fleet, tmp_path, monkeypatch):
    choose = random.Random("kills of health")  # noqa: S311
    order = ("older", "kubo-a", "v3")
    environment = use(small_fleet, tmp_path, monkeypatch, *order, want=2, need=1, grace=0)
    numbers = range(400_000_000, 400_000_030)
    with Client.connect("copies") as client:
        written = {number: write(client, number) for number in numbers}
        gone = {write(client, number) for number in range(400_000_030, 400_000_040)}
        small_fleet["kubo-a"].kill()
        try:
            for cid in gone:
                client.revoke(cid)
        finally:
            small_fleet["kubo-a"].start()
    for _ in range(max(3, KILLS // 5)):
        small_fleet["older"].empty()
        kill_at_random(choose, start(environment, "mend", 1), 5.0)

    with Client.connect("copies") as client:
        list(client.health(fix=True))
        reports = {report.cid: report.proven for report in client.health()}
        for number, cid in written.items():
            assert_whole(client, number, cid)
    assert set(reports) == set(written.values())
    for cid, proven in reports.items():
        assert len(proven) >= 2
        assert set(proven) <= set(small_fleet.places_of(cid))
    assert [one.name for one in small_fleet if one.pins() & gone] == []
    assert small_store(tmp_path) == set()


def start_health(environment):
    command = [sys.executable, "-m", "holdfast", "health", "--use", "copies", "--fix"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env={**os.environ, **environment}, text=True, **pipes)  # noqa: S603


def test_a_run_goes_on_after_ctrl_c(small_fleet, tmp_path, monkeypatch):
    order = ("older", "kubo-a", "v3")
    environment = use(small_fleet, tmp_path, monkeypatch, *order, want=2, need=1)
    with Client.connect("copies") as client:
        cids = [write(client, 450_000_000 + 5 * number) for number in range(30)]
    older = small_fleet["older"]
    older.empty()
    repairs = [("POST", "/pinning/pinFileToIPFS")] * 5
    older.apis[0].seen.clear()
    with older.faulty(faults.delay(0.2)):
        health = start_health(environment)
        wait_until(lambda: [one for one in older.apis[0].seen if one in repairs][:5] == repairs)
        health.send_signal(signal.SIGINT)
        _, errors = health.communicate()
    assert health.returncode == 130
    assert "Traceback" not in errors
    assert 0 < len([cid for cid in cids if older.has(cid)]) < len(cids)

    health = start_health(environment)
    output, _ = health.communicate()
    assert (health.returncode, output) == (0, "")
    assert [cid for cid in cids if len(small_fleet.places_of(cid)) < 2] == []
    assert small_store(tmp_path) == set()


def test_removals_that_were_killed_are_finished(small_fleet, tmp_path, monkeypatch):
    choose = random.Random("kills of revoke")  # noqa: S311
    environment = use(small_fleet, tmp_path, monkeypatch, want=3, need=1, grace=0)
    first, begun = 500_000_000, []
    for _ in range(max(3, KILLS // 5)):
        with Client.connect("copies") as client:
            cids = [write(client, first + 5 * number) for number in range(8)]
        first += 1000
        rows = kill_at_random(choose, start(environment, "forget", *cids), 0.6)
        begun += [row["cid"] for row in rows]
    assert begun
    with Client.connect("copies") as client:
        for _ in range(2):  # what was revoked never comes back
            cared_for = {report.cid for report in client.health(fix=True)}
            assert not cared_for & set(begun)
            for one in small_fleet:
                assert one.pins() >= cared_for
                assert not one.pins() & set(begun)
        # One that was removed at some of the members was either finished or never begun.
        assert {pin.cid for pin in client.pins()} == cared_for
    assert small_store(tmp_path) == set()


@pytest.mark.parametrize("name", ["kubo-a", "older"])
def test_all_parts_of_a_sample_together_find_every_loss(small_fleet, tmp_path, monkeypatch, name):
    other = "v3" if name == "older" else "older"
    use(small_fleet, tmp_path, monkeypatch, name, other, want=2, need=2)
    first = 600_000_000 + 1000 * len(name)
    with Client.connect("copies") as client:
        large = write(client, first + 49)  # of 20 blocks
        cids = [write(client, first + 5 * number) for number in range(20)]
        archive = read_archive([small_fleet[name].archive(large)])[1]
        leaves = [cid for cid, _ in archive if str(cid) != large]
        small_fleet[name].empty(leaves[7], *map(CID.parse, cids[::4]))
        losses = {}
        for part in range(1, 6):
            for report in client.health(sample=f"{part}/5"):
                if report.missing:
                    assert report.missing == (name,)
                    losses.setdefault(report.cid, part)
        assert set(losses) == {large, *cids[::4]}
        assert len(set(losses.values())) > 1
        reports = list(client.health(sample="1/5", fix=True))
        assert {len(report.proven) for report in reports} == {2}
    assert {len(small_fleet.places_of(cid)) for cid in (large, *cids)} == {2}


def test_forty_threads_write_while_another_process_mends(small_fleet, tmp_path, monkeypatch):
    environment = use(small_fleet, tmp_path, monkeypatch, want=2, need=1, patience=30)
    with Client.connect("copies") as client, ThreadPoolExecutor(40) as threads:
        numbers = [700_000_000 + 5 * number for number in range(120)]
        cids = [write(client, numbers.pop())]  # so that there is something to mend
        mending = start(environment, "mend", 4)
        cids += threads.map(lambda number: write(client, number), numbers)
        assert read_rows(mending)
        assert mending.returncode == 0
        reports = {report.cid: report.proven for report in client.health(fix=True)}
        assert set(reports) == set(cids)
        for cid, proven in reports.items():
            assert len(proven) >= 2
            assert set(proven) <= set(small_fleet.places_of(cid))
    assert small_store(tmp_path) == set()


# Removal

FOREIGN = 5000


def foreign_pins(member, count):
    """Give a member pins that are none of ours; return all that it lists then."""
    if isinstance(member, NodeMember):
        with Repository(member.store) as repository, repository.adding() as adding:
            for number in range(count):
                part = import_content(b"%s %d" % (member.name.encode(), number), V1, adding.put)
                adding.pin(part.cid, size=part.dag_size, name=f"foreign {number}")
    else:
        blocks = [b"%s %d" % (member.name.encode(), number) for number in range(count)]
        pairs = [(CID.of_raw(block), block) for block in blocks]
        archive = b"".join(write_car([cid for cid, _ in pairs], pairs))
        member.kubo.call("dag/import", ("car", archive), pin_roots=True)
    return member.pins()


def test_what_was_revoked_while_a_member_was_down_is_never_copied_back(
    small_fleet, tmp_path, monkeypatch
):
    use(small_fleet, tmp_path, monkeypatch, want=2, need=1, grace=0)
    member = small_fleet["v3"]
    foreign = {one.name: foreign_pins(one, FOREIGN) for one in small_fleet}
    with Client.connect("copies") as client:
        stays, lost = [write(client, number) for number in (200_000_002, 200_000_007)]
        assert member.has(lost)
        member.kill()
        try:
            client.revoke(lost)
            assert [report.cid for report in client.health(fix=True)] == [stays]
        finally:
            member.start()
        assert lost in member.pins()
        assert stays in {report.cid for report in client.health(fix=True)}
        for _ in range(2):
            assert lost not in {report.cid for report in client.health(fix=True)}
            assert [one.name for one in small_fleet if lost in one.pins()] == []
        assert len(small_fleet.sites_with(stays)) >= 2
        client.revoke(stays)
        for one in small_fleet:
            assert one.pins() == foreign[one.name]
        again = write(client, 200_000_007)  # removes the tombstone
        assert again == lost
        list(client.health(fix=True))
        assert len(small_fleet.places_of(lost)) == 2


@pytest.mark.parametrize(("want", "need"), [(2, 1), (3, 2), (3, 1)])
def test_two_processes_never_leave_too_few_places(small_fleet, tmp_path, monkeypatch, want, need):
    environment = use(small_fleet, tmp_path, monkeypatch, want=want, need=need, patience=30)
    first = 300_000_000 + 1000 * (want * 10 + need)
    with Client.connect("copies") as client:
        cids = [write(client, first + number) for number in range(10)]
    places = {cid: small_fleet.sites_with(cid) for cid in cids}
    assert {len(sites) for sites in places.values()} == {want}
    processes = [start(environment, "revoke", one.name, *cids) for one in small_fleet]
    refused = dict.fromkeys(cids, 0)
    for process in processes:
        rows = read_rows(process)
        assert process.returncode == 0
        for row in rows:
            refused[row["cid"]] += bool(row["error"])
    for cid in cids:
        left = [one.name for one in small_fleet if cid in one.pins() and one.has(cid)]
        assert len(left) == need, (places[cid], left)
        # Those that had no copy were refused too, or had nothing to remove.
        assert refused[cid] >= need


def use(fleet, folder, monkeypatch, *order, **options):
    """Let this process and others use the settings for a fleet; return the variables."""
    environment = fleet.write_settings(folder, *order, **options)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment
