"""A multipart upload, which is parsed and added to the repository while it arrives."""

import asyncio
from typing import Any, Final

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

try:
    from multipart import MultipartError, MultipartSegment, ParserLimitReached, PushMultipartParser
except ImportError:
    raise ImportError(
        "the node needs the package multipart 2, and an old python-multipart replaces it: "
        "pip install --upgrade python-multipart 'holdfast[node]'",
        name="multipart",
    ) from None

from holdfast.content.media_types import told_type
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter, Part
from holdfast.node.http_server.refusals import bad_request
from holdfast.node.http_server.request_bodies import RequestBody
from holdfast.node.pinning_api.json_values import parse_json, with_numbers
from holdfast.node.pinning_api.metadata import PinOptions, read_metadata, read_options
from holdfast.node.pinning_api.upload_tree import MAX_FILES, Entries, UploadTree
from holdfast.records import Pin
from holdfast.repository import Repository
from holdfast.repository.file_adding import FileAdding

MAX_FIELD: Final = 256 << 10
MAX_SMALL: Final = 2 << 20  # bytes of small blocks that wait for their transaction
MAX_PARTS: Final = MAX_FILES + 10  # the files and the other fields
MAX_HEADER: Final = 16 << 10  # bytes of a header of a part
MAX_HEADERS: Final = 16
MAX_BOUNDARY: Final = 200  # RFC 2046 allows 70


class FormUpload:
    """Parses the pieces of a form, and pins its files in `finish`.

    A file may come before the options that set its layout. It is then added in the default layout,
    and if the options want another one, read from the repository and added again.
    """

    def __init__(self, repository: Repository, content_type: str) -> None:
        kind, _, parameters = content_type.partition(";")
        boundary = _parameter(parameters, "boundary")
        is_form = kind.strip().lower() == "multipart/form-data"
        if not is_form or not 0 < len(boundary) <= MAX_BOUNDARY:
            raise bad_request("Invalid request format.")
        self._repository = repository
        self._adding = repository.adding()
        self._adding.max_held = MAX_SMALL
        self._parser = PushMultipartParser(
            boundary,
            max_header_size=MAX_HEADER,
            max_header_count=MAX_HEADERS,
            max_segment_count=MAX_PARTS,
        )
        self._segment: MultipartSegment | None = None
        self._file: FileAdding | None = None
        self._field = bytearray()
        self._fields: dict[str, Any] = {}
        self._options = PinOptions()
        self._tree = UploadTree()
        self._path = b""  # of the current file
        self._first_type = ""
        self._is_flushed = False  # whether all files can be read from the repository

    @property
    def held(self) -> int:
        """The approximate bytes of memory that the upload holds between two pieces."""
        leaf = 0 if self._file is None else self._file.held
        return leaf + self._adding.held + len(self._field) + self._tree.held

    def feed(self, piece: bytes) -> None:
        """Parse the next bytes of the form."""
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
                f"A form may have at most {MAX_PARTS} parts, "
                f"and a part at most {MAX_HEADERS} headers of {MAX_HEADER} bytes"
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
            self._file = FileAdding(self._adding, self._options.profile)
        elif segment.name in {"pinataMetadata", "pinataOptions", "network"}:
            self._field = bytearray()
        else:
            raise bad_request("Unexpected field")

    def _data(self, data: bytes) -> None:
        if self._file is not None:
            self._file.update(data)
        else:
            self._field += data
            if len(self._field) > MAX_FIELD:
                raise bad_request("A field of the form is too large")

    def _end(self) -> None:
        segment = self._segment
        if segment is None:
            return
        if self._file is not None:
            self._tree.add(self._path, self._file.finish())
            self._file = None
        elif segment.name != "network":
            text = bytes(self._field).strip()
            self._fields[str(segment.name)] = with_numbers(parse_json(text)) if text else None
            if segment.name == "pinataOptions":
                self._options = read_options(self._fields["pinataOptions"])
        self._segment = None

    def finish(self) -> tuple[Pin, bool]:
        """Pin what was uploaded; return the pin, and whether it existed before."""
        try:
            self._parser.close()
        except MultipartError:
            raise bad_request("Invalid request format.") from None
        files = self._tree.count
        if not files:
            raise bad_request("Invalid request format.")
        metadata = read_metadata(self._fields.get("pinataMetadata"))
        name, part = self._tree.build(self._in_layout, self._directory)
        pin_name = metadata.name or name.decode()
        is_file = b"\0" not in self._path and not self._options.wrap
        if self._options.wrap:
            part = self._directory([(name, part)])
        return self._adding.pin(
            part.cid,
            name=pin_name,
            keyvalues=metadata.keyvalues,
            size=part.dag_size,
            files=files,
            type=told_type(self._first_type, pin_name) if is_file else "directory",
        )

    def _directory(self, entries: Entries) -> Part:
        return build_directory(entries, self._options.profile, self._adding.put)

    def _in_layout(self, part: Part) -> Part:
        """Return the file in the layout of the options, which may have come after the file."""
        if part.cid.version == self._options.cid_version:
            return part
        if not self._is_flushed:
            self._adding.flush()  # once for all files, because each flush is a transaction
            self._is_flushed = True
        importer = FileImporter(self._options.profile, self._adding.put)
        for piece in self._repository.read(part.cid):
            importer.update(piece)
        return importer.finish()

    def close(self) -> None:
        """End the upload and free its memory. Garbage collection removes what was not pinned."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._adding.close()
        self._field.clear()
        self._tree = UploadTree()


async def feed_all(upload: FormUpload, body: RequestBody, threads: CapacityLimiter) -> None:
    """Feed each piece of a body to `upload` on one of `threads` while the next one arrives."""
    feeding: asyncio.Task[None] | None = None
    fed: list[bytes] = []  # what the thread has now

    async def feed() -> None:
        await run_sync(upload.feed, fed[0], limiter=threads)
        fed.clear()

    try:
        async for piece in body.pieces(lambda: upload.held + sum(map(len, fed))):
            if feeding is not None:
                await feeding
            fed[:] = [piece]
            feeding = asyncio.create_task(feed())
            del piece  # so that the thread lets go of it when it has fed it
    finally:
        if feeding is not None:  # the thread must be done before the upload is closed
            await feeding


def _parameter(parameters: str, name: str) -> str:
    for parameter in parameters.split(";"):
        key, _, value = parameter.partition("=")
        if key.strip().lower() == name:
            return value.strip().strip('"')
    return ""
