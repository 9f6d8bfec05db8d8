# WARNING: this file is generated from src/holdfast/_async/reads/entry_pages.py
# by scripts/generate_sync.py. Change the original instead.
"""The entries of a directory, page by page, each page within a call of its own."""

from collections import deque
from collections.abc import Callable
from typing import Final, Self

from holdfast._sync.reads.blocks import Blocks, check_time
from holdfast.calls import Call
from holdfast.content.blocks import BlockCache
from holdfast.content.budgets import MAX_CACHED
from holdfast.content.codecs import is_one_block
from holdfast.content.reference import Reference
from holdfast.content.unixfs.directory_nodes import DirectoryEntry
from holdfast.content.unixfs.root_nodes import entry_record, has_root_info
from holdfast.content.unixfs.walks import DirectoryWalk
from holdfast.records import Entry

DETAILED: Final = 64  # entries of a page whose roots are read


class EntryPages:
    """Lists a directory. What it holds between two pages is a batch of blocks at the most.

    Args:
        blocks: The blocks of the directory.
        reference: The directory.
        details: Whether the roots of the entries are read, for their kinds and sizes.
    """

    def __init__(self, blocks: Blocks, reference: Reference, *, details: bool = False) -> None:
        self._blocks = blocks
        self._reference = reference
        self._details = details
        self._walk: DirectoryWalk | None = None
        self._known = BlockCache(MAX_CACHED)
        self._waiting: deque[DirectoryEntry] = deque()
        self._changes: list[Callable[[Entry], Entry]] = []

    def map(self, change: Callable[[Entry], Entry]) -> Self:
        """Let `change` make each entry what a wrapping reader shows; return the pages."""
        self._changes.append(change)
        return self

    def next_page(self, call: Call) -> list[Entry] | None:
        """Return some entries, in the directory's order; None at the end. A page may be empty."""
        page = self._next_page(call)
        for change in self._changes if page else ():
            page = [*map(change, page or ())]
        return page

    def _next_page(self, call: Call) -> list[Entry] | None:
        self._blocks.continue_in(call)
        if self._walk is None:
            self._walk = DirectoryWalk(self._blocks.find(self._reference, call))
        if not self._waiting:
            if self._walk.need is None:
                return None
            self._blocks.advance(self._walk, self._known, self._waiting.extend)
            check_time(call.deadline, self._reference)
        if self._details:
            return self._detailed(call)
        page = [entry_record(entry) for entry in self._waiting]
        self._waiting.clear()
        return page

    def _detailed(self, call: Call) -> list[Entry]:
        """Return a page with the kinds and sizes of all entries whose root can be read."""
        batch = [self._waiting.popleft() for _ in range(min(DETAILED, len(self._waiting)))]
        # A raw block is a file, and the directory declares its size.
        unknown = [
            entry.cid for entry in batch if not is_one_block(entry.cid) and has_root_info(entry.cid)
        ]
        found = self._blocks.root_infos(unknown, self._known, self._reference, call)
        infos = dict(zip(unknown, found, strict=True))
        return [
            Entry(name=entry.name, cid=str(entry.cid), kind=info.kind, size=info.size)
            if (info := infos.get(entry.cid)) is not None
            else entry_record(entry)
            for entry in batch
        ]
