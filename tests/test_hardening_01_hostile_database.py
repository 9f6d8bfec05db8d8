"""A database that somebody else has made: it is refused, nothing hangs, nothing is touched."""

import os
import shutil
import sqlite3
import struct
from contextlib import closing

import pytest

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import ClientError, ConfigError, VerificationError
from holdfast.repository import PinQuery, Repository
from holdfast.repository.database import Database
from tests import stores

SUFFIXES = ["", "-wal", "-shm", "-journal"]
NAMES = ["holdfast.sqlite3", "holdfast.copy.sqlite3"]
LARGE = b"x" * 50_000


@pytest.fixture
def tmp_path(memory_folder):
    return memory_folder


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


def change(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def every_call(path):
    """Call all that a repository can do; return the errors."""
    found = []
    try:
        repository = Repository(path)
    except Exception as error:  # noqa: BLE001 - they are judged below
        return [error]
    cid = CID.of_raw(LARGE)
    with repository:
        for call in (
            lambda: b"".join(repository.read(cid)),
            lambda: repository.block(CID.of_raw(b"small")),
            lambda: repository.pins(PinQuery(held=None)),
            lambda: repository.pins(PinQuery(name_contains="n", sort="name")),
            lambda: repository.count_pins(PinQuery(matches=lambda _: True)),
            lambda: repository.find_pin(cid),
            repository.totals,
            lambda: list(repository.check()),
            lambda: list(repository.foreign_files()),
            lambda: b"".join(repository.export_car(cid)),
            lambda: repository.pin(cid),
            lambda: repository.update_pin(cid, name="other"),
            lambda: repository.add(b"more" * 10_000, UNIXFS_V1_2025),
            lambda: repository.unpin(CID.of_raw(b"small")),
            repository.collect_garbage,
        ):
            try:
                call()
            except Exception as error:  # noqa: BLE001
                found.append(error)
    return found


def assert_typed(errors):
    for error in errors:
        assert isinstance(error, ClientError), repr(error)
        assert "\n" not in str(error)


# What has the name of the database.


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder", "hard link", "device"])
def test_what_is_no_plain_file_is_not_opened_as_a_database(store, tmp_path, name, suffix, kind):
    path = store / f"{name}{suffix}"
    aside = tmp_path / "aside"
    path.rename(aside) if path.exists() else aside.write_bytes(b"precious")
    before = aside.read_bytes()
    match kind:
        case "link":
            path.symlink_to(aside)
        case "dangling":
            path.symlink_to(tmp_path / "new")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "hard link":
            os.link(aside, path)
        case "device":
            if os.geteuid():
                pytest.skip("only root can make a device")
            os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
    errors = every_call(store)
    assert errors
    assert_typed(errors)
    assert type(errors[0]) is ConfigError
    assert str(path) in str(errors[0])
    assert aside.read_bytes() == before
    assert not (tmp_path / "new").exists()
    assert os.path.lexists(path)


def test_the_commands_say_so_in_one_sentence(commands, store):
    """A pipe would keep them waiting for ever."""
    path = store / "holdfast.sqlite3"
    path.unlink()
    os.mkfifo(path)
    for command in (["store", "1"], ["gc"], ["check"], ["repair"]):
        code, lines = commands.failure(*command, "--path", store)
        assert code == 3
        assert "not a regular file" in lines[0]


def test_a_journal_that_names_a_file_to_delete_is_refused(store, tmp_path):
    """SQLite deletes the super-journal that a rollback journal names, wherever it is."""
    victim = tmp_path / "victim"
    journal = store / "holdfast.sqlite3-journal"

    def prepare():
        victim.write_bytes(b"precious")
        name = str(victim).encode()
        pages, size = 1, (store / "holdfast.sqlite3").stat().st_size // 4096
        header = bytes.fromhex("d9d505f920a163d7") + struct.pack(
            ">IIIII", pages, 0, size, 512, 4096
        )
        page = (store / "holdfast.sqlite3").read_bytes()[:4096]
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
    change(store / "holdfast.sqlite3", "SELECT count(*) FROM sqlite_master")
    assert not victim.exists()


# What is in the database.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER UPDATE ON {pins} BEGIN DELETE FROM {blocks}; END",
        "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT 1",
        "CREATE TABLE more (a)",
        "CREATE INDEX more ON {pins} (name)",
        "CREATE VIRTUAL TABLE found USING fts5(a)",
        "ALTER TABLE {pins} ADD COLUMN more CHECK (more IS NULL)",
        "ALTER TABLE {pins} ADD COLUMN more AS (hex(zeroblob(1000000000)))",
        "DROP TABLE {pins}",
    ],
)
def test_other_tables_than_those_of_a_store_are_refused(store, name, statement):
    prefix = "copied_" if "copy" in name else ""
    tables = {each: f"{prefix}{each}" for each in ("pins", "blocks")}
    try:
        change(store / name, statement.format(**tables))
    except sqlite3.OperationalError as error:
        pytest.skip(str(error))
    errors = every_call(store)
    assert errors
    assert_typed(errors)
    assert "not made by Holdfast" in str(errors[0]) or "is missing" in str(errors[0])
    with closing(sqlite3.connect(store / NAMES[0])) as connection:
        if "DROP" not in statement:
            assert connection.execute("SELECT count(*) FROM pins").fetchone() == (2,)
        assert connection.execute("SELECT count(*) FROM blocks").fetchone() == (2,)


def test_the_database_of_another_program_is_not_written_to(tmp_path):
    database = tmp_path / "holdfast.sqlite3"
    change(database, "CREATE TABLE letters (a)", "INSERT INTO letters VALUES (1)")
    before = database.read_bytes()
    with pytest.raises(ConfigError, match="holds no sound repository"):
        Repository(tmp_path)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT * FROM letters").fetchall() == [(1,)]
        names = connection.execute("SELECT name FROM sqlite_master").fetchall()
    assert names == [("letters",)]
    assert len(database.read_bytes()) == len(before)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE blocks SET key = 'text' WHERE id = 1",
        "UPDATE blocks SET key = 1000000000000 WHERE id = 1",
        "UPDATE blocks SET key = x'' WHERE id = 1",
        "UPDATE blocks SET key = x'00' WHERE id = 1",
        "UPDATE blocks SET key = x'015512200000' WHERE id = 1",
        "UPDATE blocks SET key = x'2f2e2e2f2e2e2f7374' || key WHERE id = 1",
        "UPDATE blocks SET key = zeroblob(10000000) WHERE id = 1",
        "UPDATE blocks SET size = -5",
        "UPDATE blocks SET size = 'many'",
        "UPDATE blocks SET size = 9223372036854775807",
        "UPDATE blocks SET data = 'text'",
        "UPDATE blocks SET data = 1000000000000",
        "UPDATE blocks SET dying = 1",
        "UPDATE blocks SET dying = 'yes', key = CAST(key AS TEXT)",
        "UPDATE blocks SET id = -id",
        "INSERT INTO links SELECT id, key FROM blocks",
        "INSERT INTO links SELECT id, 'text' FROM blocks",
        "INSERT INTO links SELECT id, 1000000000000 FROM blocks",
        "INSERT INTO links SELECT a.id, b.key FROM blocks a, blocks b",
        "UPDATE pins SET key = 'text'",
        "UPDATE pins SET key = 1000000000000",
        "UPDATE pins SET cid = '../../etc/passwd'",
        "UPDATE pins SET cid = x'00ff'",
        "UPDATE pins SET name = x'00ff'",
        "UPDATE pins SET name = CAST(x'ff' AS TEXT)",
        "UPDATE pins SET keyvalues = 'no JSON'",
        "UPDATE pins SET keyvalues = '[]'",
        "UPDATE pins SET keyvalues = replace(hex(zeroblob(50000)), '00', '[')",
        "UPDATE pins SET size = -1",
        "UPDATE pins SET size = 'large'",
        "UPDATE pins SET size = 9223372036854775807",
        "UPDATE pins SET files = -1",
        "UPDATE pins SET created = 'now'",
        "UPDATE pins SET created = 9223372036854775807",
        "UPDATE pins SET removed = -1",
        "UPDATE pins SET type = 5",
        "UPDATE pins SET uuid = x'00'",
        "INSERT INTO leases VALUES ('a', 'b')",
        "INSERT INTO adds VALUES (5, '../../../etc/passwd')",
        "INSERT INTO adds VALUES (5, x'00')",
        "UPDATE store SET id = 5",
        "UPDATE store SET token = 'text', changes = 'many', established = 'x'",
        "DELETE FROM store",
        "PRAGMA user_version = -1",
        "PRAGMA user_version = 1",
    ],
)
def test_rows_that_no_store_writes_are_typed_errors(store, tmp_path, statement):
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    change(store / NAMES[0], statement)
    assert_typed(every_call(store))
    assert outside.read_bytes() == b"precious"


def test_the_commands_name_the_damage_and_the_remedy(commands, store):
    change(store / NAMES[0], "UPDATE pins SET keyvalues = 'no JSON'")
    code, lines = commands.failure("list", "--path", store)
    assert code == 14
    assert "holdfast repair" in lines[0]
    assert "fault in holdfast" not in "".join(lines)


def test_a_database_with_a_newer_version_is_left_alone(store):
    change(store / NAMES[0], "PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match="newer version"):
        Repository(store)


def test_files_of_a_store_that_came_with_a_log_of_another(store, tmp_path):
    """A log that does not belong to the database is no way around the checks."""
    with Repository(tmp_path / "other") as other:
        other.add(b"other", UNIXFS_V1_2025)
        log = (tmp_path / "other" / f"{NAMES[0]}-wal").read_bytes()
    (store / f"{NAMES[0]}-wal").write_bytes(log)
    assert_typed(every_call(store))
    assert isinstance(VerificationError("x"), ClientError)


def test_a_column_that_looks_like_a_comment_is_refused(store):
    """`"--"` is a name: what stands behind it on the line is not a comment."""
    with closing(sqlite3.connect(store / NAMES[0], isolation_level=None)) as connection:
        sql = "SELECT sql FROM sqlite_master WHERE name = 'adds'"
        (table,) = connection.execute(sql).fetchone()
        hidden = table.replace("    owner ", '    "--" TEXT CHECK (owner GLOB id),\n    owner ')
        assert hidden != table
        connection.execute("DROP TABLE adds")
        connection.execute(hidden)
    with pytest.raises(ConfigError, match="the table 'adds' in it was not made by Holdfast"):
        Repository(store)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_of_version_1_with_other_tables_is_not_migrated(tmp_path, read_only):
    path = tmp_path / NAMES[0]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(stores.SCHEMA_1.read_text())
        connection.execute("DROP TABLE leases")
        connection.execute("CREATE TABLE leases (adding, block AS (hex(zeroblob(9999999))))")
        connection.execute("PRAGMA user_version = 1")
    words = "'leases' in it was not made by Holdfast"
    with pytest.raises((ConfigError, VerificationError), match=words):
        Database(tmp_path, read_only=read_only).reading().__enter__()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_value_of_many_megabytes_is_not_read(store):
    change(
        store / NAMES[1],
        "INSERT INTO copied_blocks VALUES (99, x'01', zeroblob(20000000))",
    )
    with Repository(store) as repository:
        assert any("too big" in each.what for each in repository.check())
        repository.repair()
        assert list(repository.check()) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE copied_store SET changes = 'many', token = x'00'",
        "UPDATE copied_store SET changes = 9223372036854775807, token = x'00'",
        "UPDATE copied_store SET id = CAST(x'ff' AS TEXT)",
        "INSERT INTO copied_blocks VALUES (99, x'01', x'02')",
        "INSERT INTO copied_blocks VALUES (99, 'text', 'text')",
        (
            "INSERT INTO copied_pins SELECT id + 9, uuid || 'x', cid, key, name, keyvalues, size,"
            " files, type, created, removed FROM copied_pins"
        ),
        "UPDATE copied_pins SET keyvalues = '{\"a\": ' || replace(hex(zeroblob(60000)), '0', '[')",
    ],
)
def test_a_hostile_second_copy_is_reported_and_repaired(store, tmp_path, statement):
    change(store / NAMES[1], statement)
    assert_typed(every_call(shutil.copytree(store, tmp_path / "another")))
    with Repository(store) as repository:
        assert list(repository.check()) != []
        assert repository.repair().pins == 2
    with Repository(store) as repository:
        assert list(repository.check()) == []
        repository.add(b"afterwards", UNIXFS_V1_2025)


@pytest.mark.parametrize(
    "change_of_pins",
    ["size = -5", "created = 1 << 60", "keyvalues = x'7b7d'", "name = CAST(x'ff61' AS TEXT)"],
)
def test_a_repair_takes_no_pin_from_the_copy_that_cannot_be_listed(store, change_of_pins):
    change(store / NAMES[1], f"UPDATE copied_pins SET {change_of_pins} WHERE id = 1")  # noqa: S608
    (store / NAMES[0]).unlink()
    with Repository(store) as repository:
        repaired = repository.repair()
        assert repaired.lost != []
        assert [pin.cid for pin in repository.pins()] == [str(CID.of_raw(b"small"))]
