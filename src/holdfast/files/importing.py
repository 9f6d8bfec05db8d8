"""Importing local content: build the DAG of a file, a directory or a stream."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.content.blocks import Emit
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.directories import build_directory, build_symlink
from holdfast.content.unixfs.files import FileImporter, LeafCutter, Part, Tree
from holdfast.files.leaves import hash_leaves
from holdfast.files.sources import Uploadable, changed_while_read, existing_path, open_source

Seen: TypeAlias = Callable[[int], None]
"""Called with the number of bytes that were read since the last call."""


def import_content(
    given: Uploadable,
    profile: Profile,
    emit: Emit | None = None,
    *,
    threads: int | None = None,
    seen: Seen | None = None,
) -> Part:
    """Build the DAG of a path (file or directory), bytes, a binary file or an iterable of bytes.

    Return its root, and call `emit` for each of its blocks. In a directory, names that begin with a
    dot are left out, as Kubo does, and symbolic links are stored as links. `given` itself may be a
    symbolic link, which is followed.
    """
    if isinstance(given, str | os.PathLike):
        path = existing_path(given)
        if path.is_dir():
            return _import_directory(path, profile, emit, threads, seen)
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
    for leaf in _leaves_of(path, profile, threads):
        if seen is not None:
            seen(leaf.size)
        yield leaf


def _leaves_of(path: Path, profile: Profile, threads: int | None) -> Iterator[Part]:
    with open_source(path) as source:
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
            raise changed_while_read(path.name, "shrank") from None
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


@dataclass(slots=True)
class _ListedDirectory:
    """A directory during the import: the entries that remain, and the parts that are built."""

    path: Path
    remaining: list[os.DirEntry[str]]
    parts: list[tuple[bytes, Part]] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path) -> "_ListedDirectory":
        with os.scandir(path) as entries:
            return cls(path, [entry for entry in entries if not entry.name.startswith(".")])


def _import_directory(
    root: Path, profile: Profile, emit: Emit | None, threads: int | None, seen: Seen | None
) -> Part:
    # Not recursive: directories may be nested more deeply than Python's stack allows.
    stack = [_ListedDirectory.of(root)]
    while True:
        directory = stack[-1]
        if not directory.remaining:
            part = build_directory(directory.parts, profile, emit)
            stack.pop()
            if not stack:
                return part
            stack[-1].parts.append((os.fsencode(directory.path.name), part))
            continue
        entry = directory.remaining.pop()
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            stack.append(_ListedDirectory.of(path))
            continue
        if entry.is_symlink():
            part = build_symlink(os.fsencode(path.readlink()), profile, emit)
        elif entry.is_file(follow_symlinks=False):
            part = _import_file(path, profile, emit, threads, seen)
        else:
            raise OSError(f"{path} is not a file, directory or link, and cannot be stored")
        directory.parts.append((os.fsencode(entry.name), part))
