"""Stores for tests: filled, of the first version, and made or changed by processes that are killed.

``python -m tests.stores WHAT FOLDER STRIDE`` does `WHAT` over and over in a forked child that is
killed with SIGKILL: before its first SQL statement or change of a name, then `STRIDE` later, and so
on to its end. After each the store must open, hold everything, and be sound. It prints how often.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.repository import Repository

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

ROOT = Path(__file__).parent.parent
SCHEMA_1 = ROOT / "tests" / "data" / "schema-1.sql"
SCHEMA_2 = ROOT / "tests" / "data" / "schema-2.sql"
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
    database = Path(folder, "holdfast.sqlite3")
    if not database.exists():
        return set()
    connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
    try:
        rows = connection.execute("SELECT cid FROM pins WHERE removed IS NULL")
        return {cid for (cid,) in rows}
    except sqlite3.OperationalError:  # the store is being made
        return set()
    finally:
        connection.close()


def block_files(folder):
    """The files of blocks, with what is in them."""
    files = Path(folder, "blocks").glob("[!t]*/*")
    return {path.name: path.read_bytes() for path in files}


@contextmanager
def older_database(folder, schema, *tables):
    """Write the database in `folder` again with an older schema, and these tables as they are.

    The block gets a connection for the other tables. There, `new` is the database as it was.
    """
    new, old = folder / "holdfast.sqlite3", folder / "old.sqlite3"
    with sqlite3.connect(old) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(schema.read_text())
        connection.execute("ATTACH ? AS new", (str(new),))
        for table in tables:
            connection.execute(f"INSERT INTO main.{table} SELECT * FROM new.{table}")  # noqa: S608
        yield connection
    connection.close()
    old.replace(new)


def make_version_1(folder):
    """Turn the store in `folder` into one that Holdfast 0.1 wrote."""
    with older_database(folder, SCHEMA_1, "blocks", "links", "pins") as connection:
        connection.execute("INSERT INTO adds VALUES (1, 0)")
        connection.execute("INSERT INTO leases SELECT 1, id FROM blocks")
        connection.execute("PRAGMA user_version = 1")
    (folder / "holdfast.copy.sqlite3").unlink()
    (folder / "holdfast.id").unlink()
    shutil.rmtree(folder / "owners")


def make_version_2(folder):
    """Turn the database in `folder` into one of version 2; the other files are the same."""
    tables = ("blocks", "links", "pins", "adds", "leases")
    with older_database(folder, SCHEMA_2, *tables) as connection:
        columns = "id, established, token, before, changes"
        connection.execute(f"INSERT INTO main.store SELECT {columns} FROM new.store")  # noqa: S608
        connection.execute("PRAGMA user_version = 2")


def _killed_before(step, action):
    """Run `action` in a child that is killed before its change number `step`; whether it was."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    count = 0

    def watch(event, _=None):
        nonlocal count
        if event in WATCHED or _ is None:
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)

    connect = sqlite3.connect

    def traced(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(watch)
        return connection

    sqlite3.connect = traced
    sys.addaudithook(watch)
    try:
        action()
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


def _migrate(folder):
    Repository(folder).close()


def _repair(folder):
    with Repository(folder) as repository:
        repository.repair()


def _check_repaired(folder, pins):
    files = block_files(folder)
    _repair(folder)
    assert_full(folder, pins)
    assert block_files(folder) == files


def _lose(folder):
    (folder / "holdfast.sqlite3").unlink()


def _tear(folder):
    copy = folder / "holdfast.copy.sqlite3"
    copy.write_bytes(copy.read_bytes()[:5000])


SCENARIOS = {
    "create": (None, _create, _check_created),
    "migrate": (make_version_1, _migrate, assert_full),
    "migrate-2": (make_version_2, _migrate, assert_full),
    "repair-lost": (_lose, _repair, _check_repaired),
    "repair-torn": (_tear, _repair, _check_repaired),
}


def killed_at_all_points(what, folder, stride=1):
    """Run this file as a program; how often it killed its child."""
    command = [sys.executable, "-m", "tests.stores", what, str(folder), str(stride)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


def main(what, base, stride):
    """Do `what` until it is done without being killed."""
    prepare, action, verify = SCENARIOS[what]
    pins = []
    start = base / "start"
    if prepare is not None:
        pins = fill(start)
        prepare(start)
    killed = 0
    while True:
        step = 1 + killed * stride
        folder = base / str(step)
        if prepare is not None:
            shutil.copytree(start, folder)
        was_killed = _killed_before(step, lambda folder=folder: action(folder))
        verify(folder, pins)
        shutil.rmtree(folder)
        if not was_killed:
            break
        killed += 1
    print(killed)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
