"""The tables of the database and of its second copy, and how both stay in step.

The second copy is a SQLite file of its own. It holds what cannot be rebuilt from the block files:
small blocks and pins. Temporary triggers on the connection that writes repeat every change in the
copy, in the same transaction. SQLite commits the database first and the copy after it, so a crash
or a full disk leaves the copy at most one transaction behind.

Each transaction has a random token. The table `store` has the tokens of the last two transactions,
the copy that of its last. If the token of the copy is neither of the two, one of the files is of
another time.
"""

import secrets
import sqlite3
from typing import Any, Final

VERSION: Final = 3

PIN_COLUMNS: Final = "id, uuid, cid, key, name, keyvalues, size, files, type, created, removed"

STORE_FIELDS_2: Final = """
    id          TEXT NOT NULL,       -- random; the same as in the file holdfast.id
    established INTEGER NOT NULL,    -- 0 until the second copy and holdfast.id are made
    token       BLOB NOT NULL,       -- random, new in each transaction
    before      BLOB,                -- the token of the transaction before
    changes     INTEGER NOT NULL     -- how many transactions there were
"""
STORE_TABLE: Final = f"""
CREATE TABLE store (                 -- one row
    {STORE_FIELDS_2},
    counted     BLOB,                -- the numbers of pins are right if it equals the token
    pinned      INTEGER NOT NULL,    -- how many pins there are
    unpinned    INTEGER NOT NULL,    -- how many pins were removed
    size        INTEGER NOT NULL     -- of all pins, without those that were removed
);
"""
STORE_TABLE_2: Final = f"CREATE TABLE store ({STORE_FIELDS_2})"
ADDS_TABLE: Final = """
CREATE TABLE adds (
    id    INTEGER PRIMARY KEY,       -- random, so that no two adds have the same
    owner TEXT NOT NULL              -- the name of a file in the folder owners
);
"""
ADDS_TABLE_1: Final = "CREATE TABLE adds (id INTEGER PRIMARY KEY, touched INTEGER NOT NULL)"
PIN_FIELDS: Final = """
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
"""
# A document may be pinned and unpinned very often, so the first looks for the one pin of a key.
PIN_INDEXES: Final = """
CREATE INDEX pins_by_key ON pins (key, removed);
CREATE INDEX pins_pinned ON pins (created DESC, id DESC) WHERE removed IS NULL;
CREATE INDEX pins_unpinned ON pins (created DESC, id DESC) WHERE removed IS NOT NULL;
"""
PINS_BY_KEY_2: Final = "CREATE INDEX pins_by_key ON pins (key)"
TABLES: Final = (
    f"""
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
) WITHOUT ROWID;
CREATE TABLE pins ({PIN_FIELDS});
CREATE INDEX pins_by_date ON pins (created DESC, id DESC);
{PIN_INDEXES}
CREATE TABLE leases (
    adding INTEGER NOT NULL,         -- adds.id
    block  INTEGER NOT NULL,         -- blocks.id
    PRIMARY KEY (adding, block)
) WITHOUT ROWID;
"""
    + ADDS_TABLE
    + STORE_TABLE
)

COPY_TABLES: Final = f"""
CREATE TABLE copy.copied_blocks (id INTEGER PRIMARY KEY, key BLOB NOT NULL, data BLOB NOT NULL);
CREATE TABLE copy.copied_pins ({PIN_FIELDS});
CREATE TABLE copy.copied_store (id TEXT NOT NULL, token BLOB NOT NULL, changes INTEGER NOT NULL);
INSERT INTO copied_store SELECT id, token, changes FROM store;
"""  # noqa: S608 - ours

NEW_PIN: Final = ", ".join(f"NEW.{column}" for column in PIN_COLUMNS.split(", "))
TRIGGERS: Final = (
    """CREATE TEMP TRIGGER block_entered AFTER INSERT ON main.blocks WHEN NEW.data IS NOT NULL BEGIN
    INSERT INTO copied_blocks VALUES (NEW.id, NEW.key, NEW.data); END""",
    """CREATE TEMP TRIGGER block_changed AFTER UPDATE OF data ON main.blocks BEGIN
    DELETE FROM copied_blocks WHERE id = OLD.id;
    INSERT INTO copied_blocks SELECT NEW.id, NEW.key, NEW.data WHERE NEW.data IS NOT NULL; END""",
    """CREATE TEMP TRIGGER block_removed AFTER DELETE ON main.blocks BEGIN
    DELETE FROM copied_blocks WHERE id = OLD.id; END""",
    f"""CREATE TEMP TRIGGER pin_added AFTER INSERT ON main.pins BEGIN
    INSERT INTO copied_pins VALUES ({NEW_PIN}); END""",  # noqa: S608 - ours
    f"""CREATE TEMP TRIGGER pin_changed AFTER UPDATE ON main.pins BEGIN
    DELETE FROM copied_pins WHERE id = OLD.id;
    INSERT INTO copied_pins VALUES ({NEW_PIN}); END""",  # noqa: S608 - ours
    """CREATE TEMP TRIGGER pin_removed AFTER DELETE ON main.pins BEGIN
    DELETE FROM copied_pins WHERE id = OLD.id; END""",
    """CREATE TEMP TRIGGER pin_counted AFTER INSERT ON main.pins BEGIN
    UPDATE store SET pinned = pinned + (NEW.removed IS NULL),
    unpinned = unpinned + (NEW.removed IS NOT NULL),
    size = size + NEW.size * (NEW.removed IS NULL); END""",
    """CREATE TEMP TRIGGER pin_counted_again AFTER UPDATE OF removed, size ON main.pins BEGIN
    UPDATE store SET pinned = pinned + (NEW.removed IS NULL) - (OLD.removed IS NULL),
    unpinned = unpinned + (NEW.removed IS NOT NULL) - (OLD.removed IS NOT NULL),
    size = size + NEW.size * (NEW.removed IS NULL) - OLD.size * (OLD.removed IS NULL); END""",
    # No pin is deleted today. If one is, the next transaction counts all.
    """CREATE TEMP TRIGGER pin_not_counted AFTER DELETE ON main.pins BEGIN
    UPDATE store SET counted = NULL; END""",
)

COUNT: Final = """
SELECT count(*) FILTER (WHERE removed IS NULL), count(*) FILTER (WHERE removed IS NOT NULL),
coalesce(sum(size) FILTER (WHERE removed IS NULL), 0) FROM pins
"""

# Whether a pin is the same in both databases. `IS` compares NULL as well.
SAME_PIN: Final = "copied_pins.id = pins.id AND " + " AND ".join(
    f"copied_pins.{column} IS pins.{column}" for column in PIN_COLUMNS.split(", ")
)
# A block that is in both databases is the same in both, so only the others are copied.
RESYNC: Final = f"""
DELETE FROM copied_blocks WHERE NOT EXISTS (
    SELECT 1 FROM blocks WHERE blocks.id = copied_blocks.id
    AND blocks.key = copied_blocks.key AND blocks.data IS NOT NULL);
INSERT INTO copied_blocks SELECT id, key, data FROM blocks WHERE data IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM copied_blocks WHERE copied_blocks.id = blocks.id);
DELETE FROM copied_pins WHERE NOT EXISTS (SELECT 1 FROM pins WHERE {SAME_PIN});
INSERT INTO copied_pins SELECT * FROM pins WHERE id NOT IN (SELECT id FROM copied_pins);
UPDATE copied_store SET (token, changes) = (SELECT token, changes FROM store);
"""  # noqa: S608 - ours


def run(connection: sqlite3.Connection, statements: str) -> None:
    """Run several statements in the current transaction, which `executescript` would end."""
    for statement in statements.split(";\n"):
        if statement.strip():
            connection.execute(statement)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the tables; 0 if there are none yet."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def create(connection: sqlite3.Connection, store_id: str | None = None) -> None:
    """Make the tables of a new database. The caller has begun a transaction."""
    run(connection, TABLES)
    sql = "INSERT INTO store VALUES (?, 0, randomblob(16), NULL, 0, NULL, 0, 0, 0)"
    connection.execute(sql, (store_id or secrets.token_hex(16),))
    count(connection)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def migrate(connection: sqlite3.Connection) -> None:
    """Migrate the tables of version 1 or 2. The caller has begun a transaction."""
    if version_of(connection) == 1:
        _migrate_to_2(connection)
    connection.execute("ALTER TABLE store RENAME TO old_store")
    connection.execute("DROP INDEX pins_by_key")
    run(connection, STORE_TABLE + PIN_INDEXES)
    connection.execute("INSERT INTO store SELECT *, NULL, 0, 0, 0 FROM old_store")
    connection.execute("DROP TABLE old_store")
    count(connection)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _migrate_to_2(connection: sqlite3.Connection) -> None:
    """Migrate the tables of version 1.

    Version 1 used the numbers of adds more than once, and judged by the clock whether their process
    was alive. Its adds are deleted: an older process that still runs gets an error when it next
    adds a block.
    """
    connection.execute("DELETE FROM leases")
    connection.execute("DROP TABLE adds")
    run(connection, f"{ADDS_TABLE}{STORE_TABLE_2};\n")
    sql = "INSERT INTO store VALUES (?, 0, randomblob(16), NULL, 0)"
    connection.execute(sql, (secrets.token_hex(16),))


def count(connection: sqlite3.Connection) -> None:
    """Count all pins, and write the numbers. The caller has begun a transaction."""
    sql = f"UPDATE store SET (pinned, unpinned, size) = ({COUNT}), counted = token"  # noqa: S608
    connection.execute(sql)


def counts(connection: sqlite3.Connection) -> tuple[Any, Any, Any]:
    """Return how many pins there are, how many were removed, and the size of the former."""
    row = None
    if version_of(connection) >= VERSION:
        sql = "SELECT pinned, unpinned, size FROM store WHERE counted IS token"
        row = connection.execute(sql).fetchone()
    if row is None:
        row = connection.execute(COUNT).fetchone()
    pinned, unpinned, size = row
    return pinned, unpinned, size


def state_of(connection: sqlite3.Connection) -> str:
    """Return the token of the last transaction as text; empty for tables of version 1."""
    if version_of(connection) < 2:
        return ""
    row = connection.execute("SELECT hex(token) FROM store").fetchone()
    return str(row[0]) if row else ""


def fill_copy(connection: sqlite3.Connection) -> None:
    """Make and fill the tables of the second copy. The caller has begun a transaction."""
    run(connection, COPY_TABLES + RESYNC)


def mirror(connection: sqlite3.Connection) -> None:
    """Repeat all changes that `connection` makes in the database in the second copy too."""
    for trigger in TRIGGERS:
        connection.execute(trigger)


def advance(connection: sqlite3.Connection) -> None:
    """Give both databases a new token, for the transaction that is about to be committed.

    Triggers keep the numbers of pins right. A process of an older version has no such triggers: it
    only changes the token, and then all pins are counted here.
    """
    sql = "UPDATE store SET before = token, token = :token, changes = changes + 1, counted = :token"
    token = {"token": secrets.token_bytes(16)}
    if not connection.execute(f"{sql} WHERE counted IS token", token).rowcount:
        connection.execute(sql, token)
        count(connection)
    connection.execute(
        "UPDATE copied_store SET (token, changes) = (SELECT token, changes FROM store)"
    )
