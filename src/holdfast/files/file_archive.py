"""A file as an archive (CAR): made while it is sent, or kept on disk until its root is known."""

import tempfile
from collections.abc import Iterator
from typing import BinaryIO, Final, cast

from holdfast.content.car import Block, car_head, section_head, write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.files import FileImporter
from holdfast.files.folder_archive import joined
from holdfast.files.sources import Source, changed_while_read

IN_MEMORY: Final = 1 << 20  # bytes of a kept archive; a larger one is in a temporary file


class FileArchive:
    """The archive of a file whose CID is known: all its blocks, each as soon as it is made.

    Args:
        source: The file, which can be read as often as it is needed.
        profile: Its layout.
        cid: Its CID in this layout. If the file has another one when it is read, it has changed:
            that is an `OSError`, and the archive ends before it is complete.

    Attributes:
        done: The bytes of the file whose blocks were taken so far.
        size: None, because the size of the archive is not known beforehand.
    """

    repeatable = True

    def __init__(self, source: Source, profile: Profile, cid: CID) -> None:
        self._source = source
        self._profile = profile
        self._cid = cid
        self.done: int = 0
        self.size: int | None = None

    def chunks(self) -> Iterator[bytes]:
        """Yield the archive. Each call reads the file again."""
        return joined(write_car([self._cid], self._blocks()))

    def _blocks(self) -> Iterator[Block]:
        blocks: list[Block] = []

        def emit(cid: CID, block: bytes) -> None:
            blocks.append((cid, block))

        self.done = 0
        importer = FileImporter(self._profile, emit)
        for chunk in self._source.chunks():
            importer.update(chunk)
            yield from blocks
            blocks.clear()
            self.done += len(chunk)
        root = importer.finish().cid
        if root != self._cid:
            raise changed_while_read(self._source.name, "was written to")
        yield from blocks


class KeptArchive:
    """An archive whose blocks come before its root is known. Close it at the end.

    Attributes:
        size: The bytes of the whole archive, from `finish` on.

    Example:
        >>> archive = KeptArchive()
        >>> archive.put(CID.of_raw(b"x"), b"x")
        >>> archive.finish(CID.of_raw(b"x"))
        >>> sum(map(len, archive.chunks())) == archive.size
        True
        >>> archive.close()
    """

    def __init__(self) -> None:
        file = cast("BinaryIO", tempfile.SpooledTemporaryFile(IN_MEMORY))  # noqa: SIM115
        # A source ends an earlier reading, which another thread may not have left yet.
        self._source = Source(file, size=None, rewind=lambda: file.seek(0))
        self._head = b""
        self.size: int | None = None

    def put(self, cid: CID, block: bytes) -> None:
        """Add a block."""
        self._source.file.write(section_head(cid, len(block)))
        self._source.file.write(block)

    def finish(self, root: CID) -> None:
        """Name the root, after the last block."""
        self._head = car_head([root])
        self._source.size = self._source.file.tell()
        self.size = len(self._head) + self._source.size
        self._source.file.seek(0)

    @property
    def repeatable(self) -> bool:
        """Whether `chunks` can start again: always."""
        return self._source.repeatable

    def chunks(self) -> Iterator[bytes]:
        """Yield the archive."""
        yield self._head
        yield from self._source.chunks()

    def close(self) -> None:
        """Remove the archive."""
        self._source.close()
