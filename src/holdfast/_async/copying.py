"""Copies of content at other providers, under the same CIDs.

`AsyncCopier` asks the target, chooses the method, and sets the name and the key-values. For targets
without archives, `AsyncUploading` sends a file or folder that has the same CID there.
"""

import hashlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from holdfast import arguments, errors
from holdfast._async.folder_download import FolderOptions, download_folder
from holdfast._async.pin_waiting import wait_for_pin
from holdfast._async.providers.base import AsyncBaseProvider
from holdfast._async.providers.foreign import as_provider
from holdfast._async.proving import AsyncProver, find_pin, has_content
from holdfast._async.runtime import AsyncLock, at_end, run_blocking
from holdfast.calls import gateway_hosts
from holdfast.content.cid import CID
from holdfast.content.hashes import SHA2_256
from holdfast.content.profiles import PROFILES, Profile, candidates_for
from holdfast.content.reference import Reference
from holdfast.content.sampling import Sample
from holdfast.disk.copy_journal import CopyJournal
from holdfast.errors import UnprovenError, UnsupportedError
from holdfast.hints import advise
from holdfast.records import Added, Copied, Pin, PinInfo, same_value
from holdfast.sinks.names import is_refusal
from holdfast.sources.blob import Blob
from holdfast.sources.folder_source import AMBIGUOUS, FolderSource
from holdfast.sources.hashed_source import layouts_of
from holdfast.sources.importing import import_content
from holdfast.sources.sources import Progress, Source, open_source

KEYVALUES: Final = ("keyvalues",)
NAME: Final = ("name",)
LayoutSearch: TypeAlias = Callable[[CID], tuple[Profile, ...]]
"""Returns the known layouts in which some content has a CID."""
ReadFile: TypeAlias = tuple[Blob, LayoutSearch]


@dataclass(eq=False, repr=False)
class AsyncCopier:
    """Copies pins from `source` to `target`, both providers, as their content is stored.

    Args:
        source: Has the content.
        target: Gets it.
        sample: The blocks that the target is asked for, as a proof that it has them; None to
            believe its list.
        pin_by_cid: Whether the target may fetch by its CID what cannot be sent. None if it may
            when other nodes can fetch from the source.
        wait: The seconds to wait for that.

    Attributes:
        journal: Notes what is copied; None for no journal.
    """

    _source: AsyncBaseProvider
    _target: AsyncBaseProvider
    _sample: Sample | None = None
    pin_by_cid: bool | None = None
    wait: float = 0.0
    journal: CopyJournal | None = None
    _keeps_keyvalues: bool = True  # until the target says otherwise
    _origins: list[str] | None = None  # until they are needed
    _verdict_lock: AsyncLock = field(default_factory=AsyncLock)

    def __post_init__(self) -> None:
        self._source, self._target = self._source.stored, self._target.stored
        may_pin = self.pin_by_cid
        self._may_pin = self._source.is_on_network() if may_pin is None else may_pin
        self._uploading = AsyncUploading(self._source, self._target)
        self._prover = None if self._sample is None else AsyncProver(self._target)

    def open_journal(self) -> None:
        """Open the journal for the places of both providers."""
        if self.journal is not None:
            self.journal.open(self._source.place(), self._target.place())

    async def copy(self, item: str | Pin, progress: Progress) -> Copied:
        """Copy the content of a CID or a pin, and note that in the journal.

        A CID gets the name and the key-values that its pin at the source has.
        """
        # A source can list any text, and this one is sent to the target.
        cid = Reference.parse_cid(item.cid if isinstance(item, Pin) else item)
        pin = replace(item, cid=cid) if isinstance(item, Pin) else None
        pin = pin or await find_pin(self._source, cid) or Pin(id="", cid=cid, size=None)
        journal = self.journal
        line = _line_of(pin)
        noted = None if journal is None else await run_blocking(journal.find, line)
        await self._find_verdict()
        hosts: set[str] = set()
        token = gateway_hosts.set(hosts)
        try:
            copied = await self._copy(pin, noted, progress)
        finally:
            gateway_hosts.reset(token)
        if copied.earlier:
            return copied
        copied = replace(copied, gateways=tuple(sorted(hosts)) if copied.size else ())
        is_there = copied.state == "pinned" and copied.proof != "missing"
        if journal is not None and is_there:
            await run_blocking(journal.add, line, copied)
        return copied

    async def _copy(self, pin: Pin, noted: Copied | None, progress: Progress) -> Copied:
        """Copy the content of `pin`, unless the target has it now.

        `noted` is what a journal says. It is believed only if the target cannot be asked, and never
        as a proof.
        """
        if noted is not None and not self._target.supports("find_pins"):
            existing = None
            copied = replace(noted, cid=pin.cid, name=pin.name, earlier=True, checked=False)
        else:
            existing = await find_pin(self._target, pin.cid)
            if existing is None or not has_content(existing):
                return await self._prove(await self.send(pin, progress))
            pin = replace(pin, name=pin.name or existing.name)
            copied = Copied(cid=pin.cid, name=pin.name, duplicate=True, state=existing.state)
        copied = await self._prove(copied)
        if copied.proof == "missing":
            return await self._repair(pin, copied, progress)
        if existing is not None:
            copied = replace(copied, dropped=await self._rename(pin, existing))
        if noted is None:
            return copied
        return replace(
            copied,
            how=noted.how,
            duplicate=noted.duplicate,
            size=noted.size,
            gateways=noted.gateways,
            earlier=True,
        )

    async def send(
        self, pin: Pin, progress: Progress, *, is_repair: bool = False, file: ReadFile | None = None
    ) -> Copied:
        """Send the content of `pin`; the target is not asked before whether it has it.

        With `is_repair`, blocks are sent although there is a pin. `file` is the content, if it is a
        file that the caller has read already.
        """
        if self._target.supports("import_archive"):
            return await self._by_archive(pin, progress, is_repair=is_repair)
        return await self._without_archives(pin, progress, file)

    # Proofs that the target has it

    async def _find_verdict(self) -> None:
        """Test the target before the first copy. Its list says then what it cannot have."""
        if self._prover is not None:
            async with self._verdict_lock:
                if self._prover.verdict is None:
                    await self._prover.find_verdict([self._source])

    async def _prove(self, copied: Copied) -> Copied:
        """Ask the target for a sample of the blocks; return `copied` with what came of it."""
        is_awaited = copied.how == "pin" and copied.state != "pinned"
        if self._prover is None or self._sample is None or is_awaited:
            return copied
        proof = await self._prover.prove_dag(self._source, CID.parse(copied.cid), self._sample)
        return replace(copied, proof=proof.state, proof_note=proof.note)

    async def _repair(self, pin: Pin, copied: Copied, progress: Progress) -> Copied:
        """Send content of which the target has a pin and lacks blocks."""
        try:
            sent = await self.send(pin, progress, is_repair=True)
        except UnsupportedError:  # it can only be told to fetch what it believes to have
            return copied
        return await self._prove(replace(sent, duplicate=False, repaired=True))

    # A pin that the target has

    async def _rename(self, pin: Pin, existing: Pin) -> tuple[str, ...]:
        """Give a pin at the target what `pin` has; return what the target does not keep."""
        name = pin.name if pin.name and pin.name != existing.name else None
        changed = {
            key: value
            for key, value in pin.keyvalues.items()
            if key not in existing.keyvalues or not same_value(existing.keyvalues[key], value)
        }
        dropped: tuple[str, ...] = ()
        if changed and not self._keeps_keyvalues:
            changed, dropped = {}, KEYVALUES
        if name is not None or changed:
            dropped += await self.update(pin.cid, name, changed)
        return dropped

    async def update(
        self, cid: str, name: str | None, keyvalues: Mapping[str, Any]
    ) -> tuple[str, ...]:
        """Change a pin at the target; return what it does not keep."""
        if not self._target.supports("update_pin"):
            return (() if name is None else NAME) + (KEYVALUES if keyvalues else ())
        try:
            await self._target.update_pin(cid, name=name, keyvalues=keyvalues or None)
        except UnsupportedError:
            if not keyvalues:
                return NAME
            dropped = () if name is None else await self.update(cid, name, {})
            self._keeps_keyvalues = bool(dropped)
            return KEYVALUES + dropped
        return ()

    # The three methods

    async def _by_archive(self, pin: Pin, progress: Progress, *, is_repair: bool = False) -> Copied:
        self._source.require("export_archive")
        info, dropped = self._info(pin, is_repair=is_repair)
        pieces: Any = self._source.export_archive(pin.cid)
        size, hosts = 0, gateway_hosts.get()
        refusal = ""

        async def counted() -> AsyncIterator[bytes]:
            nonlocal size
            gateway_hosts.set(hosts)  # a task or thread of the target's may read this
            async for piece in pieces:
                size += len(piece)
                progress(size, pin.size)
                yield piece

        try:
            added = await self._target.import_archive(pin.cid, counted(), info)
        except UnsupportedError as error:
            if size and self._may_pin and self._target.supports("pin"):
                refusal = str(error)  # it has seen a block that it cannot read
            elif size or not info.is_explicit:
                raise
            else:
                return await self._with_less(pin, info, progress)
        finally:
            if hasattr(pieces, "aclose"):
                await pieces.aclose()
        if refusal:
            return await self._by_pin(pin, refusal)
        _check(added, pin)
        return Copied(
            cid=pin.cid,
            name=pin.name,
            how="archive",
            size=size,
            dropped=dropped + added.dropped,
            duplicate=bool(added.duplicate),
        )

    async def _with_less(self, pin: Pin, info: PinInfo, progress: Progress) -> Copied:
        """Copy a pin without its key-values, then also without its name, if that helps."""
        send = partial(self._by_archive, progress=progress, is_repair=info.is_repair)
        if not info.keyvalues:
            copied = await send(replace(pin, name=""))
            return replace(copied, dropped=NAME + copied.dropped)
        copied = await send(replace(pin, keyvalues={}))
        # If it helped to leave out the name too, the key-values may not have been at fault.
        self._keeps_keyvalues = bool(copied.dropped)
        return replace(copied, dropped=KEYVALUES + copied.dropped)

    async def _without_archives(
        self, pin: Pin, progress: Progress, file: ReadFile | None
    ) -> Copied:
        info, dropped = self._info(pin)
        cid = CID.parse(pin.cid)
        size = None
        if self._target.supports("put_file"):
            size = await self._uploading.upload(cid, info, progress, file)
        if size is not None:
            if pin.name and _file_name(cid, pin.name) != pin.name:  # no file can have it
                dropped += await self.update(pin.cid, pin.name, {})
            return Copied(cid=pin.cid, name=pin.name, how="upload", size=size, dropped=dropped)
        if not self._may_pin or not self._target.supports("pin"):
            raise self._no_method(pin)
        return await self._by_pin(pin, _not_sent(self._target, pin))

    async def _by_pin(self, pin: Pin, why: str) -> Copied:
        """Let the target fetch the content of `pin` by its CID; `why` it is not sent."""
        target = self._target
        info, dropped = self._info(pin)
        try:
            new = await wait_for_pin(target, await self._pin(pin.cid, info), self.wait)
        except errors.ProviderError as error:
            error.add_note(f"it was asked to fetch the content: {why}")
            raise
        return Copied(cid=pin.cid, name=pin.name, how="pin", dropped=dropped, state=new.state)

    async def _pin(self, cid: str, info: PinInfo) -> Pin:
        """Let the target pin `cid`. Tell it the addresses of the source, if that is possible."""
        if not self._target.supports("pin_from"):
            return await self._target.pin(cid, info)
        if self._origins is None:
            self._origins = await addresses_of(self._source)
        return await self._target.pin_from(cid, info, self._origins)

    def _info(self, pin: Pin, *, is_repair: bool = False) -> tuple[PinInfo, tuple[str, ...]]:
        """Return what is stored with the new pin, and what the target does not keep."""
        keeps = self._keeps_keyvalues
        keyvalues = pin.keyvalues if keeps else {}
        dropped = () if keeps or not pin.keyvalues else KEYVALUES
        info = PinInfo(name=pin.name, keyvalues=keyvalues, given=bool(pin.name))
        return replace(info, is_repair=is_repair), dropped

    def _no_method(self, pin: Pin) -> UnsupportedError:
        source, why = self._source.title, _not_sent(self._target, pin)
        if self._target.supports("pin"):
            error = UnsupportedError(
                f"{why}; and {source} is not on the network, so the target cannot fetch it by its "
                "CID: copy to a provider that accepts archives, such as kubo"
            )
            note = "if it can be fetched anyway, use {}"
            ways = "pin_by_cid=True", "`holdfast copy --pin-by-cid`"
            return advise(error, *map(note.format, ways))
        if not self._target.supports("put_file"):
            return self._target.refusal("pin")
        return UnsupportedError(f"{why}; copy to a provider that accepts archives, such as kubo")


def _check(added: Added, pin: Pin) -> None:
    if CID.parse(added.cid) != CID.parse(pin.cid):
        raise errors.VerificationError(f"the target stored {pin.cid} as {added.cid}", cid=pin.cid)


def _not_sent(target: AsyncBaseProvider, pin: Pin) -> str:
    if not target.supports("put_file"):
        return f"{target.title} accepts no content; it can only fetch {pin.cid} by its CID"
    return f"{target.title} accepts no archives, and would store {pin.cid} under a different CID"


def _line_of(pin: Pin) -> str:
    """Return what a journal calls a pin. It is short, whatever the name and the key-values are."""
    details = repr([pin.name, sorted(pin.keyvalues.items())])
    return f"{pin.cid} {hashlib.sha256(details.encode()).hexdigest()[:16]}"


class AsyncUploading:
    """Uploads what `source` has to `target`, if the target gives it the same CID.

    The content is first read to a temporary file or folder, and its CID is computed in each known
    layout. Only if one gives the CID, anything is sent. If the target replies with another CID, the
    new pin is removed, and that CID shows which layout the target uses, for files or for folders.
    From then on, only content that has its CID in that layout is sent. Small content has the same
    CID in several layouts, so it is not enough to know a layout that the target does not use.
    """

    def __init__(self, source: AsyncBaseProvider, target: AsyncBaseProvider) -> None:
        self._source = source
        self._target = target
        # By kind of content and requested CID version: the layouts that the target may use.
        self._used: dict[tuple[type, int], tuple[Profile, ...]] = {}
        self._targets: dict[Profile, AsyncBaseProvider] = {}

    async def upload(
        self, cid: CID, info: PinInfo, progress: Progress, file: ReadFile | None = None
    ) -> int | None:
        """Upload the content of `cid`; return its size, or None if that fails.

        None means that the target has no pin of other content because of it. `file` is the content,
        if it is a file that was read already.
        """
        try:
            blob, layouts_of = file or with_layouts(await self._source.get_file(str(cid)))
        except errors.NotAFileError:
            return await self._upload_folder(cid, info, progress)
        except (UnprovenError, errors.MalformedError):
            return None
        source = await run_blocking(open_source, blob)
        async with at_end(source.close):
            is_sent = await self._send(source, layouts_of, cid, info, progress)
        return blob.size if is_sent else None

    async def _upload_folder(self, cid: CID, info: PinInfo, progress: Progress) -> int | None:
        if not self._target.supports("add_directory"):
            return None
        base = Path(await run_blocking(tempfile.mkdtemp, prefix="holdfast-copy-"))
        async with at_end(partial(shutil.rmtree, base, ignore_errors=True)):
            folder = await self._read_folder(cid, base / "folder")
            if folder is None:
                return None
            layouts_of = partial(_folder_layouts, folder)
            is_sent = await self._send(folder, layouts_of, cid, info, progress)
            return folder.size if is_sent else None

    async def _read_folder(self, cid: CID, to: Path) -> FolderSource | None:
        """Download a directory; return None if a folder on this disk cannot have its entries."""
        reference = Reference(str(cid), cid)
        try:
            await download_folder(self._source, reference, to, FolderOptions(), None)
        except (UnprovenError, errors.MalformedError, UnsupportedError, NotADirectoryError):
            return None
        except OSError as error:
            if is_refusal(error):
                return None
            raise
        return await run_blocking(FolderSource.of, to, include_hidden=True)

    async def _send(
        self,
        content: Source | FolderSource,
        layouts_of: LayoutSearch,
        cid: CID,
        info: PinInfo,
        progress: Progress,
    ) -> bool:
        """Upload in a layout that gives the content `cid`, if the target may use one.

        Return whether the new pin has `cid`, else remove it. If the source has a pin of that other
        CID, it stays: that one may be copied at the same time.
        """
        layouts = await run_blocking(layouts_of, cid)
        for profile in layouts:
            key = type(content), profile.cid_version
            if profile in self._used.get(key, layouts):
                break
        else:
            return False
        sent = replace(info, name=_file_name(cid, info.name))
        try:
            added = await self._target_for(profile).put(content, sent, progress)
        except UnsupportedError:
            if isinstance(content, Source):
                raise
            return False  # a form cannot carry the folder; nothing was sent
        actual = CID.parse(added.cid)
        if actual == cid:
            return True
        if added.duplicate is False and await find_pin(self._source, added.cid) is None:
            await self._target.delete(added.cid)
        if used := await run_blocking(layouts_of, actual):  # else one that is not known
            self._used[key] = used
        return False

    def _target_for(self, profile: Profile) -> AsyncBaseProvider:
        """Return the target with the CID version, and the profile if it has one, of a layout."""
        target = self._targets.get(profile, self._target)
        is_ours = not hasattr(target, "foreign") or hasattr(target.foreign, "config")
        if profile not in self._targets and is_ours and target.supports("with_config"):
            name = profile.name if profile.name in PROFILES else None
            changes: dict[str, Any] = {"cid_version": profile.cid_version, "profile": name}
            with suppress(errors.ConfigError):  # it is shared with others
                target = as_provider(target.with_config(target.config.with_options(**changes)))
        return self._targets.setdefault(profile, target)


def _file_name(cid: CID, name: str) -> str:
    """Return the name of the file to send: that of the pin, or the CID if no file can have it."""
    try:
        return str(cid) if AMBIGUOUS.search(name) else arguments.file_name(name, None)
    except ValueError:
        return str(cid)


def with_layouts(blob: Blob) -> ReadFile:
    """Return a file and its layouts, which are computed once for all targets."""
    return blob, cache(partial(_file_layouts, blob))


def _file_layouts(blob: Blob, cid: CID) -> tuple[Profile, ...]:
    """Return all known layouts in which a file has `cid`."""
    if cid.hash_code != SHA2_256:
        return ()  # an upload cannot ask for another hash function
    with open_source(blob) as source:
        return layouts_of(source, cid)


def _folder_layouts(folder: FolderSource, cid: CID) -> tuple[Profile, ...]:
    """Return all known layouts in which a folder has `cid`."""
    if cid.hash_code != SHA2_256:
        return ()
    return tuple(
        profile for profile in candidates_for(cid) if import_content(folder, profile).cid == cid
    )


async def addresses_of(provider: AsyncBaseProvider) -> list[str]:
    """Return the public addresses of `provider` on the network; none if it does not say them."""
    if not provider.supports("addresses"):
        return []
    try:
        return await provider.addresses()
    except errors.ClientError:  # they are hints, and a token may lack the permission to ask
        return []
