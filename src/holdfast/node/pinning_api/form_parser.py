"""Parse a multipart form while it arrives, within limits, and feed it on a worker thread."""

import asyncio
from abc import ABC, abstractmethod
from typing import Final, Protocol, TypeVar

from anyio import CapacityLimiter
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

from holdfast.node.http_server.refusals import bad_request
from holdfast.node.http_server.request_bodies import RequestBody
from holdfast.node.pinning_api.body_reader import BodyReader
from holdfast.node.pinning_api.upload_tree import MAX_FILES

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
