"""The ledger of copies: which content is cared for, and what each member is known to have of it.

It is one SQLite file in a folder, beside files for locks. Its pins are in the same table as those
of a store, so that the same queries find them; a pin that was removed is a tombstone. No secret is
ever written to it.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.content.cid import CID
from holdfast.disk.closing import on_error
from holdfast.disk.folders import Folder
from holdfast.disk.locks import try_lock
from holdfast.errors import ClientClosedError, ConfigError
from holdfast.forks import ForkAware
from holdfast.records import Pin, PinInfo, Verdict, merged_keyvalues, now_ms
from holdfast.repository import pins as pin_table
from holdfast.repository.database import errors, opening, schema
from holdfast.repository.database.identity import UnsoundError
from holdfast.repository.database.trust import check_tables
from holdfast.repository.pins import ALL_PINS, PinQuery, pin_pages
from holdfast.repository.rows import BadRowError, natural, rows_of_keys, text

DATABASE: Final = "ledger.sqlite3"
VERSION: Final = 1
LOCKS: Final = 4096  # lock files; two CIDs seldom share one
HAS: Final = frozenset({"claimed", "proven"})  # the states of a copy that may be there
SEEN: Final = HAS | {"missing"}  # those of a copy that was looked for
STATES: Final = SEEN | {"sent", "removed"}
TABLES: Final = f"""{schema.PIN_TABLES}
CREATE TABLE copies (
    key  BLOB PRIMARY KEY,           -- pins.key
    want INTEGER NOT NULL            -- how many sites should have it
) WITHOUT ROWID;
CREATE TABLE places (
    key     BLOB NOT NULL,           -- pins.key
    member  TEXT NOT NULL,
    state   TEXT NOT NULL,           -- sent, claimed, proven, missing or removed
    proven  INTEGER NOT NULL,        -- milliseconds, when blocks of it were last verified; or 0
    blocks  INTEGER NOT NULL,        -- how many blocks that were
    named   INTEGER NOT NULL,        -- whether it has the name and the key-values of the pin
    PRIMARY KEY (key, member)
) WITHOUT ROWID;
CREATE INDEX places_by_member ON places (member, key);
CREATE TABLE verdicts (
    member  TEXT NOT NULL,
    kind    TEXT NOT NULL,           -- witness, layout, down, unpin or place
    good    INTEGER NOT NULL,
    reason  TEXT NOT NULL,           -- why not
    gateway TEXT NOT NULL,           -- hashes, of a witness
    since   INTEGER NOT NULL,        -- milliseconds
    PRIMARY KEY (member, kind)
) WITHOUT ROWID;
PRAGMA user_version = {VERSION};
"""


class CopyState(NamedTuple):
    """What is known of one CID at one member.

    Attributes:
        state: ``sent`` if it may have some of it, ``claimed`` if it says that it has it,
            ``proven`` if blocks of it were verified, ``missing`` if a block of it was not there,
            ``removed`` if the user removed it there alone.
        proven: When blocks of it were last verified, in milliseconds; 0 for never.
        blocks: How many blocks that were.
        named: Whether its pin has the name and the key-values of the ledger.
    """

    state: str = "sent"
    proven: int = 0
    blocks: int = 0
    named: bool = False


class LedgerRow(NamedTuple):
    """Content that is cared for, or was until `pin.removed`.

    Attributes:
        pin: Its CID, name, key-values and times.
        want: How many sites should have it.
        states: What is known of it at each member that may have it, or from which it was removed.
    """

    pin: Pin
    want: int
    states: Mapping[str, CopyState]

    @property
    def places(self) -> dict[str, str]:
        """What users see: the state at each member that may have it. For ``sent`` it is unknown."""
        states = {name: copy.state.replace("sent", "unknown") for name, copy in self.states.items()}
        return {name: state for name, state in states.items() if state != "removed"}

    @property
    def pin_with_places(self) -> Pin:
        """The pin, whose `peers` say what is known of it at each member."""
        return replace(self.pin, peers=self.places)


class Ledger(ForkAware):
    """The ledger in `folder`, which is made if it is missing.

    Any number of threads and processes may use it. What a method has written when it returns
    survives a power failure, apart from a `note` without `sync`.

    Example:
        >>> import tempfile
        >>> ledger = Ledger(Path(tempfile.mkdtemp()))
        >>> cid = CID.of_raw(b"hello")
        >>> row = ledger.intend(cid, PinInfo(name="greeting"), ["disk"], want=2)
        >>> ledger.note(cid, {"disk": CopyState("proven", 1700000000000, 1, True)})
        >>> ledger.find(cid).states["disk"].state
        'proven'
    """

    def __init__(self, folder: Path) -> None:
        self.folder: Path = folder.absolute()  # the current folder may change
        self._locks = Folder(self.folder, "locks")
        self._locks.make(0o700)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inherited: list[sqlite3.Connection] = []
        self._closed = False
        with self._reading():
            pass  # it is sound
        self.watch_forks()

    # Content

    def intend(
        self, cid: CID, info: PinInfo, members: Sequence[str], want: int, **fields: Any
    ) -> LedgerRow:
        """Note that `cid` is about to be sent to `members`; return what is known of it then.

        A tombstone of it has no effect from then on. What is known of a member stays. `fields` are
        further ones of the pin, if it is new; a pin that exists gets the name and the key-values of
        `info` that the user gave.
        """
        with self._writing() as connection:
            named = {"name": info.name, "keyvalues": dict(info.keyvalues)}
            pin, existed = pin_table.add_pin(connection, cid, **named, **fields)
            if existed and info.is_explicit:
                _update(connection, cid, info.name if info.given else None, info.keyvalues)
            sql = "INSERT INTO copies VALUES (?, ?) ON CONFLICT DO UPDATE SET want = excluded.want"
            connection.execute(sql, (cid.key, want))
            sql = "INSERT INTO places VALUES (?, ?, 'sent', 0, 0, 0) ON CONFLICT DO NOTHING"
            connection.executemany(sql, [(cid.key, member) for member in members])
            row = _find(connection, cid) if existed else None
            return row or LedgerRow(pin, want, dict.fromkeys(members, CopyState()))

    def note(self, cid: CID, states: Mapping[str, CopyState | None], *, sync: bool = True) -> None:
        """Note what is known of `cid` at members; None where it is not any more.

        Without `sync`, a power failure may undo it, and the next health run looks again.
        """
        if not states:
            return
        with self._writing(sync=sync) as connection:
            for member, state in states.items():
                key = cid.key, member
                if state is None:
                    connection.execute("DELETE FROM places WHERE key = ? AND member = ?", key)
                else:
                    sql = "INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?, ?, ?)"
                    connection.execute(sql, (*key, *state))

    def update(self, cid: CID, name: str | None, keyvalues: Mapping[str, Any]) -> LedgerRow | None:
        """Change the name or the key-values of a pin; return None if `cid` is not cared for.

        No member has the new ones until that is noted.
        """
        with self._writing() as connection:
            _update(connection, cid, name, keyvalues)
            return _find(connection, cid)

    def bury(self, cid: CID) -> LedgerRow | None:
        """Make a tombstone of `cid`; return what was known, or None if it is not cared for."""
        with self._writing() as connection:
            row = _find(connection, cid)
            pin_table.remove_pin(connection, cid)
            # A member may unpin it, and the reply be lost: from now on, nothing is known of it.
            sql = "UPDATE places SET state = 'sent', named = 0 WHERE key = ?"
            connection.execute(sql, (cid.key,))
            return row

    def find(self, cid: CID) -> LedgerRow | None:
        """Return what is known of `cid`; None if it is not cared for."""
        with self._reading() as connection:
            return _find(connection, cid)

    def is_buried(self, cid: CID) -> bool:
        """Return whether `cid` has a tombstone, and is not cared for again."""
        pins = self.rows(PinQuery(cid=str(cid), pinned=None))
        return bool(pins) and all(row.pin.removed_ms is not None for row in pins)

    def rows(self, query: PinQuery = ALL_PINS) -> list[LedgerRow]:
        """Return what `query` selects, in its order; without one, all that is cared for."""
        with self._reading() as connection:
            return _rows(connection, pin_table.list_pins(connection, query))

    def unfinished_tombstones(self, limit: int, after: str = "") -> list[LedgerRow]:
        """Return content that was revoked, and that a member may still have, sorted by CID.

        `after` is the last CID of the page before.
        """
        with self._reading() as connection:
            sql = (
                "SELECT DISTINCT cid FROM pins JOIN places USING (key) WHERE removed IS NOT NULL "
                "AND key NOT IN (SELECT key FROM pins WHERE removed IS NULL) AND cid > ? "
                "ORDER BY cid LIMIT ?"
            )
            cids = tuple(text(cid) for (cid,) in connection.execute(sql, (after, limit)))
            query = PinQuery(cids=cids, pinned=False)
            rows = _rows(connection, pin_table.list_pins(connection, query)) if cids else []
        return [row for _, row in sorted({row.pin.cid: row for row in rows}.items())]

    def pins(self, query: PinQuery = ALL_PINS) -> list[Pin]:
        """Return the pins that `query` selects, each with what is known of it at its members."""
        return [row.pin_with_places for row in self.rows(query)]

    def row_pages(self) -> Iterator[list[LedgerRow]]:
        """Yield all that is cared for, newest first, in pages."""
        rows: dict[str, LedgerRow] = {}

        def find(query: PinQuery) -> list[Pin]:
            rows.clear()
            rows.update((row.pin.id, row) for row in self.rows(query))
            return [row.pin for row in rows.values()]

        for page in pin_pages(find, ALL_PINS):
            yield [rows[pin.id] for pin in page]

    def totals(self) -> tuple[int, int]:
        """Return how many pins are cared for, and how many bytes they have."""
        with self._reading() as connection:
            sql = "SELECT count(*), coalesce(sum(size), 0) FROM pins WHERE removed IS NULL"
            count, size = connection.execute(sql).fetchone()
        return natural(count), natural(size)

    # Members

    def find_verdict(self, member: str, kind: str, age: float | None = None) -> Verdict | None:
        """Return what was found out about a member, at most `age` seconds ago; else None."""
        with self._reading() as connection:
            sql = "SELECT good, reason, gateway, since FROM verdicts WHERE member = ? AND kind = ?"
            row = connection.execute(sql, (member, kind)).fetchone()
        if row is None:
            return None
        good, reason, gateway, since = row
        verdict = Verdict(bool(good), text(reason), text(gateway), pin_table.parse_time(since))
        is_old = age is not None and not 0 <= now_ms() - verdict.since <= age * 1000
        return None if is_old else verdict

    def places(self) -> dict[str, str]:
        """Return where each member was when it was last used."""
        with self._reading() as connection:
            sql = "SELECT member, reason FROM verdicts WHERE kind = 'place'"
            return {text(name): text(place) for name, place in connection.execute(sql)}

    def note_verdict(self, member: str, kind: str, verdict: Verdict | None) -> None:
        """Note what was found out about a member; None if that holds no longer."""
        with self._writing() as connection:
            if verdict is None:
                sql = "DELETE FROM verdicts WHERE member = ? AND kind = ?"
                connection.execute(sql, (member, kind))
            else:
                sql = "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?)"
                connection.execute(sql, (member, kind, *verdict))

    # Locks over processes

    def try_lock(self, cid: CID) -> int | None:
        """Lock `cid` for all processes; return what `unlock` takes, or None if it is locked."""
        number = int.from_bytes(cid.key[-2:], "big") % LOCKS
        descriptor = self._locks.open(f"{number:03x}", os.O_RDWR | os.O_CREAT, 0o600)
        with on_error(partial(os.close, descriptor)):
            if try_lock(descriptor):
                return descriptor
        os.close(descriptor)
        return None

    # The connection

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                if self._closed:
                    raise ClientClosedError
                if self._connection is None:
                    self._connection = _open(self.folder)
                yield self._connection
        except (UnsoundError, BadRowError, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error) and not errors.is_of_content(error):
                raise errors.typed_error(error, self.folder) from None
            raise ConfigError(
                f"path {self.folder} holds no sound ledger: {' '.join(str(error).split())}; move "
                f"{DATABASE} away, then rebuild it with `holdfast health --adopt`"
            ) from None

    @contextmanager
    def _writing(self, *, sync: bool = True) -> Iterator[sqlite3.Connection]:
        with self._reading() as connection:
            connection.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            with opening.transaction(connection):
                yield connection

    def before_fork(self) -> None:
        """Wait for the current transaction, and let no other begin."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Let transactions begin again."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Start again with no connection: SQLite forbids a child to use that of its parent."""
        self._lock = threading.Lock()
        self._inherited += [] if self._connection is None else [self._connection]
        self._connection = None

    def close(self) -> None:
        """Close the file. Closing it again has no effect."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()


def _update(
    connection: sqlite3.Connection, cid: CID, name: str | None, keyvalues: Mapping[str, Any]
) -> None:
    change = partial(merged_keyvalues, changes=keyvalues)
    pin_table.update_pin(connection, cid, name=name, change=change)
    connection.execute("UPDATE places SET named = 0 WHERE key = ?", (cid.key,))


def _find(connection: sqlite3.Connection, cid: CID) -> LedgerRow | None:
    pin = pin_table.find_pin(connection, cid)
    return None if pin is None else _rows(connection, [pin])[0]


def _rows(connection: sqlite3.Connection, pins: Sequence[Pin]) -> list[LedgerRow]:
    keys = [CID.parse(pin.cid).key for pin in pins]
    sql = "SELECT key, want FROM copies WHERE key IN"
    wants = dict(rows_of_keys(connection, sql, keys))
    states: dict[bytes, dict[str, CopyState]] = {}
    sql = "SELECT key, member, state, proven, blocks, named FROM places WHERE key IN"
    for key, member, *state in rows_of_keys(connection, sql, keys):
        states.setdefault(key, {})[text(member)] = _state_of(*state)
    return [
        LedgerRow(pin, natural(wants.get(key, 0)), states.get(key, {}))
        for pin, key in zip(pins, keys, strict=True)
    ]


def _state_of(state: object, proven: object, blocks: object, named: object) -> CopyState:
    if state not in STATES:
        raise BadRowError("a state in it is none of those that there are")
    return CopyState(
        text(state), pin_table.parse_time(proven), natural(blocks), bool(natural(named))
    )


_create: Final = partial(schema.create_tables, tables=TABLES)


@opening.patient
def _open(folder: Path) -> sqlite3.Connection:
    """Open the ledger; make its tables if it has none yet."""
    connection = opening.connect(folder / DATABASE, "rwc")
    with on_error(connection.close):
        with opening.transaction(connection):
            version = schema.version_of(connection)
            if not version:
                _create(connection)
        if version not in {0, VERSION}:
            raise UnsoundError("it was made by another version of Holdfast")
        check_tables(connection, _create)
        with suppress(OSError):
            (folder / DATABASE).chmod(0o600)
    return connection
