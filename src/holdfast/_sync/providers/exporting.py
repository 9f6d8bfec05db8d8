# WARNING: this file is generated from src/holdfast/_async/providers/exporting.py
# by scripts/generate_sync.py. Change the original instead.
"""Exporting archives (CAR) of content through the reader of a provider."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ContextManager  # noqa: UP035 - it has a twin

from holdfast._sync.dag_export import DagExport
from holdfast._sync.reads.reader import Reader
from holdfast.calls import Call
from holdfast.content.car import car_head, section_head
from holdfast.content.reference import Reference
from holdfast.provider import Exporting


class ReaderExporting(Exporting, ABC):
    """Exports everything below a CID, from verified blocks."""

    reader: Reader

    @abstractmethod
    def call(
        self, operation: str, cid: str | None = None, *, total: bool = True
    ) -> ContextManager[Call]:
        """Start a call."""

    def export_archive(self, cid: str) -> Iterator[bytes]:
        """Yield an archive (CAR) of everything under `cid`, each block verified and only once.

        Nothing is yielded before the first block is there. Each page of blocks is a call of its
        own, so that nothing is held while the caller stores it.
        """
        reference = Reference.parse(Reference.parse_cid(cid))
        export = DagExport(self.reader, reference)
        head = car_head([reference.cid])
        try:
            while True:
                with self.call("export", cid, total=False) as call:
                    page = export.next_page(call)
                if page is None:
                    break
                pieces = [head]
                for block, data in page:
                    pieces += (section_head(block, len(data)), data)
                yield b"".join(pieces)
                head = b""
            if head:  # everything is in the CID itself
                yield head
        finally:
            export.close()
