"""Stores for tests: filled, damaged, and made or changed by processes that are killed.

``python -m tests.stores WHAT FOLDER STRIDE`` does `WHAT` over and over in a forked child that is
killed with SIGKILL: before its first SQL statement or change of a name, then `STRIDE` later, and so
on to its end. After each the store must open, hold everything, and be sound. It prints how often.
"""

import os
import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import ClientError
from holdfast.repository import PinQuery, Repository
from holdfast.repository.upkeep.checking import UNLISTED
from tests.support import script_output

# A program that stops in the middle of an upload until it reads a line.
HALTED_UPLOAD = """
import os, sys
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.repository import Repository
with Repository(sys.argv[1]) as repository, repository.adding() as adding:
    importer = FileImporter(UNIXFS_V1_2025, adding.put)
    importer.update(os.urandom(10 << 20))
    print("half", flush=True)
    sys.stdin.readline()
    importer.update(os.urandom(10 << 20))
    part = importer.finish()
    adding.pin(part.cid, size=part.dag_size)
    print(part.cid, flush=True)
"""

DATABASE, ID = "holdfast.sqlite3", "holdfast.id"
CONTENTS = {
    "small": b"small",
    "large": bytes(range(256)) * 100,
    "tree": bytes(range(251)) * 10_000,
}
WATCHED = {"os.rename", "os.remove", "os.mkdir"}


def fill(folder):
    """Make a store with a small block, a block that is a file, and a tree; return its pins."""
    with Repository(folder) as repository:
        for name, data in CONTENTS.items():
            repository.add(data, UNIXFS_V1_2025, name=name, keyvalues={"of": name})
        gone, _ = repository.add(b"unpinned", UNIXFS_V1_2025, name="gone")
        repository.unpin(CID.parse(gone.cid))
        return repository.pins()


def assert_full(folder, pins, *, damage=()):
    """Everything that `fill` put there is there, and the store is sound."""
    with Repository(folder) as repository:
        assert list(repository.check()) == list(damage)
        assert repository.pins() == pins
        for pin in pins:
            assert b"".join(repository.read(CID.parse(pin.cid))) == CONTENTS[pin.name]


def pins_in(folder):
    """Read the CIDs of the pins from the database in `folder`, without any code of the store."""
    address = f"{Path(folder, DATABASE).as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            rows = connection.execute("SELECT cid FROM pins WHERE removed IS NULL")
            return {cid for (cid,) in rows}
    except sqlite3.OperationalError:  # there is no store yet, or it is being made
        return set()


def block_files(folder):
    """The files of blocks, with what is in them."""
    files = Path(folder, "blocks").glob("[!t]*/*")
    return {path.name: path.read_bytes() for path in files}


def assert_whole_after_kills(repository):
    """A killed add may leave files that have no row, and nothing else is wrong."""
    assert {damage.what for damage in repository.check()} <= {UNLISTED}


def change(folder, *statements):
    """Run statements in the database in `folder`, without any code of the store."""
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements]


# All that a repository can do with content.
CALLS = (
    lambda store, cid: b"".join(store.read(cid)),
    lambda store, cid: store.block(cid),
    lambda store, cid: store.has(cid),
    lambda store, cid: store.pins(PinQuery(pinned=None)),
    lambda store, cid: store.pins(PinQuery(sort="name", name_contains="n")),
    lambda store, cid: store.count_pins(PinQuery(matches=lambda _: True)),
    lambda store, cid: store.find_pin(cid),
    lambda store, cid: store.totals(),
    lambda store, cid: [*store.check(), *store.foreign_files()],
    lambda store, cid: b"".join(store.export_car(cid)),
    lambda store, cid: store.pin(cid),
    lambda store, cid: store.update_pin(cid, name="other"),
    lambda store, cid: store.add(os.urandom(100), UNIXFS_V1_2025),
    lambda store, cid: store.add(os.urandom(50_000), UNIXFS_V1_2025),
    lambda store, cid: store.unpin(cid),
    lambda store, cid: store.collect_garbage(),
)


def call_all(repository, cid):
    """Make all calls; return the errors, each of ours and in one line."""
    errors = []
    for call in CALLS:
        try:
            call(repository, cid)
        except ClientError as error:
            assert "\n" not in str(error)  # noqa: PT017
            errors.append(error)
    return errors


def open_and_call_all(folder, cid):
    try:
        with Repository(folder) as repository:
            return call_all(repository, cid)
    except ClientError as error:
        return [error]


def snapshot(folder):
    """What is in a folder, when it was written, and the numbers of its files."""
    paths = {path: path.stat() for path in [folder, *folder.rglob("*")]}
    return {
        path: (status.st_ino, status.st_mtime_ns, path.is_file() and path.read_bytes())
        for path, status in paths.items()
    }


def damage_page(folder, number, kind="noise"):
    """Damage one page of the database, from which on with "cut"."""
    with (folder / DATABASE).open("r+b") as file:
        file.seek(number * 4096)
        if kind == "cut":
            file.truncate()
        else:
            file.write({"zeros": bytes(4096), "noise": b"\xa5\x5a\x0d" * 1365}[kind])


def pages_of(folder):
    return (folder / DATABASE).stat().st_size // 4096


def _killed_before(step, action, folder):
    """Run `action` in a child that is killed before its change number `step`; whether it was."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    steps = count(1)

    def watch(event, _=None):
        if (event in WATCHED or _ is None) and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    connect = sqlite3.connect

    def traced(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(watch)
        return connection

    sqlite3.connect = traced
    sys.addaudithook(watch)
    try:
        action(folder)
    except BaseException as error:  # noqa: BLE001 - the parent sees it
        print(repr(error), flush=True)  # noqa: T201
    os._exit(0)


def _create(folder):
    Repository(folder).close()


def _check_created(folder, _):
    assert_full(folder, [])
    assert_full(folder, fill(folder))
    with Repository(folder) as repository:
        assert repository.collect_garbage().blocks == 1


def _repair(folder):
    with Repository(folder) as repository:
        repository.repair()


def _check_repaired(folder, pins):
    files = block_files(folder)
    _repair(folder)
    assert_full(folder, pins)
    assert block_files(folder) == files


def _check_files(folder, _):
    """The database was lost: the block files are all there, and listed again."""
    files = block_files(folder)
    _repair(folder)
    with Repository(folder) as repository:
        assert list(repository.check()) == []
        assert all(repository.has(CID.from_bytes(bytes.fromhex(name))) for name in files)
    assert block_files(folder) == files


def _store(folder):
    with Repository(folder) as repository:
        for size in (300, 50_000):
            repository.add(bytes(size), UNIXFS_V1_2025)


def _check_stored(folder, pins):
    with Repository(folder) as repository:
        assert_whole_after_kills(repository)
        assert [pin for pin in repository.pins() if pin.name] == pins
        repository.collect_garbage()
        repository.repair()
    _store(folder)
    with Repository(folder) as repository:
        assert list(repository.check()) == []
        assert repository.totals().pins == len(pins) + 2


def _unpin(folder):
    with Repository(folder) as repository:
        for size in (300, 50_000):
            pin, _ = repository.add(bytes(size), UNIXFS_V1_2025)
            repository.unpin(CID.parse(pin.cid))


def _collect(folder):
    with Repository(folder) as repository:
        repository.collect_garbage()


def _check_collected(folder, pins):
    _collect(folder)
    assert_full(folder, pins)
    assert len(block_files(folder)) == 4


SCENARIOS = {
    "create": (None, _create, _check_created),
    "store": (lambda _: None, _store, _check_stored),
    "collect": (_unpin, _collect, _check_collected),
    "repair-without-id": (lambda folder: (folder / ID).unlink(), _repair, _check_repaired),
    "repair-lost": (lambda folder: (folder / DATABASE).unlink(), _repair, _check_files),
}


def killed_at_all_points(what, folder):
    """Run this file as a program; how often it killed its child."""
    command = [sys.executable, "-m", "tests.stores", what, str(folder)]
    return script_output(*command, cwd=Path(__file__).parent.parent)


def main(what, base):
    """Do `what` until it is done without being killed."""
    prepare, action, verify = SCENARIOS[what]
    pins = []
    start = base / "start"
    if prepare is not None:
        pins = fill(start)
        prepare(start)
    for killed in count():
        folder = base / str(killed)
        if prepare is not None:
            shutil.copytree(start, folder)
        was_killed = _killed_before(1 + killed, action, folder)
        verify(folder, pins)
        shutil.rmtree(folder)
        if not was_killed:
            print(killed)  # noqa: T201
            return


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
