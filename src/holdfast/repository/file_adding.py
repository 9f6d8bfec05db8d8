"""One file of an add: its leaves are hashed, written and synchronised on several threads.

The caller cuts the bytes into leaves. Threads make the blocks of several leaves at a time, while
the caller receives the next bytes. The small leaves of one piece go to a thread together, as one
job. The tree over the leaves grows in their order::

    caller    cut 1 | cut 2 | cut 3 | cut 4 | tree 1 | cut 5 ...
    thread            1: hash, write, sync    | 3 ...
    thread                    2: hash, write, sync      | 4 ...
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import Final, TypeAlias

from holdfast.content.profiles import Profile
from holdfast.content.unixfs.files import Part, Tree, leaf_frame, leaf_part
from holdfast.repository.adding import Adding
from holdfast.repository.block_files import WrittenBlock

DEPTH: Final = 8  # jobs of one file that are being done
JOB_SIZE: Final = 1 << 20  # bytes of the leaves of a job: to hand it over takes time
MAX_PIECES: Final = 64  # of one leaf, before they are joined

Leaf: TypeAlias = "tuple[list[bytes | memoryview], int]"  # its pieces, and its size
MadeLeaf: TypeAlias = tuple[Part, WrittenBlock]


class FileAdding:
    """Makes the DAG of a file, which comes in pieces, and puts its blocks into `adding`.

    It is a `FileImporter` with threads. A file of one leaf needs none of them. `on_leaf` is called
    with each leaf, in order, once `adding` has its block.
    """

    def __init__(
        self, adding: Adding, profile: Profile, on_leaf: Callable[[Part], None] | None = None
    ) -> None:
        self._adding = adding
        self._on_leaf = on_leaf
        self._profile = profile
        self._tree = Tree(profile, adding.put)
        self._pieces: list[bytes | memoryview] = []  # of the current leaf
        self._size = 0
        self._count = 0
        self._leaves: list[Leaf] = []  # of the next job; only while a piece is added
        self._jobs: deque[Future[list[MadeLeaf]]] = deque()
        self._folder: ExitStack | None = None  # open from the first leaf that a thread makes

    @property
    def held(self) -> int:
        """The bytes that wait for the rest of their leaf."""
        return self._size

    def update(self, piece: bytes) -> None:
        """Add the next bytes."""
        start = 0
        view = memoryview(piece)
        while len(piece) - start >= (missing := self._profile.chunk_size - self._size):
            self._append(view[start : start + missing])
            start += missing
            self._end_leaf()
        self._submit()
        if start < len(piece):
            # Copied: the rest of a leaf may wait for long, and a view would hold the whole piece.
            self._append(piece[start:])

    def _append(self, piece: bytes | memoryview) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if len(self._pieces) > MAX_PIECES:
            self._pieces = [b"".join(self._pieces)]

    def _end_leaf(self) -> None:
        self._leaves.append((self._pieces, self._size))
        self._pieces, self._size = [], 0
        self._count += 1
        if len(self._leaves) * self._profile.chunk_size >= JOB_SIZE:
            self._submit()

    def _submit(self) -> None:
        if self._leaves:
            if len(self._jobs) >= DEPTH:
                self._take(self._jobs.popleft().result())
            if self._folder is None:
                self._folder = ExitStack()
                self._folder.enter_context(self._adding.files.temporary_folder.opened())
            leaves, self._leaves = self._leaves, []
            self._jobs.append(self._adding.files.threads.submit(self._make, leaves))

    def _make(self, leaves: list[Leaf]) -> list[MadeLeaf]:
        made = []
        for pieces, size in leaves:
            head, tail = leaf_frame(self._profile, size)
            block_hash = self._profile.new_hash(head)
            for piece in (*pieces, tail):
                block_hash.update(piece)
            leaf = leaf_part(self._profile, block_hash.digest(), size)
            made.append((leaf, [head, *pieces, tail]))
        blocks = self._adding.files.write_leaves([(leaf.cid, parts) for leaf, parts in made])
        return [(leaf, block) for (leaf, _), block in zip(made, blocks, strict=True)]

    def _take_all(self) -> None:
        while self._jobs:
            self._take(self._jobs.popleft().result())

    def _take(self, made: list[MadeLeaf]) -> None:
        for leaf, block in made:
            self._adding.take(block)
            self._tree.add(leaf)
            if self._on_leaf is not None:
                self._on_leaf(leaf)

    def resume(self, leaves: Iterable[Part], rest: bytes) -> None:
        """Begin after `leaves`, which are in the store, and the bytes `rest` of the next leaf."""
        for leaf in leaves:
            self._tree.add(leaf)
            self._count += 1
        self.update(rest)

    def settle(self) -> bytes:
        """Wait for the threads; return the bytes that wait for the rest of their leaf."""
        self._take_all()
        self._pieces = [b"".join(self._pieces)]
        return bytes(self._pieces[0])

    def finish(self) -> Part:
        """Return the DAG of the file."""
        self._take_all()
        if self._size or not self._count:
            self._take(self._make([(self._pieces, self._size)]))
        self._pieces, self._size = [], 0
        self._close_folder()
        return self._tree.root()

    def _close_folder(self) -> None:
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def close(self) -> None:
        """Give up a file that is not finished, and remove what was written of it."""
        self._pieces, self._size = [], 0
        while self._jobs:
            with suppress(Exception):  # the error of the file is already known
                made = self._jobs.popleft().result()
                self._adding.files.discard([block for _, block in made])
        self._close_folder()
