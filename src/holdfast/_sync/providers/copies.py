# WARNING: this file is generated from src/holdfast/_async/providers/copies.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider over other providers: every write goes to several places, and is proven there."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar

from holdfast._sync.contract import StorageProvider
from holdfast._sync.copying import Copier
from holdfast._sync.providers.base import BaseProvider, Content, ignore
from holdfast._sync.providers.foreign import as_provider
from holdfast._sync.providers.local import LocalProvider, not_pinned, read_pins
from holdfast._sync.proving import Prover, Verdict
from holdfast._sync.reads.member_reader import MemberReader, ReadMember
from holdfast._sync.reads.read_through import GatewayConnections
from holdfast._sync.reads.reader import Reader
from holdfast._sync.runtime import Running, now, run_blocking, sleep
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.config.client_config import provider_options
from holdfast.config.fields import fields_bound_to
from holdfast.config.locations import store_folder
from holdfast.config.settings_files import connection_fields, connection_site
from holdfast.content.cid import CID
from holdfast.content.sampling import DEFAULT_SAMPLE, Sample
from holdfast.errors import (
    ClientError,
    ConfigError,
    NotFoundError,
    ProviderError,
    UnsupportedError,
)
from holdfast.protocol import json_text
from holdfast.protocol.host_privacy import site_of
from holdfast.protocol.peer_set import PeerSet
from holdfast.records import Added, Health, Pin, PinFilter, PinInfo, merged_keyvalues, now_ms
from holdfast.registry import BUILT_IN, DEFAULT, build_provider, row_of
from holdfast.repository import PinQuery, Repository
from holdfast.repository.ledger import CopyState, Ledger, LedgerRow, MemberVerdict
from holdfast.sources.archive_sources import ArchiveSource
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.importing import import_content
from holdfast.sources.sources import Progress, Source

T = TypeVar("T")

PATIENCE: Final = 2.0  # seconds that a write gives to members after enough of them are proven
GRACE: Final = 6 * 3600.0  # seconds that a member may be down before its copies are replaced
SLOW: Final = 256 << 10  # bytes a second; a member that takes fewer gets a substitute
LOCK_PAUSE: Final = 0.02  # seconds between two looks at a lock
DROPPED_BYTES: Final = 64 << 20  # that may wait in the small store to be removed
DROPPED_PINS: Final = 256
WITNESS_AGE: Final = 86400.0  # seconds for which the test of a witness holds
LAYOUT_AGE: Final = 30 * 86400.0  # seconds for which the test of a layout holds
LAYOUT_TEST: Final = "holdfast-layout-test"
OPTIONS: Final = ("want", "need", "patience", "grace")
LAYOUT_SIZE: Final = 300_000  # bytes of the file in that test: more than one block


@dataclass(frozen=True, eq=False)
class Member:
    """One of the providers that keep the copies.

    Attributes:
        name: What the ledger, errors and `only_at` call it.
        site: Members of one site count as one copy.
        provider: The provider.
    """

    name: str
    site: str
    provider: BaseProvider

    def __str__(self) -> str:
        return self.name


class HasProvider(Protocol):
    """A client, or anything else that has a provider."""

    @property
    def provider(self) -> StorageProvider:
        """The provider that stores the content."""


class CopiesProvider(BaseProvider):
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

    Example:
        >>> from holdfast import Client
        >>> one = Client.init(path="one")
        >>> other = Client.init(path="other")
        >>> provider = CopiesProvider([one, other], sites=["cellar", "attic"], path="ledger")
        >>> record = Client(provider).store([1, 2, 3])
        >>> [pin.peers for pin in Client(provider).pins()]
        [{'local': 'proven', 'local-2': 'proven'}]
    """

    takes: tuple[type, ...] = (Source, FolderSource, ArchiveSource)
    shared_fields: ClassVar[tuple[str, ...]] = fields_bound_to("repository")
    shared_by = "the ledger, which is shared"

    def __init__(
        self,
        members: Sequence[HasProvider | StorageProvider],
        *,
        want: int = 2,
        need: int = 1,
        sites: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        path: str | os.PathLike[str] | None = None,
        patience: float = PATIENCE,
        grace: float = GRACE,
    ) -> None:
        providers = [
            as_provider(member if isinstance(member, StorageProvider) else member.provider)
            for member in members
        ]
        names = _names(providers) if names is None else names
        sites = [""] * len(names) if sites is None else sites
        if not len(names) == len(sites) == len(providers):
            raise ConfigError("sites and names must have one entry for each member")
        if len({*names}) < len(names):
            raise ConfigError("the names of the members must be different")
        options = {"want": want, "need": need, "patience": patience, "grace": grace}
        config = ClientConfig(provider="copies", path=path, provider_options=options)
        self._open(config, _members(names, providers, sites), options)
        self._owned = False

    @classmethod
    def from_config(cls, config: ClientConfig) -> Self:
        """Return the provider over the connections that the options of `config` name."""
        options = dict(provider_options(config, "connections", *OPTIONS))
        names = options.pop("connections", None)
        if not isinstance(names, list | tuple) or len({*map(str, names)}) != len(names or ""):
            raise ConfigError(
                "provider_options: connections must be a list of the names of different connections"
            )
        configs = [ClientConfig.of(connection_fields(name, {})) for name in names]
        for name, member in zip(names, configs, strict=True):
            if row_of(member.provider).over_others:
                raise ConfigError(f"connections: {name!r} has copies itself, name others")
        sites = [connection_site(name) for name in names]
        provider = cls.__new__(cls)
        providers = [as_provider(build_provider(member)) for member in configs]
        provider._open(config, _members(names, providers, sites), options)  # noqa: SLF001
        provider._owned = True  # noqa: SLF001 - our own
        return provider

    def _open(
        self, config: ClientConfig, members: list[Member], options: Mapping[str, Any]
    ) -> None:
        """Check the options, and open the ledger and the small store."""
        self.members: tuple[Member, ...] = tuple(members)
        self.want: int = options.get("want", 2)
        self.need: int = options.get("need", 1)
        self.patience: float = options.get("patience", PATIENCE)
        self.grace: float = options.get("grace", GRACE)
        self._check_options()
        folder = store_folder(config.path) if config.path else store_folder(None) / "copies"
        try:
            self.ledger: Ledger = Ledger(folder)
            self._repository = Repository(folder / "store")
        except OSError as error:
            raise ConfigError(f"path {folder} cannot hold a ledger: {error.strerror}") from None
        self._avoided: dict[str, float] = {}
        self._working = PeerSet(self.members, self._avoided)
        self._copiers: dict[tuple[str, bool], Copier] = {}
        self._provers: dict[str, Prover] = {}
        self._checked: list[bool] = []  # True after the checks before the first write
        self._dropped = [0, 0]  # pins and bytes that wait in the small store to be removed
        self._connections = GatewayConnections()
        super().__init__(config, reader=self._make_reader(config))

    def _check_options(self) -> None:
        for name in ("want", "need"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{name} must be a whole number, 1 or more")
        for name in ("patience", "grace"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
                raise ConfigError(f"{name} must be a number of seconds")
        sites = sorted({member.site for member in self.members})
        if self.need > self.want:
            raise ConfigError(f"need is {self.need}, and want is {self.want}: need cannot be more")
        if self.want > len(sites):
            raise ConfigError(
                f"want is {self.want}, but the members are at {len(sites)} different sites "
                f"({', '.join(sites)}): add a member elsewhere, or set `site` of each"
            )

    def _make_reader(self, config: ClientConfig) -> MemberReader:
        readers = [ReadMember("small store", lambda: self._small.reader)]
        readers += [
            ReadMember(member.name, partial(_reader_of, member.provider)) for member in self.members
        ]
        if config.gateway_url is not None:
            gateways = self._connections.reader(config)
            readers.append(ReadMember("gateways", lambda: gateways))
        return MemberReader(
            PeerSet(readers, self._avoided),
            patience=self.patience,
            type_of=self._type_of,
            total=config.timeouts.total,
        )

    def _type_of(self, cid: CID) -> str:
        row = run_blocking(self.ledger.find, cid)
        return "" if row is None else row.pin.type

    @property
    def _small(self) -> LocalProvider:
        """The small store, which cuts content by the configured profile."""
        self.check_open()
        config = self.config.with_options(
            provider=DEFAULT, provider_options={}, gateway_url=None, gateway_token=None
        )
        return LocalProvider(config, repository=self._repository)

    def copy_with(self, config: ClientConfig) -> Self:
        """Return a copy with `config` over the same members and the same ledger."""
        other = super().copy_with(config)
        other._reader = other._make_reader(config)  # noqa: SLF001 - our own
        return other

    # Writing

    def add(self, content: Content, info: PinInfo, call: Call, progress: Progress, /) -> Added:
        """Store a file, a folder or an archive at the first members that work."""
        self._check_members()
        added = self._small.add(content, info, call, progress)
        pin, existed = self._spread(CID.parse(added.cid), info)
        return Added(cid=pin.cid, duplicate=existed, pin_id=pin.id)

    def pin(self, cid: str, info: PinInfo) -> Pin:
        """Read all of `cid` from the members or the gateways, and store it as `add` does."""
        self._check_members()
        root = CID.parse(cid)
        with self.call("pin", cid, total=False):
            if run_blocking(self.ledger.find, root) is None:
                self._small.import_archive(cid, self.export_archive(cid), info)
            pin, _ = self._spread(root, info)
            return pin

    def import_car(self, pieces: Iterable[bytes], *, blocks_only: bool = False) -> list[str]:
        """Import an archive, and store its roots as `add` does; return their CIDs."""
        if blocks_only:
            raise self.refusal("import_car")
        self._check_members()
        roots = self._small.import_car(pieces)
        for root in roots:
            self._spread(CID.parse(root), PinInfo())
        return roots

    def _spread(self, cid: CID, info: PinInfo) -> tuple[Pin, bool]:
        """Bring what is in the small store to the members; return its pin, and whether it existed.

        The intent is in the ledger before the first byte is sent.
        """
        with self.locked(cid):
            row = run_blocking(self.ledger.find, cid)
            placing = Placing(self, row)
            fields = run_blocking(self._fields, cid, info)
            first = [member.name for member in placing.first()]
            _, existed = run_blocking(self.ledger.intend, cid, first, self.want, **fields)
            if existed and info.is_explicit:
                change = partial(merged_keyvalues, changes=info.keyvalues)
                name = info.name if info.given else None
                run_blocking(self.ledger.update, cid, name, change)
            (row,) = run_blocking(self.ledger.rows, PinQuery(cid=str(cid)))
            row = placing.run(row)
            if len(self.sites_of(row)) < self.need:
                raise placing.failure(row)
            was_there = existed and row.acknowledged
            if not row.acknowledged:
                run_blocking(self.ledger.note, cid, {}, acknowledged=True)
            self.drop_if_done(row)
            return replace(row.pin, cid=str(cid), peers=_peers(row)), was_there

    def _fields(self, cid: CID, info: PinInfo) -> dict[str, Any]:
        """Return the fields of a new pin in the ledger, and make sure that the content is here.

        Another write of the same content may have dropped it; then its blocks may still be here.
        """
        pin = self._repository.find_pin(cid)
        if pin is None:
            with suppress(ClientError):
                pin, _ = self._repository.pin(cid)
        fields: dict[str, Any] = {"name": info.name, "keyvalues": dict(info.keyvalues)}
        if pin is not None:
            fields |= {"size": pin.size, "files": pin.files, "type": pin.type}
        return fields

    def drop_if_done(self, row: LedgerRow) -> None:
        """Remove content from the small store, if enough sites are proven to have it."""
        if len(self.sites_of(row)) >= row.want:
            self.drop(CID.parse(row.pin.cid), row.pin.size or 0)

    def drop(self, cid: CID, size: int = 0) -> None:
        """Remove content from the small store, which is emptied of garbage now and then."""
        if run_blocking(self._repository.unpin, cid):
            self._dropped[0] += 1
            self._dropped[1] += size
        if self._dropped[0] >= DROPPED_PINS or self._dropped[1] >= DROPPED_BYTES:
            self.collect()

    def collect(self) -> None:
        """Free the space of what the small store has dropped."""
        self._dropped[:] = 0, 0
        run_blocking(self._repository.collect_garbage)

    def bring(self, member: Member, row: LedgerRow) -> CopyState:
        """Make sure that `member` has the content of `row`; return what is known then."""
        cid = CID.parse(row.pin.cid)
        state = row.states.get(member.name)
        if state is None:
            run_blocking(self.ledger.note, cid, {member.name: CopyState()})
        elif state.state in {"claimed", "proven"}:
            state = self.prove(member, row, state)
            if state.state == "proven":
                return self._renamed(member, row, state)
        is_repair = state is not None and state.state == "missing"
        copier = self._copier(member, cid)
        copier.send(row.pin, ignore, is_repair=is_repair)
        return self.prove(member, row, CopyState("claimed", named=True))

    def _renamed(self, member: Member, row: LedgerRow, state: CopyState) -> CopyState:
        """Give the pin at `member` the name and the key-values of the ledger."""
        if state.named:
            return state
        copier = self._copier(member, CID.parse(row.pin.cid))
        copier.update(row.pin.cid, row.pin.name or None, row.pin.keyvalues)
        return state._replace(named=True)

    def _copier(self, member: Member, cid: CID) -> Copier:
        """Return what copies to `member`: from the small store, else from the other members."""
        is_here = run_blocking(self._repository.find_pin, cid) is not None
        key = member.name, is_here
        if key not in self._copiers:
            source: BaseProvider = self._small if is_here else self
            self._copiers[key] = Copier(source, member.provider)
        return self._copiers[key]

    def prove(
        self,
        member: Member,
        row: LedgerRow,
        state: CopyState,
        sample: Sample = DEFAULT_SAMPLE,
    ) -> CopyState:
        """Ask `member` for random blocks of the content; return what is known then."""
        cid = CID.parse(row.pin.cid)
        is_here = run_blocking(self._repository.find_pin, cid) is not None
        source: BaseProvider = self._small if is_here else self
        proof = (self._prover(member)).prove_dag(source, cid, sample)
        if proof.state == "proven":
            return state._replace(state="proven", proven=now_ms(), blocks=proof.asked)
        return state._replace(state=proof.state)

    def _prover(self, member: Member) -> Prover:
        """Return what asks `member` for blocks, after the test whether that proves anything."""
        prover = self._provers.get(member.name)
        oldest = now_ms() / 1000 - WITNESS_AGE
        if prover is not None and prover.verdict and prover.verdict.checked_at > oldest:
            return prover
        noted = run_blocking(self.ledger.find_verdict, member.name, "witness", WITNESS_AGE)
        verdict = None
        if noted is not None:
            verdict = Verdict(
                is_witness=noted.good,
                reason="" if noted.good else noted.reason,
                checked_at=noted.since / 1000,
                gateway=noted.reason if noted.good else "",
            )
        prover = Prover(member.provider, verdict=verdict)
        if prover.verdict is None:
            others = [other.provider for other in self.members if other is not member]
            verdict = prover.find_verdict(others)
            reason = verdict.gateway if verdict.is_witness else verdict.reason
            new = MemberVerdict(verdict.is_witness, reason, int(verdict.checked_at * 1000))
            run_blocking(self.ledger.note_verdict, member.name, "witness", new)
        self._provers[member.name] = prover
        return prover

    def sites_of(self, row: LedgerRow, *, without: str = "") -> set[str]:
        """Return the sites that are proven to have the content of `row`."""
        return {
            member.site
            for member in self.members
            if member.name != without
            and member.name in row.states
            and row.states[member.name].state == "proven"
        }

    @contextmanager
    def locked(self, cid: CID) -> Iterator[None]:
        """Let nobody else change the copies of `cid` while the block runs, in no process."""
        while (lock := run_blocking(self.ledger.try_lock, cid)) is None:
            sleep(LOCK_PAUSE)
        try:
            yield
        finally:
            self.ledger.unlock(lock)

    # Pins

    def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return what is cared for, newest first; `peers` says what each member has of it."""
        with self.call("pins"):
            return run_blocking(self.ledger.pins, PinQuery(name_contains=name, limit=limit))

    def find_pins(self, pin_filter: PinFilter, *, limit: int | None = None) -> Iterator[Pin]:
        """Yield what is cared for and matches `pin_filter`, newest first."""
        return read_pins(self, self.ledger.pins, pin_filter, limit)

    def update_pin(self, cid: str, *, name: str | None, keyvalues: Mapping[str, Any] | None) -> Pin:
        """Change the pin in the ledger, then at the members that have it.

        A member that does not answer gets the change by the next health run.
        """
        with self.call("update", cid):
            root = CID.parse(cid)
            with self.locked(root):
                change = partial(merged_keyvalues, changes=keyvalues or {})
                row = run_blocking(self.ledger.update, root, name, change)
                if row is None:
                    raise not_pinned(cid)
                rename = partial(self._change_at, row=row, name=name, keyvalues=keyvalues or {})
                members = [member for member in self.members if member.name in row.states]
                states = self.at_each(members, rename)
                run_blocking(self.ledger.note, root, states)
                return replace(row.pin, peers=_peers(row))

    def _change_at(
        self, member: Member, row: LedgerRow, name: str | None, keyvalues: Mapping[str, Any]
    ) -> CopyState:
        copier = self._copier(member, CID.parse(row.pin.cid))
        copier.update(row.pin.cid, name, keyvalues)
        return row.states[member.name]._replace(named=True)

    def unpin(self, cid: str, _call: Call, /) -> None:
        """Note that `cid` is revoked, then unpin it at every member that may have it.

        Members that do not answer are finished by the next health run.
        """
        root = CID.parse(cid)
        with self.locked(root):
            row = run_blocking(self.ledger.bury, root)
            if row is None:
                raise not_pinned(cid)
            self.finish_tombstone(row)

    def finish_tombstone(self, row: LedgerRow) -> None:
        """Unpin content with a tombstone at every member that may have it."""
        cid = CID.parse(row.pin.cid)
        self.drop(cid, row.pin.size or 0)
        members = [member for member in self.members if member.name in row.states]
        gone = self.at_each(members, partial(_unpin_at, cid=row.pin.cid))
        run_blocking(self.ledger.note, cid, gone)

    def delete_at(self, cid: str, name: str) -> None:
        """Unpin `cid` at the member `name` alone; refuse if too few others are proven now."""
        member = next((member for member in self.members if member.name == name), None)
        if member is None:
            names = ", ".join(member.name for member in self.members)
            raise ConfigError(f"only_at names no member: {name!r} is none of {names}")
        with self.call("revoke", cid):
            root = CID.parse(cid)
            with self.locked(root):
                row = run_blocking(self.ledger.find, root)
                if row is None or name not in row.states:
                    raise not_pinned(cid)
                others = [one for one in self.members if one is not member]
                _, row = self.prove_all(row, others)
                sites = self.sites_of(row, without=name)
                if len(sites) < self.need:
                    raise ConfigError(
                        f"{cid} stays at {name}: {len(sites)} other sites are proven to have it "
                        f"now, and {self.need} are needed"
                    )
                run_blocking(self.ledger.note, root, {name: CopyState()})
                _unpin_at(member, cid)
                run_blocking(self.ledger.note, root, {name: None})

    def prove_all(
        self, row: LedgerRow, members: Sequence[Member], sample: Sample = DEFAULT_SAMPLE
    ) -> tuple[set[str], LedgerRow]:
        """Prove `row` at those of `members` that may have it; return who answered, and the result.

        The result is noted. A member that does not answer counts as one that claims it.
        """
        asked = [
            member
            for member in members
            if member.name in row.states and row.states[member.name].state != "sent"
        ]
        proofs = self.at_each(asked, partial(self._prove_state, row=row, sample=sample))
        claims = {
            member.name: row.states[member.name]._replace(state="claimed") for member in asked
        }
        run_blocking(self.ledger.note, CID.parse(row.pin.cid), proofs)
        return {*proofs}, row._replace(states={**row.states, **claims, **proofs})

    def _prove_state(self, member: Member, row: LedgerRow, sample: Sample) -> CopyState:
        return self.prove(member, row, row.states[member.name], sample)

    def bring_all(self, row: LedgerRow) -> LedgerRow:
        """Bring the content of `row` to as many members as are missing; return what is known."""
        return Placing(self, row).run(row)

    def small_pins(self) -> list[Pin]:
        """Return what the small store has, because it is at too few sites."""
        return self._repository.pins()

    def check_health(self, sample: Sample, *, fix: bool, adopt: bool) -> Iterator[Health]:
        """Prove everything that is cared for, and yield what is found."""
        from holdfast._sync.health import check_health  # noqa: PLC0415 - few programs need it

        return check_health(self, sample, fix=fix, adopt=adopt)

    def at_each(self, members: Sequence[Member], action: Callable[[Member], T]) -> dict[str, T]:
        """Run `action` for all `members` at the same time; return the results, without errors.

        After the first result, the others get `patience` seconds.
        """
        results: dict[str, T] = {}
        by_name = {member.name: member for member in members}
        until: float | None = None
        with Running[T]() as running:
            for member in members:
                running.start(member.name, partial(action, member))
            while running.names:
                left = None if until is None else max(0.0, until - now())
                ended = running.next(left)
                if ended is None:
                    break
                name, outcome = ended
                if isinstance(outcome, Exception):
                    self.note_failure(by_name[name], outcome)
                else:
                    results[name] = outcome
                until = until or now() + self.patience
            for name in running.names:
                self._working.avoid(by_name[name], now())
        return results

    def note_failure(self, member: Member, error: Exception) -> None:
        """Ask `member` last for some time, if `error` is its fault; raise an error of the code."""
        if isinstance(error, OSError) and not isinstance(error, ClientError):
            self._working.avoid(member, now())
        elif isinstance(error, ClientError):
            self._working.note_failure(member, error, now())
        else:
            raise error

    def avoid(self, member: Member) -> None:
        """Ask `member` last for some time."""
        self._working.avoid(member, now())

    def in_order(self) -> list[Member]:
        """Return the members in their order, those that have failed last."""
        return self._working.in_order(now())

    # Checks of the members

    def _check_members(self) -> None:
        """Raise ConfigError unless every member can keep our CIDs, and enough can be proven."""
        if self._checked:
            return
        reasons: dict[str, str] = {}
        is_tested = True
        for member in self.members:
            if self._avoided.get(member.name, 0.0) > now():
                is_tested = False  # it has just failed: a write must not wait for it again
                continue
            try:
                verdict = (self._prover(member)).verdict
                if verdict is not None and not verdict.is_witness:
                    reasons[member.name] = verdict.reason
                self._check_layout(member)
            except ConfigError:
                raise
            except (ClientError, OSError) as error:  # it is down: its writes say so
                self.note_failure(member, error)
                is_tested = False
        provable = {member.site for member in self.members if member.name not in reasons}
        if len(provable) < self.need:
            failure = ConfigError(
                f"need is {self.need}, but copies can be proven at {len(provable)} sites, and not "
                f"at {', '.join(reasons)}: set `witness` for these, or add other members"
            )
            for name, reason in reasons.items():
                failure.add_note(f"{name}: {reason}")
            raise failure
        if is_tested:
            self._checked.append(True)

    def _check_layout(self, member: Member, *, again: bool = False) -> None:
        """Raise ConfigError if `member` cannot keep our CIDs.

        One that takes archives can. Another one is sent JSON, a file and a folder, which are
        removed again. The result is noted for a month.
        """
        if member.provider.supports("import_archive"):
            return
        verdict = run_blocking(self.ledger.find_verdict, member.name, "layout", LAYOUT_AGE)
        if verdict is None or again:
            try:
                self._test_layout(member)
                verdict = MemberVerdict(good=True, reason="", since=now_ms())
            except UnsupportedError as error:
                verdict = MemberVerdict(good=False, reason=str(error), since=now_ms())
            run_blocking(self.ledger.note_verdict, member.name, "layout", verdict)
        if not verdict.good:
            raise ConfigError(f"{member.name} cannot keep copies: {verdict.reason}")

    def _test_layout(self, member: Member) -> None:
        """Write JSON, a file and a folder to `member`, and remove them again.

        They are noted as revoked before, so that a health run removes what a crash has left.
        """
        folder = Path(run_blocking(tempfile.mkdtemp, prefix="holdfast-layout-"))
        try:
            data = run_blocking(_layout_test, folder)
            value = json_text.to_text(data[:16].hex()).encode()
            for content in (value, data, run_blocking(FolderSource.of, folder)):
                cid = run_blocking(self._add_to_small, content)
                run_blocking(self.ledger.intend, cid, [member.name], 1, name=LAYOUT_TEST)
                row = run_blocking(self.ledger.bury, cid)
                try:
                    pin = Pin(id="", cid=str(cid), name=LAYOUT_TEST)
                    (self._copier(member, cid)).send(pin, ignore)
                finally:
                    if row is not None:
                        self.finish_tombstone(row)
        finally:
            run_blocking(shutil.rmtree, folder, ignore_errors=True)

    def _add_to_small(self, content: bytes | FolderSource) -> CID:
        with self._repository.adding() as adding:
            part = import_content(content, self._profile, adding.put)
            adding.pin(part.cid, size=part.dag_size)
            return part.cid

    def check_credentials(self, _call: Call, /) -> None:
        """Return if every member can be used, and can keep our CIDs."""
        for member in self.members:
            try:
                member.provider.test_authentication()
                self._check_layout(member, again=True)
            except (ClientError, OSError) as error:
                error.add_note(f"this is about the member {member.name}")
                raise
        self._check_members()

    def is_on_network(self) -> bool:
        """Return whether other nodes of IPFS can fetch the content of a member by its CID."""
        return any(member.provider.is_on_network() for member in self.members)

    def release(self) -> None:
        """Close the ledger and the small store, and the members that were made from connections."""
        if self._dropped[0]:
            self.collect()
        self._connections.close()
        run_blocking(self._repository.close)
        run_blocking(self.ledger.close)
        if self._owned:
            for member in self.members:
                member.provider.close()


class Placing:
    """One write to the members of `copies`: which of them are tried, and how far each is.

    Attributes:
        failures: Why a member does not have it, by its name.
    """

    def __init__(self, copies: CopiesProvider, row: LedgerRow | None) -> None:
        self._copies = copies
        states = {} if row is None else row.states
        has = {name for name, state in states.items() if state.state in {"claimed", "proven"}}
        # Those that have it come first, so that no further copy is made.
        order = sorted(copies.in_order(), key=lambda member: member.name not in has)
        self._by_name = {member.name: member for member in order}
        self._waiting = order
        self._states: dict[str, CopyState] = {}
        self._want = copies.want
        self.failures: dict[str, str] = {}

    def first(self) -> list[Member]:
        """Return the members that are tried first: one of each site, `want` of them."""
        sites: dict[str, Member] = {}
        for member in self._waiting:
            sites.setdefault(member.site, member)
        return [*sites.values()][: self._want]

    def run(self, row: LedgerRow) -> LedgerRow:
        """Bring the content of `row` to the members; return what is known then, which is noted."""
        copies = self._copies
        step = copies.patience + (row.pin.size or 0) / SLOW
        slow_at, until = now() + step, float("inf")
        with Running[CopyState]() as running:
            while True:
                self._start(running, row)
                proven = len(self._sites("proven"))
                if not running.names or proven >= copies.want:
                    break
                if proven >= copies.need:
                    until = min(until, now() + copies.patience)
                end = until if not self._waiting else min(until, slow_at)
                ended = running.next(None if end == float("inf") else max(0.0, end - now()))
                if ended is not None:
                    self._take(*ended)
                elif now() >= until:
                    break
                else:  # a member is slow: let another one begin
                    self._want += 1
                    slow_at += step
            late = running.names
        for name in late:
            self.failures[name] = "it did not finish in time"
            copies.avoid(self._by_name[name])
        run_blocking(copies.ledger.note, CID.parse(row.pin.cid), self._states)
        return row._replace(states={**row.states, **self._states})

    def _start(self, running: Running[CopyState], row: LedgerRow) -> None:
        """Start as many further members as are missing, each at a site of its own."""
        while True:
            begun = {self._by_name[name].site for name in running.names}
            covered = begun | self._sites("proven", "claimed")
            is_short = len(begun | self._sites("proven")) < self._copies.need
            if len(covered) >= self._want and not is_short:
                return
            member = next((one for one in self._waiting if one.site not in covered), None)
            if member is None:
                return
            self._waiting.remove(member)
            running.start(member.name, partial(self._copies.bring, member, row))

    def _sites(self, *states: str) -> set[str]:
        return {
            self._by_name[name].site
            for name, state in self._states.items()
            if state.state in states
        }

    def _take(self, name: str, outcome: CopyState | Exception) -> None:
        member = self._by_name[name]
        if isinstance(outcome, Exception):
            self._copies.note_failure(member, outcome)
            self.failures[name] = str(outcome)
            return
        self._states[name] = outcome
        if outcome.state == "missing":
            self.failures[name] = "it says that it has the content, and does not"
            self._copies.avoid(member)

    def failure(self, row: LedgerRow) -> ProviderError:
        """Return the error of a write that too few members have."""
        count = len(self._copies.sites_of(row))
        error = ProviderError(
            f"{row.pin.cid} is proven at {count} of the {self._copies.need} sites that are needed; "
            "it stays noted, and `holdfast health --fix` brings it to the others"
        )
        for name, reason in self.failures.items():
            error.add_note(f"{name}: {reason}")
        return error


def _members(
    names: Sequence[str], providers: Sequence[BaseProvider], sites: Sequence[str]
) -> list[Member]:
    return [
        Member(name, site or _site(provider), provider)
        for name, provider, site in zip(names, providers, sites, strict=True)
    ]


def _site(provider: BaseProvider) -> str:
    """Return the site of a member that names none."""
    config = provider.config
    if hasattr(provider, "foreign") or config.provider not in BUILT_IN:
        return provider.title  # nothing is known of where it is
    return site_of("" if row_of(config.provider).on_this_machine else config.api_url)


def _names(providers: Sequence[BaseProvider]) -> list[str]:
    """Return a name for each member: that of its provider, with a number if there are several."""
    names: list[str] = []
    for provider in providers:
        kind = provider.config.provider
        count = 1 + sum(name.split("-")[0] == kind for name in names)
        names.append(kind if count == 1 else f"{kind}-{count}")
    return names


def _reader_of(provider: BaseProvider) -> Reader:
    return provider.stored.reader


def _unpin_at(member: Member, cid: str) -> None:
    """Unpin `cid` at `member`, unless it is not pinned there."""
    with suppress(NotFoundError):
        member.provider.delete(cid)


def _peers(row: LedgerRow) -> dict[str, str]:
    return {name: state.state for name, state in row.states.items()}


def _layout_test(folder: Path) -> bytes:
    """Return random bytes, of which some are in two files in `folder`."""
    data = os.urandom(LAYOUT_SIZE)
    (folder / "a.bin").write_bytes(data[:1000])
    (folder / "b.bin").write_bytes(data[1000:2000])
    return data
