"""The bytes of a file out of an archive of its DAG, proven, as the archive arrives."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from holdfast.content.blocks import BlockCache, missing_block
from holdfast.content.car import CarReader
from holdfast.content.cid import CID
from holdfast.content.unixfs.walks import FileWalk, PathWalk
from holdfast.errors import MalformedError

MAX_KEPT: Final = 16 << 20  # bytes of blocks that came and may be needed (again)


class ArchiveProof:
    """Walks from `root` along `path` to a file, with the blocks that a CAR brings in any order.

    What the archive says of itself, its roots above all, is not believed. Blocks that came early,
    or that stand in the file more than once and in the archive only once, are kept, up to a limit.

    Example:
        >>> from holdfast.content.car import write_car
        >>> cid = CID.of_raw(b"x")
        >>> proof = ArchiveProof(cid)
        >>> proof.update(b"".join(write_car([cid], [(cid, b"x")])))
        [b'x']
        >>> proof.finish()
    """

    incremental: ClassVar[bool] = True
    need: CID | None = None

    def __init__(
        self, root: CID, path: Sequence[str] = (), start: int = 0, stop: int | None = None
    ) -> None:
        self._range = (start, stop)
        self._reader = CarReader()
        self._kept = BlockCache(MAX_KEPT)
        self._way = PathWalk(root, path)
        self._file: FileWalk | None = None
        self._junk = 0
        self._begin_file()

    @property
    def is_complete(self) -> bool:
        """Whether all that is wanted of the file has come."""
        return self._file is not None and self._file.need is None

    @property
    def size(self) -> int | None:
        """The bytes of the whole file, when its first block has come."""
        return self._file.size if self._file is not None else None

    def feed_block(self, block: bytes) -> list[Any]:  # noqa: ARG002 - as in the others
        """Never asked for: the archive must bring all blocks."""
        raise ValueError("no block is needed")

    def update(self, data: bytes) -> list[Any]:
        """Take the next bytes of the archive; give the bytes of the file that they prove."""
        if self.is_complete:
            self._junk += len(data)
            if self._junk > MAX_KEPT:
                raise MalformedError("CAR: the archive goes on long after the file in it is whole")
        out: list[bytes] = []
        for cid, block in self._reader.update(data):
            self._kept.put(cid, block)
            out += self._advance()
        return out

    def finish(self) -> None:
        """Nothing, if the whole file came; else an error that names the block that is missing."""
        self._reader.finish()
        need = self._needed()
        if need is not None:
            raise missing_block(need)

    def _needed(self) -> CID | None:
        return self._way.need if self._file is None else self._file.need

    def _advance(self) -> Iterator[bytes]:
        while (need := self._needed()) is not None and (block := self._kept.get(need)) is not None:
            if self._file is not None:
                yield from self._file.feed(block)
            else:
                self._way.feed(block)
                self._begin_file()

    def _begin_file(self) -> None:
        if self._way.found is not None:
            self._file = FileWalk(self._way.found, *self._range)
