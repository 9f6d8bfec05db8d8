-- The tables of schema version 1, as Holdfast 0.1 made them.
CREATE TABLE blocks (
    id     INTEGER PRIMARY KEY,
    key    BLOB NOT NULL UNIQUE,     -- the CID in its version 1 bytes
    size   INTEGER NOT NULL,
    data   BLOB,                     -- a small block; a larger one is a file of its own
    dying  INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE links (
    parent INTEGER NOT NULL,         -- blocks.id
    child  BLOB NOT NULL,            -- blocks.key, of a block that may not be here
    PRIMARY KEY (parent, child)
) WITHOUT ROWID;
CREATE TABLE pins (
    id        INTEGER PRIMARY KEY,
    uuid      TEXT NOT NULL,
    cid       TEXT NOT NULL,         -- as it was given or made
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
CREATE TABLE adds (
    id       INTEGER PRIMARY KEY,
    touched  INTEGER NOT NULL        -- milliseconds: when it last wrote a block
);
CREATE TABLE leases (
    adding INTEGER NOT NULL,         -- adds.id
    block  INTEGER NOT NULL,         -- blocks.id
    PRIMARY KEY (adding, block)
) WITHOUT ROWID;
