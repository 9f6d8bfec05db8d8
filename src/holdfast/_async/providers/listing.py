"""Lists of pins of a service: from pages, or from one reply with a pin in each line."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING, AsyncContextManager, TypeVar  # noqa: UP035 - a twin

from holdfast._async.pin_stream import AsyncPinStream
from holdfast._async.providers.http import AsyncHTTPProvider
from holdfast.calls import Call, Clock
from holdfast.protocol.http import Reply
from holdfast.protocol.pin_api import PinPages
from holdfast.protocol.pin_lines import PinLines
from holdfast.provider import AsyncFinding, AsyncListing
from holdfast.records import Pin, PinFilter

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse

Row = TypeVar("Row")


class AsyncListingProvider(AsyncHTTPProvider, AsyncListing, AsyncFinding, ABC):
    """Lists pins as a stream. `AsyncPinStream` limits its time, `ListSize` its length."""

    async def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return what is pinned, in the order in which the service sends it."""
        return await self.find_pins(PinFilter(name=name), limit=limit).read_all()

    def find_pins(self, wanted: PinFilter, *, limit: int | None = None) -> AsyncPinStream:
        """Yield the pins that match `wanted`, in the order in which the service sends them."""
        find = partial(self.stream_pins, wanted, limit)
        return AsyncPinStream(find, total=self.config.timeouts.total)

    @abstractmethod
    def stream_pins(
        self, wanted: PinFilter, limit: int | None, clock: Clock
    ) -> AsyncGenerator[Pin]:
        """Yield at most `limit` pins that match `wanted`; all requests share the `clock`."""

    def list_call(self, clock: Clock, cid: str | None = None) -> AsyncContextManager[Call]:
        """Make a call for a part of a list. Nothing is held while the caller works on a pin."""
        return self._session.call("pins", cid, clock=clock)

    async def read_pages(self, pages: PinPages, clock: Clock) -> AsyncGenerator[Pin]:
        """Yield the pins of all pages."""
        while pages.wanted:
            async with self.list_call(clock) as call:
                page = pages.read(await self.fetch(pages.request(), call))
            for pin in page:
                yield pin


async def read_lines(response: "AsyncResponse", lines: PinLines[Row]) -> AsyncGenerator[Row]:
    """Yield the pins of a reply with one in each line, and close it."""
    try:
        async for piece in response.chunks():
            for row in lines.feed(piece):
                yield row
        error = response.stream_error
        lines.finish(Reply(response.status, response.headers, stream_error=error))
    finally:
        await response.aclose()
