# WARNING: this file is generated from src/holdfast/_async/sharing.py
# by scripts/generate_sync.py. Change the original instead.
"""More readers for age files that are stored: new headers, and the nodes above them.

A file of ours has a root with two links: its header, and its payload. So a new reader is a new
header and a new root, whatever the size is. A file in another layout is stored again in this one,
still encrypted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from holdfast._sync.content_file import Ranges
from holdfast._sync.providers.base import BaseProvider
from holdfast._sync.reads.blocks import Blocks
from holdfast._sync.runtime import at_end, run_blocking
from holdfast.calls import Call
from holdfast.content import dag_pb
from holdfast.content.age.header import READ_SIZE, Header, HeaderReader
from holdfast.content.age.stream import plain_size
from holdfast.content.car import car_head, section_head
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.file_nodes import file_node
from holdfast.content.unixfs.files import FileImporter, Part
from holdfast.errors import ClientError, ProviderError, RequestTimeoutError, UnprovenError
from holdfast.records import Added, PinInfo
from holdfast.single_line import short
from holdfast.sinks.sinks import SpoolSink
from holdfast.sources.sources import Progress

STEP: Final = 4 << 20  # bytes of a file that are read at a time, to store it in our layout


def read_header(file: Ranges, first: int = READ_SIZE) -> tuple[Header, bytes]:
    """Return the header of an age file, and what was read after it; read `first` bytes at first."""
    reader = HeaderReader()
    position, rest = 0, b""
    while first and position < file.size:
        piece = bytes(file.read(position, min(position + first, file.size)))
        position += len(piece)
        rest, first = reader.update(piece), reader.need
    return reader.finish(), rest


@dataclass(eq=False)
class Sharing:
    """Makes the blocks of a file or folder that more readers can open, and stores them.

    Attributes:
        provider: Has the age files.
        with_readers: Opens a header, and returns one that the new readers can open too.
        call: The call that reads from the provider.
        size: The bytes of the decrypted files.
    """

    provider: BaseProvider
    with_readers: Callable[[Header], Header]
    call: Call
    size: int = 0
    _sections: SpoolSink = field(default_factory=SpoolSink)
    _parts: dict[CID, Part] = field(default_factory=dict)  # by the CIDs of what they replace
    _folders: dict[CID, list[tuple[bytes, CID]]] = field(default_factory=dict)

    def share(self, reference: Reference, info: PinInfo, progress: Progress) -> Added:
        """Store the content at `reference` for the new readers too, all of it or nothing."""
        provider = self.provider
        whole = None if provider.keeps_layout else provider.require("import_whole").import_whole
        blocks = provider.reader.blocks(reference, self.call)
        root = blocks.find(reference, self.call)
        files = self._list(root, blocks)
        progress(0, len(files))
        with at_end(self._sections.discard):
            for done, (cid, path) in enumerate(files.items(), 1):
                try:
                    self._parts[cid] = self._share_file(cid, blocks.block(cid))
                except ClientError as error:
                    error.add_note(f"this error is about {short(reference + path)}")
                    raise
                progress(done, len(files))
            new = (run_blocking(self._build, root)).cid
            info = replace(info, beside=str(reference.cid))
            try:
                return (whole or provider.import_archive)(str(new), self._archive(new), info)
            except (ProviderError, UnprovenError, RequestTimeoutError) as error:
                error.add_note(f"all of {info.beside} must be there; if it is not, pin it first")
                raise

    def _archive(self, root: CID) -> Iterator[bytes]:
        yield car_head([root])
        file = run_blocking(self._sections.read_all)
        while piece := run_blocking(file.read, STEP):
            yield piece

    def _list(self, root: CID, blocks: Blocks) -> dict[CID, str]:
        """Return the path of each file below `root`; note the directories and the links."""
        files: dict[CID, str] = {}
        pending = [(root, (self.provider.stat(str(root))).kind, "")]
        while pending:
            cid, kind, path = pending.pop()
            if kind == "symlink":
                self._parts[cid] = Part(cid, 0, len(blocks.block(cid)))
            elif kind != "directory":
                files.setdefault(cid, path)
            elif cid not in self._folders:
                self._folders[cid] = entries = []
                for entry in self.provider.iter_entries(str(cid), details=True):
                    child = CID.parse(entry.cid)
                    entries.append((entry.name.encode(errors="surrogateescape"), child))
                    pending.append((child, entry.kind, f"{path}/{entry.name}"))
        return files

    def _share_file(self, cid: CID, block: bytes) -> Part:
        """Return the age file with the root `block` with a new header, and emit its new blocks."""
        node = file_node(cid, block)
        file = self.provider.reader.open(Reference(str(cid), cid), self.call)
        # In our layout, the first of two children is the header.
        first = node.children[0][1] if len(node.children) == 2 and not node.data else 0
        header, _ = read_header(file, first or READ_SIZE)
        size = len(header.raw)
        self.size += plain_size(file.size - size)
        new = self.with_readers(header).raw
        importer = FileImporter(self.provider.profile, self._emit, (len(new),))
        importer.update(new)
        if first == size and self.provider.keeps_layout:
            payload = dag_pb.decode(block).links[1]
            importer.add(Part(payload.cid, file.size - size, payload.size))
            return importer.finish()
        for start in range(size, file.size, STEP):
            piece = file.read(start, min(start + STEP, file.size))
            run_blocking(importer.update, piece)
        return run_blocking(importer.finish)

    def _emit(self, cid: CID, block: bytes) -> None:
        self._sections.write(section_head(cid, len(block)) + block)

    def _build(self, root: CID) -> Part:
        """Return the new root, and emit the directories, each after those that are in it."""
        pending = [] if root in self._parts else [root]
        while pending:
            entries = self._folders[pending[-1]]
            missing = [cid for _, cid in entries if cid not in self._parts]
            if not missing:
                parts = [(name, self._parts[cid]) for name, cid in entries]
                directory = build_directory(parts, self.provider.profile, self._emit)
                self._parts[pending.pop()] = directory
            pending += missing
        return self._parts[root]
