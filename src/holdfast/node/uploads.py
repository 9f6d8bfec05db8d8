"""A multipart upload on its way into the repository: parsed and imported as it comes."""

from typing import Any, Final

try:
    from multipart import (
        MultipartError,
        MultipartSegment,
        ParserLimitReached,
        PushMultipartParser,
    )
except ImportError:
    raise ImportError(
        "the node needs the package multipart 2, which an old python-multipart hides: "
        "pip install --upgrade python-multipart 'holdfast[node]'",
        name="multipart",
    ) from None

from holdfast.content.cid import CID
from holdfast.content.media_types import told_type
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter, Part
from holdfast.node.bodies import parse_json, plain
from holdfast.node.metadata import Metadata, Options, read_metadata, read_options
from holdfast.node.replies import bad_request
from holdfast.node.trees import MAX_FILES, Entries, UploadTree
from holdfast.records import Pin
from holdfast.repository import Repository
from holdfast.repository.block_files import FILE_SIZE

MAX_FIELD: Final = 256 << 10
MAX_SMALL: Final = 2 << 20  # bytes of small blocks that wait for their transaction
MAX_PARTS: Final = MAX_FILES + 10  # the files, and the fields beside them
MAX_HEADER: Final = 16 << 10  # bytes of a header of a part
MAX_HEADERS: Final = 16
MAX_BOUNDARY: Final = 200  # RFC 2046 has 70


class Upload:
    """Is fed the pieces of a form; `finish` pins what was in it.

    A file may come before the options that say how it is to be cut. It is then cut in the usual
    way, and cut anew from the repository where the options want another.
    """

    def __init__(self, repository: Repository, content_type: str) -> None:
        kind, _, parameters = content_type.partition(";")
        boundary = _parameter(parameters, "boundary")
        is_form = kind.strip().lower() == "multipart/form-data"
        if not is_form or not 0 < len(boundary) <= MAX_BOUNDARY:
            raise bad_request("Invalid request format.")
        self._repository = repository
        self._adding = repository.adding()
        self._parser = PushMultipartParser(
            boundary,
            max_header_size=MAX_HEADER,
            max_header_count=MAX_HEADERS,
            max_segment_count=MAX_PARTS,
        )
        self._segment: MultipartSegment | None = None
        self._importer: FileImporter | None = None
        self._file_bytes = 0  # of the file that is coming
        self._small_bytes = 0  # of small blocks, which wait in memory
        self._field = bytearray()
        self._fields: dict[str, Any] = {}
        self._options = Options()
        self._tree = UploadTree()
        self._path = b""  # of the file that is coming
        self._first_type = ""
        self._can_be_read = False  # whether all files are in the store, to be cut anew

    @property
    def held(self) -> int:
        """How many bytes of memory the upload holds between two pieces, about."""
        # A leaf counts twice: as it grows, it is moved about, and leaves holes behind.
        leaf = min(self._file_bytes, self._options.profile.chunk_size)
        return 2 * leaf + self._small_bytes + len(self._field) + self._tree.held

    def _put(self, cid: CID, data: bytes) -> None:
        self._adding.put(cid, data)
        if len(data) < FILE_SIZE:
            self._small_bytes += len(data)
        if self._small_bytes >= MAX_SMALL:
            self._adding.flush()
            self._small_bytes = 0

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the form."""
        try:
            for event in self._parser.parse(piece):
                if isinstance(event, MultipartSegment):
                    self._begin(event)
                elif event is None:
                    self._end()
                else:
                    self._data(bytes(event))
        except ParserLimitReached:
            raise bad_request(
                f"A form has at most {MAX_PARTS} parts, and a part at most {MAX_HEADERS} headers "
                f"of {MAX_HEADER} bytes"
            ) from None
        except MultipartError:
            raise bad_request("Invalid request format.") from None

    def _begin(self, segment: MultipartSegment) -> None:
        self._segment = segment
        if segment.name == "file":
            if not segment.filename:
                raise bad_request("Invalid request format.")
            self._path = self._tree.check(segment.filename)
            if not self._tree.count:
                self._first_type = segment.content_type or ""
            self._importer = FileImporter(self._options.profile, self._put)
            self._file_bytes = 0
        elif segment.name in {"pinataMetadata", "pinataOptions", "network"}:
            self._field = bytearray()
        else:
            raise bad_request("Unexpected field")

    def _data(self, data: bytes) -> None:
        if self._importer is not None:
            self._file_bytes += len(data)
            self._importer.update(data)
        else:
            self._field += data
            if len(self._field) > MAX_FIELD:
                raise bad_request("A field of the form is too large")

    def _end(self) -> None:
        segment = self._segment
        if segment is None:
            return
        if self._importer is not None:
            self._tree.add(self._path, self._importer.finish())
            self._importer = None
        elif segment.name != "network":
            text = bytes(self._field).strip()
            self._fields[str(segment.name)] = plain(parse_json(text)) if text else None
            if segment.name == "pinataOptions":
                self._options = read_options(self._fields["pinataOptions"])
        self._segment = None

    def finish(self) -> tuple[Pin, bool]:
        """Pin what was uploaded; the pin, and whether it was there before."""
        try:
            self._parser.close()
        except MultipartError:
            raise bad_request("Invalid request format.") from None
        files = self._tree.count
        if not files:
            raise bad_request("Invalid request format.")
        metadata = read_metadata(self._fields.get("pinataMetadata"))
        name, part = self._tree.build(self._in_layout, self._directory)
        about = _about(metadata, name.decode())
        is_file = b"\0" not in self._path and not self._options.wrap
        if self._options.wrap:
            part = self._directory([(name, part)])
        media_type = told_type(self._first_type, about["name"]) if is_file else "directory"
        return self._adding.pin(part.cid, **about, size=part.dag_size, files=files, type=media_type)

    def _directory(self, entries: Entries) -> Part:
        return build_directory(entries, self._options.profile, self._put)

    def _in_layout(self, part: Part) -> Part:
        """Return the file in the layout of the options, which may have come after it."""
        if part.cid.version == self._options.cid_version:
            return part
        if not self._can_be_read:
            self._adding.flush()  # once for all files: each is a transaction
            self._can_be_read = True
        importer = FileImporter(self._options.profile, self._put)
        for piece in self._repository.read(part.cid):
            importer.update(piece)
        return importer.finish()

    def close(self) -> None:
        """End the upload; what was not pinned may be collected. Its memory is free at once."""
        self._adding.close()
        self._importer = None
        self._field.clear()
        self._tree = UploadTree()


def _about(metadata: Metadata, name: str) -> dict[str, Any]:
    return {"name": metadata.name or name, "keyvalues": metadata.keyvalues}


def _parameter(parameters: str, name: str) -> str:
    for parameter in parameters.split(";"):
        key, _, value = parameter.partition("=")
        if key.strip().lower() == name:
            return value.strip().strip('"')
    return ""
