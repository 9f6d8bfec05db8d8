"""Exporting archives (CAR) of content through the reader of a provider."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import AsyncContextManager  # noqa: UP035 - it has a twin

from holdfast._async.dag_export import AsyncDagExport
from holdfast._async.reads.reader import AsyncReader
from holdfast.calls import Call
from holdfast.content.car import car_head, section_head
from holdfast.content.reference import Reference
from holdfast.provider import AsyncExporting


class AsyncReaderExporting(AsyncExporting, ABC):
    """Exports everything below a CID, from verified blocks."""

    reader: AsyncReader

    @abstractmethod
    def call(
        self, operation: str, cid: str | None = None, *, total: bool = True
    ) -> AsyncContextManager[Call]:
        """Start a call."""

    async def export_archive(self, cid: str) -> AsyncIterator[bytes]:
        """Yield an archive (CAR) of everything under `cid`, each block verified and only once.

        Nothing is yielded before the first block is there. Each page of blocks is a call of its
        own, so that nothing is held while the caller stores it.
        """
        reference = Reference.parse(Reference.parse_cid(cid))
        export = AsyncDagExport(self.reader, reference)
        head = car_head([reference.cid])
        try:
            while True:
                async with self.call("export", cid, total=False) as call:
                    page = await export.next_page(call)
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
            await export.aclose()
