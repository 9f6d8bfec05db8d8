"""A multipart upload, which is parsed and added to the repository while it arrives."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from holdfast.content.media_types import told_type
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter, Part
from holdfast.node.api_calls import BodyReader
from holdfast.node.client_values import (
    PinOptions,
    parse_json,
    read_metadata,
    read_options,
    with_numbers,
)
from holdfast.node.http_server.refusals import bad_request
from holdfast.node.http_server.request_bodies import RequestBody
from holdfast.node.pin_jobs import Groups, Pinned, pin_in_group
from holdfast.repository import Repository
from holdfast.repository.file_adding import FileAdding

try:
    from multipart import MultipartError, MultipartSegment, ParserLimitReached, PushMultipartParser
except ImportError:
    raise ImportError(
        "the node needs the package multipart 2, and an old python-multipart replaces it: "
        "pip install --upgrade python-multipart 'holdfast[node]'",
        name="multipart",
    ) from None


# The files of an upload by path, and the directories that the paths form.
#
# Only whole paths are kept. Sorted paths list the files of each directory one after the other, so
# that the directories are built in one pass::
#
#     a/b/x      open a, open b, add x to b
#     a/b/y      add y to b
#     a/z        close b: build it and add it to a; add z to a
#                close a: build it

MAX_FILES: Final = 100_000
MAX_FOLDERS: Final = 1_000_000
MAX_LEVELS: Final = 64
MAX_PATHS: Final = 32 << 20  # bytes of all paths together
PART_WEIGHT: Final = 450  # bytes of memory for a file, besides its path

Entries: TypeAlias = list[tuple[bytes, Part]]


class UploadTree:
    """Collects the files of an upload, then builds their directories.

    Its limits keep it under 128 MiB, including the memory for building the directories.
    """

    def __init__(self) -> None:
        self._parts: dict[bytes, Part] = {}  # by path, with zero bytes between its names
        self._root: str | None = None
        self._bytes = 0
        self._folders = 0

    @property
    def count(self) -> int:
        """The number of files."""
        return len(self._parts)

    @property
    def held(self) -> int:
        """The approximate bytes of memory that the files and their paths take."""
        return self._bytes + len(self._parts) * PART_WEIGHT

    def check(self, filename: str) -> bytes:
        """Return the path for `add` of the file with this name.

        Raise a `Refusal` if the name is not a valid path, exists already, or exceeds a limit. As
        with Kubo, slashes at the start and doubled slashes do not count: some clients send the
        whole path of a file.
        """
        names = [name for name in filename.removeprefix("./").split("/") if name]
        if len(names) > MAX_LEVELS:
            raise bad_request(f"A filename may have at most {MAX_LEVELS} levels")
        if not names or filename.endswith("/"):
            raise bad_request("A filename must end with the name of a file")
        if any(name in {".", ".."} or "\0" in name for name in names):
            raise bad_request("A filename must be a path without '.', '..' or zero bytes")
        if len(self._parts) >= MAX_FILES:
            raise bad_request(f"An upload may have at most {MAX_FILES} files")
        if self._root is None:
            self._root = names[0]
        elif self._root != names[0]:
            raise bad_request("More than one file and/or directory was provided for pinning.")
        path = "\0".join(names).encode()
        self._bytes += len(path)
        if self._bytes > MAX_PATHS:
            raise bad_request(
                f"The filenames of an upload may have at most {MAX_PATHS} bytes together"
            )
        if path in self._parts:
            raise bad_request(f"The filename {names[-1]} occurs twice")
        return path

    def add(self, path: bytes, part: Part) -> None:
        """Add the file at `path`, which `check` returned."""
        self._parts[path] = part

    def build(
        self, finish: Callable[[Part], Part], build_directory: Callable[[Entries], Part]
    ) -> tuple[bytes, Part]:
        """Return the name and the node of the file or directory at the top.

        Call `finish` with each file and `build_directory` with the entries of each directory. The
        tree is empty afterwards.
        """
        opened: list[bytes] = []
        levels: list[Entries] = [[]]

        def close_down_to(depth: int) -> None:
            while len(opened) > depth:
                built = build_directory(levels.pop())
                levels[-1].append((opened.pop(), built))

        for path in sorted(self._parts):
            *folders, name = path.split(b"\0")
            depth = _common(opened, folders)
            close_down_to(depth)
            for folder in folders[depth:]:
                self._open(levels, folder)
                opened.append(folder)
            levels[-1].append((name, finish(self._parts.pop(path))))
        close_down_to(0)
        return levels[0][0]

    def _open(self, levels: list[Entries], folder: bytes) -> None:
        # In sorted order, a file is followed directly by a directory of the same name.
        if levels[-1] and levels[-1][-1][0] == folder:
            raise bad_request(f"{folder.decode()} is both a file and a directory")
        self._folders += 1
        if self._folders > MAX_FOLDERS:
            raise bad_request(f"An upload may have at most {MAX_FOLDERS} folders")
        levels.append([])


def _common(one: list[bytes], other: list[bytes]) -> int:
    """Return how many names two paths have in common at their start."""
    count = 0
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            break
        count += 1
    return count


# Parse a multipart form while it arrives, within limits, and feed it on a worker thread.

MAX_FIELD: Final = 256 << 10
MAX_PARTS: Final = MAX_FILES + 10  # the files and the other fields
MAX_HEADER: Final = 16 << 10  # bytes of a header of a part
MAX_HEADERS: Final = 16
LARGE_PIECE: Final = 256 << 10  # a client that sends as much at once is quick
MAX_BOUNDARY: Final = 200  # RFC 2046 allows 70

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class FormParser(ABC):
    """Parses the pieces of a form. A subclass takes its files and its other fields."""

    def __init__(self, content_type: str) -> None:
        kind, _, parameters = content_type.partition(";")
        boundary = _parameter(parameters, "boundary")
        is_form = kind.strip().lower() == "multipart/form-data"
        if not is_form or not 0 < len(boundary) <= MAX_BOUNDARY:
            raise bad_request("Invalid request format.")
        self._parser = PushMultipartParser(
            boundary,
            max_header_size=MAX_HEADER,
            max_header_count=MAX_HEADERS,
            max_segment_count=MAX_PARTS,
        )
        self._segment: MultipartSegment | None = None
        self._field = bytearray()

    @property
    def held(self) -> int:
        """The approximate bytes of memory that the form holds between two pieces."""
        return len(self._field)

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
        self._field.clear()
        if segment.name == "file":
            if not segment.filename:
                raise bad_request("Invalid request format.")
            self.begin_file(segment.filename, segment.content_type or "")
        else:
            self.begin_field(str(segment.name))

    def _data(self, data: bytes) -> None:
        if self._segment is not None and self._segment.name == "file":
            self.take_bytes(data)
            return
        self._field += data
        if len(self._field) > MAX_FIELD:
            raise bad_request("A field of the form is too large")

    def _end(self) -> None:
        segment, self._segment = self._segment, None
        if segment is None:
            return
        if segment.name == "file":
            self.end_file()
        else:
            self.take_field(str(segment.name), bytes(self._field).strip())

    def end_form(self) -> None:
        """Raise a `Refusal` unless the form is complete."""
        try:
            self._parser.close()
        except MultipartError:
            raise bad_request("Invalid request format.") from None

    @abstractmethod
    def begin_field(self, name: str) -> None:
        """Raise a `Refusal` unless the form may have the field `name`."""

    @abstractmethod
    def take_field(self, name: str, text: bytes) -> None:
        """Take a field that is not a file."""

    @abstractmethod
    def begin_file(self, filename: str, media_type: str) -> None:
        """Begin a file."""

    @abstractmethod
    def take_bytes(self, data: bytes) -> None:
        """Take the next bytes of the file."""

    @abstractmethod
    def end_file(self) -> None:
        """End the file."""


class Fed(Protocol):
    """What takes the pieces of a body on a worker thread, and says how much memory it holds."""

    @property
    def held(self) -> int:
        """The approximate bytes of memory that it holds between two pieces."""

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""


class Form(Fed, Protocol[T_co]):
    """What makes something of a body when all of it was fed."""

    def finish(self) -> T_co:
        """Return what was made."""

    def close(self) -> None:
        """Free its memory, whether it was finished or not."""


async def feed_all(form: Fed, body: RequestBody, threads: CapacityLimiter) -> None:
    """Feed each piece of a body to `form` on one of `threads` while the next one arrives."""
    feeding: asyncio.Task[None] | None = None
    fed: list[bytes] = []  # what the thread has now

    async def feed() -> None:
        await run_sync(form.feed, fed[0], limiter=threads)
        fed.clear()

    def held() -> int:
        return form.held + sum(map(len, fed))

    try:
        async for piece in body.pieces(held):
            if feeding is not None:
                await feeding
            is_large = len(piece) >= LARGE_PIECE
            fed[:] = [piece]
            feeding = asyncio.create_task(feed())
            del piece  # so that the thread lets go of it when it has fed it
            if is_large:
                await feeding
                await body.feed_directly(form.feed, held, threads)
    finally:
        if feeding is not None:  # the thread must be done before the form is closed
            await feeding


async def receive_form(
    form: Form[T], request: Request, bodies: BodyReader, threads: CapacityLimiter, *, limit: int
) -> T:
    """Feed the body of a request to `form`, and return what it makes of it; close it at the end."""
    with bodies.reading(request, limit) as body:
        try:
            await feed_all(form, body, threads)
            body.release()
            return await run_in_threadpool(form.finish)
        finally:
            await run_in_threadpool(form.close)


def _parameter(parameters: str, name: str) -> str:
    for parameter in parameters.split(";"):
        key, _, value = parameter.partition("=")
        if key.strip().lower() == name:
            return value.strip().strip('"')
    return ""


MAX_SMALL: Final = 2 << 20  # bytes of small blocks that wait for their transaction


class FormUpload(FormParser):
    """Parses the pieces of a form, and pins its files in `finish`.

    A file may come before the options that set its layout. It is then added in the default layout,
    and if the options want another one, read from the repository and added again.
    """

    def __init__(self, repository: Repository, groups: Groups, content_type: str) -> None:
        super().__init__(content_type)
        self._repository = repository
        self._groups = groups
        self._adding = repository.adding()
        self._adding.max_held = MAX_SMALL
        self._file: FileAdding | None = None
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
        return super().held + leaf + self._adding.held + self._tree.held

    def begin_file(self, filename: str, media_type: str) -> None:
        """Begin a file, in the layout that is known so far."""
        self._path = self._tree.check(filename)
        if not self._tree.count:
            self._first_type = media_type
        self._file = FileAdding(self._adding, self._options.profile)

    def take_bytes(self, data: bytes) -> None:
        """Add the next bytes of the file."""
        if self._file is not None:
            self._file.update(data)

    def end_file(self) -> None:
        """Put the file into the tree."""
        if self._file is not None:
            self._tree.add(self._path, self._file.finish())
            self._file = None

    def begin_field(self, name: str) -> None:
        """Refuse fields that the service does not have."""
        if name not in {"pinataMetadata", "pinataOptions", "network"}:
            raise bad_request("Unexpected field")

    def take_field(self, name: str, text: bytes) -> None:
        """Take the metadata or the options."""
        if name != "network":
            self._fields[name] = with_numbers(parse_json(text)) if text else None
        if name == "pinataOptions":
            self._options = read_options(self._fields[name])

    def finish(self) -> Pinned:
        """Pin what was uploaded."""
        self.end_form()
        files = self._tree.count
        if not files:
            raise bad_request("Invalid request format.")
        metadata = read_metadata(self._fields.get("pinataMetadata"))
        name, part = self._tree.build(self._in_layout, self._directory)
        pin_name = metadata.name or name.decode()
        is_file = b"\0" not in self._path and not self._options.wrap
        if self._options.wrap:
            part = self._directory([(name, part)])
        return pin_in_group(
            self._groups,
            self._options.group_id,
            self._adding,
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
