# WARNING: this file is generated from src/holdfast/_async/providers/browsing.py
# by scripts/generate_sync.py. Change the original instead.
"""Looking into directories through the reader of a provider."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ContextManager  # noqa: UP035 - it has a twin

from holdfast._sync.reads.reader import Reader
from holdfast.calls import Call
from holdfast.content.reference import Reference
from holdfast.provider import Browsing
from holdfast.records import Entry


class ReaderBrowsing(Browsing, ABC):
    """Lists directories, and says what content is, from verified blocks."""

    reader: Reader

    @abstractmethod
    def call(
        self, operation: str, cid: str | None = None, *, total: bool = True
    ) -> ContextManager[Call]:
        """Start a call."""

    def iter_entries(self, cid: str, *, details: bool = False) -> Iterator[Entry]:
        """Yield the entries of the directory at `cid`; with `details`, also sizes and kinds.

        Each page of blocks is a call of its own, so that nothing is held, and no time runs, while
        the caller works on an entry.
        """
        pages = self.reader.pages(Reference.parse(cid), details=details)
        asked_wait = 0.0
        page: list[Entry] | None = []
        while page is not None:
            for entry in page:
                yield entry
            with self.call("entries", cid) as call:
                # All pages share one limit on the waits by ``Retry-After``.
                call.clock.asked_wait = asked_wait
                page = pages.next_page(call)
                asked_wait = call.clock.asked_wait

    def stat(self, cid: str) -> Entry:
        """Return the size and the kind of the content at `cid`."""
        with self.call("stat", cid) as call:
            return self.reader.stat(Reference.parse(cid), call)
