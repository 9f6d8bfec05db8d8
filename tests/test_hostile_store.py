"""A database that somebody else has made: it is refused, nothing hangs, nothing is touched."""

import os
import shutil
import sqlite3
import struct

import pytest

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import ConfigError
from holdfast.repository import Repository
from tests.disks import PLANTED
from tests.stores import DATABASE, change, open_and_call_all

LARGE = b"x" * 50_000


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "store"
    with Repository(path) as repository:
        for data in (LARGE, b"small"):
            repository.add(data, UNIXFS_V1_2025, name="name")
    return path


@pytest.fixture
def store(tmp_path, template):
    """A sound store with a large and a small pin."""
    return shutil.copytree(template, tmp_path / "store")


# What has the name of the database.


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", [*PLANTED, "device"])
def test_what_is_no_plain_file_is_not_opened_as_a_database(store, tmp_path, suffix, kind):
    path = store / f"{DATABASE}{suffix}"
    aside = tmp_path / "aside"
    path.rename(aside) if path.exists() else aside.write_bytes(b"precious")
    before = aside.read_bytes()
    if kind != "device":
        PLANTED[kind](path, aside)
    elif os.geteuid():
        pytest.skip("only root can make a device")
    else:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
    errors = open_and_call_all(store, CID.of_raw(LARGE))
    assert [type(error) for error in errors] == [ConfigError]
    assert str(path) in str(errors[0])
    assert aside.read_bytes() == before
    assert not (tmp_path / "new").exists()
    assert os.path.lexists(path)


def test_the_commands_name_the_damage_and_the_remedy(commands, store):
    change(store, "UPDATE pins SET keyvalues = 'no JSON'")
    code, lines = commands.failure("list", "--path", store)
    assert code == 14
    assert "holdfast repair" in lines[0]
    # A pipe would keep them waiting for ever.
    (store / DATABASE).unlink()
    os.mkfifo(store / DATABASE)
    for command in (["store", "1"], ["gc"], ["check"], ["repair"]):
        code, lines = commands.failure(*command, "--path", store)
        assert code == 3
        assert "not a regular file" in lines[0]


def test_a_journal_that_names_a_file_to_delete_is_refused(store, tmp_path):
    """SQLite deletes the super-journal that a rollback journal names, wherever it is."""
    victim = tmp_path / "victim"
    journal = store / f"{DATABASE}-journal"

    def prepare():
        victim.write_bytes(b"precious")
        name = str(victim).encode()
        pages, size = 1, (store / DATABASE).stat().st_size // 4096
        header = bytes.fromhex("d9d505f920a163d7") + struct.pack(
            ">IIIII", pages, 0, size, 512, 4096
        )
        page = (store / DATABASE).read_bytes()[:4096]
        checksum = sum(page[offset] for offset in range(4096 - 200, 0, -200)) & 0xFFFFFFFF
        record = struct.pack(">I", 1) + page + struct.pack(">I", checksum)
        end = struct.pack(">I", 1 << 30) + name + struct.pack(">II", len(name), sum(name))
        journal.write_bytes(
            header.ljust(512, b"\0") + record + end + bytes.fromhex("d9d505f920a163d7")
        )

    prepare()
    with pytest.raises(ConfigError, match="SQLite would delete the file that it names"):
        Repository(store)
    assert victim.read_bytes() == b"precious"
    # The attack is real: this is what SQLite does with it.
    change(store, "SELECT count(*) FROM sqlite_master")
    assert not victim.exists()


# What is in the database.


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER UPDATE ON pins BEGIN DELETE FROM blocks; END",
        "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT 1",
        "CREATE TABLE more (a)",
        "CREATE INDEX more ON pins (name)",
        "CREATE VIRTUAL TABLE found USING fts5(a)",
        "ALTER TABLE pins ADD COLUMN more CHECK (more IS NULL)",
        "ALTER TABLE pins ADD COLUMN more AS (hex(zeroblob(1000000000)))",
        "DROP TABLE pins",
    ],
)
def test_other_tables_than_those_of_a_store_are_refused(store, statement):
    try:
        change(store, statement)
    except sqlite3.OperationalError as error:
        pytest.skip(str(error))
    errors = open_and_call_all(store, CID.of_raw(LARGE))
    assert errors
    assert "not made by Holdfast" in str(errors[0]) or "is missing" in str(errors[0])
    if "DROP" not in statement:
        assert change(store, "SELECT count(*) FROM pins") == [[(2,)]]
    assert change(store, "SELECT count(*) FROM blocks") == [[(2,)]]


def test_the_database_of_another_program_is_not_written_to(tmp_path):
    change(tmp_path, "CREATE TABLE letters (a)", "INSERT INTO letters VALUES (1)")
    with pytest.raises(ConfigError, match="holds no sound repository"):
        Repository(tmp_path)
    assert change(tmp_path, "SELECT * FROM letters") == [[(1,)]]
    assert change(tmp_path, "SELECT name FROM sqlite_master") == [[("letters",)]]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE blocks SET key = 'text' WHERE id = 1",
        "UPDATE blocks SET key = 1000000000000 WHERE id = 1",
        "UPDATE blocks SET key = x'00' WHERE id = 1",
        "UPDATE blocks SET key = x'015512200000' WHERE id = 1",
        "UPDATE blocks SET key = x'2f2e2e2f2e2e2f7374' || key WHERE id = 1",
        "UPDATE blocks SET key = zeroblob(10000000) WHERE id = 1",
        "UPDATE blocks SET size = -5",
        "UPDATE blocks SET size = 9223372036854775807",
        "UPDATE blocks SET data = 'text'",
        "UPDATE blocks SET dying = 1",
        "UPDATE blocks SET dying = 'yes', key = CAST(key AS TEXT)",
        "UPDATE blocks SET id = -id",
        "INSERT INTO links SELECT id, key FROM blocks",
        "INSERT INTO links SELECT id, 'text' FROM blocks",
        "INSERT INTO links SELECT a.id, b.key FROM blocks a, blocks b",
        "UPDATE pins SET key = 'text'",
        "UPDATE pins SET cid = '../../etc/passwd'",
        "UPDATE pins SET cid = x'00ff'",
        "UPDATE pins SET name = CAST(x'ff' AS TEXT)",
        "UPDATE pins SET keyvalues = 'no JSON'",
        "UPDATE pins SET keyvalues = '[]'",
        "UPDATE pins SET keyvalues = replace(hex(zeroblob(50000)), '00', '[')",
        "UPDATE pins SET size = -1",
        "UPDATE pins SET size = 9223372036854775807",
        "UPDATE pins SET files = -1",
        "UPDATE pins SET created = 'now'",
        "UPDATE pins SET created = 9223372036854775807",
        "UPDATE pins SET removed = -1",
        "UPDATE pins SET type = 5",
        "UPDATE pins SET uuid = x'00'",
        "INSERT INTO leases VALUES ('a', 'b')",
        "INSERT INTO adds VALUES (5, '../../../etc/passwd')",
        "UPDATE store SET token = 'text', changes = 'many'",
        "UPDATE store SET id = CAST(x'ff' AS TEXT)",
        "INSERT INTO store SELECT * FROM store",
        "DELETE FROM store",
        "PRAGMA user_version = 0",
    ],
)
def test_rows_that_no_store_writes_are_typed_errors(store, tmp_path, statement):
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    change(store, statement)
    open_and_call_all(store, CID.of_raw(LARGE))
    assert outside.read_bytes() == b"precious"


def test_files_of_a_store_that_came_with_a_log_of_another(store, tmp_path):
    """A log that does not belong to the database is no way around the checks."""
    with Repository(tmp_path / "other") as other:
        other.add(b"other", UNIXFS_V1_2025)
        log = (tmp_path / "other" / f"{DATABASE}-wal").read_bytes()
    (store / f"{DATABASE}-wal").write_bytes(log)
    open_and_call_all(store, CID.of_raw(LARGE))


def test_a_column_that_looks_like_a_comment_is_refused(store):
    """`"--"` is a name: what stands behind it on the line is not a comment."""
    ((table,),) = change(store, "SELECT sql FROM sqlite_master WHERE name = 'adds'")[0]
    hidden = table.replace("    owner ", '    "--" TEXT CHECK (owner GLOB id),\n    owner ')
    assert hidden != table
    change(store, "DROP TABLE adds", hidden)
    with pytest.raises(ConfigError, match="the table 'adds' in it was not made by Holdfast"):
        Repository(store)


@pytest.mark.parametrize(
    "change_of_pins",
    [
        *("size = -5", "created = 1 << 60", "keyvalues = x'7b7d'", "name = CAST(x'ff61' AS TEXT)"),
        "keyvalues = '{\"a\": ' || replace(hex(zeroblob(60000)), '0', '[')",
    ],
)
def test_a_repair_takes_no_pin_that_cannot_be_listed(store, change_of_pins):
    change(store, f"UPDATE pins SET {change_of_pins} WHERE id = 1")  # noqa: S608
    with Repository(store) as repository:
        repaired = repository.repair()
        assert repaired.lost != []
        assert [pin.cid for pin in repository.pins()] == [str(CID.of_raw(b"small"))]
        assert list(repository.check()) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE store SET changes = 'many', token = x'00'",
        "UPDATE store SET id = CAST(x'ff' AS TEXT)",
        "DELETE FROM store",
        "INSERT INTO blocks VALUES (99, x'01', 20000000, zeroblob(20000000), 0)",
        "INSERT INTO blocks VALUES (99, x'01', 1, x'02', 0)",
        "INSERT INTO blocks VALUES (99, 'text', 1, 'text', 0)",
        (
            "INSERT INTO pins SELECT id + 9, uuid || 'x', cid, key, name, keyvalues, size,"
            " files, type, created, removed FROM pins"
        ),
    ],
)
def test_a_hostile_row_is_reported_and_a_repair_leaves_it_out(store, statement):
    change(store, statement)
    with Repository(store) as repository:
        assert list(repository.check()) != []
        assert repository.repair().pins == 2
    with Repository(store) as repository:
        assert list(repository.check()) == []
        repository.add(b"afterwards", UNIXFS_V1_2025)
