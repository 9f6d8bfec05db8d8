"""A folder as an archive (CAR) that is made while it is sent."""

from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.content.car import Block, write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import Profile
from holdfast.files.folder_source import FolderSource
from holdfast.files.importing import FolderImporter
from holdfast.files.sources import changed_while_read

JOINED: Final = 1 << 16  # bytes of small blocks that are sent together


class FolderArchive:
    """The archive of a folder whose CID is known: all its blocks, each as soon as it is made.

    Args:
        folder: The folder.
        profile: Its layout.
        cid: Its CID in this layout. If the folder has another one when it is read, it has changed:
            that is an `OSError`.
        roots: The roots that the header names.

    Attributes:
        done: The bytes of files whose blocks were taken so far.
        size: None, because the size of the archive is not known beforehand.
    """

    repeatable = True

    def __init__(
        self, folder: FolderSource, profile: Profile, cid: CID, *, roots: list[CID]
    ) -> None:
        self._folder = folder
        self._profile = profile
        self._cid = cid
        self._roots = roots
        self.done: int = 0
        self.size: int | None = None

    def chunks(self) -> Iterator[bytes]:
        """Yield the archive. Each call reads the folder again."""
        return joined(write_car(self._roots, self._blocks()))

    def _blocks(self) -> Iterator[Block]:
        blocks: list[Block] = []

        def emit(cid: CID, block: bytes) -> None:
            blocks.append((cid, block))

        self.done = 0
        with FolderImporter(self._folder, self._profile, emit) as importer:
            is_more = True
            while is_more:
                is_more = importer.advance()
                yield from blocks
                blocks.clear()
                self.done = importer.done
            if importer.result().cid != self._cid:
                raise changed_while_read(str(self._folder.path), "was written to")


def joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in fewer pieces."""
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= JOINED:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)
