"""Archives (CAR) to upload: made from content while it is sent, or made elsewhere."""

from collections.abc import Iterator
from contextlib import closing

from holdfast.content.car import Block, CarReader, check_only_root, write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import Profile
from holdfast.content.proof import joined
from holdfast.disk.seen_cids import SpilledCIDs
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.importing import ContentImporter
from holdfast.sources.sources import Source, WrappingSource, changed_while_read


class BuiltArchive:
    """The archive of content whose CID is known: each of its blocks once, as soon as it is made.

    Args:
        content: A file, which can be read as often as it is needed, or a folder.
        profile: Its layout.
        root: Its CID in this layout. If the content has another one when it is read, it has
            changed: that is an `OSError`, and the archive ends before it is complete.

    Attributes:
        root: The root, which the header names.
        done: The bytes of files whose blocks were taken so far.
        size: None, because the size of the archive is not known beforehand.
    """

    repeatable = True

    def __init__(self, content: Source | FolderSource, profile: Profile, root: CID) -> None:
        self._content = content
        self._profile = profile
        self.root: CID = root
        self.done: int = 0
        self.size: int | None = None

    def chunks(self) -> Iterator[bytes]:
        """Yield the archive. Each call reads the content again."""
        return joined(write_car([self.root], self._blocks()))

    def _blocks(self) -> Iterator[Block]:
        blocks: list[Block] = []

        def emit(cid: CID, block: bytes) -> None:
            if cid not in seen:
                seen.add(cid)
                blocks.append((cid, block))

        self.done = 0
        with (
            closing(SpilledCIDs()) as seen,
            closing(ContentImporter(self._content, self._profile, emit)) as importer,
        ):
            is_more = True
            while is_more:
                is_more = importer.advance()
                if not is_more and importer.result().cid != self.root:
                    raise changed_while_read(self._content.name, "was written to")
                yield from blocks
                blocks.clear()
                self.done = importer.done


class ArchiveSource(WrappingSource):
    """An archive that was made elsewhere, in `inner`, which must name `root` and no other root.

    A node pins every root that an archive names. So nothing of the archive is given before its
    header has been read. The blocks are left to the node, which verifies them.

    Attributes:
        root: The root.
    """

    def __init__(self, inner: Source, root: CID) -> None:
        super().__init__(inner)
        self.root: CID = root

    def wrap(self, start: int) -> Iterator[bytes]:
        """Yield the archive; raise `MalformedError` before that if it has another root."""
        reader = CarReader()
        pending = bytearray()
        for chunk in self.inner.chunks(start):
            if reader.has_header:
                yield chunk
                continue
            pending += chunk
            reader.push(chunk)
            reader.next_block()
            if reader.has_header:
                check_only_root(reader.roots, self.root)
                yield bytes(pending)
                pending.clear()
        if not reader.has_header:
            reader.finish()
