"""The provider over other providers: every write goes to several places, and is proven there."""

import copy
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from holdfast._async import health
from holdfast._async.contract import AsyncStorageProvider
from holdfast._async.copying import AsyncCopier, ReadFile, with_layouts
from holdfast._async.providers.base import AsyncBaseProvider, Content
from holdfast._async.providers.foreign import as_provider
from holdfast._async.providers.local import AsyncLocalProvider, not_pinned, read_pins
from holdfast._async.proving import AsyncProver, find_pin, has_content
from holdfast._async.reads.member_reader import AsyncMemberReader, AsyncReadMember
from holdfast._async.reads.read_through import AsyncGatewayConnections
from holdfast._async.runtime import AsyncRunning, now, run_blocking, sleep
from holdfast.calls import Call
from holdfast.config import ClientConfig, checks
from holdfast.config.client_config import provider_options
from holdfast.config.fields import fields_bound_to
from holdfast.config.locations import store_folder
from holdfast.config.settings_files import connection_fields, connection_site
from holdfast.content import dag_pb
from holdfast.content.cid import CID
from holdfast.content.codecs import is_one_block
from holdfast.content.sampling import DEFAULT_SAMPLE, Sample
from holdfast.disk.closing import on_error
from holdfast.disk.locks import unlock
from holdfast.errors import ClientError, ConfigError, NotFoundError, ProviderError, UnsupportedError
from holdfast.events import logger
from holdfast.hints import advise
from holdfast.protocol.host_privacy import site_of
from holdfast.protocol.peer_set import PeerSet
from holdfast.records import Added, Health, Pin, PinFilter, PinInfo, Verdict, now_ms
from holdfast.registry import BUILT_IN, DEFAULT, build_async_provider, row_of
from holdfast.repository import Repository
from holdfast.repository.ledger import HAS, SEEN, CopyState, Ledger, LedgerRow
from holdfast.sources.archive_sources import ArchiveSource
from holdfast.sources.blob import Blob
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.sources import Progress, Source, no_progress, open_source

if TYPE_CHECKING:
    from holdfast._async.client import AsyncClient

T = TypeVar("T")

PATIENCE: Final = 2.0  # seconds that a write gives to members after enough of them are proven
GRACE: Final = 6 * 3600.0  # seconds that a member may be down before its copies are replaced
SLOW: Final = 256 << 10  # bytes a second; a member that takes fewer gets a substitute
LOCK_PAUSE: Final = 0.02  # seconds between two looks at a lock
FETCH_WAIT: Final = 60.0  # seconds for a member that fetches content by its CID
CHECK_WAIT: Final = 10.0  # seconds for the tests of a member, after another one has passed
DROPPED_BYTES: Final = 64 << 20  # that may wait in the small store to be removed
DROPPED_PIN: Final = 256 << 10  # bytes that are counted for each pin of them besides its content
WITNESS_AGE: Final = 86400.0  # seconds for which the test of a witness holds
LATE: Final = 86400.0  # seconds after which a write that was given up arrives no more
LAYOUT_AGE: Final = 30 * 86400.0  # seconds for which the test of a layout holds
LAYOUT_TEST: Final = "holdfast-layout-test"
LAYOUT_SIZE: Final = 300_000  # bytes of the file in that test: more than one block


@dataclass(frozen=True, eq=False)
class AsyncMember:
    """One of the providers that keep the copies.

    Attributes:
        name: What the ledger, errors and `only_at` call it.
        site: Members of one site count as one copy.
        provider: The provider.
    """

    name: str
    site: str
    provider: AsyncBaseProvider

    def __str__(self) -> str:
        return self.name

    @property
    def only_fetches(self) -> bool:
        """Whether nothing can be sent to it: it fetches content from another member."""
        return not any(map(self.provider.supports, ("import_archive", "put_file")))


class AsyncCopiesProvider(AsyncBaseProvider):
    """Stores everything at several other providers, and proves that it is there.

    A write is first noted in a ledger, and its content put into a small store on this machine. Then
    it goes to the first `want` members that work, at the same time. The call returns when `need`
    of them are proven: random blocks came from that member itself and matched their CIDs. The
    others get `patience` seconds more. Nothing runs after the call has returned. The small store
    drops the content when `want` sites have it.

    Reads ask the members in their order, then the gateways of `gateway_url`; a block that one of
    them lacks comes from the next.

    Args:
        members: Clients or providers. Their order is the order of reads and writes. They are not
            closed with this provider.
        want: The number of sites that should have everything.
        need: The number of sites that must have it, proven, before a write returns.
        sites: The site of each member. By default it is the last two labels of the host of the
            API, its address if that is a number, or ``this machine``.
        names: What the ledger and `only_at` call each member; by default the name of its provider.
        path: The folder of the ledger; by default ``copies`` in the folder for user data.
        patience: The seconds that a write gives to members after `need` of them are proven.
        grace: The seconds that a member may be down before its copies are replaced.
        config: Other settings, such as the profile, the time-outs and a `gateway_url`.

    Example:
        >>> from holdfast import AsyncClient
        >>> one = await AsyncClient.init(path="one")
        >>> other = await AsyncClient.init(path="other")
        >>> provider = AsyncCopiesProvider([one, other], sites=["cellar", "attic"], path="ledger")
        >>> record = await AsyncClient(provider).store([1, 2, 3])
        >>> [pin.peers for pin in await AsyncClient(provider).pins()]
        [{'local': 'proven', 'local-2': 'proven'}]
    """

    takes: tuple[type, ...] = (Source, FolderSource, ArchiveSource)
    shared_fields: ClassVar[tuple[str, ...]] = fields_bound_to("repository")

    def __init__(
        self,
        members: "Sequence[AsyncClient | AsyncStorageProvider]",
        *,
        want: int = 2,
        need: int = 1,
        sites: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        path: str | os.PathLike[str] | None = None,
        patience: float = PATIENCE,
        grace: float = GRACE,
        config: ClientConfig | None = None,
    ) -> None:
        self.members: tuple[AsyncMember, ...] = _members(members, names, sites)
        self.want: int = checks.whole("want", want)
        self.need: int = checks.whole("need", need)
        self.patience: float = checks.not_negative("patience", patience)
        self.grace: float = checks.not_negative("grace", grace)
        self._check_options()
        folder = store_folder(path) if path else store_folder(None) / "copies"
        try:
            self.ledger: Ledger = Ledger(folder)
            with on_error(self.ledger.close):
                self._check_places(folder)
                self._repository = Repository(folder / "store")
        except OSError as error:
            raise ConfigError(f"path {folder} cannot hold a ledger: {error.strerror}") from None
        self._avoided: dict[str, float] = {}
        self.failures: dict[str, str] = {}
        self._working = PeerSet(self.members, self._avoided)
        self._copiers: dict[tuple[str, bool], AsyncCopier] = {}
        self._provers: dict[str, AsyncProver] = {}
        # The members that were checked before the first write, and why one of them proves nothing.
        self._tested: dict[str, str] = {}
        self._dropped = [0]  # bytes that wait in the small store to be removed
        self._connections = AsyncGatewayConnections()
        self._owned: tuple[AsyncMember, ...] = ()
        config = config or ClientConfig(provider="copies", path=path)
        super().__init__(config, reader=self._make_reader(config))

    @property
    def keeps_layout(self) -> bool:
        """Whether all members store files in blocks that we cut."""
        return all(member.provider.keeps_layout for member in self.members)

    @classmethod
    def from_config(cls, config: ClientConfig) -> Self:
        """Return the provider over the connections that the options of `config` name."""
        keys = ("connections", "want", "need", "patience", "grace")
        options = dict(provider_options(config, *keys))
        names = options.pop("connections", None)
        if not isinstance(names, list | tuple) or len({*map(str, names)}) != len(names or ""):
            raise ConfigError(
                "provider_options: connections must be a list of the names of different connections"
            )
        configs = [ClientConfig.of(connection_fields(name, {})) for name in names]
        for name, member in zip(names, configs, strict=True):
            if row_of(member.provider).over_others:
                raise ConfigError(f"connections: {name!r} has provider copies: name others")
        provider = cls(
            [build_async_provider(member) for member in configs],
            names=names,
            sites=[connection_site(name) for name in names],
            path=config.path,
            config=config,
            **options,
        )
        provider._owned = provider.members
        return provider

    def _check_options(self) -> None:
        sites = sorted({member.site for member in self.members})
        if self.need > self.want:
            raise ConfigError(f"need is {self.need}, and want is {self.want}: need cannot be more")
        if self.want > len(sites):
            number = f"{len(sites)} different sites" if len(sites) > 1 else "one site"
            wrong = f"want is {self.want}, but the members are at {number} ({', '.join(sites)})"
            raise advise(ConfigError(wrong), "add a member elsewhere, or set the `site` of each")

    def _check_places(self, folder: Path) -> None:
        """Raise ConfigError if the ledger in `folder` is about other places than the members are.

        It would call the pins of one place those of another, and `revoke` would remove them.
        """
        noted = self.ledger.places()
        if noted and not noted.keys() & {member.name for member in self.members}:
            raise ConfigError(
                f"the ledger in {folder} belongs to {', '.join(sorted(noted))}: set another `path`"
            )
        for member in self.members:
            place = member.provider.place()
            address = place.folder or place.name
            if member.name not in noted:
                self.ledger.note_verdict(
                    member.name, "place", Verdict(is_good=True, reason=address)
                )
            elif noted[member.name] != address:
                raise ConfigError(
                    f"the member {member.name!r} was {noted[member.name]}, and is {address} now: "
                    "give it another name, then run `holdfast health --adopt`"
                )

    def _make_reader(self, config: ClientConfig) -> AsyncMemberReader:
        here = config.with_options(
            provider=DEFAULT, provider_options={}, gateway_url=None, gateway_token=None
        )
        self.small: AsyncLocalProvider = AsyncLocalProvider(here, repository=self._repository)
        readers = [AsyncReadMember("small store", self.small.reader)]
        readers += [
            AsyncReadMember(member.name, member.provider.stored.reader) for member in self.members
        ]
        if config.gateway_url is not None:
            readers.append(AsyncReadMember("gateways", self._connections.reader(config)))
        peers = PeerSet(readers, self._avoided)
        return AsyncMemberReader(peers, self.patience, self._type_of, total=config.timeouts.total)

    async def _type_of(self, cid: CID) -> str:
        row = await run_blocking(self.ledger.find, cid)
        return "" if row is None else row.pin.type

    def copy_with(self, config: ClientConfig) -> Self:
        """Return a copy with `config` over the same members and the same ledger."""
        other = super().copy_with(config)
        other._reader = other._make_reader(config)  # noqa: SLF001 - our own
        return other

    def where(self) -> str:
        """Return the names of the members."""
        return ", ".join(member.name for member in self.members)

    def member(self, name: str) -> AsyncMember:
        """Return the member that is called `name`; raise ConfigError if there is none."""
        by_name = {member.name: member for member in self.members}
        if name not in by_name:
            raise ConfigError(f"{name!r} is not a member: the members are {', '.join(by_name)}")
        return by_name[name]

    def without(self, name: str) -> Self:
        """Return a copy that does not use the member `name`."""
        other, gone = copy.copy(self), self.member(name)
        other.members = tuple(member for member in self.members if member is not gone)
        other._reader = other._make_reader(self.config)  # noqa: SLF001 - our own
        return other

    # Writing

    async def add(
        self, content: Content, info: PinInfo, call: Call, progress: Progress, /
    ) -> Added:
        """Store a file, a folder or an archive at the first members that work."""
        await self._check_members()
        if isinstance(content, ArchiveSource) and info.beside:
            await self._add_part(content, info)
            cid = content.root
        else:
            cid = CID.parse((await self.small.add(content, info, call, progress)).cid)
        pin, existed = await self._spread(cid, info)
        return Added(cid=pin.cid, duplicate=existed, pin_id=pin.id)

    async def pin(self, cid: str, info: PinInfo) -> Pin:
        """Read all of `cid` from the members or the gateways, and store it as `add` does."""
        await self._check_members()
        root = CID.parse(cid)
        async with self.call("pin", cid, total=False):
            if await run_blocking(self.ledger.find, root) is None:
                await self.small.import_archive(cid, self.export_archive(cid), info)
            pin, _ = await self._spread(root, info)
            return pin

    async def import_car(self, pieces: Iterable[bytes], *, blocks_only: bool = False) -> list[str]:
        """Import an archive, and store its roots as `add` does; return their CIDs."""
        if blocks_only:
            raise self.refusal("import_car")
        await self._check_members()
        roots = await self.small.import_car(pieces)
        for root in roots:
            await self._spread(CID.parse(root), PinInfo())
        return roots

    def refusal(self, operation: str) -> UnsupportedError:
        """Return the error for an operation that is missing. It names the member in the way."""
        words = str(super().refusal(operation))
        cutting = [member.name for member in self.members if not member.provider.keeps_layout]
        is_theirs = cutting and operation == "import_whole"
        return UnsupportedError(words.replace(self.title, cutting[0], 1) if is_theirs else words)

    async def _add_part(self, content: ArchiveSource, info: PinInfo) -> None:
        """Store new blocks at the members that have the others, and note which have all of it."""
        beside = await run_blocking(self.ledger.find, CID.parse(info.beside))
        places = {} if beside is None else beside.places
        members = [member for member in self.in_order() if places.get(member.name) in HAS]
        names = [member.name for member in members]
        fields = {} if beside is None else {"files": beside.pin.files, "type": beside.pin.type}
        with await self.spool(content) as part:
            await self.small.import_car(part.chunks(), blocks_only=True)
            root = await run_blocking(self._repository.block, content.root)
            fields["size"] = len(root) + sum(link.size for link in dag_pb.decode(root).links)
            await run_blocking(self.ledger.intend, content.root, info, names, self.want, **fields)
            for member in members:
                try:
                    await member.provider.put(ArchiveSource(part, content.root), info)
                except (ClientError, OSError) as error:  # it gets all of it afterwards
                    self.note_failure(member, error)
                else:
                    state = {member.name: CopyState("claimed", named=True)}
                    await run_blocking(self.ledger.note, content.root, state)

    async def _spread(self, cid: CID, info: PinInfo) -> tuple[Pin, bool]:
        """Bring content of the small store to the members; return its pin, and whether it existed.

        The intent is in the ledger before the first byte is sent.
        """
        async with self.locked(cid):
            placing, row, existed = await run_blocking(self._begin, cid, info)
            row = await placing.run(row)
            if len(placing.sites()) < self.need:
                raise placing.failure(row)
            if len(placing.sites()) >= row.want:
                await self.drop(row.pin)
            return row.pin_with_places, existed

    def _begin(self, cid: CID, info: PinInfo) -> "tuple[AsyncPlacing, LedgerRow, bool]":
        """Note the intent to place `cid`; return the placing, the row, and whether it existed."""
        row = self.ledger.find(cid)
        existed = row is not None and len(self.sites_of(row)) >= self.need
        placing = AsyncPlacing(self, cid, {} if row is None else row.states, self.patience)
        row = self.ledger.intend(cid, info, placing.first(), self.want, **placing.fields)
        return placing, row, existed

    async def drop_if_done(self, row: LedgerRow) -> None:
        """Remove content from the small store, if enough sites are proven to have it."""
        if len(self.sites_of(row)) >= row.want:
            await self.drop(row.pin)

    async def drop(self, pin: Pin) -> None:
        """Remove content from the small store, which is emptied of garbage now and then."""
        if await run_blocking(self._repository.unpin, CID.parse(pin.cid), sync=False):
            self._dropped[0] += DROPPED_PIN + (pin.size or 0)
        if self._dropped[0] >= DROPPED_BYTES:
            await self.collect()

    async def collect(self) -> None:
        """Free the space of the content that the small store has dropped."""
        self._dropped[0] = 0
        await run_blocking(self._repository.collect_garbage)

    def copier(self, member: AsyncMember, source: AsyncBaseProvider) -> AsyncCopier:
        """Return a copier to `member` from `source`: the small store, or the provider itself."""
        key = member.name, source is self
        if key not in self._copiers:  # each one learns how the member stores content
            if member.only_fetches:
                others = [other.provider for other in self.members if other is not member]
                source = next((other for other in others if other.supports("addresses")), self)
            self._copiers[key] = AsyncCopier(
                source, member.provider, pin_by_cid=member.only_fetches or None, wait=FETCH_WAIT
            )
        return self._copiers[key]

    async def rename(self, member: AsyncMember, row: LedgerRow, state: CopyState) -> CopyState:
        """Give the pin at `member` the name and the key-values of `row`."""
        if state.named:
            return state
        update = self.copier(member, self).update
        await update(row.pin.cid, row.pin.name or None, row.pin.keyvalues)
        return state._replace(named=True)

    async def rename_all(self, row: LedgerRow) -> LedgerRow:
        """Do the same at all members that have the content; return the row then."""
        states = {
            name: state
            for name, state in row.states.items()
            if state.state in HAS and not state.named
        }
        members = [member for member in self.members if member.name in states]
        new = await self.at_each(members, lambda one: self.rename(one, row, states[one.name]))
        await run_blocking(self.ledger.note, CID.parse(row.pin.cid), new)
        return row._replace(states={**row.states, **new})

    # Proofs

    async def check(self, member: AsyncMember, row: LedgerRow) -> CopyState:
        """Return whether `member` lists the content of `row`, and sends random blocks of it."""
        if member.provider.supports("find_pins"):
            pin = await find_pin(member.provider, row.pin.cid)
            if pin is None or not has_content(pin):
                return row.states[member.name]._replace(state="missing")
        return await self.prove(member, row)

    async def prove(
        self, member: AsyncMember, row: LedgerRow, sample: Sample = DEFAULT_SAMPLE
    ) -> CopyState:
        """Ask `member` for random blocks of the content of `row`; return the state of its copy."""
        state = row.states[member.name]
        cid = CID.parse(row.pin.cid)
        proof = await (await self.prover(member)).prove_dag(self, cid, sample)
        if proof.state == "proven":
            return state._replace(state="proven", proven=now_ms(), blocks=proof.asked)
        is_asked = proof.asked or proof.reason  # else no block of it is in the sample
        return state._replace(state=proof.state) if is_asked else state

    async def prover(self, member: AsyncMember) -> AsyncProver:
        """Return the prover of `member`, after the test whether its blocks prove anything."""
        prover = self._provers.get(member.name)
        if prover and prover.verdict and now_ms() - prover.verdict.since < WITNESS_AGE * 1000:
            return prover
        verdict = await run_blocking(self.ledger.find_verdict, member.name, "witness", WITNESS_AGE)
        prover = AsyncProver(member.provider, verdict=verdict)
        if prover.verdict is None:
            # Another one of its site may have the same blocks, as a Kubo of a cluster.
            working = [other for other in self.members if not self.is_avoided(other)]
            others = [other.provider for other in working if other.site != member.site]
            verdict = await prover.find_verdict(others)
            await run_blocking(self.ledger.note_verdict, member.name, "witness", verdict)
        self._provers[member.name] = prover
        return prover

    def sites_of(self, row: LedgerRow) -> set[str]:
        """Return the sites that are proven to have the content of `row`."""
        names = {name for name, state in row.states.items() if state.state == "proven"}
        return {member.site for member in self.members if member.name in names}

    async def check_all(
        self,
        row: LedgerRow,
        members: Iterable[AsyncMember],
        check: Callable[[AsyncMember, LedgerRow], Awaitable[CopyState]],
        patience: float | None = None,
    ) -> tuple[set[str], LedgerRow]:
        """Check the copies of `row` at those of `members` that may have it, and note the results.

        Return who answered, and the row. A member that did not answer counts as one that claims it.
        """
        states = {name: state for name, state in row.states.items() if state.state in SEEN}
        asked = [member for member in members if member.name in states]
        results = await self.at_each(asked, lambda member: check(member, row), patience)
        await run_blocking(self.ledger.note, CID.parse(row.pin.cid), results)
        claims = {member.name: states[member.name]._replace(state="claimed") for member in asked}
        return {*results}, row._replace(states={**row.states, **claims, **results})

    @asynccontextmanager
    async def locked(self, cid: CID) -> AsyncIterator[None]:
        """Let nobody else change the copies of `cid` while the block runs, in no process."""
        while (lock := self.ledger.try_lock(cid)) is None:  # at once: a cancelled call loses none
            await sleep(LOCK_PAUSE)
        try:
            yield
        finally:
            unlock(lock)

    # Pins

    def find_pins(self, pin_filter: PinFilter, *, limit: int | None = None) -> AsyncIterator[Pin]:
        """Yield the pins in the ledger, newest first; `peers` says what each member has of them."""
        return read_pins(self, self.ledger.pins, pin_filter, limit)

    async def update_pin(
        self, cid: str, *, name: str | None, keyvalues: Mapping[str, Any] | None
    ) -> Pin:
        """Change the pin in the ledger, then at the members that have it.

        A member that does not answer gets the change by the next health run.
        """
        changes = keyvalues or {}
        root = CID.parse(cid)
        async with self.call("update", cid), self.locked(root):
            row = await run_blocking(self.ledger.update, root, name, changes)
            if row is None:
                raise not_pinned(cid)
            keyvalues = {**row.pin.keyvalues, **changes}  # None removes a key
            await self.rename_all(row._replace(pin=replace(row.pin, keyvalues=keyvalues)))
            return row.pin_with_places

    async def unpin(self, cid: str, _call: Call, /) -> None:
        """Note that `cid` is revoked, then unpin it at every member that may have it.

        Members that do not answer are finished by the next health run.
        """
        root = CID.parse(cid)
        async with self.locked(root):
            row = await run_blocking(self.ledger.bury, root)
            if row is None:
                raise not_pinned(cid)
            await self.finish_tombstone(row)

    async def finish_tombstone(self, row: LedgerRow) -> set[str]:
        """Unpin content with a tombstone at every member that may have it; return who answered.

        A write that was given up may still arrive: a member that may finish one is asked again by
        other health runs, for a day.
        """
        await self.drop(row.pin)
        members = [member for member in self.members if member.name in row.states]
        answers = await self.at_each(members, partial(_unpin_at, cid=row.pin.cid))
        is_old = now_ms() - (row.pin.removed_ms or now_ms()) > LATE * 1000
        sure = {name for name, state in row.states.items() if is_old or state.state != "sent"}
        gone = {name: None for name, was_there in answers.items() if was_there or name in sure}
        await run_blocking(self.ledger.note, CID.parse(row.pin.cid), gone)
        return {*answers}

    async def delete_at(self, cid: str, name: str) -> None:
        """Unpin `cid` at the member `name` alone; refuse if too few others are proven now."""
        member = self.member(name)
        root = CID.parse(cid)
        async with self.call("revoke", cid), self.locked(root):
            row = await run_blocking(self.ledger.find, root)
            if row is None or name not in row.places:
                raise not_pinned(cid)
            others = [other for other in self.members if other is not member]
            _, row = await self.check_all(row, others, self.check)
            sites = self.sites_of(row) - {member.site}
            if len(sites) < self.need:
                wrong = ConfigError(
                    f"{cid} stays at {name}: {len(sites)} other sites are proven to have it "
                    f"now, and {self.need} are needed"
                )
                raise advise(wrong, "use `health` with fix=True", "run `holdfast health --fix`")
            await run_blocking(self.ledger.note, root, {name: CopyState()})
            await _unpin_at(member, cid)
            await run_blocking(self.ledger.note, root, {name: CopyState("removed", named=True)})

    # Health

    async def bring_all(self, row: LedgerRow) -> LedgerRow:
        """Bring the content of `row` to as many members as are missing, however long that takes.

        Return the row then.
        """
        cid = CID.parse(row.pin.cid)
        placing = await run_blocking(AsyncPlacing, self, cid, row.states, float("inf"))
        return await placing.run(row)

    def check_health(
        self, sample: Sample, *, fix: bool, adopt: bool, progress: Progress
    ) -> AsyncIterator[Health]:
        """Prove everything that is cared for, and yield what is found."""
        return health.check_health(self, sample, fix=fix, adopt=adopt, progress=progress)

    def foreign_pins(self) -> AsyncIterator[Pin]:
        """Yield the members' pins that were not made through this provider; `peers` says whose."""
        return health.foreign_pins(self)

    # Members

    async def at_each(
        self,
        members: Sequence[AsyncMember],
        action: Callable[[AsyncMember], Awaitable[T]],
        patience: float | None = None,
    ) -> dict[str, T]:
        """Run `action` for all `members` at the same time; return the results, without errors.

        After the first result, the others get `patience` seconds.
        """
        results: dict[str, T] = {}
        until = float("inf")
        async with AsyncRunning[AsyncMember, T]() as running:
            for member in members:
                running.start(member, partial(action, member))
            while running.runners and (ended := await running.next(until)) is not None:
                member, outcome = ended
                if isinstance(outcome, Exception):
                    self.note_failure(member, outcome)
                else:
                    results[member.name] = outcome
                patience = self.patience if patience is None else patience
                until = min(until, now() + patience)
            for member in running.runners:
                self.failures[member.name] = "it did not answer in time"
                self.avoid(member)
        return results

    def note_failure(self, member: AsyncMember, error: Exception) -> None:
        """Ask `member` last for some time, if `error` is its fault; raise an error of the code."""
        if not isinstance(error, ClientError | OSError):
            raise error
        logger.warning("%s: %s", member.name, error)
        self.failures[member.name] = str(error)
        is_refusal = isinstance(error, ProviderError) and error.status == 401  # the token is wrong
        if isinstance(error, ClientError) and not is_refusal:
            self._working.note_failure(member, error, now())
        else:
            self.avoid(member)

    def avoid(self, member: AsyncMember) -> None:
        """Ask `member` last for some time."""
        self._working.avoid(member, now())

    def is_avoided(self, member: AsyncMember) -> bool:
        """Return whether `member` has failed lately."""
        return self._avoided.get(member.name, 0.0) > now()

    def in_order(self) -> list[AsyncMember]:
        """Return the members in their order, those that have failed last."""
        return [member for member in self._working.in_order(now()) if member in self.members]

    async def _check_members(self) -> None:
        """Raise ConfigError unless every member can keep our CIDs, and enough can be proven.

        One that is down is checked by a later write.
        """
        if not self._untested():
            return
        await self.at_each(self._untested(), self._greet)
        members = self._untested()
        faults = await self.at_each(members, self._check_member, CHECK_WAIT)
        for member in members:
            if member.name not in faults:
                self.avoid(member)
        for name, (refusal, _) in faults.items():
            if refusal:
                raise ConfigError(f"{name} cannot keep copies: {refusal}")
        tested = self._tested | {name: reason for name, (_, reason) in faults.items()}
        reasons = {name: reason for name, reason in tested.items() if reason}
        provable = {member.site for member in self.members if member.name not in reasons}
        if len(provable) < self.need:
            words = (
                f"need is {self.need}, but copies can be proven at {len(provable)} sites, and "
                f"not at {', '.join(reasons)}: set `witness` for these, or add other members"
            )
            raise _with_notes(ConfigError(words), reasons)
        self._tested.update(tested)

    async def _greet(self, member: AsyncMember) -> None:
        """Return when `member` has answered a request, if it is about to get many of a test."""
        verdict = await run_blocking(self.ledger.find_verdict, member.name, "witness", WITNESS_AGE)
        if verdict is None:
            with suppress(ProviderError):  # which is an answer
                await member.provider.test_authentication()

    def _untested(self) -> list[AsyncMember]:
        """Return the members that were not checked yet, and are not known to be down."""
        new = [member for member in self.members if member.name not in self._tested]
        return [member for member in new if not self.is_avoided(member)]

    async def _check_member(self, member: AsyncMember) -> tuple[str, str]:
        """Return why `member` cannot keep our CIDs, and why nothing proves what it has; or ""."""
        async with self.locked(CID.of_raw(member.name.encode())):  # one of many first writes does
            verdict = (await self.prover(member)).verdict
            reason = "" if verdict is None or verdict.is_good else verdict.reason
            return await self._find_refusal(member), reason

    async def _find_refusal(self, member: AsyncMember) -> str:
        """Return why `member` cannot keep our CIDs; "" if it can.

        One that takes archives can, and so can one that fetches by CID. Another one is sent JSON, a
        file and a folder, which are removed again. The result is noted for a month.
        """
        if member.provider.supports("import_archive"):
            return ""
        if member.only_fetches:
            others = [other.provider for other in self.members if not other.only_fetches]
            is_fed = not all(isinstance(other, AsyncLocalProvider) for other in others)
            return "" if is_fed else "it fetches by CID, and no other member is on the network"
        verdict = await run_blocking(self.ledger.find_verdict, member.name, "layout", LAYOUT_AGE)
        if verdict is None:
            reason = ""
            try:
                await self._test_layout(member)
            except UnsupportedError as error:
                reason = str(error)
            verdict = Verdict(is_good=not reason, reason=reason, since=now_ms())
            await run_blocking(self.ledger.note_verdict, member.name, "layout", verdict)
        return verdict.reason

    async def _test_layout(self, member: AsyncMember) -> None:
        """Write JSON, a file and a folder to `member`, and remove them again.

        They are noted as revoked before, so that a health run removes what a crash has left.
        """
        info = PinInfo(name=LAYOUT_TEST)
        with tempfile.TemporaryDirectory(prefix="holdfast-layout-") as folder:
            for content in await run_blocking(_layout_test, Path(folder)):
                added = await self.small.put(content, info, no_progress)
                cid = CID.parse(added.cid)
                row = await run_blocking(self.ledger.intend, cid, info, [member.name], 1)
                await run_blocking(self.ledger.bury, cid)
                try:
                    await self.copier(member, self.small).send(row.pin, no_progress)
                except Exception:  # not a cancellation, which must end at once
                    await self.finish_tombstone(row)
                    raise
                await self.finish_tombstone(row)

    async def check_credentials(self, _call: Call, /) -> None:
        """Return if every member can be used, and can keep our CIDs."""
        for member in self.members:
            try:
                await member.provider.test_authentication()
            except (ClientError, OSError) as error:
                error.add_note(f"this error is from the member {member.name}")
                raise
            await run_blocking(self.ledger.note_verdict, member.name, "layout", None)
        self._tested.clear()
        self._avoided.clear()  # all of them answer
        await self._check_members()

    def is_on_network(self) -> bool:
        """Return whether other nodes of IPFS can fetch the content of a member by its CID."""
        return any(member.provider.is_on_network() for member in self.members)

    async def release(self) -> None:
        """Close the ledger and the small store, and the members that were made from connections."""
        if self._dropped[0]:
            await self.collect()
        await self._connections.aclose()
        await run_blocking(self._repository.close)
        await run_blocking(self.ledger.close)
        for member in self._owned:
            await member.provider.aclose()


class AsyncPlacing:
    """One write to the members of `copies`: which of them are tried, and how far each is.

    Attributes:
        fields: What the pin in the small store says of the content; nothing if it is not there.
        failures: Why a member does not have it, by its name.
    """

    def __init__(
        self,
        copies: AsyncCopiesProvider,
        cid: CID,
        states: Mapping[str, CopyState],
        patience: float,
    ) -> None:
        self._copies = copies
        self._patience = patience
        self._source: AsyncBaseProvider = copies
        self._file: ReadFile | None = None
        self.fields: dict[str, Any] = {}
        store = copies.small.repository
        with suppress(ClientError):  # it is not there, or damaged: the members have it
            # Another write may have dropped it, and its blocks may still be there.
            pin = store.find_pin(cid) or store.pin(cid)[0]
            self.fields = {"size": pin.size, "files": pin.files, "type": pin.type}
            if is_one_block(cid):  # it is read once for all members
                self._file = with_layouts(Blob(store.block(cid), type=pin.type))
            self._source = copies.small

        def rank(member: AsyncMember) -> tuple[bool, bool]:
            # Those that have it come first, so that no further copy is made. Those at which the
            # user removed it come last.
            state = states.get(member.name, CopyState()).state
            return state == "removed", state not in HAS or copies.is_avoided(member)

        self._waiting = sorted(copies.in_order(), key=rank)
        self._begun: dict[AsyncMember, float] = {}  # the members that were started, and when
        self._states: dict[AsyncMember, CopyState] = {}
        self._want = copies.want
        self.failures: dict[str, str] = {}

    def first(self) -> list[str]:
        """Return the names of the members that are tried first: `want`, each of another site."""
        sites: dict[str, str] = {}
        for member in self._waiting:
            sites.setdefault(member.site, member.name)
        return [*sites.values()][: self._want]

    async def run(self, row: LedgerRow) -> LedgerRow:
        """Bring the content of `row` to the members; return the row then, which is noted."""
        copies = self._copies
        # A substitute for a slow member begins early enough to be done within the patience.
        step = self._patience / 2 + (row.pin.size or 0) / SLOW
        slow_at, until = now() + step, float("inf")
        async with AsyncRunning[AsyncMember, CopyState]() as running:
            while True:
                self._start(running, row)
                if not running.runners or len(self.sites()) >= copies.want:
                    break
                if len(self.sites()) >= copies.need:
                    until = min(until, now() + self._patience)
                ended = await running.next(min(until, slow_at) if self._waiting else until)
                if ended is not None:
                    self._take(*ended)
                elif now() >= until:
                    break
                else:  # a member is slow: let another one begin
                    self._want += 1
                    slow_at += step
            late = running.runners
        for member in late:
            self.failures[member.name] = "it did not finish in time"
            if now() - self._begun[member] >= step:
                copies.avoid(member)
        states = {member.name: state for member, state in self._states.items()}
        # Not synchronised: the intent is, so that nothing is lost.
        await run_blocking(copies.ledger.note, CID.parse(row.pin.cid), states, sync=False)
        return row._replace(states={**row.states, **states})

    def _start(self, running: AsyncRunning[AsyncMember, CopyState], row: LedgerRow) -> None:
        """Start as many further members as are missing, each at a site of its own."""
        while True:
            begun = {member.site for member in running.runners}
            covered = begun | self.sites()
            if len(covered) >= self._copies.need:
                covered |= self.sites("claimed")  # it counts for want, not for need
            if len(covered) >= self._want:
                return
            free = (member for member in self._waiting if member.site not in covered)
            # One that only fetches needs another one to fetch from.
            can_fetch = bool(self.sites()) or not begun
            member = next((member for member in free if can_fetch or not member.only_fetches), None)
            if member is None:
                return
            self._waiting.remove(member)
            self._begun[member] = now()
            running.start(member, partial(self._bring, member, row))

    async def _bring(self, member: AsyncMember, row: LedgerRow) -> CopyState:
        """Make sure that `member` has the content of `row`; return the state of that copy then."""
        copies = self._copies
        state = row.states.get(member.name)
        if state is None or state.state == "removed":
            cid = CID.parse(row.pin.cid)
            await run_blocking(copies.ledger.note, cid, {member.name: CopyState()})
        elif state.state in HAS:
            state = await copies.check(member, row)
            if state.state != "missing":
                return await copies.rename(member, row, state)
        is_repair = state is not None and state.state == "missing"
        if is_repair and member.only_fetches:  # it fetches nothing that it believes to have
            await _unpin_at(member, row.pin.cid)
        copier = copies.copier(member, self._source)
        copied = await copier.send(row.pin, no_progress, is_repair=is_repair, file=self._file)
        state = CopyState("claimed", named=True)
        if copied.state != "pinned":
            return state
        return await copies.prove(member, row._replace(states={member.name: state}))

    def sites(self, kind: str = "proven") -> set[str]:
        """Return the sites that were found to have it in this write: proven, or claimed."""
        return {member.site for member, state in self._states.items() if state.state == kind}

    def _take(self, member: AsyncMember, outcome: CopyState | Exception) -> None:
        if isinstance(outcome, Exception):
            self._copies.note_failure(member, outcome)
            self.failures[member.name] = str(outcome)
        else:
            self._states[member] = outcome
            if outcome.state == "missing":
                self.failures[member.name] = "it lists the content but does not have it"
                self._copies.avoid(member)

    def failure(self, row: LedgerRow) -> ClientError:
        """Return the error of a write that too few members have."""
        count, need = len(self.sites()), self._copies.need
        words = (
            f"{row.pin.cid} is proven at {count} of the {need} sites that are needed; "
            "it is recorded, and `holdfast health --fix` copies it to the others"
        )
        return _with_notes(ProviderError(words), self.failures)


def _with_notes(error: ClientError, reasons: Mapping[str, str]) -> ClientError:
    """Return `error` with the reason of each member in its notes."""
    for name in sorted(reasons):
        error.add_note(f"{name}: {reasons[name]}")
    return error


def _members(
    members: "Sequence[AsyncClient | AsyncStorageProvider]",
    names: Sequence[str] | None,
    sites: Sequence[str] | None,
) -> tuple[AsyncMember, ...]:
    providers = [
        as_provider(member if isinstance(member, AsyncStorageProvider) else member.provider)
        for member in members
    ]
    names = _names(providers) if names is None else names
    sites = [""] * len(names) if sites is None else sites
    if not len(names) == len(sites) == len(providers):
        raise ConfigError("sites and names must have one entry for each member")
    if len({*names}) < len(names):
        raise ConfigError("the names of the members must be different")
    rows = zip(names, sites, providers, strict=True)
    return tuple(
        AsyncMember(name, site or _site(provider), provider) for name, site, provider in rows
    )


def _site(provider: AsyncBaseProvider) -> str:
    """Return the site of a member that names none."""
    config = provider.config
    if hasattr(provider, "foreign") or config.provider not in BUILT_IN:
        return provider.title  # nothing is known of where it is
    return site_of("" if row_of(config.provider).on_this_machine else config.api_url)


def _names(providers: Sequence[AsyncBaseProvider]) -> list[str]:
    """Return a name for each member: that of its provider, with a number from the second on."""
    kinds = [provider.config.provider for provider in providers]
    counts = [kinds[:place].count(kind) + 1 for place, kind in enumerate(kinds)]
    return [
        kind if count == 1 else f"{kind}-{count}" for kind, count in zip(kinds, counts, strict=True)
    ]


async def _unpin_at(member: AsyncMember, cid: str) -> bool:
    """Unpin `cid` at `member`; return whether it was pinned there."""
    try:
        await member.provider.delete(cid)
    except NotFoundError:
        return False
    return True


def _layout_test(folder: Path) -> list[Source | FolderSource]:
    """Return random JSON, a file of several blocks, and a folder."""
    data = os.urandom(LAYOUT_SIZE)
    (folder / "a.bin").write_bytes(data[:1000])
    value = b'"%s"' % data[:9].hex().encode()
    return [open_source(value), open_source(data), FolderSource.of(folder)]
