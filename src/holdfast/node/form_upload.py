"""A multipart upload, which is parsed and added to a network while it arrives."""

import asyncio
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from os.path import commonprefix
from typing import IO, Final, Protocol, TypeAlias

from anyio.to_thread import run_sync
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

try:
    from multipart import MultipartError, MultipartSegment, ParserLimitReached, PushMultipartParser
except ImportError:
    raise ImportError(
        "the node needs the package multipart 2, and an old python-multipart replaces it: "
        "pip install --upgrade python-multipart 'holdfast[node]'",
        name="multipart",
    ) from None

from holdfast.content.cid import CID
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import Part
from holdfast.node.api_calls import ApiCalls
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.http_server.request_bodies import RequestBody
from holdfast.node.service import File, Network, Service
from holdfast.repository.adding import Adding, FileAdding

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
    def memory_used(self) -> int:
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
            depth = len(commonprefix([opened, folders]))  # noqa: RUF071 - of lists
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


# Parse a multipart form while it arrives, within limits, and add its files.

MAX_FIELD: Final = 256 << 10
MAX_PARTS: Final = MAX_FILES + 10  # the files and the other fields
MAX_HEADER: Final = 16 << 10  # bytes of a header of a part
MAX_HEADERS: Final = 16
MAX_BOUNDARY: Final = 200  # RFC 2046 allows 70
MAX_SMALL: Final = 2 << 20  # bytes of small blocks that wait for their transaction
SPOOLED: Final = 512 << 10  # bytes of a file that wait in memory; more wait in a temporary file
PIECE: Final = 256 << 10
WAITING: Final = Part(CID.of_raw(b""), 0, 0)  # stands for the spooled file in the tree


class FormUpload(ABC):
    """Parses the pieces of a form, and adds its files. A subclass reads the other fields.

    A file may come before the fields that set its network and its layout. If its network is not
    known, it is spooled: private content must not be in the public store, not even until its form
    is complete. If it was added in another layout, it is read from the store and added again.

    Args:
        service: The service of the node.
        content_type: The header of the request.
        limit: The most bytes of all files.
        network: The network, if it is known at the start.
    """

    def __init__(
        self, service: Service, content_type: str, *, limit: int, network: Network | None
    ) -> None:
        kind, _, parameters = content_type.partition(";")
        pairs = (parameter.partition("=") for parameter in parameters.split(";"))
        texts = (text for key, _, text in pairs if key.strip().lower() == "boundary")
        boundary = next(texts, "").strip().strip('"')
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
        self.service = service
        self._limit = limit
        self.network: Network | None = network
        self.tree: UploadTree = UploadTree()
        self.path: bytes = b""  # of the last file, with zero bytes between its names
        self.type: str = ""  # of the last file, as the client has sent it
        self._size = 0
        self._file: FileAdding | None = None
        self._spool: IO[bytes] | None = None
        self._adding: Adding | None = None
        self._is_flushed = False  # whether all files can be read from the store

    @property
    def memory_used(self) -> int:
        """The approximate bytes of memory that the upload holds between two pieces."""
        leaf = 0 if self._file is None else self._file.leaf_bytes
        small = 0 if self._adding is None else self._adding.small_bytes
        spooled = 0 if self._spool is None else min(self._size, SPOOLED)
        return len(self._field) + leaf + small + spooled + self.tree.memory_used

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
        if segment.name != "file":
            self.begin_field(str(segment.name))
            return
        if not segment.filename:
            raise bad_request("Invalid request format.")
        self.begin_file(segment.filename)
        self.path = self.tree.check(segment.filename)
        self.type = segment.content_type or ""
        if self.network is None:
            folder = str(self.service.public.repository.path)
            self._spool = tempfile.SpooledTemporaryFile(SPOOLED, dir=folder)  # noqa: SIM115
        else:
            self._file = FileAdding(self.adding(self.network), self.layout())

    def _data(self, data: bytes) -> None:
        if self._segment is None or self._segment.name != "file":
            self._field += data
            if len(self._field) > MAX_FIELD:
                raise bad_request("A field of the form is too large")
            return
        self._size += len(data)
        if self._size > self._limit:
            raise too_large(self._limit)
        if self._file is not None:
            self._file.update(data)
        elif self._spool is not None:
            self._spool.write(data)

    def _end(self) -> None:
        segment, self._segment = self._segment, None
        if segment is None:
            return
        if segment.name != "file":
            self.take_field(str(segment.name), bytes(self._field).strip())
            return
        self.tree.add(self.path, WAITING if self._file is None else self._file.finish())
        self._file = None

    def adding(self, network: Network) -> Adding:
        """Return what adds the files to `network`."""
        if self._adding is None:
            self._adding = network.repository.adding()
            self._adding.max_small_bytes = MAX_SMALL
        return self._adding

    @abstractmethod
    def begin_field(self, name: str) -> None:
        """Raise a `Refusal` unless the form may have the field `name`."""

    @abstractmethod
    def take_field(self, name: str, text: bytes) -> None:
        """Take a field that is not a file."""

    def begin_file(self, filename: str) -> None:  # noqa: B027 - most take all
        """Raise a `Refusal` unless the form may have the file."""

    @abstractmethod
    def layout(self) -> Profile:
        """Return the layout of files, as far as it is known."""

    def finish(self, rest: bytes) -> File:
        """Parse the rest of the form, pin what was uploaded, and close."""
        try:
            self.feed(rest)
            self._parser.close()
            return self.pin(self.tree.count)
        except MultipartError:
            raise bad_request("Invalid request format.") from None
        finally:
            self.close()

    @abstractmethod
    def pin(self, files: int) -> File:
        """Pin what was uploaded, a number of files; all fields are known."""

    def build(self, network: Network, profile: Profile) -> tuple[bytes, Part]:
        """Return the name and the node of the file or directory at the top."""
        adding = self.adding(network)

        def in_layout(part: Part) -> Part:
            if self._spool is None and part.cid.version == profile.cid_version:
                return part
            file = FileAdding(adding, profile)
            if self._spool is not None:
                self._spool.seek(0)
                pieces = iter(lambda: self._spool.read(PIECE), b"")  # type: ignore[union-attr]
            else:
                if not self._is_flushed:
                    adding.flush()  # once for all files, because each flush is a transaction
                    self._is_flushed = True
                pieces = network.repository.read(part.cid)
            for piece in pieces:
                file.update(piece)
            return file.finish()

        return self.tree.build(
            in_layout, lambda entries: build_directory(entries, profile, adding.put)
        )

    def close(self) -> None:
        """End the upload and free its memory. Garbage collection removes what was not pinned."""
        for part in (self._file, self._spool, self._adding):
            if part is not None:
                part.close()
        self._file = self._spool = None
        self._field.clear()
        self.tree = UploadTree()


def too_large(limit: int) -> Refusal:
    """Return the `Refusal` for an upload of more than `limit` bytes."""
    return Refusal(413, f"The file is larger than the {limit} bytes that are allowed")


# Feed the body of a request on a worker thread.

LARGE_PIECE: Final = 256 << 10  # a client that sends as much at once is quick


class Fed(Protocol):
    """What takes the pieces of a body on a worker thread, and says how much memory it holds."""

    @property
    def memory_used(self) -> int:
        """The approximate bytes of memory that it holds between two pieces."""

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""


async def feed_all(fed: Fed, body: RequestBody, calls: ApiCalls) -> None:
    """Feed each piece of a body to `fed` on a worker thread while the next one arrives."""
    feeding: asyncio.Task[None] | None = None
    current: list[bytes] = []  # what the thread has now

    async def feed() -> None:
        await run_sync(fed.feed, current[0], limiter=calls.uploaders)
        current.clear()

    def memory_used() -> int:
        return fed.memory_used + sum(map(len, current))

    try:
        async for piece in body.pieces(memory_used):
            if feeding is not None:
                await feeding
            is_large = len(piece) >= LARGE_PIECE
            current[:] = [piece]
            feeding = asyncio.create_task(feed())
            del piece  # so that the thread lets go of it when it has fed it
            if is_large:
                await feeding
                await body.feed_directly(fed.feed, memory_used, calls.uploaders)
    finally:
        if feeding is not None:  # the thread must be done before the form is closed
            await feeding


async def receive_form(form: FormUpload, request: Request, calls: ApiCalls, *, limit: int) -> File:
    """Feed the body of a request to `form`, and return what it makes of it; close it at the end."""
    with calls.bodies.reading(request, limit) as body:
        try:
            rest = body.take()
            if rest is None:
                await feed_all(form, body, calls)
                body.share.hold(0)  # all of it was taken
            return await run_in_threadpool(form.finish, rest or b"")
        except BaseException:  # before or in `finish`
            await run_in_threadpool(form.close)
            raise
