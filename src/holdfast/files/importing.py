"""Importing local content: build the DAG of a file, a directory or a stream."""

import os
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from holdfast.content.blocks import Emit
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.directories import build_directory, build_symlink
from holdfast.content.unixfs.files import FileImporter, LeafCutter, Part, Tree
from holdfast.files.folder_source import FolderEntry, FolderSource
from holdfast.files.leaves import hash_leaves
from holdfast.files.sources import (
    Source,
    Uploadable,
    changed_while_read,
    existing_path,
    open_source,
)

STEP_BYTES: Final = 1 << 20  # of files that a step of an import reads, and at most a chunk more
STEP_ENTRIES: Final = 512  # files, links and folders of a step, at most

Seen: TypeAlias = Callable[[int], None]
"""Called with the number of bytes that were read since the last call."""


def import_content(
    given: Uploadable,
    profile: Profile,
    emit: Emit | None = None,
    *,
    threads: int | None = None,
    seen: Seen | None = None,
    include_hidden: bool = False,
) -> Part:
    """Build the DAG of a path (file or directory), bytes, a binary file or an iterable of bytes.

    Return its root, and call `emit` for each of its blocks. As Kubo does, names in a directory that
    begin with a dot are left out without `include_hidden`, symbolic links are stored as links, and
    names are stored as the bytes that they are. `given` itself may be a
    symbolic link, which is followed.
    """
    if isinstance(given, str | os.PathLike):
        path = existing_path(given)
        if path.is_dir():
            folder = FolderSource.of(path, include_hidden=include_hidden)
            return import_folder(folder, profile, emit, threads=threads, seen=seen)
        return _import_file(path, profile, emit, threads, seen)
    importer = FileImporter(profile, emit)
    for chunk in chunks_of(given, seen):
        importer.update(chunk)
    return importer.finish()


def chunks_of(given: Uploadable, seen: Seen | None = None) -> Iterator[Any]:
    """Yield the bytes of `given` in pieces."""
    if isinstance(given, bytes | bytearray | memoryview):
        if seen is not None:
            seen(memoryview(given).nbytes)
        yield given
        return
    with open_source(given) as source:
        for chunk in source.chunks():
            if seen is not None:
                seen(len(chunk))
            yield chunk


def leaves_of(
    path: Path, profile: Profile, *, threads: int | None = None, seen: Seen | None = None
) -> Iterator[Part]:
    """Yield the leaves of a file on disk; a regular file is hashed by several threads."""
    with open_source(path) as source:
        for leaf in _leaves_of(source, profile, threads):
            if seen is not None:
                seen(leaf.size)
            yield leaf


def _leaves_of(source: Source, profile: Profile, threads: int | None) -> Iterator[Part]:
    if not source.size:
        leaves: list[Part] = []
        cutter = LeafCutter(profile, leaves.append)
        for chunk in source.chunks():
            cutter.update(chunk)
            yield from leaves
            leaves.clear()
        cutter.finish()
        yield from leaves
        return
    try:
        yield from hash_leaves(source.file, source.size, profile, threads=threads)
    except EOFError:
        raise changed_while_read(source.name, "shrank") from None
    source.check_unchanged()


def _import_file(
    path: Path, profile: Profile, emit: Emit | None, threads: int | None, seen: Seen | None
) -> Part:
    if emit is None:
        tree = Tree(profile)
        for leaf in leaves_of(path, profile, threads=threads, seen=seen):
            tree.add(leaf)
        return tree.root()
    importer = FileImporter(profile, emit)
    for chunk in chunks_of(path, seen):
        importer.update(chunk)
    return importer.finish()


class FolderTree:
    """Builds the directories of a folder from its entries, in the order of a `FolderSource`.

    A directory is built as soon as it comes, so only the parts of open directories are held.
    """

    def __init__(self, profile: Profile, emit: Emit | None = None) -> None:
        self._profile = profile
        self._emit = emit
        self._levels: defaultdict[int, list[tuple[bytes, Part]]] = defaultdict(list)

    def add(self, entry: FolderEntry, part: Part) -> None:
        """Add a file or link."""
        self._levels[entry.depth].append((os.fsencode(entry.name), part))

    def add_link(self, entry: FolderEntry, target: bytes) -> None:
        """Add a symbolic link to `target`."""
        self.add(entry, build_symlink(target, self._profile, self._emit))

    def add_directory(self, entry: FolderEntry) -> None:
        """Add the directory that has everything that came below it."""
        self.add(entry, self._build(entry.depth + 1))

    def root(self) -> Part:
        """Return the whole folder. Call it once, after all entries."""
        return self._build(0)

    def _build(self, depth: int) -> Part:
        return build_directory(self._levels.pop(depth, []), self._profile, self._emit)


class FolderImporter:
    """Builds the DAG of a folder step by step, and emits its blocks.

    Attributes:
        done: The bytes of files that were read so far.
    """

    def __init__(
        self,
        folder: FolderSource,
        profile: Profile,
        emit: Emit | None = None,
        *,
        threads: int | None = None,
    ) -> None:
        self._folder = folder
        self._profile = profile
        self._emit = emit
        self._threads = threads
        self._steps = self._run()
        self.done: int = 0
        self._root: Part | None = None

    def advance(self) -> bool:
        """Import about `STEP_BYTES` of files; return whether there is more."""
        stop = self.done + STEP_BYTES
        for size in islice(self._steps, STEP_ENTRIES):
            self.done += size
            if self.done >= stop:
                break
        return self._root is None

    def _run(self) -> Generator[int, None, None]:
        """Import everything; yield the number of bytes after each step."""
        folder, tree = self._folder, FolderTree(self._profile, self._emit)
        for entry in folder.entries:
            if entry.kind == "directory":
                tree.add_directory(entry)
            elif entry.kind == "symlink":
                tree.add_link(entry, folder.link_target(entry))
            else:
                with folder.open(entry) as source:
                    tree.add(entry, (yield from self._import_file(source)))
            yield 0
        self._root = tree.root()

    def _import_file(self, source: Source) -> Generator[int, None, Part]:
        if self._emit is None:
            tree = Tree(self._profile)
            for leaf in _leaves_of(source, self._profile, self._threads):
                tree.add(leaf)
                yield leaf.size
            return tree.root()
        importer = FileImporter(self._profile, self._emit)
        for chunk in source.chunks():
            importer.update(chunk)
            yield len(chunk)
        return importer.finish()

    def result(self) -> Part:
        """Return the root, when `advance` has returned False."""
        if self._root is None:
            raise ValueError("the import is not over yet")
        return self._root

    def close(self) -> None:
        """Close the file that is being read."""
        self._steps.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def import_folder(
    folder: FolderSource,
    profile: Profile,
    emit: Emit | None = None,
    *,
    threads: int | None = None,
    seen: Seen | None = None,
) -> Part:
    """Build the DAG of a folder, and return its root; see `import_content`."""
    with FolderImporter(folder, profile, emit, threads=threads) as importer:
        done = 0
        while importer.advance():
            if seen is not None:
                seen(importer.done - done)
                done = importer.done
        if seen is not None and importer.done > done:
            seen(importer.done - done)
        return importer.result()
