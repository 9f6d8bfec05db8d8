"""From what lies on this machine to its DAG: files, directories with all in them, streams."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from holdfast.content.blocks import Emit
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.directories import build_directory, build_symlink
from holdfast.content.unixfs.files import FileImporter, Part, Tree
from holdfast.files.hashing import hash_leaves
from holdfast.files.sources import Uploadable, changed_while_read, open_source

Importable: TypeAlias = "Uploadable | Iterable[bytes]"


def import_content(
    given: Importable, profile: Profile, emit: Emit | None = None, *, threads: int | None = None
) -> Part:
    """The DAG of `given`: a path (of a file or directory), bytes, a binary file or an iterable.

    Its blocks go to `emit`, if there is one. Files in a directory whose names begin with a dot are
    left out, as Kubo does; symbolic links in it are kept as links.
    """
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        if path.is_dir():
            return _import_directory(path, profile, emit, threads)
        return _import_file(path, profile, emit, threads)
    importer = FileImporter(profile, emit)
    for chunk in chunks_of(given):
        importer.update(chunk)
    return importer.finish()


def chunks_of(given: Importable) -> Iterator[bytes]:
    """The bytes of `given`, in pieces."""
    if isinstance(given, str | bytes | bytearray | memoryview) or not isinstance(given, Iterable):
        with open_source(given) as source:
            yield from source.chunks()
    elif hasattr(given, "read"):
        with open_source(cast("BinaryIO", given)) as source:
            yield from source.chunks()
    else:
        for piece in given:
            if not isinstance(piece, bytes | bytearray | memoryview):
                raise TypeError(f"the iterable gave {type(piece).__name__}, not bytes")
            yield bytes(piece)


def _import_file(path: Path, profile: Profile, emit: Emit | None, threads: int | None) -> Part:
    with path.open("rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        if emit is not None or not stat.S_ISREG(before.st_mode):
            importer = FileImporter(profile, emit)
            for chunk in chunks_of(path):
                importer.update(chunk)
            return importer.finish()
        tree = Tree(profile)
        try:
            for leaf in hash_leaves(file, before.st_size, profile, threads=threads):
                tree.add(leaf)
        except EOFError:
            raise changed_while_read(path.name, "shrank") from None
        after = os.fstat(file.fileno())
    if (after.st_mtime_ns, after.st_size) != (before.st_mtime_ns, before.st_size):
        raise changed_while_read(path.name, "was written to")
    return tree.root()


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


def _import_directory(root: Path, profile: Profile, emit: Emit | None, threads: int | None) -> Part:
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
            part = _import_file(path, profile, emit, threads)
        else:
            raise OSError(f"{path} is no file, directory or link, and cannot be stored")
        folder.done.append((os.fsencode(entry.name), part))
