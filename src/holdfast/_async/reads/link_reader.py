"""Reads private files, each through links that are signed for it; verified like all others."""

from collections.abc import Awaitable, Callable
from typing import ClassVar, NoReturn, TypeAlias

from holdfast._async.reads.blocks import AsyncBlocks
from holdfast._async.reads.entry_pages import AsyncEntryPages
from holdfast._async.reads.reader import AsyncRanges, AsyncReader
from holdfast.calls import Call
from holdfast.content.reference import Reference
from holdfast.content.unixfs.root_nodes import RootInfo, stat_record
from holdfast.errors import UnsupportedError
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress
from holdfast.records import Entry

AsyncSign: TypeAlias = Callable[[Reference, Call], Awaitable[AsyncReader]]


class AsyncLinkReader(AsyncReader):
    """Reads files of a service that keeps no private directories.

    `sign` returns a reader of gateways with signed links to one file. Such a link gives the plain
    content only. So what is longer than one block is downloaded before a part of it can be read.
    """

    is_remote: ClassVar[bool] = True

    def __init__(self, sign: AsyncSign) -> None:
        super().__init__()
        self._sign = sign

    def blocks(self, reference: Reference, call: Call) -> AsyncBlocks:  # noqa: ARG002
        """Raise UnsupportedError: a link gives no blocks."""
        raise UnsupportedError(
            f"{reference} is private, and its links give no blocks; download the content"
        )

    async def read(
        self,
        reference: Reference,
        sink: Sink,
        call: Call,
        *,
        progress: Progress | None = None,
        blocks: AsyncBlocks | None = None,
        verify: bool | None = None,
    ) -> str:
        """Fill `sink` with a file; return the media type that the gateway reports."""
        reader = await self._sign(reference, call)
        return await reader.read(
            reference, sink, call, progress=progress, blocks=blocks, verify=verify
        )

    async def open(self, reference: Reference, call: Call) -> AsyncRanges:
        """Return a file, downloaded as a whole, whose parts can be read."""
        reader = await self._sign(reference, call)
        return await reader.open(reference, call)

    async def stat(self, reference: Reference, call: Call) -> Entry:
        """Return the size of a file, which is downloaded for it."""
        size = (await self.open(reference, call)).size
        return stat_record(reference, reference.cid, RootInfo("file", size))

    def pages(
        self,
        reference: Reference,
        *,
        details: bool = False,  # noqa: ARG002 - the interface of all readers
    ) -> AsyncEntryPages:
        """Raise UnsupportedError: there are no private directories."""
        _no_directories(reference)


def _no_directories(reference: Reference) -> NoReturn:
    raise UnsupportedError(
        f"{reference} cannot be looked into: the private network has files only; use download"
    )
