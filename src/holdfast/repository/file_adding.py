"""One file of an add: its leaves are hashed, written and synchronised on several threads.

The caller cuts the bytes into leaves. Threads make the blocks of several leaves at a time, while
the caller receives the next bytes. The tree over the leaves grows in their order::

    caller    cut 1 | cut 2 | cut 3 | cut 4 | tree 1 | cut 5 ...
    thread            1: hash, write, sync    | 3 ...
    thread                    2: hash, write, sync      | 4 ...
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import Final

from holdfast.content.profiles import Profile
from holdfast.content.unixfs.files import Part, Tree, leaf_frame, leaf_part
from holdfast.repository.adding import Adding
from holdfast.repository.block_files import WrittenBlock

DEPTH: Final = 8  # leaves of one file that are being made
MAX_PIECES: Final = 64  # of one leaf, before they are joined


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
        self._jobs: deque[Future[tuple[Part, WrittenBlock]]] = deque()
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
            self._submit_leaf()
        if start < len(piece):
            # Copied: the rest of a leaf may wait for long, and a view would hold the whole piece.
            self._append(piece[start:])

    def _append(self, piece: bytes | memoryview) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if len(self._pieces) > MAX_PIECES:
            self._pieces = [b"".join(self._pieces)]

    def _submit_leaf(self) -> None:
        if len(self._jobs) >= DEPTH:
            self._take(*self._jobs.popleft().result())
        if self._folder is None:
            self._folder = ExitStack()
            self._folder.enter_context(self._adding.files.temporary_folder.opened())
        pieces, size, self._pieces, self._size = self._pieces, self._size, [], 0
        self._jobs.append(self._adding.files.threads.submit(self._make_leaf, pieces, size))
        self._count += 1

    def _make_leaf(self, pieces: list[bytes | memoryview], size: int) -> tuple[Part, WrittenBlock]:
        head, tail = leaf_frame(self._profile, size)
        block_hash = self._profile.new_hash(head)
        for piece in (*pieces, tail):
            block_hash.update(piece)
        leaf = leaf_part(self._profile, block_hash.digest(), size)
        return leaf, self._adding.files.write_leaf(leaf.cid, [head, *pieces, tail])

    def _take_all(self) -> None:
        while self._jobs:
            self._take(*self._jobs.popleft().result())

    def _take(self, leaf: Part, block: WrittenBlock) -> None:
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
            self._take(*self._make_leaf(self._pieces, self._size))
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
                _, block = self._jobs.popleft().result()
                self._adding.files.discard([block])
        self._close_folder()
