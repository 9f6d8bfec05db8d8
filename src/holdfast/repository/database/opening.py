"""Opening the database of a store: make it, or find what is wrong."""

import functools
import os
import sqlite3
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from holdfast.disk.closing import on_error
from holdfast.errors import ConfigError, ProviderError
from holdfast.repository.database import identity, schema
from holdfast.repository.database.errors import DAMAGED, code_of, is_of_content, typed_error
from holdfast.repository.database.identity import DATABASE, UnsoundError
from holdfast.repository.database.trust import check_files, check_kinds, check_tables, harden
from holdfast.repository.rows import nanoseconds

# A store that this user can read but not write: on a read-only disk, or by its permissions.
#
# To read a database with a write-ahead log, SQLite needs the log and its index, and makes them if
# they are missing. In a read-only store it cannot make them. If they exist, SQLite reads them. If
# there is no log, nobody has the database open, and SQLite can read it as a file that does not
# change (``immutable=1``). Another user may still write to it later, for example through another
# mount. So each reading compares the file before and after, and fails if it changed.

HAS_EFFECTIVE_IDS: Final = os.access in os.supports_effective_ids


def is_read_only(folder: Path) -> bool:
    """Return whether there is a store in `folder` that this user cannot write to."""
    paths = filter(Path.exists, (folder, folder / DATABASE, folder / identity.FOLDER))
    return os.path.lexists(folder / DATABASE) and not all(map(_is_writable, paths))


def _is_writable(path: Path) -> bool:
    mode = os.W_OK | os.X_OK if path.is_dir() else os.W_OK
    return os.access(path, mode, effective_ids=HAS_EFFECTIVE_IDS)


def file_state(path: Path, *, content: bool = False) -> tuple[int, ...] | None:
    """Return the device and the inode of the file that has the name `path` now, or None.

    With `content`, return its size and the time of its last change too.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    file = status.st_dev, status.st_ino
    return (*file, status.st_size, status.st_mtime_ns) if content else file


def read_only_uri(database: Path) -> str:
    """Return the URI with which SQLite opens `database` and writes nothing."""
    immutable = "" if has_log(database) else "&immutable=1"
    return f"{database.absolute().as_uri()}?mode=ro{immutable}"


@contextmanager
def unchanged(database: Path) -> Iterator[None]:
    """Raise `ProviderError` if `database` changes while the block runs."""
    is_logged, before = has_log(database), file_state(database, content=True)

    def compare() -> None:
        if not is_logged and file_state(database, content=True) != before:
            raise ProviderError(
                f"the store in {database.parent} was changed while it was read: try again"
            ) from None

    try:
        yield
    except Exception:  # not Ctrl-C, which is passed on as it is
        compare()
        raise
    compare()


def has_log(database: Path) -> bool:
    """Return whether a log may hold changes that are not in the database yet."""
    log, index, journal = (
        file_state(Path(f"{database}{end}"), content=True) for end in ("-wal", "-shm", "-journal")
    )
    return bool((log and (log[2] or index)) or (journal and journal[2]))


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

MAGIC: Final = b"SQLite format 3\0"
HEADER_SIZE: Final = 100
VERSION_AT: Final = slice(60, 64)  # of a database file: its `user_version`
BUSY_SECONDS: Final = 60.0
PAUSE: Final = 0.01
CACHE_KIB: Final = 8 << 10
# Pages of 4 KiB: a log is moved into its database before it is larger than the reserve.
LOG_PAGES: Final = 256


def patient(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Repeat `function` while another connection has the lock, for at most a minute.

    SQLite waits by itself in most cases. It does not while another process makes the file, or after
    one was killed while it did.
    """

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return function(*args, **kwargs)
            except sqlite3.OperationalError as error:
                if code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)

    return call


class StoreConnection(sqlite3.Connection):
    """A connection that is closed when nothing refers to it any more.

    Python 3.13 and newer warn of others. fsspec, for one, shares its file systems with all who ask
    for them, and closes none.
    """

    def __del__(self) -> None:
        with suppress(sqlite3.Error):  # it was not even opened
            self.close()


@patient
def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open the database at `path`. The mode "rwc" may make it; "ro" writes nothing."""
    check_regular(path)
    is_new = not path.exists() or not path.stat().st_size
    uri = read_only_uri(path) if mode == "ro" else f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        uri,
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=StoreConnection,
    )
    with on_error(connection.close):
        try:
            connection.create_function("fold", 1, _fold, deterministic=True)
            connection.create_function("nanoseconds", 1, nanoseconds, deterministic=True)
            harden(connection)
            # Collecting garbage sorts rows. On a full disk there is no space for temporary files.
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
            if is_new and mode == "rwc":
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            if mode != "ro":
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            check_kinds(connection)
        except UnicodeDecodeError:  # of the message of SQLite, which quotes the schema
            raise UnsoundError(f"{path.name} cannot be read: its schema is damaged") from None
    return connection


def check_regular(path: Path) -> None:
    """Raise `ConfigError` if the database at `path` is not a file that SQLite may open."""
    try:
        check_files(path)
    except ConfigError as error:
        raise ConfigError(f"path {path.parent} holds no sound repository: {error}") from None


def check_version(folder: Path) -> None:
    """Raise `ConfigError` if another version of Holdfast made the store. Nothing is written.

    SQLite would make a log to read the database, so this reads the header of the file.
    """
    check_regular(folder / DATABASE)
    version = int.from_bytes(read_header(folder / DATABASE)[VERSION_AT], "big", signed=True)
    if version:  # 0: it has no tables yet, or belongs to another program
        _compare_version(folder, version)


def read_header(path: Path) -> bytes:
    """Return the header of a database file; empty if it has none, or cannot be read."""
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_SIZE)
    except OSError:  # it is raised again when SQLite opens the file
        return b""
    return header if header.startswith(MAGIC) and len(header) == HEADER_SIZE else b""


def _compare_version(folder: Path, version: int) -> None:
    if version != schema.VERSION:
        raise ConfigError(
            f"the store in {folder} was made by another version of Holdfast (schema {version}, "
            f"this one reads {schema.VERSION}): use that version, or another path; to move the "
            "content, run `holdfast backup` there and `holdfast restore` here"
        )


def open_database(folder: Path) -> sqlite3.Connection:
    """Open the database in `folder` for writing; make it if the folder holds no store.

    Raise `UnsoundError` if it is missing, damaged or may belong to other blocks, and `ConfigError`
    if it was not made by this version of Holdfast.
    """
    path = folder / DATABASE
    # The order matters: another process may just make a store, and makes the database first.
    if identity.has_traces(folder) and not os.path.lexists(path):
        raise UnsoundError(f"{DATABASE} is missing")
    try:
        return _open(folder)
    except sqlite3.Error as error:
        if code_of(error) in DAMAGED and identity.has_traces(folder):
            raise UnsoundError(f"{DATABASE} cannot be read: {error}") from None
        if not is_of_content(error):
            raise typed_error(error, folder) from None
        raise ConfigError(f"path {folder} holds no sound repository: {error}") from None


@patient
def _open(folder: Path) -> sqlite3.Connection:
    connection = connect(folder / DATABASE, "rwc")
    with on_error(connection.close):
        if not schema.version_of(connection):
            with transaction(connection):
                _make_tables(connection, folder)
        _compare_version(folder, schema.version_of(connection))
        check_tables(connection)
        if identity.why_unsound(folder, identity.mark_of(connection)) is not None:
            with transaction(connection):  # another process may just write the id
                _finish(connection, folder)
        schema.count_changes(connection)
    return connection


def _make_tables(connection: sqlite3.Connection, folder: Path) -> None:
    if schema.version_of(connection):
        return  # another process was faster
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise sqlite3.DatabaseError(f"{DATABASE} belongs to another program")
    if identity.has_traces(folder):
        raise UnsoundError(f"{DATABASE} is empty")
    schema.create(connection)


def _finish(connection: sqlite3.Connection, folder: Path) -> None:
    """Write the id of a new store into its folder; raise `UnsoundError` if the ids differ."""
    mark = identity.mark_of(connection)
    if (
        not mark.changes
        and identity.read_id(folder) is None
        and not identity.has_block_files(folder)
    ):
        identity.write_id(folder, mark.id)
    fault = identity.why_unsound(folder, mark)
    if fault is not None:
        raise UnsoundError(fault)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit at the end of the block; roll back if it fails."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _fold(text: str) -> str:
    """Return `text` for comparisons that ignore the case and the composition of letters."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
