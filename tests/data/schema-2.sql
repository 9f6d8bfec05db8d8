-- The tables of schema version 2, as Holdfast made them before it counted the pins.
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
CREATE INDEX pins_by_key ON pins (key);
CREATE INDEX pins_by_date ON pins (created DESC, id DESC);
CREATE TABLE leases (
    adding INTEGER NOT NULL,         -- adds.id
    block  INTEGER NOT NULL,         -- blocks.id
    PRIMARY KEY (adding, block)
) WITHOUT ROWID;

CREATE TABLE adds (
    id    INTEGER PRIMARY KEY,       -- random, so that no two adds have the same
    owner TEXT NOT NULL              -- the name of a file in the folder owners
);

CREATE TABLE store (                 -- one row
    id          TEXT NOT NULL,       -- random; the same as in the file holdfast.id
    established INTEGER NOT NULL,    -- 0 until the second copy and holdfast.id are made
    token       BLOB NOT NULL,       -- random, new in each transaction
    before      BLOB,                -- the token of the transaction before
    changes     INTEGER NOT NULL     -- how many transactions there were
);
