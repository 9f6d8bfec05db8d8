"""Whether the members of `copies` still have everything that is cared for, and its repair."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from holdfast._async.proving import RANDOM, has_content
from holdfast._async.runtime import run_blocking, together
from holdfast.content.cid import CID
from holdfast.content.sampling import DEFAULT_SAMPLE, PinPicker, Sample
from holdfast.disk.seen_cids import SpilledCIDs
from holdfast.records import Health, Pin, PinFilter, PinInfo, Verdict, now_ms
from holdfast.repository.ledger import HAS, CopyState, LedgerRow
from holdfast.sources.sources import Progress

if TYPE_CHECKING:
    from holdfast._async.providers.copies import AsyncCopiesProvider, AsyncMember

TOMBSTONES: Final = 1000  # that are read from the ledger at once
AT_ONCE: Final = 8  # pins that are worked on
LISTED: Final = 20_000  # CIDs of a member's list that are in memory, some 4 MiB; others are on disk


async def check_health(
    copies: "AsyncCopiesProvider", sample: Sample, *, fix: bool, adopt: bool, progress: Progress
) -> AsyncIterator[Health]:
    """Prove everything that is cared for, and yield what is found; see `AsyncClient.health`."""
    await _finish_tombstones(copies)
    left = await copies.small.list_pins() if fix else []
    for pin in left:
        await _take_in(copies, pin)
    async with aclosing(AsyncHealthRun(copies)) as run:
        await run.read_lists(adopt=adopt)
        await run.prove_sample(sample)
        done, total = 0, (await run_blocking(copies.ledger.totals))[0]
        here = {pin.cid for pin in left}
        async for page in run.pages():
            rows = await run.repair(page, here) if fix else page
            for row in rows:
                yield run.report(row)
            done += len(rows)
            progress(done, total)
    if fix:
        await copies.collect()


async def foreign_pins(copies: "AsyncCopiesProvider") -> AsyncIterator[Pin]:
    """Yield the pins of the members that were not made through this provider."""
    for member in copies.members:
        if not member.provider.supports("find_pins"):
            continue
        async for pin in member.provider.find_pins(PinFilter()):
            if await _is_foreign(copies, member, pin):
                yield replace(pin, peers={member.name: "foreign"})


async def _is_foreign(copies: "AsyncCopiesProvider", member: "AsyncMember", pin: Pin) -> bool:
    row = await run_blocking(copies.ledger.find, CID.parse(pin.cid))
    return row is None or member.name not in row.places


async def _finish_tombstones(copies: "AsyncCopiesProvider") -> None:
    """Unpin content that was revoked while a member was down.

    A member that does not answer is asked only once. A member that is no longer configured is not
    asked. If a member keeps the content, the reason is noted.
    """
    last, asked = "", {member.name: member for member in copies.members}
    verdicts: dict[str, Verdict | None] = dict.fromkeys(asked)
    while page := await run_blocking(copies.ledger.unfinished_tombstones, TOMBSTONES, last):
        for tombstone in page:
            last = tombstone.pin.cid
            states = {name: tombstone.states[name] for name in tombstone.states.keys() & asked}
            async with copies.locked(CID.parse(last)):
                if not states or not await run_blocking(copies.ledger.is_buried, CID.parse(last)):
                    continue
                gone = await copies.finish_tombstone(tombstone._replace(states=states))
            for name in states.keys() - gone:
                reason = f"it keeps {last}, which was revoked: {copies.failures[name]}"
                verdicts[name] = Verdict(is_good=False, reason=reason, since=now_ms())
                if copies.is_avoided(asked[name]):
                    del asked[name]
    for name, verdict in verdicts.items():
        await run_blocking(copies.ledger.note_verdict, name, "unpin", verdict)


async def _take_in(copies: "AsyncCopiesProvider", pin: Pin) -> None:
    """Care for a pin of the small store, or of a member, from now on, unless it was revoked."""
    cid, ledger = CID.parse(pin.cid), copies.ledger
    async with copies.locked(cid):
        if not await run_blocking(ledger.is_buried, cid):
            info = PinInfo(name=pin.name, keyvalues=pin.keyvalues)
            fields = {"size": pin.size or 0, "files": pin.files, "type": pin.type}
            row = await run_blocking(ledger.find, cid)
            if row is None:
                await run_blocking(ledger.intend, cid, info, (), copies.want, **fields)
            claims = {name: CopyState("claimed", named=row is None) for name in pin.peers or {}}
            await run_blocking(ledger.note, cid, claims)
        elif not pin.peers:
            await copies.drop(pin)


class AsyncHealthRun:
    """One look at all members: their lists are read once, and blocks of a sample are asked for."""

    def __init__(self, copies: "AsyncCopiesProvider") -> None:
        self._copies = copies
        self._started = now_ms()
        self._listed: dict[str, SpilledCIDs] = {}
        self._answering: set[str] = set()  # the members that have answered until now
        self._absent: set[str] = set()  # others, whose copies need no replacement yet
        self._doubted: set[str] = set()  # the members that lack blocks of a pin which they list

    async def aclose(self) -> None:
        """Remove the lists."""
        for listed in self._listed.values():
            await run_blocking(listed.close)

    async def read_lists(self, *, adopt: bool) -> None:
        """Read which pins each member lists. With `adopt`, care for all of them from now on."""
        copies = self._copies
        read = partial(self._read_list, adopt=adopt)
        self._answering = {*await copies.at_each(copies.members, read, float("inf"))}
        # Once, before several proofs at the same time need it; and no list has blocks of a test.
        members = [member for member in copies.members if member.name in self._answering]
        self._answering = {*await copies.at_each(members, copies.prover, float("inf"))}
        for member in copies.members:
            if member.name not in self._answering:
                await self._leave_out(member)

    async def _leave_out(self, member: "AsyncMember") -> None:
        """Ask `member` no more, because it does not answer. Note since when that is so."""
        self._answering.discard(member.name)
        ledger = self._copies.ledger
        down = await run_blocking(ledger.find_verdict, member.name, "down")
        reason = self._copies.failures.get(member.name, "")
        down = (down or Verdict(is_good=False, since=now_ms()))._replace(reason=reason)
        await run_blocking(ledger.note_verdict, member.name, "down", down)
        if now_ms() - down.since < self._copies.grace * 1000:
            self._absent.add(member.name)

    async def _read_list(self, member: "AsyncMember", *, adopt: bool) -> None:
        copies = self._copies
        if not member.provider.supports("find_pins"):
            return
        listed = self._listed[member.name] = SpilledCIDs(LISTED)
        async for pin in member.provider.find_pins(PinFilter()):
            if has_content(pin):
                await run_blocking(listed.add, CID.parse(pin.cid))
                if adopt and await _is_foreign(copies, member, pin):
                    await _take_in(copies, replace(pin, peers={member.name: "foreign"}))

    async def pages(self) -> AsyncGenerator[list[LedgerRow]]:
        """Yield all that is cared for, as the ledger and the lists have it."""
        pages = self._copies.ledger.row_pages()
        while page := await run_blocking(next, pages, None):
            yield [self._as_listed(row) for row in page]

    def _as_listed(self, row: LedgerRow) -> LedgerRow:
        """Return `row` with the places that the lists contradict, or that cannot be asked."""
        cid = CID.parse(row.pin.cid)
        states = dict(row.states)
        for name, state in row.states.items():
            # A pin that was made after the list was read is not in it.
            is_new = max(state.proven, row.pin.created_ms or 0) >= self._started
            if state.state not in HAS or is_new:
                continue
            if name not in self._answering:
                states[name] = state._replace(state="claimed")
            elif name in self._listed and cid not in self._listed[name]:
                states[name] = state._replace(state="missing")
        return row._replace(states=states)

    async def prove_sample(self, sample: Sample) -> None:
        """Ask the members for random blocks of some of the pins that they list."""
        picker = PinPicker(sample, *await run_blocking(self._copies.ledger.totals), RANDOM.random)
        async for page in self.pages():
            calls = [
                partial(self._work_on, row, partial(self._prove, sample=part))
                for row in page
                if (part := picker.pick(row.pin.size or 0)) is not None
            ]
            await _in_turn(calls)
        for name in self._answering:
            await run_blocking(self._copies.ledger.note_verdict, name, "down", None)

    async def repair(self, page: list[LedgerRow], here: set[str]) -> list[LedgerRow]:
        """Bring the content of `page` back to as many sites as are wanted; return the new rows.

        A member that was found to lack a block is asked for blocks of all that it lists. `here` are
        the CIDs in the small store.
        """
        calls = [
            partial(self._work_on, row, self._repair)
            for row in page
            if row.pin.cid in here
            or self._is_short(row)
            or not all(state.named for state in row.states.values())
            or self._doubted & row.states.keys()
        ]
        new = {row.pin.cid: row for row in await _in_turn(calls)}
        return [new.get(row.pin.cid, row) for row in page]

    def _is_short(self, row: LedgerRow) -> bool:
        absent = {
            member.site
            for member in self._copies.members
            if member.name in self._absent & row.states.keys()
            and row.states[member.name].state == "claimed"
        }
        return len(self._copies.sites_of(row) | absent) < row.want

    async def _work_on(
        self, row: LedgerRow, action: Callable[[LedgerRow], Awaitable[LedgerRow]]
    ) -> LedgerRow | None:
        """Run `action` with the newest form of `row`, unless it was revoked meanwhile."""
        cid = CID.parse(row.pin.cid)
        async with self._copies.locked(cid):
            new = await run_blocking(self._copies.ledger.find, cid)
            if new is None:
                return None
            states = {
                name: row.states[name]
                if name in row.states and row.states[name].proven == state.proven
                else state  # it was proven meanwhile
                for name, state in new.states.items()
            }
            return await action(new._replace(states=states))

    async def _prove(self, row: LedgerRow, sample: Sample = DEFAULT_SAMPLE) -> LedgerRow:
        """Ask the members that list `row` for blocks of it, and note who does not answer."""
        copies = self._copies
        members = [
            member
            for member in copies.members
            if member.name in self._answering
            and member.name in row.states
            and row.states[member.name].state in HAS
        ]
        prove = partial(copies.prove, sample=sample)
        answered, row = await copies.check_all(row, members, prove, float("inf"))
        for member in members:
            if member.name not in answered:
                await self._leave_out(member)
            elif row.states[member.name].state == "missing":
                self._doubted.add(member.name)
        return row

    async def _repair(self, row: LedgerRow) -> LedgerRow:
        copies = self._copies
        doubted = (row.states[name] for name in self._doubted & row.states.keys())
        if any(state.proven < self._started for state in doubted):
            row = await self._prove(row)
        improve = copies.bring_all if self._is_short(row) else copies.rename_all
        row = await improve(row)
        await copies.drop_if_done(row)
        return row

    def report(self, row: LedgerRow) -> Health:
        """Return what is known of `row`."""
        names = [member.name for member in self._copies.members if member.name in row.states]
        by_state = {
            kind: tuple(name for name in names if row.states[name].state == kind)
            for kind in ("claimed", "proven", "missing")
        }
        last = max((row.states[name].proven for name in names), default=0) or None
        return Health(
            cid=row.pin.cid, name=row.pin.name, want=row.want, last_proof=last, **by_state
        )


async def _in_turn(calls: Sequence[Callable[[], Awaitable[LedgerRow | None]]]) -> list[LedgerRow]:
    """Make `calls`, a few at the same time, and return their rows."""
    rows: list[LedgerRow] = []
    for start in range(0, len(calls), AT_ONCE):
        for outcome in await together(calls[start : start + AT_ONCE]):
            if isinstance(outcome, Exception):
                raise outcome
            rows += [] if outcome is None else [outcome]
    return rows
