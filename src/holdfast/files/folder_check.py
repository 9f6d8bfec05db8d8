"""Folders in a form: what a form can carry, and the CID of what is sent, computed on the way."""

import re
from collections.abc import Iterator
from typing import Final

from holdfast.content.profiles import Profile
from holdfast.content.unixfs.files import FileImporter, Part
from holdfast.errors import UnsupportedError
from holdfast.files.background import Background
from holdfast.files.folder_source import FolderEntry, FolderSource
from holdfast.files.importing import FolderTree
from holdfast.hints import advise

SMALL_FILE: Final = 1 << 18  # bytes of a file up to which a thread costs more than it saves

# Servers read quotes, backslashes and their escapes in different ways, and a line break ends the
# header. The name of a file would not arrive as it is, and the directory would have another CID.
AMBIGUOUS: Final = re.compile(r'["\\\x00-\x1f\x7f]|%22|%0[AaDd]')


def check_form(folder: FolderSource, provider: str) -> None:
    """Raise `UnsupportedError` for the first entry of `folder` that a form cannot carry."""
    for entry in folder.entries:
        if (words := _objection(entry)) is not None:
            is_empty = entry.kind == "directory"
            raise _not_carried(provider, words, folder.hidden if is_empty else 0)
    if not folder.entries:
        words = f"which cannot carry {folder.path}, an empty folder; add a file to it"
        raise _not_carried(provider, words, folder.hidden)


def _objection(entry: FolderEntry) -> str | None:
    path = ascii(entry.path)
    if entry.kind == "symlink":
        return f"which cannot carry {path}, a link; put a copy of the file in its place"
    if entry.kind == "directory" and not entry.size:
        return f"which cannot carry {path}, an empty folder; remove it, or add a file to it"
    if AMBIGUOUS.search(entry.name):
        return f"in which the name {path} would change; rename it"
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        return f"in which the name {path}, which is not UTF-8, would change; rename it"
    return None


def _not_carried(provider: str, words: str, hidden: int) -> UnsupportedError:
    """Return the error. If `hidden` names were left out, these may be all that a folder has."""
    error = UnsupportedError(f"{provider} sends a form, {words}")
    if hidden:
        note = f"hidden names were left out: {hidden:,}; {{}} uploads them"
        advise(error, note.format("include_hidden=True"), note.format("--include-hidden"))
    return error


class CheckedFolder:
    """The files of a folder in their order, each hashed while it is read.

    Args:
        folder: The folder; it has nothing that `check_form` refuses.
        guess: The layout in which the CID is computed; None to compute none.

    Attributes:
        folder: The folder.
        guess: The layout.
    """

    def __init__(self, folder: FolderSource, guess: Profile | None) -> None:
        self.folder = folder
        self.guess = guess
        self._parts: list[Part] = []  # the files of the last complete reading

    def files(self) -> Iterator[tuple[str, "FolderFile"]]:
        """Yield the path of each file and its bytes. Each call begins a new reading.

        A file is opened when its bytes are read, and closed at their end.
        """
        parts: list[Part] = []
        for entry in self.folder.entries:
            if entry.kind == "file":
                yield entry.path, FolderFile(self, entry, parts)

    def read_all(self, parts: list[Part]) -> None:
        """Note the files that one reading has hashed so far; all of them end it."""
        if len(parts) == self.folder.files:
            self._parts = parts

    def root(self) -> Part | None:
        """Return the folder as the last complete reading has found it."""
        if self.guess is None or len(self._parts) != self.folder.files:
            return None
        tree, parts = FolderTree(self.guess), iter(self._parts)
        for entry in self.folder.entries:
            if entry.kind == "file":
                tree.add(entry, next(parts))
            else:
                tree.add_directory(entry)
        return tree.root()


class FolderFile:
    """One file of a `CheckedFolder`, during one reading."""

    repeatable = True

    def __init__(self, checked: CheckedFolder, entry: FolderEntry, parts: list[Part]) -> None:
        self._checked = checked
        self._entry = entry
        self._parts = parts
        self.size: int | None = entry.size

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes; raise `OSError` if the file has changed since the scan."""
        with self._checked.folder.open(self._entry) as source:
            if self._checked.guess is None:
                yield from source.chunks()
                return
            importer = FileImporter(self._checked.guess)
            if self._entry.size <= SMALL_FILE:
                for chunk in source.chunks():
                    importer.update(chunk)
                    yield chunk
            else:
                with Background() as background:
                    for chunk in source.chunks():
                        background.submit(importer.update, chunk)
                        yield chunk
                    background.drain()
        self._parts.append(importer.finish())
        self._checked.read_all(self._parts)
