# WARNING: this file is generated from src/holdfast/_async/reads/interface.py
# by scripts/generate_sync.py. Change the original instead.
"""The interface that all readers share: whole files, parts of files, entries of directories."""

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias

from holdfast.calls import Call
from holdfast.content.reference import Reference
from holdfast.files.sinks import Sink
from holdfast.files.sources import Progress
from holdfast.records import Entry

LARGEST_RANGE: Final = 8 << 20  # bytes that an open file reads within one `timeouts.total`
Part: TypeAlias = bytes | bytearray


class Ranges:
    """The verified bytes of one file, read from any position.

    Attributes:
        size: The bytes of the whole file.
        type: The media type that the peer reports, "" if it reports none. It is not verified.
    """

    def __init__(self, size: int, read_part: Callable[[int, int], Part], *, type: str = "") -> None:
        self.size = size
        self.type = type
        self._read_part = read_part

    def read(self, start: int, stop: int) -> Part:
        """Return the bytes from `start` up to `stop`, which lie within the file."""
        return self._read_part(start, stop)


class Pages(Protocol):
    """The entries of a directory, page by page."""

    def next_page(self, call: Call) -> list[Entry] | None:
        """Return some entries, in the directory's order; None at the end. A page may be empty."""


class Reader(Protocol):
    """Reads verified content: whole files, parts of files, and entries of directories."""

    def read(
        self, reference: Reference, sink: Sink, call: Call, *, progress: Progress | None = None
    ) -> str:
        """Fill `sink` with a file; return its media type as the peer reports it, "" if unknown."""

    def open(self, reference: Reference, call: Call) -> Ranges:
        """Return a file whose parts are read on demand, each within a time limit of its own."""

    def entries(
        self, reference: Reference, call: Call, *, details: bool = False
    ) -> Iterator[Entry]:
        """Yield the entries of a directory, in the directory's order.

        With `details`, the root of each entry is read as well, for its kind and size.
        """

    def pages(self, reference: Reference, *, details: bool = False) -> "Pages":
        """Return the same entries page by page, each within a call of its own."""

    def stat(self, reference: Reference, call: Call) -> Entry:
        """Return the kind and the size of a file, a directory or a link."""
