"""The tables of the database.

Each transaction gives the store a new random token and counts one more change. Temporary triggers
on the connection that writes keep the numbers of pins right.
"""

import secrets
import sqlite3
from typing import Any, Final

VERSION: Final = 4

PIN_COLUMNS: Final = "id, uuid, cid, key, name, keyvalues, size, files, type, created, removed"

PIN_TABLES: Final = """
CREATE TABLE pins (
    id        INTEGER PRIMARY KEY,
    uuid      TEXT NOT NULL,
    cid       TEXT NOT NULL,         -- as the user gave it, or as it was computed
    key       BLOB NOT NULL,
    name      TEXT NOT NULL,
    keyvalues TEXT NOT NULL,         -- a JSON object
    size      INTEGER NOT NULL,      -- of all its blocks
    files     INTEGER NOT NULL,
    type      TEXT NOT NULL,         -- its media type
    created   INTEGER NOT NULL,      -- milliseconds
    removed   INTEGER                -- milliseconds, when it was unpinned
);
CREATE INDEX pins_by_date ON pins (created DESC, id DESC);
CREATE INDEX pins_by_key ON pins (key, removed);
CREATE INDEX pins_pinned ON pins (created DESC, id DESC) WHERE removed IS NULL;
CREATE INDEX pins_unpinned ON pins (created DESC, id DESC) WHERE removed IS NOT NULL;
"""

TABLES: Final = f"""
CREATE TABLE blocks (
    id     INTEGER PRIMARY KEY,
    key    BLOB NOT NULL UNIQUE,     -- the CID in its version 1 bytes
    size   INTEGER NOT NULL,
    data   BLOB,                     -- a small block; a larger one is a file of its own
    dying  INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE links (
    parent INTEGER NOT NULL,         -- blocks.id
    child  BLOB NOT NULL,            -- blocks.key; the block may be missing
    PRIMARY KEY (parent, child)
) WITHOUT ROWID;{PIN_TABLES}CREATE TABLE leases (
    adding INTEGER NOT NULL,         -- adds.id
    block  INTEGER NOT NULL,         -- blocks.id
    PRIMARY KEY (adding, block)
) WITHOUT ROWID;
CREATE TABLE adds (
    id    INTEGER PRIMARY KEY,       -- random, so that no two adds have the same
    owner TEXT NOT NULL              -- the name of a file in the folder owners
);
CREATE TABLE store (                 -- one row
    id       TEXT NOT NULL,          -- random; the same as in the file holdfast.id
    token    BLOB NOT NULL,          -- random, new in each transaction
    changes  INTEGER NOT NULL,       -- how many transactions there were
    pinned   INTEGER NOT NULL,       -- how many pins there are
    unpinned INTEGER NOT NULL,       -- how many pins were removed
    size     INTEGER NOT NULL        -- of all pins, without those that were removed
);
"""

TRIGGERS: Final = (
    """CREATE TEMP TRIGGER pin_added AFTER INSERT ON main.pins BEGIN
    UPDATE store SET pinned = pinned + (NEW.removed IS NULL),
    unpinned = unpinned + (NEW.removed IS NOT NULL),
    size = size + NEW.size * (NEW.removed IS NULL); END""",
    """CREATE TEMP TRIGGER pin_changed AFTER UPDATE OF removed, size ON main.pins BEGIN
    UPDATE store SET pinned = pinned + (NEW.removed IS NULL) - (OLD.removed IS NULL),
    unpinned = unpinned + (NEW.removed IS NOT NULL) - (OLD.removed IS NOT NULL),
    size = size + NEW.size * (NEW.removed IS NULL) - OLD.size * (OLD.removed IS NULL); END""",
)

COUNT: Final = """
SELECT count(*) FILTER (WHERE removed IS NULL), count(*) FILTER (WHERE removed IS NOT NULL),
coalesce(sum(size) FILTER (WHERE removed IS NULL), 0) FROM pins
"""


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the tables; 0 if there are none yet."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def create_tables(connection: sqlite3.Connection, tables: str) -> None:
    """Execute the statements in `tables`. The caller has begun a transaction."""
    for statement in tables.split(";\n"):  # `executescript` would end the transaction
        connection.execute(statement)


def create(connection: sqlite3.Connection, store_id: str | None = None) -> None:
    """Make the tables of a new database. The caller has begun a transaction."""
    create_tables(connection, TABLES)
    sql = "INSERT INTO store VALUES (?, randomblob(16), 0, 0, 0, 0)"
    connection.execute(sql, (store_id or secrets.token_hex(16),))
    connection.execute(f"PRAGMA user_version = {VERSION}")


def count_changes(connection: sqlite3.Connection) -> None:
    """Keep the numbers of pins right in all that `connection` changes."""
    for trigger in TRIGGERS:
        connection.execute(trigger)


def counts(connection: sqlite3.Connection) -> tuple[Any, Any, Any]:
    """Return how many pins there are, how many were removed, and the size of the former."""
    row = connection.execute("SELECT pinned, unpinned, size FROM store").fetchone()
    pinned, unpinned, size = row or connection.execute(COUNT).fetchone()
    return pinned, unpinned, size


def state_of(connection: sqlite3.Connection) -> str:
    """Return the token of the last transaction as text."""
    row = connection.execute("SELECT hex(token) FROM store").fetchone()
    return str(row[0]) if row else ""


def advance(connection: sqlite3.Connection) -> None:
    """Give the store a new token, for the transaction that is about to be committed."""
    connection.execute("UPDATE store SET token = randomblob(16), changes = changes + 1")
