"""An archive (CAR) that was made elsewhere, as the source of an upload."""

from collections.abc import Iterator

from holdfast.content.car import CarReader
from holdfast.content.car_header import check_only_root
from holdfast.content.cid import CID
from holdfast.files.sources import Source


class ArchiveSource:
    """The archive in `source`, which must name `root` and no other root.

    A node pins every root that an archive names. So nothing of the archive is given before its
    header has been read. The blocks are left to the node, which verifies them.

    Attributes:
        root: The root.
        size: The bytes of the archive, or None if that is not known.
    """

    def __init__(self, source: Source, root: CID) -> None:
        self._source = source
        self.root = root
        self.size: int | None = source.size

    @property
    def repeatable(self) -> bool:
        """Whether `chunks` can start again."""
        return self._source.repeatable

    def chunks(self) -> Iterator[bytes]:
        """Yield the archive; raise `MalformedError` before that if it has another root."""
        reader = CarReader()
        held = bytearray()
        for chunk in self._source.chunks():
            if reader.has_header:
                yield chunk
                continue
            held += chunk
            reader.push(chunk)
            reader.next_block()
            if reader.has_header:
                check_only_root(reader.roots, self.root)
                yield bytes(held)
                held.clear()
        if not reader.has_header:
            reader.finish()
