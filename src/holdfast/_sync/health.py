# WARNING: this file is generated from src/holdfast/_async/health.py
# by scripts/generate_sync.py. Change the original instead.
"""Whether the members of `copies` still have everything that is cared for, and its repair."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holdfast._sync.runtime import run_blocking
from holdfast.content.cid import CID
from holdfast.content.sampling import Sample
from holdfast.records import Health, Pin, PinFilter, now_ms
from holdfast.repository.ledger import CopyState, LedgerRow, MemberVerdict
from holdfast.repository.pins import ALL_PINS, pin_pages

if TYPE_CHECKING:
    from holdfast._sync.providers.copies import CopiesProvider, Member

TOMBSTONES: Final = 1000  # that are finished in one run


def check_health(
    copies: "CopiesProvider", sample: Sample, *, fix: bool, adopt: bool
) -> Iterator[Health]:
    """Prove everything that is cared for, and yield what is found; see `Client.health`."""
    for tombstone in run_blocking(copies.ledger.unfinished_tombstones, TOMBSTONES):
        with copies.locked(CID.parse(tombstone.pin.cid)):
            if run_blocking(copies.ledger.is_buried, CID.parse(tombstone.pin.cid)):
                copies.finish_tombstone(tombstone)
    if adopt:
        for member in copies.members:
            _adopt(copies, member)
    for pin in run_blocking(copies.small_pins) if fix else ():
        _take_in(copies, pin, {})
    for page in pin_pages(copies.ledger.pins, ALL_PINS):
        for pin in page:
            with copies.locked(CID.parse(pin.cid)):
                row = run_blocking(copies.ledger.find, CID.parse(pin.cid))
                report = None if row is None else _check(copies, row, sample, fix=fix)
            if report is not None:
                yield report
    if fix:
        copies.collect()


def _check(copies: "CopiesProvider", row: LedgerRow, sample: Sample, *, fix: bool) -> Health:
    answered, row = copies.prove_all(row, copies.members, sample)
    absent: set[str] = set()
    for member in copies.members:
        state = row.states.get(member.name)
        if state is not None and state.state != "sent" and member.name not in answered:
            absent |= _absent(copies, member)
        elif member.name in answered:
            run_blocking(copies.ledger.note_verdict, member.name, "down", None)
    if fix and len(copies.sites_of(row) | absent) < row.want:
        row = copies.bring_all(row)
    if fix:
        copies.drop_if_done(row)
    by_state = {
        kind: tuple(
            member.name
            for member in copies.members
            if member.name in row.states and row.states[member.name].state == kind
        )
        for kind in ("claimed", "proven", "missing")
    }
    last = max((state.proven for state in row.states.values()), default=0)
    return Health(
        cid=row.pin.cid, name=row.pin.name, want=row.want, last_proof=last or None, **by_state
    )


def _absent(copies: "CopiesProvider", member: "Member") -> set[str]:
    """Return the site of a member that is down, as long as its copies need no replacement."""
    ledger = copies.ledger
    verdict = run_blocking(ledger.find_verdict, member.name, "down")
    if verdict is None:
        verdict = MemberVerdict(good=False, reason="", since=now_ms())
        run_blocking(ledger.note_verdict, member.name, "down", verdict)
    return {member.site} if now_ms() - verdict.since < copies.grace * 1000 else set()


def _adopt(copies: "CopiesProvider", member: "Member") -> None:
    """Take in the pins of `member` that nobody cares for."""
    if member.provider.supports("find_pins"):
        for pin in member.provider.find_pins(PinFilter()):
            _take_in(copies, pin, {member.name: CopyState("claimed", named=True)})


def _take_in(copies: "CopiesProvider", pin: Pin, states: dict[str, CopyState | None]) -> None:
    """Care for the content of `pin` from now on, unless it was revoked."""
    cid, ledger = CID.parse(pin.cid), copies.ledger
    with copies.locked(cid):
        if run_blocking(ledger.is_buried, cid):
            if not states:
                copies.drop(cid)
            return
        row = run_blocking(ledger.find, cid)
        if row is None:
            fields = {"name": pin.name, "keyvalues": dict(pin.keyvalues), "size": pin.size or 0}
            run_blocking(ledger.intend, cid, [], copies.want, **fields)
        if row is None or not states.keys() <= row.states.keys():
            run_blocking(ledger.note, cid, states, acknowledged=bool(states))
