"""Uploads whose CID is computed while they are sent, and compared with the provider's."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.content.cid import CID, Reference
from holdfast.content.codecs import is_node
from holdfast.content.profiles import UNIXFS_V1_2025, Profile, candidates_for
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.layouts import Layouts, WriteCheck, not_what_was_sent
from holdfast.errors import VerificationError
from holdfast.files.folder_source import FolderSource
from holdfast.files.hashed_source import HashedFolder, HashedSource
from holdfast.files.local_cids import compute_cid, verify
from holdfast.files.sources import Source

logger: Final = logging.getLogger("holdfast")

ONE_BLOCK = 1 << 18  # bytes that every known layout keeps in one block
EMPTY_DIRECTORY = build_directory([], UNIXFS_V1_2025).cid


class WrittenLayout:
    """The layout in which a provider stores uploads, as far as it is known.

    Services cut files in their own ways. The layout of the last upload is the guess for the next.
    """

    def __init__(self, guess: Profile) -> None:
        self._guess = guess
        self._may_search = True

    def hashed(self, source: Source, *, verify: bool = True) -> HashedSource[WriteCheck]:
        """Return `source`; with `verify`, its CID is computed while it is sent."""
        return HashedSource(source, partial(WriteCheck, self._guess) if verify else None)

    def compare_json(self, source: Source, cid: CID) -> None:
        """Raise VerificationError if `cid` names other bytes than those of `source`."""
        hashed = self.hashed(source)
        hashed.catch_up(source.size or 0)
        self.compare(hashed, cid)

    def compare(self, hashed: HashedSource[WriteCheck], cid: CID) -> None:
        """Raise VerificationError if `cid` names other bytes than those that `hashed` gave.

        If no known layout of them gives `cid`, that proves nothing: it is logged.
        """
        source, check = hashed.source, hashed.hash
        profile = None if check is None else check.profile_of(cid)
        may_read = source.size is not None and source.repeatable
        self._learn(profile, cid, partial(_layout_of, source, cid) if may_read else None)

    def hashed_folder(self, folder: FolderSource, *, verify: bool = True) -> HashedFolder:
        """Return the files of `folder`; with `verify`, hashed while they are read."""
        return HashedFolder(folder, self._guess if verify else None)

    def compare_folder(self, hashed: HashedFolder, cid: CID) -> None:
        """Raise VerificationError if `cid` cannot name the folder that `hashed` has read.

        If no known layout of it gives `cid`, that proves nothing: it is logged.
        """
        # A directory is dag-pb; and a service that takes no part of the form stores an empty one.
        if not is_node(cid) or _hash_of(cid) == _hash_of(EMPTY_DIRECTORY):
            raise not_what_was_sent(cid)
        profile = hashed.guess if hashed.cid == cid else None
        self._learn(profile, cid, partial(_layout_of_folder, hashed, cid))

    def _learn(
        self, profile: Profile | None, cid: CID, search: Callable[[], Profile | None] | None
    ) -> None:
        """Remember the layout of an upload; `search` for it where the guess was wrong."""
        if profile is None and search is not None and self._may_search:
            profile = search()
            # With a service whose layout is unknown, every upload would be read once more.
            self._may_search = profile is not None
        if profile is not None:
            self._guess = profile
        else:
            logger.info(
                "the provider stored the upload as %s, which no known layout gives; reads check it",
                cid,
                extra={"operation": "upload", "cid": str(cid)},
            )


def _hash_of(cid: CID) -> tuple[int, bytes]:
    return cid.hash_code, cid.digest


def compare_json(data: bytes, cid: str) -> None:
    """Log a warning if no known layout of the JSON text `data` gives `cid`.

    That is not an error: the service may serialize the JSON again. What it stored is verified when
    it is read.
    """
    # A small document is one block, so one hash decides; `verify` tries every known layout.
    if len(data) <= ONE_BLOCK and Reference.parse(cid).cid == CID.of_raw(data):
        return
    try:
        verify(data, cid)
    except VerificationError:
        ours = compute_cid(data)
        logger.warning(
            "the provider stored the JSON as %s, not as %s: it may have rewritten it",
            cid,
            ours,
            extra={"operation": "store", "cid": cid, "expected_cid": ours},
        )


def _layout_of(source: Source, cid: CID) -> Profile | None:
    """Return the known layout in which `source`, read again, has `cid`."""
    layouts = Layouts(candidates_for(cid))
    try:
        for chunk in source.chunks():
            layouts.update(chunk)
    except OSError:  # the file has changed since it was sent
        return None
    return next((each for each, root in layouts.roots().items() if root == cid), None)


def _layout_of_folder(hashed: HashedFolder, cid: CID) -> Profile | None:
    """Return the known layout, other than the guess, in which the folder, read again, has `cid`."""
    try:
        for profile in candidates_for(cid):
            if profile != hashed.guess and hashed.read_again(profile) == cid:
                return profile
    except OSError:  # a file has changed since it was sent
        pass
    return None
