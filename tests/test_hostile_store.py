"""A store that somebody else has made: it is refused, nothing hangs, nothing is touched."""

import os
import shutil
import sqlite3
import struct
import time

import pytest

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.disk.folders import Folder
from holdfast.errors import ConfigError
from holdfast.repository import Repository
from tests.disks import PLANTED
from tests.programs import run_program
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
    # The attack is real: this is what SQLite does with it. (3.53 does it no more.)
    change(store, "SELECT count(*) FROM sqlite_master")
    assert not victim.exists() or sqlite3.sqlite_version_info >= (3, 41)


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


# Folders that somebody else has prepared: nothing is followed, read or removed outside of them

OLD = time.time() - 30 * 24 * 3600
DEAD = "d" * 32  # the name of an owner that does not exist


def old_file(path, data=b"precious"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (OLD, OLD))
    return path


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def precious(tmp_path):
    """A folder of the user's, with files of every name that the store gives to its own."""
    folder = tmp_path / "precious"
    key = bytes(CID.of_raw(b"another")).hex()
    for name in ("letter.txt", f"{DEAD}-{'a' * 16}", key, f"{key[-3:-1]}/{key}", "ab/" + "c" * 38):
        old_file(folder / name)
    return folder


# The two attacks, word for word, with the installed command.


def test_a_linked_temporary_folder_of_a_cloned_project_is_not_swept(commands, precious):
    """`holdfast.toml` with a path, and `store/blocks/tmp` as a link to another folder."""
    before = contents(precious)
    temporary = commands.folder / "store/blocks/tmp"
    temporary.parent.mkdir(parents=True)
    temporary.symlink_to(precious)
    (commands.folder / "holdfast.toml").write_text('path = "store"\n')
    code, lines = commands.failure("store", "1")
    assert code == 3
    assert "path is not allowed in a project's file" in lines[0]
    assert "HOLDFAST_PATH" in lines[0]
    assert str(commands.user_file) in lines[0]
    assert not (commands.folder / "store/holdfast.sqlite3").exists()
    # Nor is it swept where the user chooses that folder.
    code, lines = commands.failure("store", "1", HOLDFAST_PATH="store")
    assert code == 3
    assert "blocks/tmp is a symbolic link" in lines[0]
    assert contents(precious) == before


@pytest.mark.parametrize("field", ["path", "cache_path"])
def test_a_project_chooses_no_folder_and_the_user_does(commands, field):
    (commands.folder / "holdfast.toml").write_text(f'{field} = "store"\n')
    variable, own = f"HOLDFAST_{field.upper()}", "/own"
    code, lines = commands.failure("list")
    assert code == 3
    assert f"{field} is not allowed in a project's file" in lines[0]
    assert variable in lines[0]
    # What the error advises works, with the project's file as it is.
    assert commands.json("config", **{variable: own})[field]["value"] == own
    commands.user_file.parent.mkdir(parents=True)
    commands.user_file.write_text(f'{field} = "{own}"\n')
    assert commands.json("config")[field] == {"value": own, "source": str(commands.user_file)}
    assert not (commands.folder / "store").exists()


def test_a_project_does_not_set_the_limit_of_unverified_bytes(commands):
    (commands.folder / "holdfast.toml").write_text("max_unverified_bytes = 9\n")
    code, lines = commands.failure("store", "1")
    assert (code, "max_unverified_bytes is not allowed" in lines[0]) == (3, True)


# Below the root nothing is followed.


@pytest.mark.parametrize(
    "name", ["blocks", "blocks/tmp", "blocks/SUB", "owners", "holdfast.sqlite3"]
)
@pytest.mark.parametrize("target", ["other store", "missing", "file"])
def test_links_below_the_root_are_refused(tmp_path, precious, name, target):
    store, other = tmp_path / "store", tmp_path / "other"
    for path in (store, other):
        with Repository(path) as repository:
            pin, _ = repository.add(LARGE, UNIXFS_V1_2025)
    cid = CID.parse(pin.cid)
    key = bytes(cid).hex()
    name = name.replace("SUB", key[-3:-1])
    if (store / name).is_dir():
        (store / name).rename(tmp_path / "aside")
    else:
        (store / name).unlink()
    targets = {"other store": other / name, "missing": tmp_path / "no", "file": precious / key}
    (store / name).symlink_to(targets[target])
    before = contents(other), contents(precious)
    with pytest.raises(ConfigError, match=r"symbolic link"), Repository(store) as repository:
        b"".join(repository.read(cid))
    if "/" in name and "tmp" not in name:
        with Repository(store) as repository:
            repository.unpin(cid)
            with pytest.raises(ConfigError, match=r"symbolic link"):
                repository.collect_garbage()
            with pytest.raises(ConfigError, match=r"symbolic link"):
                repository.add(LARGE, UNIXFS_V1_2025)
    assert (contents(other), contents(precious)) == before
    assert (store / name).is_symlink()
    assert not (tmp_path / "no").exists()


def test_the_root_itself_may_be_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with Repository(tmp_path / "link") as repository:
        pin, _ = repository.add(LARGE, UNIXFS_V1_2025)
    with Repository(tmp_path / "real") as repository:
        assert b"".join(repository.read(CID.parse(pin.cid))) == LARGE


def test_a_link_in_the_place_of_a_block_is_not_read(tmp_path):
    with Repository(tmp_path / "store") as repository:
        pin, _ = repository.add(LARGE, UNIXFS_V1_2025)
        cid = CID.parse(pin.cid)
        path = repository._files.path(bytes(cid))
        outside = old_file(tmp_path / "outside", LARGE)
        for make in (lambda: path.symlink_to(outside), lambda: os.mkfifo(path), path.mkdir):
            path.unlink()
            make()
            with pytest.raises(ConfigError, match="not a regular file"):
                repository.block(cid)
            with pytest.raises(ConfigError, match="not a regular file"):
                repository.add(LARGE, UNIXFS_V1_2025)
            (damage,) = repository.check()
            assert damage.cid == pin.cid
            repository.unpin(cid)
            repository.collect_garbage()
            assert os.path.lexists(path)
            path.rmdir() if path.is_dir() else path.unlink()
            repository.add(LARGE, UNIXFS_V1_2025)
        assert outside.read_bytes() == LARGE


# Only files of ours are removed.


def test_only_files_with_names_of_ours_are_removed(tmp_path):
    with Repository(tmp_path) as repository:
        pin, _ = repository.add(LARGE, UNIXFS_V1_2025)
        key = bytes(CID.parse(pin.cid)).hex()
        repository.unpin(CID.parse(pin.cid))
    blocks = tmp_path / "blocks"
    orphan = bytes(CID.of_raw(b"never entered")).hex()
    leftover = old_file(blocks / "tmp" / f"{DEAD}-{'0123456789abcdef'}")
    unlisted = old_file(blocks / orphan[-3:-1] / orphan)
    others = [
        *(old_file(blocks / "tmp" / name) for name in ("letter", f"{DEAD}", f"{DEAD}-xyz")),
        *(old_file(blocks / "tmp" / f"{DEAD}-{'0' * 16}{end}") for end in (".txt", "0", "\n")),
        old_file(blocks / "tmp" / f"{DEAD}-{'A' * 16}"),
        old_file(blocks / "tmp" / "deep" / f"{DEAD}-{'a' * 16}"),
        old_file(blocks / "letter"),
        old_file(blocks / orphan),  # in no folder
        old_file(blocks / "zz" / orphan),  # in the folder of others
        old_file(blocks / orphan[-3:-1] / orphan.upper()),
        old_file(blocks / orphan[-3:-1] / f"{orphan}.orig"),
        old_file(blocks / orphan[-3:-1] / f"{orphan}00"),
        old_file(blocks / key[-3:-1] / ("c" * 38)),  # as git calls its objects
    ]
    (blocks / "tmp" / f"{DEAD}-{'b' * 16}").mkdir()
    (blocks / orphan[-3:-1] / f"{orphan[:-4]}{orphan[-3]}{orphan[-3:]}").mkdir()
    with Repository(tmp_path) as repository:
        assert repository.collect_garbage().blocks == 1
        strangers = set(repository.foreign_files())
        assert [damage.cid for damage in repository.check()] == [str(CID.of_raw(b"never entered"))]
    assert not leftover.exists()
    assert [path for path in (unlisted, *others) if not path.exists()] == []
    assert unlisted not in strangers
    assert strangers >= {path for path in others if path.parent.name != "deep"}


# Folders of other users.

OPEN_AS = """
import os, sys, tempfile
from holdfast import Client
from holdfast.errors import ConfigError
with Client.init(path=tempfile.mkdtemp()) as client:
    client.store(1)  # what it imports may lie in a folder that is root's alone
os.setuid(65534)
try:
    with Client.init(path=sys.argv[1]) as client:
        client.store(1)
except ConfigError as error:
    print(error)
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@needs_root
@pytest.mark.parametrize("name", ["", "blocks", "blocks/tmp", "blocks/SUB", "holdfast.sqlite3"])
def test_what_belongs_to_another_user_is_refused_even_for_root(tmp_path, name):
    with Repository(tmp_path / "store") as repository:
        pin, _ = repository.add(LARGE, UNIXFS_V1_2025)
    cid = CID.parse(pin.cid)
    path = tmp_path / "store" / name.replace("SUB", bytes(cid).hex()[-3:-1])
    os.chown(path, 12345, 12345)
    with (
        pytest.raises(ConfigError, match=r"belongs to another user .*chown"),
        Repository(tmp_path / "store") as repository,
    ):
        repository.block(cid)


@needs_root
def test_a_folder_of_root_that_all_may_write_to_is_refused(public_folder):
    store = public_folder / "store"
    store.mkdir()
    store.chmod(0o777)
    assert "belongs to another user" in run_program(OPEN_AS, store)
    assert list(store.iterdir()) == []


# The folder itself.


def test_a_folder_refuses_links_and_keeps_to_regular_files(tmp_path):
    folder = Folder(tmp_path, "a", "b")
    assert not folder.exists()
    assert folder.read("x", 10) is None
    folder.make()
    with folder.create("x") as file:
        file.write(b"hello")
    assert folder.read("x", 4) == b"hell"
    assert folder.entries() == (["x"], [], [])
    os.mkfifo(tmp_path / "a/b/pipe")
    (tmp_path / "a/b/link").symlink_to(tmp_path / "a/b/x")
    (tmp_path / "a/b/folder").mkdir()
    for name in ("pipe", "link", "folder"):
        with pytest.raises(ConfigError, match="not a regular file"):
            folder.read(name, 10)
        assert folder.remove(name) is False
        with (
            folder.opened() as place,
            pytest.raises(ConfigError, match="not a regular file"),
        ):
            folder.take(place, [("x", name)], 10)
        with pytest.raises(FileExistsError):
            folder.create(name)
    with folder.opened() as place:
        folder.take(place, [("x", "y")], 10)
    assert folder.remove("y") is True
    assert folder.remove("y") is False
    assert folder.entries().files == []
    assert folder.entries().folders == ["folder"]
    assert sorted(folder.entries().others) == ["link", "pipe"]
