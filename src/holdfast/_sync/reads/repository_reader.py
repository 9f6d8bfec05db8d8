# WARNING: this file is generated from src/holdfast/_async/reads/repository_reader.py
# by scripts/generate_sync.py. Change the original instead.
"""A reader for the repository on this machine. Each job on a worker thread reads many blocks."""

from collections.abc import Callable
from typing import Final

from holdfast._sync.reads.blocks import Blocks
from holdfast._sync.reads.reader import Reader
from holdfast._sync.runtime import run_blocking
from holdfast.calls import Call
from holdfast.content.blocks import BlockCache
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.content.unixfs.walks import Item, Walk
from holdfast.errors import NotFoundError
from holdfast.hints import advise
from holdfast.repository import Repository

LOOKS: Final = 4  # queries in one job, each for about 1 MiB of blocks


class RepositoryBlocks(Blocks):
    """The blocks in a repository. Each job reads, verifies and writes a few MiB."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def advance(
        self,
        walk: Walk[Item],
        known: BlockCache,  # noqa: ARG002 - the repository needs no cache
        take: Callable[[list[Item]], object],
    ) -> None:
        """Feed `walk` a few MiB of blocks."""
        run_blocking(self._feed, walk, take)

    def _feed(self, walk: Walk[Item], take: Callable[[list[Item]], object]) -> None:
        for _ in range(LOOKS):
            if walk.need is None:
                break
            take(self._repository.advance(walk))

    def find(self, reference: Reference, call: Call) -> CID:  # noqa: ARG002 - takes no time
        """Return the CID that `reference` leads to; `NotFoundError` if it is not in the store."""
        return run_blocking(self._find, reference)

    def _find(self, reference: Reference) -> CID:
        if not self._repository.has(reference.cid):
            words = "is not in this store: it was stored elsewhere, or revoked and removed"
            error = NotFoundError(f"{reference.cid} {words}")
            raise advise(error, "`pins` lists what is here", "`holdfast list` shows what is here")
        return self._repository.resolve(reference.cid, reference.path)

    def media_type(self, cid: CID) -> str:
        """Return the media type that was stored with the pin of `cid`, "" if it has none."""
        pin = run_blocking(self._repository.find_pin, cid)
        return "" if pin is None else pin.type


class RepositoryReader(Reader):
    """Reads content from `repository`.

    Args:
        repository: The repository.
        total: How many seconds the reading of one range of an open file may take.
    """

    def __init__(self, repository: Repository, *, total: float | None = None) -> None:
        super().__init__(total=total)
        self._blocks = RepositoryBlocks(repository)

    def blocks(
        self,
        reference: Reference,  # noqa: ARG002 - the repository has all blocks
        call: Call,  # noqa: ARG002
    ) -> RepositoryBlocks:
        """Return the blocks of the repository."""
        return self._blocks
