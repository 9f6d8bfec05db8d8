"""Read the verified bytes of a file from an archive of its DAG, while the archive arrives."""

from collections.abc import Sequence
from typing import Any, Final

from holdfast.content.blocks import BLOCK_COST, BlockCache, inline_block, missing_block
from holdfast.content.budgets import MAX_KEPT, MAX_UNRELATED, OUTPUT_SIZE, PIECE_COST
from holdfast.content.car import CarReader
from holdfast.content.cid import CID
from holdfast.content.proof import Proof, joined
from holdfast.content.unixfs.walks import FileWalk, PathWalk
from holdfast.errors import MalformedError, UnprovenError

INLINE_COST: Final = 64  # bytes counted for a block in an identity CID, besides its content


class CutOffError(UnprovenError):
    """The gateway says in the archive that it does not have the rest of the blocks."""


class ArchiveProof(Proof):
    """Walks from `root` along `path` to a file, with the blocks of a CAR in any order.

    The roots that the archive names are ignored. Some blocks are cached, up to a limit: those that
    arrive before they are needed, and those that are needed several times but arrive only once. If
    many links lead to one block, a small archive contains a large file. Then `update` returns a
    part of the verified bytes, and `has_more` is True: call it again.

    Example:
        >>> from holdfast.content.car import write_car
        >>> cid = CID.of_raw(b"x")
        >>> proof = ArchiveProof(cid)
        >>> proof.update(b"".join(write_car([cid], [(cid, b"x")])))
        [b'x']
        >>> proof.finish()
    """

    def __init__(
        self, root: CID, path: Sequence[str] = (), start: int = 0, stop: int | None = None
    ) -> None:
        self._range = (start, stop)
        self._reader = CarReader()
        self._cached = _Kept()
        self._path = PathWalk(root, path)
        self._file: FileWalk | None = None
        self._used = 0
        self.has_more: bool = False
        self._begin_file()

    @property
    def is_complete(self) -> bool:
        """Whether all wanted bytes are verified; the last ones may still have to be returned."""
        return self._file is not None and self._file.need is None

    @property
    def cid(self) -> CID | None:
        """The CID at the end of the path, once it is known."""
        return self._path.target

    @property
    def size(self) -> int | None:
        """The size of the whole file, after its first block has arrived."""
        return self._file.size if self._file is not None else None

    @property
    def progress(self) -> int:
        """A number that grows only with bytes that are needed."""
        arriving, count = self._reader.arriving()
        return self._used + (count if arriving is not None and arriving == self._needed() else 0)

    def update(self, data: bytes) -> list[Any]:
        """Feed the next bytes of the archive; return some bytes of the file, verified."""
        self._reader.push(data)
        pieces: list[Any] = []
        work = 0  # bytes that were hashed or wait in memory
        while work < OUTPUT_SIZE:
            need = self._needed()
            block = self._cached.take(need) if need is not None else None
            if block is None:
                arrived = self._next_block()
                if arrived is None:
                    self.has_more = False
                    return pieces
                block = self._accept(*arrived)
            if block is not None:
                pieces += self._feed(block)
                work += len(block) + PIECE_COST
        self.has_more = True
        return pieces

    def update_all(self, chunks: Sequence[bytes]) -> list[Any]:
        """Feed several chunks at once; return some bytes of the file, verified, small ones joined.

        Do not call `update` for each chunk: it stops early, and the following bytes would wait.
        """
        return list(joined(self.update(b"".join(chunks))))

    def finish(self) -> None:
        """Raise an error that names the missing block, unless the file is complete."""
        self._reader.finish()
        need = self._needed()
        if need is not None:
            raise missing_block(need)

    def close(self) -> None:
        """Release the blocks."""
        self._reader.close()
        self._cached = _Kept()

    def _needed(self) -> CID | None:
        return self._path.need if self._file is None else self._file.need

    def _next_block(self) -> tuple[CID, bytes] | None:
        try:
            return self._reader.next_block()
        except MalformedError:
            if not self._reader.is_cut_off:
                raise
        need = self._needed()
        raise CutOffError(f"CAR: the gateway does not have block {need}", cid=str(need))

    def _accept(self, cid: CID, block: bytes) -> bytes | None:
        """Keep a block that arrived; return it if it is the one that is needed."""
        need = self._needed()
        if cid == need:
            self._used += len(block)
            self._cached.add_used(cid, block)
            return block
        if need is not None:
            self._used += self._cached.add_early(cid, block)
        return None  # None is needed when the file is complete and the archive continues

    def _feed(self, block: bytes) -> list[bytes]:
        """Feed the needed block, already verified; return the bytes of the file in it."""
        if self._file is not None:
            return self._file.feed(block, verified=True)
        self._path.feed(block, verified=True)
        self._begin_file()
        return []

    def _begin_file(self) -> None:
        if self._path.need is None:
            self._file = FileWalk(self._path.end(), *self._range)


class _Kept:
    """The blocks of an archive that may still be needed.

    Blocks that arrive before they are needed are never dropped: too many of them are an error.
    Used blocks are cached while there is space, for other links to them. An archive may also
    repeat a block for each link to it: one repeat is expected for each use of a kept block.
    """

    def __init__(self) -> None:
        self._early: dict[CID, bytes] = {}
        self._used = BlockCache(MAX_KEPT)
        self._unrelated = 0
        self._repeats = 0

    def take(self, cid: CID) -> bytes | None:
        """Return the block of `cid`, if it is here or in the CID itself."""
        block = inline_block(cid)
        if block is not None:
            return block
        block = self._early.pop(cid, None)
        if block is not None:
            self._unrelated -= _cost(block)
            self.add_used(cid, block)
            return block
        block = self._used.get(cid)
        if block is not None:
            self._repeats += _cost(block)
        return block

    def add_used(self, cid: CID, block: bytes) -> None:
        """Cache a block that was needed, if there is space."""
        self._used.resize(MAX_KEPT - self._unrelated)
        self._used.put(cid, block)

    def add_early(self, cid: CID, block: bytes) -> int:
        """Cache a block that is not needed now, and return how many of its bytes were expected.

        Raise UnprovenError if there are too many unrelated blocks.
        """
        is_inline = inline_block(cid) is not None
        cost = len(block) + INLINE_COST if is_inline else _cost(block)
        is_known = not is_inline and (cid in self._early or self._used.get(cid) is not None)
        if is_known and cost <= self._repeats:
            self._repeats -= cost
            return len(block)
        self._unrelated += cost
        if self._unrelated > MAX_UNRELATED:
            raise UnprovenError(
                f"CAR: more than {MAX_UNRELATED} bytes of blocks that the file does not need"
            )
        self._used.resize(MAX_KEPT - self._unrelated)
        if not is_inline and cid not in self._early and self._used.get(cid) is None:
            self._early[cid] = block
        return 0


def _cost(block: bytes) -> int:
    return len(block) + BLOCK_COST
