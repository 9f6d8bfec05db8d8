# WARNING: this file is generated from src/holdfast/_async/copying/uploading.py
# by scripts/generate_sync.py. Change the original instead.
"""Copies to targets that take no archives: as a file or folder that has the same CID there."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast import arguments
from holdfast._sync.client.plain_adding import PlainAdding
from holdfast._sync.copying.places import find_pin
from holdfast._sync.folder_download.download import download_folder
from holdfast._sync.folder_download.entries import FolderOptions
from holdfast._sync.runtime import run_blocking
from holdfast.content.cid import CID
from holdfast.content.hashes import SHA2_256
from holdfast.content.profiles import PROFILES, Profile, candidates_for
from holdfast.content.reference import Reference
from holdfast.content.unixfs.layouts import Layouts
from holdfast.errors import (
    ConfigError,
    MalformedError,
    NotAFileError,
    UnprovenError,
    UnsupportedError,
)
from holdfast.files.blob import Blob
from holdfast.files.folder_check import AMBIGUOUS
from holdfast.files.folder_source import FolderSource
from holdfast.files.folder_target.names import is_refusal
from holdfast.files.importing import import_folder
from holdfast.files.sources import Progress, open_source
from holdfast.provider import Directories, Reconfigurable, ask, has_capability
from holdfast.records import Added, PinInfo


class Uploading:
    """Uploads what `source` has to `target`, if the target gives it the same CID.

    The content is first read to a temporary file or folder, and its CID is computed in each known
    layout. Only if one gives the CID, anything is sent. Which layout a service uses shows when it
    replies: if that is another one, the new pin is removed, and the layout is not tried again.
    """

    def __init__(self, source: Any, target: Any) -> None:
        self._source = source
        self._target = target
        self._refused: set[str] = set()  # layouts that the target does not use

    def upload(self, cid: CID, info: PinInfo, progress: Progress) -> tuple[Added, int] | None:
        """Upload the content of `cid`; return the new pin and its size, or None if that fails.

        None means that the target has no pin of other content because of it.
        """
        try:
            blob = self._source.get_file(str(cid))
        except NotAFileError:
            return self._upload_folder(cid, info, progress)
        except (UnprovenError, MalformedError):
            return None
        profile = run_blocking(_layout_of, blob, cid)
        if profile is None or profile.name in self._refused:
            return None
        target = self._with_layout(profile)
        source = run_blocking(open_source, blob)
        try:
            sent = replace(info, name=_file_name(cid, info.name))
            added = PlainAdding.of(target).pin_file(source, sent, progress=progress)
        finally:
            run_blocking(source.close)
        return self._checked(added, cid, profile, blob.size)

    def _upload_folder(
        self, cid: CID, info: PinInfo, progress: Progress
    ) -> tuple[Added, int] | None:
        if not has_capability(self._target, Directories):
            return None
        base = Path(run_blocking(tempfile.mkdtemp, prefix="holdfast-copy-"))
        try:
            folder = self._read_folder(cid, base / "folder")
            profile = None if folder is None else run_blocking(_folder_layout, folder, cid)
            if folder is None or profile is None or profile.name in self._refused:
                return None
            target = ask(self._with_layout(profile), Directories)
            sent = replace(info, name=_file_name(cid, info.name))
            try:
                added = target.add_directory(folder, sent, progress=progress)
            except UnsupportedError:  # a form cannot carry it; nothing was sent
                return None
            return self._checked(added, cid, profile, folder.size)
        finally:
            run_blocking(shutil.rmtree, base, ignore_errors=True)

    def _read_folder(self, cid: CID, to: Path) -> FolderSource | None:
        """Download a directory; return None if a folder on this disk cannot have its entries."""
        reference = Reference(str(cid), cid)
        try:
            download_folder(self._source, reference, to, FolderOptions(), None)
        except (UnprovenError, MalformedError, UnsupportedError, NotADirectoryError):
            return None
        except OSError as error:
            if is_refusal(error):
                return None
            raise
        return run_blocking(FolderSource.of, to, include_hidden=True)

    def _with_layout(self, profile: Profile) -> Any:
        """Return the target with the CID version, and the profile if it has one, of a layout."""
        target = self._target
        if not has_capability(target, Reconfigurable) or not hasattr(target, "config"):
            return target
        name = profile.name if profile.name in PROFILES else None
        changes = {"cid_version": profile.cid_version, "profile": name}
        try:
            return target.with_config(target.config.with_options(**changes))
        except ConfigError:  # it is shared with others
            return target

    def _checked(
        self, added: Added, cid: CID, profile: Profile, size: int
    ) -> tuple[Added, int] | None:
        """Return a new pin if it has the right CID; else remove it, and return None.

        If the source has a pin of that CID, it stays: that one may be copied at the same time.
        """
        if CID.parse(added.cid) == cid:
            return added, size
        self._refused.add(profile.name)
        if added.duplicate is False and find_pin(self._source, added.cid) is None:
            self._target.delete(added.cid)
        return None


def needs_name(cid: CID, name: str) -> bool:
    """Return whether the name of a pin must be set after an upload, because no file can have it."""
    return bool(name) and _file_name(cid, name) != name


def _file_name(cid: CID, name: str) -> str:
    """Return the name of the file to send: that of the pin, or the CID if no file can have it."""
    try:
        return str(cid) if AMBIGUOUS.search(name) else arguments.file_name(name, None)
    except ValueError:
        return str(cid)


def _layout_of(blob: Blob, cid: CID) -> Profile | None:
    """Return the known layout in which a file has `cid`; None if there is none."""
    if cid.hash_code != SHA2_256:
        return None  # an upload cannot ask for another hash function
    layouts = Layouts(candidates_for(cid))
    with open_source(blob) as source:
        for chunk in source.chunks():
            layouts.update(chunk)
    return next((each for each, root in layouts.roots().items() if root == cid), None)


def _folder_layout(folder: FolderSource, cid: CID) -> Profile | None:
    """Return the known layout in which a folder has `cid`; None if there is none."""
    if cid.hash_code != SHA2_256:
        return None
    candidates = candidates_for(cid)
    return next((each for each in candidates if import_folder(folder, each).cid == cid), None)
