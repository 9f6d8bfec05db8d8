"""A folder to upload: what one scan has found in it, and what was left out.

Everything that can be known to fail is an error of the scan, before anything is sent: a named pipe,
a socket, a device, a file or folder that this user cannot read. Links are never followed, so a
folder cannot contain itself.

Somebody may put a link in the place of a folder while it is uploaded, and files from elsewhere
would be published. So each folder is opened by its name, relative to the open folder above it.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypedDict, Unpack

from holdfast.disk.closing import closed_at_end, on_error
from holdfast.disk.folders import DIRECTORY, NO_FOLLOW, NO_WAIT, open_below, open_file
from holdfast.errors import UnsupportedError
from holdfast.hints import advise
from holdfast.records import EntryKind
from holdfast.sources.ignore_rules import IgnoreRules, read_patterns
from holdfast.sources.sources import (
    Progress,
    Source,
    Uploadable,
    WrappingSource,
    changed_while_read,
    existing_path,
    open_path,
    open_source,
)

IGNORE_FILE: Final = ".ipfsignore"
IGNORE_FILE_BYTES: Final = 256 * 1024  # of some 10,000 patterns; they take a second to compile
LONGEST: Final = 4096  # characters of a path; Linux opens no longer one at once
SPECIAL: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

# Servers read quotes, backslashes and their escapes in different ways, and a line break ends the
# header. The name of a file would not arrive as it is, and the directory would have another CID.
AMBIGUOUS: Final = re.compile(r'["\\\x00-\x1f\x7f]|%22|%0[AaDd]')


def open_source_folder(root: Path, path: str) -> AbstractContextManager[int]:
    """Open the folder `path` below `root`; "" is `root` itself, which may be a link.

    Example:
        >>> import tempfile
        >>> root = Path(tempfile.mkdtemp())
        >>> (root / "photos").mkdir()
        >>> with open_source_folder(root, "photos") as folder:
        ...     os.listdir(folder)
        []
    """
    if len(path) > LONGEST:  # other programs could not open it
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(root / path))
    names = filter(None, path.split("/"))
    top = os.open(root, DIRECTORY)
    descriptor = open_below(
        top, root, names, lambda path: changed_while_read(str(path), "was replaced")
    )
    return closed_at_end(descriptor)


class FolderSelection(TypedDict, total=False):
    """Which names in a folder are left out; the defaults are those of `FolderSource.of`."""

    include_hidden: bool
    exclude: Sequence[str]
    ignore_file: str | None


class FolderEntry(NamedTuple):
    """One name below a folder.

    Attributes:
        parent: The path of the folder that it is in, with slashes, from the top folder on; "" for
            the top folder itself.
        name: The name; bytes that are not UTF-8 are surrogates.
        kind: ``file``, ``directory`` or ``symlink``.
        size: The bytes of a file; the number of names in a directory; 0 for a link.
        modified: When a file was written last, in nanoseconds.
    """

    parent: str
    name: str
    kind: EntryKind
    size: int
    modified: int = 0

    @property
    def path(self) -> str:
        """The path below the top folder, with slashes."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def depth(self) -> int:
        """How many folders are between it and the top folder."""
        return self.parent.count("/") + 1 if self.parent else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSource:
    """A folder to upload, as `of` has found it.

    Attributes:
        path: The folder.
        name: Its own name; None for the root of a file system.
        entries: Everything in it, by the bytes of the names; a directory follows what is in it.
        size: The bytes of all files.
        files: The number of files.
        hidden: How many names that begin with a dot were left out. What is below a hidden
            directory is not counted.
        include_hidden: Whether such names are uploaded too.
        excluded: How many other names were left out because of a pattern, counted in the same way.
        source_of: Makes the source to upload from that of a file; see `map`.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.txt").write_bytes(b"hello")
        >>> _ = (folder / ".hidden").write_bytes(b"")
        >>> source = FolderSource.of(folder)
        >>> [entry.path for entry in source.entries], source.size, source.hidden
        (['a.txt'], 5, 1)
    """

    path: Path
    name: str | None
    entries: Sequence[FolderEntry]
    size: int
    files: int
    hidden: int = 0
    include_hidden: bool = False
    excluded: int = 0
    source_of: Callable[[Source], Source] | None = None
    _states: dict[str, tuple[int, list[bytes]]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        *,
        include_hidden: bool = False,
        exclude: Sequence[str] = (),
        ignore_file: str | None = None,
    ) -> "FolderSource":
        """Return the folder at `path`, which may be a link to one; raise the first error in it.

        `exclude` are patterns in the syntax of gitignore. They come after those in the file of the
        folder that has the name `ignore_file`.
        """
        root = existing_path(path)
        patterns = [] if ignore_file is None else _file_patterns(root, ignore_file)
        rules = IgnoreRules(patterns + _checked_patterns(exclude))
        scan = _Scan(root, rules, include_hidden=include_hidden)
        entries = list(scan.run())
        sizes = [entry.size for entry in entries if entry.kind == "file"]
        return cls(
            path=root,
            name=_own_name(root),
            entries=entries,
            size=sum(sizes),
            files=len(sizes),
            hidden=scan.hidden,
            include_hidden=include_hidden,
            excluded=scan.excluded,
        )

    def map(
        self, source_of: Callable[[Source], Source], size_of: Callable[[int], int]
    ) -> "FolderSource":
        """Return the folder with other content in each file, such as an encrypted one.

        `source_of` makes the new source of a file, and `size_of` its size from that of the old one.
        A file that is opened again gets the states that its source had before, and so the same
        bytes.
        """
        entries = [
            entry._replace(size=size_of(entry.size)) if entry.kind == "file" else entry
            for entry in self.entries
        ]
        inner = self.source_of
        return replace(
            self,
            entries=entries,
            size=sum(entry.size for entry in entries if entry.kind == "file"),
            source_of=source_of if inner is None else lambda source: source_of(inner(source)),
            _states={},
        )

    def open(self, entry: FolderEntry) -> Source:
        """Return the bytes of a file; raise `OSError` if it has changed since the scan."""
        path = self.path / entry.path
        try:
            with open_source_folder(self.path, entry.parent) as folder:
                source = open_path(path, opener=partial(_open_unchanged, folder, entry))
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise changed_while_read(str(path), "became a link") from None
            if error.errno is not None:
                error.filename = str(path)
            raise
        if self.source_of is not None:
            with on_error(source.close):
                source = _MappedFile(self.source_of(source), self._states, entry.path)
        if source.size != entry.size:
            source.close()
            raise changed_while_read(str(path), "was written to")
        return source

    def close(self) -> None:
        """Do nothing: its files are closed after they are read."""

    def link_target(self, entry: FolderEntry) -> bytes:
        """Return what a symbolic link points to."""
        with open_source_folder(self.path, entry.parent) as folder:
            return os.fsencode(os.readlink(entry.name, dir_fd=folder))


class _MappedFile(WrappingSource):
    """A file of a mapped folder. It gets the states that it had when it was closed before."""

    def __init__(self, inner: Source, saved: dict[str, tuple[int, list[bytes]]], path: str) -> None:
        super().__init__(inner)
        self._saved = saved
        self._path = path
        if path in saved and not inner.restore_states(saved[path][1]):
            raise ValueError(f"{type(inner).__name__}.restore refuses its own state")

    def close(self) -> None:
        """Save the states, and close the file."""
        end = self.inner.bytes_read
        # An earlier reading may have got further.
        if end >= self._saved.get(self._path, (0, []))[0]:
            self._saved[self._path] = end, self.inner.states(end)
        super().close()


def open_file_or_folder(
    content: "Uploadable | FolderSource", **selection: Unpack[FolderSelection]
) -> Source | FolderSource:
    """Return the folder at the path `content`, or a source of anything else."""
    if isinstance(content, FolderSource):
        return content
    if isinstance(content, str | os.PathLike) and existing_path(content).is_dir():
        return FolderSource.of(content, **selection)
    return open_source(content)


def plain_progress(content: Source | FolderSource, progress: Progress) -> Progress:
    """Return a callback for an upload of wrapped `content` that reports bytes of `content`."""

    def report(done: int, total: int | None) -> None:
        size = content.size
        if size is None and isinstance(content, Source):
            size = content.bytes_read  # so far; all of it if the total is known
        progress(min(done, size or 0) if not total else done * (size or 0) // total, content.size)

    return report


class _Scan:
    """One scan of a folder. Not recursive: folders may be nested more deeply than Python's stack.

    Attributes:
        hidden: How many names that begin with a dot were left out.
        excluded: How many other names were left out by the rules.
    """

    def __init__(self, root: Path, rules: IgnoreRules, *, include_hidden: bool) -> None:
        self._root = root
        self._rules = rules
        self._include_hidden = include_hidden
        self.hidden = self.excluded = 0

    def run(self) -> Iterator[FolderEntry]:
        """Yield everything in the folder; what is in a directory comes before it."""
        opened = [self._open(FolderEntry("", "", "directory", 0))]
        while opened:
            folder, entries = opened[-1]
            entry = next(entries, None)
            if entry is None:
                opened.pop()
                if opened:
                    yield folder
            elif entry.kind == "directory":
                opened.append(self._open(entry))
            else:
                yield entry

    def _open(self, entry: FolderEntry) -> tuple[FolderEntry, Iterator[FolderEntry]]:
        """Return the folder with the number of its names, and the entries in it."""
        path = entry.path
        with open_source_folder(self._root, path) as folder:
            names = os.listdir(folder)  # noqa: PTH208 - an open folder
            if not self._include_hidden:
                shown = [name for name in names if not name.startswith(".")]
                self.hidden += len(names) - len(shown)
                names = shown
            names.sort(key=os.fsencode)
            looks = (self._look(folder, path, name) for name in names)
            entries = [entry for entry in looks if entry is not None]
            self.excluded += len(names) - len(entries)
        return entry._replace(size=len(entries)), iter(entries)

    def _look(self, folder: int, parent: str, name: str) -> FolderEntry | None:
        """Return the entry for a name, None if it is excluded; a directory has no size yet."""
        path = os.fsencode(f"{parent}/{name}" if parent else name)
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if self._rules.exclude(path):  # such as a temporary file that was just deleted
                return None
            error.filename = str(self._root / parent / name)
            raise
        is_folder = stat.S_ISDIR(status.st_mode)
        if self._rules.exclude(path, is_folder=is_folder):
            return None
        if is_folder:
            return FolderEntry(parent, name, "directory", 0)
        if stat.S_ISLNK(status.st_mode):
            return FolderEntry(parent, name, "symlink", 0)
        entry = FolderEntry(parent, name, "file", status.st_size, status.st_mtime_ns)
        self._check_file(folder, entry, status.st_mode)
        return entry

    def _check_file(self, folder: int, entry: FolderEntry, mode: int) -> None:
        """Raise `OSError` unless a name in an open folder is a file that can be read."""
        if not stat.S_ISREG(mode):
            what = SPECIAL.get(stat.S_IFMT(mode), "something else")
            path = self._root / entry.path
            raise OSError(f"{path} is {what}, not a file, directory or link, and cannot be stored")
        effective = os.access in os.supports_effective_ids
        if not os.access(entry.name, os.R_OK, dir_fd=folder, effective_ids=effective):
            path = self._root / entry.path
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _checked_patterns(exclude: Sequence[str]) -> list[bytes]:
    """Return patterns as bytes. A single text would exclude names by its letters."""
    if isinstance(exclude, str | bytes) or not isinstance(exclude, Sequence):
        kind = type(exclude).__name__
        raise TypeError(f"exclude must be a list or tuple of patterns, not {kind}")
    return [os.fsencode(pattern) for pattern in exclude]


def _file_patterns(root: Path, name: str) -> list[bytes]:
    """Return the patterns in a file of the folder; only the usual name may be missing."""
    path = root / name
    if path.parent != root:
        raise ValueError(f"ignore_file must be the name of a file in the folder, not {name!r}")

    def refuse(words: str) -> OSError:
        note = "{} uploads the folder without its patterns"
        error = OSError(f"{path}, which has patterns of files to leave out, {words}")
        return advise(error, note.format("ignore_file=None"), note.format("--no-ignore"))

    try:
        with open_source_folder(root, "") as folder:
            file = open_file(folder, name, refuse=lambda: refuse("is not a regular file"))
    except OSError as error:
        if error.errno == errno.ENOENT and name == IGNORE_FILE:
            return []
        if error.errno is not None:
            error.filename = str(path)
        raise
    with os.fdopen(file, "rb") as opened:
        data = opened.read(IGNORE_FILE_BYTES + 1)
    if len(data) > IGNORE_FILE_BYTES or b"\0" in data:
        raise refuse(f"is not UTF-8 text of at most {IGNORE_FILE_BYTES // 1024} KiB")
    return read_patterns(data)


def _open_unchanged(folder: int, entry: FolderEntry, path: str, flags: int) -> int:
    """Open a file that was not written since the scan, and is not a link.

    A named pipe that has taken its place cannot block.
    """
    descriptor = os.open(entry.name, flags | NO_FOLLOW | NO_WAIT, dir_fd=folder)
    if os.fstat(descriptor).st_mtime_ns != entry.modified:
        os.close(descriptor)
        raise changed_while_read(path, "was written to")
    return descriptor


def _own_name(path: Path) -> str | None:
    """Return the name of a folder; that of the folder itself where the path ends with dots."""
    name = path.name if path.name not in {"", ".."} else path.resolve().name
    return name or None


def check_form(folder: FolderSource, provider: str) -> None:
    """Raise `UnsupportedError` for the first entry of `folder` that a form cannot carry."""
    for entry in folder.entries:
        if (words := _objection(entry)) is not None:
            raise _not_carried(provider, words, folder if entry.kind == "directory" else None)
    if not folder.entries:
        words = f"which cannot carry {folder.path}, an empty folder; add a file to it"
        raise _not_carried(provider, words, folder)


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


def _not_carried(provider: str, words: str, folder: FolderSource | None) -> UnsupportedError:
    """Return the error. Names of `folder` that were left out may be all that an empty one has."""
    error = UnsupportedError(f"{provider} sends a form, {words}")
    if folder is not None and folder.hidden:
        note = f"hidden names were left out: {folder.hidden:,}; {{}} uploads them"
        advise(error, note.format("include_hidden=True"), note.format("--include-hidden"))
    elif folder is not None and folder.excluded:
        note = f"names were left out by patterns: {folder.excluded:,}; a pattern for the folder "
        advise(error, f"{note}itself leaves it out too")
    return error
