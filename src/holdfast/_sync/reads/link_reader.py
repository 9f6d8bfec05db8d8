# WARNING: this file is generated from src/holdfast/_async/reads/link_reader.py
# by scripts/generate_sync.py. Change the original instead.
"""Reads private files, each through links that are signed for it; verified like all others."""

from collections.abc import Callable, Iterator
from typing import NoReturn, TypeAlias

from holdfast._sync.reads.gateway_reader import GatewayReader
from holdfast._sync.reads.interface import Pages, Ranges
from holdfast.calls import Call
from holdfast.content.reference import Reference
from holdfast.content.unixfs.root_nodes import RootInfo, stat_record
from holdfast.errors import UnsupportedError
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress
from holdfast.records import Entry

Sign: TypeAlias = Callable[[Reference, Call], GatewayReader]


class LinkReader:
    """Reads files of a service that keeps no private directories.

    `sign` returns a reader of gateways with signed links to one file. Such a link gives the plain
    content only. So what is longer than one block is downloaded before a part of it can be read.
    """

    def __init__(self, sign: Sign) -> None:
        self._sign = sign

    def read(
        self, reference: Reference, sink: Sink, call: Call, *, progress: Progress | None = None
    ) -> str:
        """Fill `sink` with a file; return the media type that the gateway reports."""
        reader = self._sign(reference, call)
        return reader.read(reference, sink, call, progress=progress)

    def open(self, reference: Reference, call: Call) -> Ranges:
        """Return a file, downloaded as a whole, whose parts can be read."""
        reader = self._sign(reference, call)
        return reader.open(reference, call)

    def stat(self, reference: Reference, call: Call) -> Entry:
        """Return the size of a file, which is downloaded for it."""
        size = (self.open(reference, call)).size
        return stat_record(reference, reference.cid, RootInfo("file", size))

    def entries(
        self,
        reference: Reference,
        call: Call,  # noqa: ARG002 - the interface of all readers
        *,
        details: bool = False,  # noqa: ARG002
    ) -> Iterator[Entry]:
        """Raise UnsupportedError: there are no private directories."""
        _no_directories(reference)

    def pages(
        self,
        reference: Reference,
        *,
        details: bool = False,  # noqa: ARG002 - the interface of all readers
    ) -> Pages:
        """Raise UnsupportedError: there are no private directories."""
        _no_directories(reference)


def _no_directories(reference: Reference) -> NoReturn:
    raise UnsupportedError(
        f"{reference} cannot be looked into: the private network has files only; use download"
    )
