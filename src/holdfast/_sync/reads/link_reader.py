# WARNING: this file is generated from src/holdfast/_async/reads/link_reader.py
# by scripts/generate_sync.py. Change the original instead.
"""Reads private files, each through links that are signed for it; verified like all others."""

from collections.abc import Callable
from typing import ClassVar, NoReturn, TypeAlias

from holdfast._sync.reads.blocks import Blocks
from holdfast._sync.reads.entry_pages import EntryPages
from holdfast._sync.reads.reader import Ranges, Reader
from holdfast.calls import Call
from holdfast.content.reference import Reference
from holdfast.content.unixfs.root_nodes import RootInfo, stat_record
from holdfast.errors import UnsupportedError
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress
from holdfast.records import Entry

Sign: TypeAlias = Callable[[Reference, Call], Reader]


class LinkReader(Reader):
    """Reads files of a service that keeps no private directories.

    `sign` returns a reader of gateways with signed links to one file. Such a link gives the plain
    content only. So what is longer than one block is downloaded before a part of it can be read.
    """

    is_remote: ClassVar[bool] = True

    def __init__(self, sign: Sign) -> None:
        super().__init__()
        self._sign = sign

    def blocks(self, reference: Reference, call: Call) -> Blocks:  # noqa: ARG002
        """Raise UnsupportedError: a link gives no blocks."""
        raise UnsupportedError(
            f"{reference} is private, and its links give no blocks; download the content"
        )

    def read(
        self,
        reference: Reference,
        sink: Sink,
        call: Call,
        *,
        progress: Progress | None = None,
        blocks: Blocks | None = None,
        verify: bool | None = None,
    ) -> str:
        """Fill `sink` with a file; return the media type that the gateway reports."""
        reader = self._sign(reference, call)
        return reader.read(reference, sink, call, progress=progress, blocks=blocks, verify=verify)

    def open(self, reference: Reference, call: Call) -> Ranges:
        """Return a file, downloaded as a whole, whose parts can be read."""
        reader = self._sign(reference, call)
        return reader.open(reference, call)

    def stat(self, reference: Reference, call: Call) -> Entry:
        """Return the size of a file, which is downloaded for it."""
        size = (self.open(reference, call)).size
        return stat_record(reference, reference.cid, RootInfo("file", size))

    def pages(
        self,
        reference: Reference,
        *,
        details: bool = False,  # noqa: ARG002 - the interface of all readers
    ) -> EntryPages:
        """Raise UnsupportedError: there are no private directories."""
        _no_directories(reference)


def _no_directories(reference: Reference) -> NoReturn:
    raise UnsupportedError(
        f"{reference} cannot be looked into: the private network has files only; use download"
    )
