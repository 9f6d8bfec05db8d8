"""From what lies on this machine to its DAG: files, directories with all in them, streams."""

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
"""Is told how many more bytes have been read."""


def import_content(
    given: Uploadable,
    profile: Profile,
    emit: Emit | None = None,
    *,
    threads: int | None = None,
    seen: Seen | None = None,
) -> Part:
    """The DAG of `given`: a path (of a file or directory), bytes, a binary file or an iterable.

    Its blocks go to `emit`, if there is one. Files in a directory whose names begin with a dot are
    left out, as Kubo does; symbolic links in it are kept as links, but `given` itself is followed.
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
    """The bytes of `given`, in pieces."""
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
    """The leaves of a file on disk; on several threads, where it is one that stays in its place."""
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
class _Folder:
    """A directory on the way: what is still to be looked at in it, and what is done."""

    path: Path
    left: list[os.DirEntry[str]]
    done: list[tuple[bytes, Part]] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path) -> "_Folder":
        with os.scandir(path) as entries:
            return cls(path, [entry for entry in entries if not entry.name.startswith(".")])


def _import_directory(
    root: Path, profile: Profile, emit: Emit | None, threads: int | None, seen: Seen | None
) -> Part:
    # A stack, not recursion: directories may be nested deeper than Python's own stack.
    stack = [_Folder.of(root)]
    while True:
        folder = stack[-1]
        if not folder.left:
            part = build_directory(folder.done, profile, emit)
            stack.pop()
            if not stack:
                return part
            stack[-1].done.append((os.fsencode(folder.path.name), part))
            continue
        entry = folder.left.pop()
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            stack.append(_Folder.of(path))
            continue
        if entry.is_symlink():
            part = build_symlink(os.fsencode(path.readlink()), profile, emit)
        elif entry.is_file(follow_symlinks=False):
            part = _import_file(path, profile, emit, threads, seen)
        else:
            raise OSError(f"{path} is no file, directory or link, and cannot be stored")
        folder.done.append((os.fsencode(entry.name), part))
