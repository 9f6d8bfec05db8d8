"""Uploads whose CID is computed while they are sent, and compared with the provider's."""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from holdfast.content.cid import CID
from holdfast.content.codecs import is_node
from holdfast.content.profiles import UNIXFS_V1_2025, Profile, candidates_for
from holdfast.content.reference import Reference
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.layouts import Layouts, WriteCheck, not_what_was_sent
from holdfast.errors import VerificationError
from holdfast.files.background import Background
from holdfast.files.folder_check import CheckedFolder
from holdfast.files.folder_source import FolderSource
from holdfast.files.importing import import_folder
from holdfast.files.local_cids import compute_cid, verify
from holdfast.files.resumable_source import ResumableSource
from holdfast.files.sources import Source

logger: Final = logging.getLogger("holdfast")

ONE_BLOCK = 1 << 18  # bytes that every known layout keeps in one block
EMPTY_DIRECTORY = build_directory([], UNIXFS_V1_2025).cid


class CheckedSource:
    """A source that gives its bytes to a `WriteCheck` too, on a thread of its own.

    Attributes:
        source: The source itself.
        check: The check of the last reading; every reading makes a new one.
    """

    def __init__(self, source: Source, guess: Profile) -> None:
        self.source = source
        self._guess = guess
        self.check: WriteCheck = WriteCheck(guess)
        self.size: int | None = source.size

    @property
    def bytes_read(self) -> int:
        """How many bytes the last `chunks` gave so far."""
        return self.source.bytes_read

    @property
    def repeatable(self) -> bool:
        """Whether `chunks` can start again."""
        return self.source.repeatable

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes. When the last is taken, the check has seen them all."""
        # A variable of this reading: an earlier one may not be over yet.
        check = self.check = WriteCheck(self._guess)
        with Background() as background:
            for chunk in self.source.chunks():
                background.submit(check.update, chunk)
                yield chunk
            background.drain()


class WrittenLayout:
    """The layout in which a provider stores uploads, as far as it is known.

    Services cut files in their own ways. The layout of the last upload is the guess for the next.
    """

    def __init__(self, guess: Profile) -> None:
        self._guess = guess
        self._may_search = True

    def checked(self, source: Source) -> CheckedSource:
        """Return `source` as one whose CID is computed while it is read."""
        return CheckedSource(source, self._guess)

    def resumable(self, source: Source, *, verify: bool) -> ResumableSource:
        """Return `source` as one that is sent in parts; with `verify`, hashed while it is sent."""
        return ResumableSource(source, WriteCheck(self._guess) if verify else None)

    def compare(self, checked: CheckedSource | ResumableSource, cid: CID) -> None:
        """Raise VerificationError if `cid` names other bytes than those that `checked` gave.

        If no known layout of them gives `cid`, that proves nothing: it is logged.
        """
        source, check = checked.source, checked.check
        profile = None if check is None else check.profile_of(cid)
        may_read = source.size is not None and source.repeatable
        self._learn(profile, cid, partial(_layout_of, source, cid) if may_read else None)

    def compare_data(self, data: bytes, cid: CID) -> None:
        """Raise VerificationError if `cid` names other bytes than `data`, as `compare` does."""
        check = WriteCheck(self._guess)
        check.update(data)
        self._learn(check.profile_of(cid), cid, partial(_layout_of_pieces, [data], cid))

    def checked_folder(self, folder: FolderSource, *, verify: bool = True) -> CheckedFolder:
        """Return the files of `folder`; with `verify`, hashed while they are read."""
        return CheckedFolder(folder, self._guess if verify else None)

    def compare_folder(self, checked: CheckedFolder, cid: CID) -> None:
        """Raise VerificationError if `cid` cannot name the folder that `checked` has read.

        If no known layout of it gives `cid`, that proves nothing: it is logged.
        """
        # A directory is dag-pb; and a service that takes no part of the form stores an empty one.
        if not is_node(cid) or _hash_of(cid) == _hash_of(EMPTY_DIRECTORY):
            raise not_what_was_sent(cid)
        root = checked.root()
        profile = checked.guess if root is not None and root.cid == cid else None
        self._learn(profile, cid, partial(_layout_of_folder, checked, cid))

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
    try:
        return _layout_of_pieces(source.chunks(), cid)
    except OSError:  # the file has changed since it was sent
        return None


def _layout_of_pieces(pieces: Iterable[bytes], cid: CID) -> Profile | None:
    layouts = Layouts(candidates_for(cid))
    for piece in pieces:
        layouts.update(piece)
    return next((each for each, root in layouts.roots().items() if root == cid), None)


def _layout_of_folder(checked: CheckedFolder, cid: CID) -> Profile | None:
    """Return the known layout, other than the guess, in which the folder, read again, has `cid`."""
    try:
        for profile in candidates_for(cid):
            if profile != checked.guess and import_folder(checked.folder, profile).cid == cid:
                return profile
    except OSError:  # a file has changed since it was sent
        pass
    return None
