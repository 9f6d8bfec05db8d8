"""Read the bodies of requests, and parse those that are JSON, within limits of memory."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from holdfast.node.http_server.refusals import bad_request
from holdfast.node.http_server.request_bodies import RequestBody
from holdfast.node.memory import HeldMemory, MemoryShare
from holdfast.node.pinning_api.json_values import parse_json, with_numbers
from holdfast.repository.block_files import FILE_SIZE

INLINE_JSON: Final = FILE_SIZE - 1  # bytes of JSON up to which parsing is faster than a thread
LARGE_JSON: Final = 256 << 10  # bytes of JSON above which only one document is parsed at a time
SMALL_AT_ONCE: Final = 4  # documents up to `LARGE_JSON` that are parsed at a time
MAX_METADATA: Final = 1 << 20  # bytes of a JSON body that has metadata and no content

T = TypeVar("T")


class BodyReader:
    """Reads bodies for all endpoints of a node, which share `memory`."""

    def __init__(self, memory: HeldMemory, *, idle_seconds: float) -> None:
        self.memory = memory
        self._idle_seconds = idle_seconds
        self._small = asyncio.Semaphore(SMALL_AT_ONCE)
        self._large = asyncio.Semaphore(1)

    @contextmanager
    def reading(self, request: Request, limit: int) -> Iterator[RequestBody]:
        """Yield the body of a request; at the end, give its memory back."""
        try:
            with MemoryShare(self.memory) as share:
                yield RequestBody(request, share, limit=limit, idle_seconds=self._idle_seconds)
        finally:
            self.memory.give_back()

    async def on_thread(self, body: RequestBody, text: bytes, use: Callable[[Any], T]) -> T:
        """Return `use` of the JSON `text` of a body, called on a worker thread.

        Parsed JSON takes up to 35 times the memory of its text, so few bodies are parsed at once.
        """
        async with body.acquire(self._large if len(text) > LARGE_JSON else self._small):
            return await run_in_threadpool(lambda: use(parse_json(text)))

    async def json_object(self, request: Request) -> dict[str, Any]:
        """Return the JSON object in the body of a request that has no content."""
        with self.reading(request, MAX_METADATA) as body:
            text = await body.read()
            if len(text) <= INLINE_JSON:
                value = with_numbers(parse_json(text))
            else:
                value = await self.on_thread(body, text, with_numbers)
        if not isinstance(value, dict):
            raise bad_request("The body must be a JSON object")
        return value
