"""Reads private files, each through links that are signed for it; verified like all others."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NoReturn, TypeAlias

from holdfast._async.reads.gateway_reader import AsyncGatewayReader
from holdfast._async.reads.interface import AsyncPages, AsyncRanges
from holdfast.calls import Call
from holdfast.content.reference import Reference
from holdfast.content.unixfs.root_nodes import RootInfo, stat_record
from holdfast.errors import UnsupportedError
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress
from holdfast.records import Entry

AsyncSign: TypeAlias = Callable[[Reference, Call], Awaitable[AsyncGatewayReader]]


class AsyncLinkReader:
    """Reads files of a service that keeps no private directories.

    `sign` returns a reader of gateways with signed links to one file. Such a link gives the plain
    content only. So what is longer than one block is downloaded before a part of it can be read.
    """

    def __init__(self, sign: AsyncSign) -> None:
        self._sign = sign

    async def read(
        self, reference: Reference, sink: Sink, call: Call, *, progress: Progress | None = None
    ) -> str:
        """Fill `sink` with a file; return the media type that the gateway reports."""
        reader = await self._sign(reference, call)
        return await reader.read(reference, sink, call, progress=progress)

    async def open(self, reference: Reference, call: Call) -> AsyncRanges:
        """Return a file, downloaded as a whole, whose parts can be read."""
        reader = await self._sign(reference, call)
        return await reader.open(reference, call)

    async def stat(self, reference: Reference, call: Call) -> Entry:
        """Return the size of a file, which is downloaded for it."""
        size = (await self.open(reference, call)).size
        return stat_record(reference, reference.cid, RootInfo("file", size))

    def entries(
        self,
        reference: Reference,
        call: Call,  # noqa: ARG002 - the interface of all readers
        *,
        details: bool = False,  # noqa: ARG002
    ) -> AsyncIterator[Entry]:
        """Raise UnsupportedError: there are no private directories."""
        _no_directories(reference)

    def pages(
        self,
        reference: Reference,
        *,
        details: bool = False,  # noqa: ARG002 - the interface of all readers
    ) -> AsyncPages:
        """Raise UnsupportedError: there are no private directories."""
        _no_directories(reference)


def _no_directories(reference: Reference) -> NoReturn:
    raise UnsupportedError(
        f"{reference} cannot be looked into: the private network has files only; use download"
    )
