"""Copies to targets that take no archives: as a file or folder that has the same CID there."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from holdfast import arguments
from holdfast._async.folder_download import FolderOptions, download_folder
from holdfast._async.providers.base import AsyncBaseProvider
from holdfast._async.providers.foreign import as_provider
from holdfast._async.runtime import run_blocking
from holdfast.content.cid import CID
from holdfast.content.hashes import SHA2_256
from holdfast.content.profiles import PROFILES, Profile, candidates_for
from holdfast.content.reference import Reference
from holdfast.content.unixfs.layouts import Layouts
from holdfast.errors import (
    ClientError,
    ConfigError,
    MalformedError,
    NotAFileError,
    UnprovenError,
    UnsupportedError,
)
from holdfast.records import Added, Pin, PinFilter, PinInfo
from holdfast.sinks.names import is_refusal
from holdfast.sources.blob import Blob
from holdfast.sources.folder_source import AMBIGUOUS, FolderSource
from holdfast.sources.importing import import_content
from holdfast.sources.sources import Progress, open_source

Kind: TypeAlias = Literal["file", "folder"]
LayoutSearch: TypeAlias = Callable[[CID], tuple[Profile, ...]]


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
        self._used: dict[tuple[Kind, int], tuple[Profile, ...]] = {}

    async def upload(self, cid: CID, info: PinInfo, progress: Progress) -> tuple[Added, int] | None:
        """Upload the content of `cid`; return the new pin and its size, or None if that fails.

        None means that the target has no pin of other content because of it.
        """
        try:
            blob = await self._source.get_file(str(cid))
        except NotAFileError:
            return await self._upload_folder(cid, info, progress)
        except (UnprovenError, MalformedError):
            return None
        layouts_of = partial(_file_layouts, blob)
        profile = await self._choose("file", layouts_of, cid)
        if profile is None:
            return None
        target = self._with_layout(profile)
        source = await run_blocking(open_source, blob)
        try:
            sent = replace(info, name=_file_name(cid, info.name))
            added = await target.put(source, sent, progress)
        finally:
            await run_blocking(source.close)
        is_right = await self._check("file", profile, layouts_of, added, cid)
        return (added, blob.size) if is_right else None

    async def _upload_folder(
        self, cid: CID, info: PinInfo, progress: Progress
    ) -> tuple[Added, int] | None:
        if not self._target.supports("add_directory"):
            return None
        base = Path(await run_blocking(tempfile.mkdtemp, prefix="holdfast-copy-"))
        try:
            folder = await self._read_folder(cid, base / "folder")
            if folder is None:
                return None
            layouts_of = partial(_folder_layouts, folder)
            profile = await self._choose("folder", layouts_of, cid)
            if profile is None:
                return None
            target = self._with_layout(profile)
            sent = replace(info, name=_file_name(cid, info.name))
            try:
                added = await target.put(folder, sent, progress)
            except UnsupportedError:  # a form cannot carry it; nothing was sent
                return None
            is_right = await self._check("folder", profile, layouts_of, added, cid)
            return (added, folder.size) if is_right else None
        finally:
            await run_blocking(shutil.rmtree, base, ignore_errors=True)

    async def _read_folder(self, cid: CID, to: Path) -> FolderSource | None:
        """Download a directory; return None if a folder on this disk cannot have its entries."""
        reference = Reference(str(cid), cid)
        try:
            await download_folder(self._source, reference, to, FolderOptions(), None)
        except (UnprovenError, MalformedError, UnsupportedError, NotADirectoryError):
            return None
        except OSError as error:
            if is_refusal(error):
                return None
            raise
        return await run_blocking(FolderSource.of, to, include_hidden=True)

    async def _choose(self, kind: Kind, layouts_of: LayoutSearch, cid: CID) -> Profile | None:
        """Return a layout that gives the content `cid`, and that the target may use, or None."""
        for layout in await run_blocking(layouts_of, cid):
            used = self._used.get((kind, layout.cid_version))
            if used is None or layout in used:
                return layout
        return None

    def _with_layout(self, profile: Profile) -> AsyncBaseProvider:
        """Return the target with the CID version, and the profile if it has one, of a layout."""
        target = self._target
        is_ours = not hasattr(target, "foreign") or hasattr(target.foreign, "config")
        if not is_ours or not target.supports("with_config"):
            return target
        name = profile.name if profile.name in PROFILES else None
        changes: dict[str, Any] = {"cid_version": profile.cid_version, "profile": name}
        try:
            return as_provider(target.with_config(target.config.with_options(**changes)))
        except ConfigError:  # it is shared with others
            return target

    async def _check(
        self, kind: Kind, profile: Profile, layouts_of: LayoutSearch, added: Added, cid: CID
    ) -> bool:
        """Return whether a new pin, for which `profile` was requested, has `cid`; else remove it.

        If the source has a pin of that CID, it stays: that one may be copied at the same time.
        """
        actual = CID.parse(added.cid)
        if actual == cid:
            return True
        if added.duplicate is False and await find_pin(self._source, added.cid) is None:
            await self._target.delete(added.cid)
        used = await run_blocking(layouts_of, actual)
        if used:  # else the target uses a layout that is not known, which may still fit others
            self._used[kind, profile.cid_version] = used
        return False


def needs_name(cid: CID, name: str) -> bool:
    """Return whether the name of a pin must be set after an upload, because no file can have it."""
    return bool(name) and _file_name(cid, name) != name


def _file_name(cid: CID, name: str) -> str:
    """Return the name of the file to send: that of the pin, or the CID if no file can have it."""
    try:
        return str(cid) if AMBIGUOUS.search(name) else arguments.file_name(name, None)
    except ValueError:
        return str(cid)


def _file_layouts(blob: Blob, cid: CID) -> tuple[Profile, ...]:
    """Return all known layouts in which a file has `cid`."""
    if cid.hash_code != SHA2_256:
        return ()  # an upload cannot ask for another hash function
    layouts = Layouts(candidates_for(cid))
    with open_source(blob) as source:
        for chunk in source.chunks():
            layouts.update(chunk)
    return tuple(each for each, root in layouts.roots().items() if root == cid)


def _folder_layouts(folder: FolderSource, cid: CID) -> tuple[Profile, ...]:
    """Return all known layouts in which a folder has `cid`."""
    if cid.hash_code != SHA2_256:
        return ()
    return tuple(each for each in candidates_for(cid) if import_content(folder, each).cid == cid)


async def find_pin(provider: AsyncBaseProvider, cid: str) -> Pin | None:
    """Return the pin of `cid` at `provider`; None if there is none, or it cannot be asked."""
    if not provider.supports("find_pins"):
        return None
    async for pin in provider.find_pins(PinFilter(cid=cid), limit=1):
        return pin
    return None


def has_content(pin: Pin) -> bool:
    """Return whether a provider has the content of `pin`, perhaps not at all of its nodes yet."""
    return pin.state == "pinned" or "pinned" in (pin.peers or {}).values()


async def addresses_of(provider: AsyncBaseProvider) -> list[str]:
    """Return the public addresses of `provider` on the network; none if it does not say them."""
    if not provider.supports("addresses"):
        return []
    try:
        return await provider.addresses()
    except ClientError:  # they are hints, and a token may lack the permission to ask
        return []
