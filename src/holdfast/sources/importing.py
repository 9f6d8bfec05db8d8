"""Importing local content: build the DAG of a file, a directory or a stream.

The leaves of a file on disk are hashed with several threads, in constant memory. Each thread reads
at its own offset into its own buffer. hashlib and the system calls release the interpreter lock, so
two threads are nearly twice as fast as one. A memory map would save a copy, but it counts as memory
of the process, and ends the process if the file shrinks.
"""

import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Final

from holdfast.content.blocks import Emit
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.directories import build_directory, build_symlink
from holdfast.content.unixfs.files import FileImporter, Part, Tree, hash_leaf
from holdfast.disk.background import Background
from holdfast.sources.folder_source import FolderEntry, FolderSource, open_file_or_folder
from holdfast.sources.sources import Progress, Source, Uploadable, changed_while_read

STEP_BYTES: Final = 1 << 20  # of files that a step of an import reads, and at most a chunk more
STEP_ENTRIES: Final = 512  # files, links and folders of a step, at most
JOB_SIZE: Final = 4 << 20  # bytes that a thread hashes at a time
READ_SIZE: Final = 1 << 18  # small enough to stay in the processor's cache while it is hashed
MAX_THREADS: Final = 4


def import_content(
    content: "Uploadable | FolderSource",
    profile: Profile,
    emit: Emit | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Part:
    """Build the DAG of a path (file or directory), bytes, a binary file or an iterable of bytes.

    Return its root, and call `emit` for each of its blocks. As Kubo does, names in a directory that
    begin with a dot are left out, symbolic links are stored as links, and names are stored as the
    bytes that they are. `content` itself may be a symbolic link, which is followed.
    """
    if isinstance(content, bytes | bytearray | memoryview):
        file = FileImporter(profile, emit)
        file.update(content)
        return file.finish()
    with (
        closing(open_file_or_folder(content)) as source,
        closing(ContentImporter(source, profile, emit, threads=threads)) as importer,
    ):
        done, is_more = 0, True
        while is_more:
            is_more = importer.advance()
            if progress is not None and importer.done > done:
                done = importer.done
                progress(done, source.size)
        return importer.result()


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

    def add_directory(self, entry: FolderEntry) -> None:
        """Add the directory that has everything that came below it."""
        self.add(entry, self._build(entry.depth + 1))

    def root(self) -> Part:
        """Return the whole folder. Call it once, after all entries."""
        return self._build(0)

    def _build(self, depth: int) -> Part:
        return build_directory(self._levels.pop(depth, []), self._profile, self._emit)


@dataclass(eq=False, repr=False)
class ContentImporter:
    """Builds the DAG of a file or folder step by step, and emits its blocks.

    Attributes:
        done: The bytes of files that were read so far.
    """

    content: Source | FolderSource
    profile: Profile
    emit: Emit | None = None
    threads: int | None = None
    done: int = 0
    _root: Part | None = None

    def __post_init__(self) -> None:
        self._steps = self._run(self.content)

    def advance(self) -> bool:
        """Import about `STEP_BYTES` of files; return whether there is more."""
        stop = self.done + STEP_BYTES
        for size in islice(self._steps, STEP_ENTRIES):
            self.done += size
            if self.done >= stop:
                break
        return self._root is None

    def _run(self, content: Source | FolderSource) -> Generator[int, None, None]:
        """Import everything; yield the number of bytes after each step."""
        if isinstance(content, Source):
            self._root = yield from self._import_file(content)
            return
        tree = FolderTree(self.profile, self.emit)
        for entry in content.entries:
            if entry.kind == "directory":
                tree.add_directory(entry)
            elif entry.kind == "symlink":
                target = content.link_target(entry)
                tree.add(entry, build_symlink(target, self.profile, self.emit))
            else:
                with content.open(entry) as source:
                    tree.add(entry, (yield from self._import_file(source)))
            yield 0
        self._root = tree.root()

    def _import_file(self, source: Source) -> Generator[int, None, Part]:
        if self.emit is None and source.file is not None and not source.leaf_ends:
            tree = Tree(self.profile)
            for leaf in leaves_on_disk(source, self.profile, self.threads):
                tree.add(leaf)
                yield leaf.size
            return tree.root()
        importer = FileImporter(self.profile, self.emit, source.leaf_ends)
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


def leaves_on_disk(source: Source, profile: Profile, threads: int | None = None) -> Iterator[Part]:
    """Yield the leaves of a source that has a `file`, in order. Several threads hash them."""
    file, size, step = source.file, source.size, profile.chunk_size
    if file is None or size is None:
        raise ValueError("the source is no file on disk")
    descriptor = file.fileno()

    def hash_leaves(starts: range) -> list[Part]:
        read = partial(_read_leaf, descriptor, memoryview(bytearray(READ_SIZE)))
        leaves = ((start, min(step, size - start)) for start in starts)
        return [hash_leaf(profile, read(start, length), length) for start, length in leaves]

    count = max(1, JOB_SIZE // step) * step
    jobs = (range(at, min(at + count, max(size, 1)), step) for at in range(0, max(size, 1), count))
    try:
        if size <= JOB_SIZE or threads == 1:
            for job in jobs:
                yield from hash_leaves(job)
        else:
            with Background(threads or default_threads()) as background:
                for job in jobs:
                    yield from chain.from_iterable(background.submit(hash_leaves, job))
                yield from chain.from_iterable(background.results())
    except EOFError:
        raise changed_while_read(source.name, "shrank") from None
    source.check_unchanged()


def default_threads() -> int:
    """Return how many processors this process may use, at most `MAX_THREADS`."""
    if hasattr(os, "sched_getaffinity"):
        return min(MAX_THREADS, len(os.sched_getaffinity(0)))
    return min(MAX_THREADS, os.cpu_count() or 1)


def _read_leaf(descriptor: int, buffer: memoryview, start: int, size: int) -> Iterator[memoryview]:
    """Yield `size` bytes from `start` on, in `buffer`: new memory would take longer.

    Raise `EOFError` if there are fewer.
    """
    end = start + size
    while start < end:
        view = buffer[: end - start]
        if hasattr(os, "preadv"):
            view = view[: os.preadv(descriptor, [view], start)]
        else:
            view = memoryview(os.pread(descriptor, len(view), start))  # an older macOS
        if not view:
            raise EOFError
        yield view
        start += len(view)
