"""Sources that are hashed while they are sent: files, whole or in parts, and folders.

The CID of an upload is compared with the provider's.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar

from holdfast.content.cid import CID
from holdfast.content.codecs import is_node
from holdfast.content.profiles import UNIXFS_V1_2025, Profile, candidates_for
from holdfast.content.reference import Reference
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter, Part, hash_leaf
from holdfast.content.unixfs.layouts import Layouts, WriteCheck, not_what_was_sent
from holdfast.disk.background import Background
from holdfast.errors import VerificationError
from holdfast.events import logger
from holdfast.sources.folder_source import FolderEntry, FolderSource
from holdfast.sources.importing import FolderTree
from holdfast.sources.local_cids import compute_cid, verify
from holdfast.sources.sources import Source

SMALL_FILE: Final = 1 << 18  # bytes of a file up to which a thread costs more than it saves
H = TypeVar("H", bound=FileImporter | WriteCheck)
ONE_BLOCK = 1 << 18  # bytes that every known layout keeps in one block
EMPTY_DIRECTORY = build_directory([], UNIXFS_V1_2025).cid


class HashedSource(Generic[H]):
    """A source whose bytes are hashed in order, on a thread of its own, while they are sent.

    `chunks` begins a new hash. A `part` that is sent again is not hashed again, and `catch_up`
    hashes what an earlier process sent.

    Attributes:
        source: The source itself.
        hash: Has the hash of the bytes so far; None if nothing is hashed.
        size: The number of bytes, or None if it is not known beforehand.
    """

    def __init__(self, source: Source, new_hash: Callable[[], H] | None) -> None:
        self.source: Source = source
        self.size: int | None = source.size
        self._new_hash = new_hash
        self.hash: H | None = None if new_hash is None else new_hash()
        self._hashed = 0  # bytes from the beginning
        self._lock = threading.Lock()

    @property
    def repeatable(self) -> bool:
        """Whether `chunks` can start again."""
        return self.source.repeatable

    def chunks(self) -> Iterator[bytes]:
        """Yield all bytes. When the last is taken, all are hashed."""
        with self._lock:
            if self._hashed and self._new_hash is not None:
                self.hash, self._hashed = self._new_hash(), 0
        return self.read(0, None)

    def part(self, start: int, end: int) -> "SourcePart":
        """Return the bytes from `start` to `end`, to send them."""
        return SourcePart(self, start, end)

    def catch_up(self, end: int) -> None:
        """Hash what was not hashed yet of the bytes before `end`."""
        if self.hash is not None and self._hashed < end:
            deque(self.read(self._hashed, end), maxlen=0)

    def read(self, start: int, end: int | None) -> Iterator[bytes]:
        """Yield the bytes from `start` to `end`; raise OSError if they have changed."""
        if self.hash is None or (self.size is not None and self.size <= SMALL_FILE):
            yield from self._read(start, end, self._update)
            return
        with Background() as background:
            submit = background.submit
            yield from self._read(start, end, lambda at, data: submit(self._update, at, data))
            background.drain()

    def _read(
        self, start: int, end: int | None, update: Callable[[int, bytes], object]
    ) -> Iterator[bytes]:
        position = start
        for chunk in self.source.chunks(start):
            data = chunk if end is None else chunk[: end - position]
            update(position, data)
            position += len(data)
            yield data
            if position == end != self.size:
                break  # else the source itself ends, with a check that it has not changed

    def _update(self, position: int, data: bytes) -> None:
        """Hash `data`, which begins at `position`, as far as it was not hashed before.

        If bytes before it are missing, because reading was interrupted, do nothing: `catch_up`
        hashes all of them later.
        """
        with self._lock:
            skipped = self._hashed - position
            if self.hash is not None and 0 <= skipped < len(data):
                self.hash.update(data[skipped:])
                self._hashed = position + len(data)


class SourcePart:
    """A part of a source as the body of a request. After a failure the next part may be another.

    Attributes:
        length: The number of bytes.
    """

    repeatable = False

    def __init__(self, whole: HashedSource[Any], start: int, end: int) -> None:
        self.length: int = end - start
        self.end: int = self.length
        self.chunks: Callable[[], Iterator[bytes]] = partial(whole.read, start, end)


class FolderFile:
    """One file of a folder, which is opened when its bytes are read, and closed at their end.

    Attributes:
        part: The DAG of the file, when it was read and hashed.
    """

    repeatable = True

    def __init__(
        self, folder: FolderSource, entry: FolderEntry, new_hash: Callable[[], FileImporter] | None
    ) -> None:
        self._folder = folder
        self._entry = entry
        self._new_hash = new_hash
        self.size: int | None = entry.size
        self.part: Part | None = None

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes; raise `OSError` if the file has changed since the scan."""
        with self._folder.open(self._entry) as source:
            hashed = HashedSource(source, self._new_hash)
            yield from hashed.chunks()
        self.part = None if hashed.hash is None else hashed.hash.finish()


class HashedFolder:
    """The files of a folder in their order, each hashed while it is read.

    Args:
        folder: The folder; it has nothing that `check_form` refuses.
        guess: The layout in which the CID is computed; None to compute none.

    Attributes:
        folder: The folder.
        guess: The layout.
        cid: The CID of the folder as the last complete reading has found it.
    """

    def __init__(self, folder: FolderSource, guess: Profile | None) -> None:
        self.folder = folder
        self.guess = guess
        self.cid: CID | None = None

    def files(self) -> Iterator[tuple[str, FolderFile]]:
        """Yield the path of each file and its bytes. Each call begins a new reading."""
        guess = self.guess
        tree = None if guess is None else FolderTree(guess)
        new_hash = None if guess is None else partial(FileImporter, guess)
        for entry in self.folder.entries:
            if entry.kind == "file":
                file = FolderFile(self.folder, entry, new_hash)
                yield entry.path, file
                if tree is not None and file.part is not None:
                    tree.add(entry, file.part)
                else:
                    tree = new_hash = None  # the files are listed, not read
            elif tree is not None:
                tree.add_directory(entry)
        if tree is not None:
            self.cid = tree.root().cid

    def read_again(self, profile: Profile) -> CID | None:
        """Return the CID of the folder in another layout."""
        other = HashedFolder(self.folder, profile)
        for _, file in other.files():
            deque(file.chunks(), maxlen=0)
        return other.cid


class WrittenLayout:
    """The layout in which a provider stores uploads, as far as it is known.

    Services cut files in their own ways. The layout of the last upload is the guess for the next.
    """

    def __init__(self, guess: Profile) -> None:
        self._guess = guess
        self._may_search = True

    def hashed(self, source: Source, *, verify: bool = True) -> HashedSource[WriteCheck]:
        """Return `source`; with `verify`, its CID is computed while it is sent.

        That of one block in memory is computed by `compare`.
        """
        is_block = source.data is not None and len(source.data) <= ONE_BLOCK
        new_hash = partial(WriteCheck, self._guess) if verify and not is_block else None
        return HashedSource(source, new_hash)

    def compare_json(self, source: Source, cid: CID) -> None:
        """Raise VerificationError if `cid` names other bytes than those of `source`."""
        self.compare(HashedSource(source, None), cid)

    def compare(self, hashed: HashedSource[WriteCheck], cid: CID) -> None:
        """Raise VerificationError if `cid` names other bytes than those that `hashed` gave.

        If no known layout of them gives `cid`, that proves nothing: it is logged.
        """
        source, check = hashed.source, hashed.hash
        # What is in memory may not be hashed yet. A small file is one leaf in every layout.
        if check is None and source.data is not None:
            if hash_leaf(self._guess, [source.data], len(source.data)).cid == cid:
                return
            check = WriteCheck(self._guess)
            check.update(source.data)
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
    with suppress(OSError):  # the file has changed since it was sent
        return next(iter(layouts_of(source, cid)), None)
    return None


def layouts_of(source: Source, cid: CID) -> tuple[Profile, ...]:
    """Return all known layouts in which `source` has `cid`."""
    layouts = Layouts(candidates_for(cid))
    for chunk in source.chunks():
        layouts.update(chunk)
    return tuple(profile for profile, root in layouts.roots().items() if root == cid)


def _layout_of_folder(hashed: HashedFolder, cid: CID) -> Profile | None:
    """Return the known layout, other than the guess, in which the folder, read again, has `cid`."""
    with suppress(OSError):  # a file has changed since it was sent
        for profile in candidates_for(cid):
            if profile != hashed.guess and hashed.read_again(profile) == cid:
                return profile
    return None
